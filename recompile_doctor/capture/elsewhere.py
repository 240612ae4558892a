"""A run on another machine: what a launcher such as ``ssh gpu-host --`` is given to start there.

Launchers differ. ssh joins its words and lets a shell split them again, srun and docker do not; ssh
passes no environment, srun passes all of it. So the launcher gets two plain words, ``sh`` and a
script in the bundle, and the script does the rest on the other side: it sets the variables, goes to
the program's folder and becomes the program. Both machines see the bundle and the program under the
same paths (a shared folder). Nothing else is needed there: the probe is copied into the bundle.

The compile caches of the run are in the bundle too, as for a run here. A shared folder can be slow
to write them to, and what a trial measures of compile time then has that in it.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

from recompile_doctor.bundle import Bundle
from recompile_doctor.capture.environment import REMOTE_CACHES
from recompile_doctor.capture.launch import no_program
from recompile_doctor.errors import DoctorError

SCRIPT_NAME = "launch.sh"
_RUNNING_NAME = "launch.running"
_PROBE = Path(__file__).parent / "probe"
# Spelled as where the tool is installed: by this path the readers know our frames in a stack.
_PROBE_COPY = Path("launch", *_PROBE.parts[-3:])

# What no shell changes; and no colon, which would split PYTHONPATH.
_PORTABLE = re.compile(r"[A-Za-z0-9_@%+=,./-]+\Z")

# Set for a process that the probe cannot enter. What is set there already is the user's.
_UNLESS_SET = ("TORCH_LOGS", "TORCH_LOGS_OUT")
_TRACE_OF_USER = "TORCH_DTRACE"

_HEAD = """\
#!/bin/sh
# Written by recompile-doctor: its launcher runs this where the program is to run.
# Run it there by hand to see what a trial sees.
"""

# The watcher is an orphan, so that the program has no child that it does not know. $$ is the
# program's process id, since the script becomes the program.
_WATCH = """\
# Most launchers leave the program alone when they are ended themselves: this ends it.
if [ -e {running} ]; then
    ( (
        while [ -e {running} ]; do
            sleep 1
            kill -0 $$ || exit
        done
        kill -TERM $$
        for second in 1 2 3 4 5 6 7 8 9 10; do
            sleep 1
            kill -0 $$ || exit
        done
        kill -KILL $$
    ) & ) </dev/null >/dev/null 2>&1
fi
"""


def prepare_elsewhere(
    bundle: Bundle,
    launcher: Sequence[str],
    command: Sequence[str],
    additions: Mapping[str, str],
    cwd: Path,
) -> tuple[str, ...]:
    """Leave in ``bundle`` what runs ``command`` elsewhere; return the command that starts it.

    ``additions`` are the variables of a run where nothing is set, as ``child_environment`` gives
    them for an empty one: what is set there is known there only. ``end_elsewhere`` is to be called
    when the launcher has ended.
    """
    if not command or not command[0]:
        raise no_program()
    script = bundle.path / SCRIPT_NAME
    if not _PORTABLE.match(str(script)):
        raise DoctorError(
            f"The path {str(bundle.path)!r} may not reach another machine unchanged.",
            slug="path-not-portable",
            hint="Work in a folder whose path has only letters, digits and _ @ % + = , . / -",
        )
    try:
        if "PYTHONPATH" in additions:
            shutil.copytree(
                _PROBE,
                bundle.path / _PROBE_COPY,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        (bundle.path / _RUNNING_NAME).touch()
        script.write_bytes(os.fsencode(_script(bundle, command, additions, cwd)))
    except OSError as error:
        raise DoctorError(
            f"{bundle.path} cannot be written: {error.strerror or error}.",
            slug="bundle-not-writable",
            hint="Free some space, or start the run in a folder that you may write to.",
        ) from error
    return (*launcher, "sh", str(script))


def launcher_environment(base: Mapping[str, str], bundle: Bundle) -> dict[str, str]:
    """Return the environment of the launcher: the user's, and where the trace will be.

    The launcher is not the program, and is not to be probed if it happens to be a Python. Progress
    is read from the trace, which is always the bundle's: one of the user's could not be collected.
    """
    environment = {**base, "TORCH_TRACE": str(bundle.trace_directory)}
    environment.pop(_TRACE_OF_USER, None)
    return environment


def probe_site(bundle: Bundle) -> Path:
    """Return the folder of the probe's copy that is to stand in PYTHONPATH."""
    return bundle.path / _PROBE_COPY / "site"


def end_elsewhere(bundle: Bundle) -> None:
    """Let the program end if it still runs: the launcher may have been ended without it.

    Where it is looked for once a second, it gets SIGTERM, and after ten seconds SIGKILL.
    """
    with suppress(OSError):
        (bundle.path / _RUNNING_NAME).unlink(missing_ok=True)


def _script(bundle: Bundle, command: Sequence[str], additions: Mapping[str, str], cwd: Path) -> str:
    lines = [f"cd {quote(str(cwd))} || exit 125", f"unset {_TRACE_OF_USER}"]
    for name, value in additions.items():
        if name == "PYTHONPATH":
            value = str(probe_site(bundle))
            lines.append(f'export PYTHONPATH={value}"${{PYTHONPATH:+:$PYTHONPATH}}"')
        elif name in _UNLESS_SET:
            lines += _unless_set(name, value, probe="PYTHONPATH" in additions)
        elif not name.startswith("RECOMPILE_DOCTOR_SET_"):
            lines.append(f"export {name}={quote(value)}")
    if "TORCHINDUCTOR_CACHE_DIR" in additions:
        # A remote cache that is on there would make this run a warm one.
        lines += [f'[ -z "${{{name}+set}}" ] || export {name}=0' for name in REMOTE_CACHES]
    body = "".join(f"{line}\n" for line in lines)
    watch = _WATCH.format(running=bundle.path / _RUNNING_NAME)
    return f"{_HEAD}{body}{watch}exec {' '.join(map(quote, command))}\n"


def _unless_set(name: str, value: str, *, probe: bool) -> list[str]:
    """Return lines that set a variable where the user has not, and tell the probe to take it back.

    The value of a user stays as it is, and is not merged with ours as for a run here: the probe
    logs by itself, and does not need it. Then there is nothing to take back.
    """
    ours = f"RECOMPILE_DOCTOR_SET_{name}"
    lines = [f"unset {ours} RECOMPILE_DOCTOR_USER_{name}"]
    names = (name, ours) if probe else (name,)
    setting = " ".join(f"{each}={quote(value)}" for each in names)
    lines.append(f'[ -n "${{{name}+set}}" ] || export {setting}')
    return lines
