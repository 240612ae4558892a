"""Edits of the user's Python files: what a name means, where a statement can go, what changes."""
