"""Finds what makes torch.compile recompile: which input, which dimension, which line, and why."""
