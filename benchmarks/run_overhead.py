"""What `recompile-doctor run` adds to a program, against the bare program and TORCH_TRACE alone.

    python benchmarks/run_overhead.py [PROGRAM] [--rounds 5] [--python PATH]

All are whole processes with a cold cache, run in turn. The tool's time includes its report, made
after the program ended.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from measure import side_by_side, table

_PROGRAM = Path(__file__).parent / "programs" / "many_compiles.py"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="?", type=Path, default=_PROGRAM)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch")
    arguments = parser.parse_args()
    program = str(arguments.program.resolve())
    with tempfile.TemporaryDirectory() as folder:
        bare = {key: value for key, value in os.environ.items() if not key.startswith("TORCH")}
        bare["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder) / "cache")
        trace = {**bare, "TORCH_TRACE": str(Path(folder) / "trace")}
        tool = [sys.executable, "-m", "recompile_doctor", "run", "--python", arguments.python]
        commands = {
            "bare": [arguments.python, program],
            "TORCH_TRACE alone": [arguments.python, program],
            "recompile-doctor run": [*tool, program],
        }
        envs = {"bare": bare, "TORCH_TRACE alone": trace, "recompile-doctor run": bare}
        results = side_by_side(commands, arguments.rounds, cwd=Path(folder), envs=envs)
    print(table(results, "TORCH_TRACE alone"))  # noqa: T201 - a script's result


if __name__ == "__main__":
    main()
