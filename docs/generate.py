#!/usr/bin/env python3
"""Write the pages that come from the code: rules, commands, and the table of torch's differences.

python docs/generate.py            write them
python docs/generate.py --check    only say which are not current, and exit with 1
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import yaml

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
FIXTURES = ROOT / "fixtures"
sys.path.insert(0, str(ROOT))

from recompile_doctor.cli.main import COMMANDS, cli  # noqa: E402
from recompile_doctor.diagnosis.all_rules import ALL_RULES  # noqa: E402
from recompile_doctor.diagnosis.break_rule import BreakRule  # noqa: E402
from recompile_doctor.diagnosis.rule import RecompileRule, Rule  # noqa: E402

NOTE = "<!-- Written by docs/generate.py; edit {source} instead. -->\n"
BEGIN = "<!-- written by docs/generate.py from fixtures: begin -->\n"
END = "<!-- end -->\n"


def main() -> int:
    """Write the pages, or with --check compare them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = [path for path, text in pages().items() if read(path) != text]
    stale += surplus()
    for path in stale:
        print(path.relative_to(ROOT))  # noqa: T201
    if options.check:
        return 1 if stale else 0
    for path in surplus():
        path.unlink()
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[Path, str]:
    """Return all generated pages, by path."""
    made = {DOCS / "rules" / f"{rule.id}.md": rule_page(rule) for rule in ALL_RULES}
    made[DOCS / "rules" / "README.md"] = rule_table()
    made[DOCS / "commands.md"] = command_page()
    made[DOCS / "torch-support.md"] = with_differences(read(DOCS / "torch-support.md") or "")
    return made


def surplus() -> list[Path]:
    """Return pages of rules that are not there any more."""
    return [path for path in (DOCS / "rules").glob("*.md") if path not in pages()]


def read(path: Path) -> str | None:
    """Return what a page holds, or None when it is not there."""
    return path.read_text(encoding="utf-8") if path.exists() else None


def rule_page(rule: type[Rule]) -> str:
    """Return the page of one rule."""
    note = NOTE.format(source=rule.__module__.replace(".", "/") + ".py")
    return f"{note}\n# {rule.id}\n\n{rule.page()}\n"


def rule_table() -> str:
    """Return the list of all rules, in the order in which they are asked."""
    note = NOTE.format(source="recompile_doctor/diagnosis/all_rules.py")
    head = (
        "# Rules\n\n"
        "Each rule finds one kind of cause. `recompile-doctor explain RULE` shows its page in a"
        " terminal.\n\n"
        "A *recompile* rule explains recompiles by the guards that failed, a *graph break* rule the"
        " places where a graph ends, a *run* rule looks at the run as a whole.\n"
    )
    rows = ["| Rule | What it finds | Kind |", "|---|---|---|"]
    rows += [f"| [{rule.id}]({rule.id}.md) | {rule.title} | {kind(rule)} |" for rule in ALL_RULES]
    return f"{note}\n{head}\n" + "\n".join(rows) + "\n"


def kind(rule: type[Rule]) -> str:
    """Return what a rule looks at."""
    if issubclass(rule, RecompileRule):
        return "recompile"
    return "graph break" if issubclass(rule, BreakRule) else "run"


def command_page() -> str:
    """Return the help of each command, as it is printed at 80 columns."""
    top = context_of(cli, "recompile-doctor")
    parts = [NOTE.format(source="recompile_doctor/cli"), "# Commands\n", help_block(top)]
    for name, (module, function, _) in COMMANDS.items():
        context = context_of(getattr(import_module(module), function), name, top)
        parts += [f"## {name}\n", help_block(context)]
        for inner, subcommand in sorted(getattr(context.command, "commands", {}).items()):
            parts += [f"### {name} {inner}\n", help_block(context_of(subcommand, inner, context))]
    return "\n".join(parts)


def context_of(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    """Return the context in which a command prints its help."""
    settings = command.context_settings
    return click.Context(command, parent, name, **{**settings, "terminal_width": 80})


def help_block(context: click.Context) -> str:
    """Return the help of one command as a block of text."""
    lines = [line.rstrip() for line in context.get_help().splitlines()]
    return "\n".join(["```text", *lines, "```", ""])


def with_differences(page: str) -> str:
    """Return a page with the table of differences between its two marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{difference_table()}\n{END}{after}" if begin and end else page


def difference_table() -> str:
    """Return what differs between releases and logs, and why."""
    table = [*listed_differences(), *differing_answers()]
    rows = ["| Torch | Log | Program | What differs | Why |", "|---|---|---|---|---|"]
    rows += [
        f"| {releases(each)} | {logs(each)} | {each.get('program') or each['scenario']} | "
        f"{changes(each)} | {' '.join(each['why'].split())} |"
        for each in table
    ]
    return "\n".join(rows) + "\n"


def listed_differences() -> list[dict[str, Any]]:
    """Return the entries of fixtures/differences.yaml."""
    table = yaml.safe_load((FIXTURES / "differences.yaml").read_text(encoding="utf-8"))
    return list(table)


def differing_answers() -> Iterator[dict[str, Any]]:
    """Yield what the right answers of the programs say for single releases."""
    for path in sorted((FIXTURES / "golden").glob("*/expected.yaml")):
        answer = yaml.safe_load(path.read_text(encoding="utf-8"))
        for release, other in sorted((answer.get("per_release") or {}).items()):
            findings, others = answer["findings"], other.get("findings", answer["findings"])
            yield {
                **other,
                "program": path.parent.name,
                "releases": [release],
                "logs": ["trace", "dynamic", "both"],
                "missing": [each for each in findings if each not in others],
                "extra": [each for each in others if each not in findings],
            }


def releases(difference: Mapping[str, Any]) -> str:
    """Return which releases an entry is about."""
    if "releases" in difference:
        return ", ".join(difference["releases"])
    return f"{difference['since']} and later" if "since" in difference else "all"


def logs(difference: Mapping[str, Any]) -> str:
    """Return which logs an entry is about."""
    named = set(difference["logs"])
    if {"trace", "dynamic", "both"} <= named:
        return "trace and text"
    return "trace" if "trace" in named else "text"


def changes(difference: Mapping[str, Any]) -> str:
    """Return what is missing and what is found in addition, short."""
    missing = [short(each) for each in difference.get("missing", [])]
    extra = [short(each) for each in difference.get("extra", [])]
    parts = [f"no {each}" for each in dict.fromkeys(missing) if each not in extra]
    parts += [f"also {each}" for each in dict.fromkeys(extra) if each not in missing]
    counts = {
        "recompiles": "recompiles",
        "graph_break_places": "graph breaks",
        "recompile_limit_hits": "limit hits",
    }
    parts += [f"{word}: {difference[key]}" for key, word in counts.items() if key in difference]
    return "; ".join(parts) or "the function is not named"


def short(finding: Mapping[str, Any]) -> str:
    """Return a finding in a few words."""
    place = finding["source"] or finding["frame"]
    return f"{finding['rule']}" + (f" ({place})" if place else "")


if __name__ == "__main__":
    sys.exit(main())
