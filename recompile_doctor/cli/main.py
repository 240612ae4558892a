"""The command group. A command's module is imported only when that command runs."""

from importlib import import_module

import click

from recompile_doctor.version import VERSION

# name: (module, function, what `--help` of the group says). Kept as text: importing the commands
# to ask them would make `--help` wait for all that they need.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "run": (
        "recompile_doctor.cli.run",
        "run",
        "Launch a program and explain what torch.compile recompiled.",
    ),
    "analyze": (
        "recompile_doctor.cli.analyze",
        "analyze",
        "Explain what recompiled, from logs that exist already.",
    ),
    "explain": (
        "recompile_doctor.cli.explain",
        "explain",
        "Explain a rule, or the whole chain of one recompile (0/3).",
    ),
    "suggest": (
        "recompile_doctor.cli.suggest",
        "suggest",
        "Say what to change: marks, environment variables, settings, code.",
    ),
    "verify": (
        "recompile_doctor.cli.verify",
        "verify",
        "Rerun under candidate changes, and keep the smallest that measurably works.",
    ),
    "diff": (
        "recompile_doctor.cli.diff",
        "diff",
        "Compare two runs: what is fixed, unchanged, worse or new.",
    ),
    "check": (
        "recompile_doctor.cli.check",
        "check",
        "Fail when a run spends more recompiles than its budget allows.",
    ),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name, and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of ``COMMANDS``."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None when there is no such name."""
        if cmd_name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[cmd_name]
        command = getattr(import_module(module), function)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    name="recompile-doctor",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, prog_name="recompile-doctor")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Find what makes torch.compile recompile: which input, which dimension, which line, and why.

    Start with `recompile-doctor run train.py`. What the exit codes and messages mean is listed in
    docs/messages.md.
    """
    from recompile_doctor.bundle import current_folder
    from recompile_doctor.config import find_config

    ctx.default_map = {
        command: {_PARAMETERS.get(name, name): value for name, value in options.items()}
        for command, options in find_config(current_folder()).options.items()
    }


# Options whose parameter would shadow a function of Python.
_PARAMETERS = {"format": "format_"}
