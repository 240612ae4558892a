"""From a run to findings: which cause made torch recompile or break, and what it cost."""
