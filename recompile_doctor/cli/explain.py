"""``recompile-doctor explain``: the page of a rule, or the whole chain of one recompile."""

import re

import click

from recompile_doctor.cli.target import find_target
from recompile_doctor.errors import DoctorError

# A compile id, in brackets as in a log, or with the report's prefixes (rank1:, pid77:, reset1:).
_RECOMPILE = re.compile(r"\[?(?P<name>(?:[a-z]+\w*:)*(?:!\d+/)?\d+/\d+)(?:_\d+)?\]?\Z")
_LONGEST_SHOWN = 300


@click.command()
@click.argument("what", required=False)
@click.argument("path", required=False)
def explain(what: str | None, path: str | None) -> None:
    """Explain a rule, or one recompile.

    WHAT is the name of a rule (zero-one-specialization), or the id of a recompile (0/3) of the
    bundle or log PATH, by default the latest bundle. Without WHAT the rules are listed.

    \b
        recompile-doctor explain 0/3
        recompile-doctor explain 0/3 /tmp/my_trace
        recompile-doctor explain zero-one-specialization
    """
    if what is None:
        _list_rules()
        return
    match = _RECOMPILE.match(what)
    if match is not None:
        _explain_recompile(match["name"], path)
    else:
        _explain_rule(what)


def _list_rules() -> None:
    from recompile_doctor.diagnosis.all_rules import ALL_RULES

    for rule in ALL_RULES:
        click.echo(f"{rule.id:28} {rule.title}")


def _explain_rule(name: str) -> None:
    from difflib import get_close_matches

    from rich.console import Console
    from rich.markdown import Markdown

    from recompile_doctor.diagnosis.all_rules import ALL_RULES, find_rule

    rule = find_rule(name)
    if rule is None:
        near = get_close_matches(
            name[:_LONGEST_SHOWN], [each.id for each in ALL_RULES], n=3, cutoff=0.4
        )
        raise DoctorError(
            f"There is no rule {name[:_LONGEST_SHOWN]!r}.",
            slug="no-such-rule",
            hint=f"Did you mean {' or '.join(near)}?"
            if near
            else "`recompile-doctor explain` without a name lists the rules.",
        )
    text = f"# {rule.id}: {rule.title}\n\n{rule.page()}"
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        click.echo(text)


def _explain_recompile(name: str, path: str | None) -> None:
    from rich.console import Console

    from recompile_doctor.bundle import current_folder
    from recompile_doctor.pipeline import examine, explain_recompile
    from recompile_doctor.reports.chain import print_chain

    console = Console(highlight=False)
    for chain in explain_recompile(examine(find_target(path)), name):
        print_chain(chain, console, base=current_folder())
