"""One file per command: options, progress, exit codes; the only room that prints and exits."""
