"""The rules, one kind of cause in each file; the order is that of docs/rules/README.md."""
