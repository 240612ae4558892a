"""How long `recompile-doctor --help` takes, against `python -c pass`."""

import argparse
import sys

from measure import side_by_side, table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "recompile-doctor --help": [sys.executable, "-m", "recompile_doctor", "--help"],
    }
    print(table(side_by_side(commands, rounds), "python -c pass"))  # noqa: T201


if __name__ == "__main__":
    main()
