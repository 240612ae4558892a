"""Analysis time and memory against tlparse, on the same TORCH_TRACE, side by side.

    python benchmarks/analysis.py REAL_TRACE... [--megabytes 200] [--rounds 3]

Measures two logs: a generated one (the largest of the given traces repeated to that size) and
the largest of the given traces itself.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from large_trace import make
from measure import side_by_side, table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="+")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    tlparse = shutil.which("tlparse", path=str(Path(sys.executable).parent)) or "tlparse"
    with tempfile.TemporaryDirectory() as folder:
        generated = Path(folder) / "generated.log"
        compiles = make(arguments.trace, generated, arguments.megabytes * 1_000_000)
        real = Path(folder) / "real.log"
        make(arguments.trace, real, 1)
        for title, log in (
            (f"generated, {generated.stat().st_size / 1e6:.0f} MB, {compiles} compiles", generated),
            (f"real, {real.stat().st_size / 1e6:.1f} MB", real),
        ):
            pages = str(Path(folder) / "pages")
            commands = {
                "tlparse": [tlparse, "--no-browser", "--overwrite", "-o", pages, str(log)],
                "recompile-doctor analyze --format json": [
                    sys.executable, "-m", "recompile_doctor", "analyze", str(log),
                    "--format", "json",
                ],
            }  # fmt: skip
            print(f"\n{title}\n")  # noqa: T201 - a script's result
            print(table(side_by_side(commands, arguments.rounds), "tlparse"))  # noqa: T201


if __name__ == "__main__":
    main()
