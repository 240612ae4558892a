"""Judges runs: against each other, and against what was agreed."""
