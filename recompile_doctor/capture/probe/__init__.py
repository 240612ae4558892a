"""The only code that runs inside the user's process.

``site/sitecustomize.py`` is loaded by every Python that the program starts, because its folder
stands first in PYTHONPATH. It waits for torch to import its logging; only then is this package
loaded, by path and under the name ``recompile_doctor_probe``, so that nothing of the tool becomes
importable in the user's program. Rules for all files here: Python 3.9 syntax, since the
interpreter is the user's; the standard library only, and torch only where the program has
imported it; no failure may reach the program: it becomes a note in the bundle's probe folder.

    torch_logs  our log lines to a file of each process, and none of them to the user's stderr
    snapshot    at exit: torch's own counters, so that a program that silenced logging is noticed
    calls       how compiled functions are called, how long that takes, what it returns
    marks       the marks and settings of a prescription, where the run is to apply one
    overlay     patched text in place of files of the user, where the run is to try a patch; loaded
                when Python starts, since it must be there before the program
"""
