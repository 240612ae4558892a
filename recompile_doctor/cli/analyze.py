"""``recompile-doctor analyze``: report on logs that exist already."""

from pathlib import Path

import click

from recompile_doctor.cli.pages import make_pages_of
from recompile_doctor.cli.render import render, report_options, status
from recompile_doctor.cli.target import find_target


@click.command()
@click.argument("path", required=False)
@report_options
@click.option("--name", metavar="NAME", help="Keep the logs as a bundle of this name.")
@click.option("--tlparse", is_flag=True, help="Make tlparse's pages of the trace as well.")
def analyze(
    path: str | None,
    format_: str,
    output: Path | None,
    fail_on: str,
    name: str | None,
    tlparse: bool,
) -> int:
    """Explain what recompiled, from logs that exist already.

    PATH is a bundle, a TORCH_TRACE folder or file, or a text log made with TORCH_LOGS; it may be
    mixed with other output, have CI time stamps or colours, and be packed with gzip or zstd. `-`
    reads standard input. Without PATH the latest bundle in .recompile-doctor is taken. With --name
    the logs are copied into a bundle, which explain, suggest, diff and check then find by its name.

    \b
        recompile-doctor analyze /tmp/my_trace
        recompile-doctor analyze ci.log.gz --format markdown
        TORCH_LOGS=dynamic,recompiles,graph_breaks python train.py 2>&1 | recompile-doctor analyze -
    """
    from recompile_doctor.pipeline import examine, keep

    target = find_target(path)
    if name is not None:
        target = keep(target, name).path
    pages = make_pages_of(target) if tlparse and isinstance(target, Path) else None
    document = examine(target, pages=pages).document
    render(document, format_, output)
    return int(status(document, fail_on, format_))
