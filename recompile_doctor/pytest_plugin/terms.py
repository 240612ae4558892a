"""The terms of a budget: what a test may spend, as its mark or its ``with`` block states it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

COUNTS = ("all", "fixable")


class TermsError(Exception):
    """A budget is stated in a way that has no meaning; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What may be spent, None without a limit; ``min_graphs`` is what must at least be compiled.

    ``count`` tells which recompiles and graph breaks count, ``reset`` whether the body begins with
    nothing compiled. docs/pytest.md explains them.
    """

    recompiles: int | None = 0
    graph_breaks: int | None = 0
    recompile_limit_hits: int | None = 0
    min_graphs: int = 0
    count: str = "all"
    reset: bool = False

    def __post_init__(self) -> None:
        for name in ("recompiles", "graph_breaks", "recompile_limit_hits"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), ", or None for no limit")
        _check_number("min_graphs", self.min_graphs, "")
        if self.count not in COUNTS:
            raise TermsError(f"count is one of {', '.join(COUNTS)}, not {self.count!r}")
        if type(self.reset) is not bool:
            raise TermsError(f"reset is True or False, not {self.reset!r}")


def _check_number(name: str, value: Any, otherwise: str) -> None:
    if type(value) is not int or value < 0:
        raise TermsError(f"{name} is a whole number from 0{otherwise}, not {value!r}")


def read_terms(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Terms:
    """Return the terms that a mark's arguments state. Raises TermsError when they have none."""
    names = [each.name for each in fields(Terms)]
    if args:
        raise TermsError(f"give its arguments by name ({', '.join(names)}), not {args[0]!r} alone")
    for name in kwargs:
        if name not in names:
            near = get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
            raise TermsError(f"there is no argument {name!r}; {hint}")
    return Terms(**kwargs)
