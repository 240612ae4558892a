"""Marks as calls of torch: what a release takes, how it is written, and calls that are there."""

import ast
import json
from dataclasses import dataclass

import libcst as cst

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.prescription.codemods.module import Module
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.torch_compat import TorchFeatures

# Where each function lives. The first name is the one to import: `torch._dynamo` does not export
# mark_unbacked before 2.10.
PLACES = {
    MarkKind.UNBACKED: ("torch._dynamo.decorators", "mark_unbacked"),
    # mark_dynamic is a promise that raises an error where the program needs one size.
    MarkKind.DYNAMIC: ("torch._dynamo", "maybe_mark_dynamic"),
    MarkKind.STATIC: ("torch._dynamo", "mark_static"),
}
_NAMES = {
    **{name: kind for kind, (_, name) in PLACES.items()},
    "mark_dynamic": MarkKind.DYNAMIC,
}
_KINDS = {
    f"torch._dynamo{inner}.{name}": kind
    for name, kind in _NAMES.items()
    for inner in ("", ".decorators")
}
_OTHER_MARKS = frozenset(
    f"torch._dynamo{inner}.{name}"
    for inner in ("", ".decorators")
    for name in ("mark_static_address",)
)
_UNBACKED_PARAMETERS = ("hint_override", "strict", "specialize_on", "shape_id", "min", "max")
_PROMISES = ("shape_id", "min", "max")


@dataclass(frozen=True, slots=True)
class MarkCall:
    """One call that marks one dimension; ``options`` are its named arguments in torch's order."""

    kind: MarkKind
    dim: int
    options: tuple[tuple[str, str | int], ...] = ()

    @property
    def function(self) -> str:
        """Return the name of torch's function."""
        return PLACES[self.kind][1]

    def render(self, function: str, expression: str) -> str:
        """Return the call as text; ``function`` is what the file calls it."""
        options = "".join(f", {name}={literal(value)}" for name, value in self.options)
        return f"{function}({expression}, {self.dim}{options})"


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call in the user's file that marks an expression; None options cannot be read."""

    call: MarkCall | None
    dims: tuple[int, ...]

    def says(self, wanted: MarkCall) -> bool:
        """Return whether it does what ``wanted`` would do."""
        if self.call is None or wanted.dim not in self.dims or self.call.kind is not wanted.kind:
            return False
        # The list form hands on the promises only (TORCH_FACTS: it drops hint_override silently).
        names = _PROMISES if len(self.dims) > 1 else None
        options = {k: v for k, v in self.call.options if names is None or k in names}
        return all(options.get(name) == value for name, value in wanted.options) and not (
            set(options) & set(_PROMISES) - {name for name, _ in wanted.options}
        )


@dataclass(frozen=True, slots=True)
class Rendering:
    """The calls for marks, and what they leave out because the release does not take it."""

    calls: tuple[tuple[Mark, MarkCall], ...]
    losses: tuple[str, ...]


def render_marks(marks: tuple[Mark, ...], torch: TorchFeatures) -> Rendering:
    """Return the calls that say these marks to a release; marks without a dimension have none."""
    calls: list[tuple[Mark, MarkCall]] = []
    losses: list[str] = []
    for mark in marks:
        if mark.dim is None:
            continue
        options, lost = _options(mark, torch)
        calls.append((mark, MarkCall(mark.kind, mark.dim, options)))
        losses += lost
    return Rendering(tuple(calls), tuple(dict.fromkeys(losses)))


def _options(
    mark: Mark, torch: TorchFeatures
) -> tuple[tuple[tuple[str, str | int], ...], list[str]]:
    if mark.kind is not MarkKind.UNBACKED:
        return (), []
    release = ".".join(map(str, torch.version))
    options: list[tuple[str, str | int]] = []
    losses: list[str] = []

    def add(name: str, value: str | int | None, known: bool, loss: str) -> None:
        if value is None:
            return
        if known:
            options.append((name, value))
        else:
            losses.append(f"{loss}: mark_unbacked of torch {release} has no {name}")

    place = f"{mark.source} dimension {mark.dim}"
    add("hint_override", mark.hint, torch.mark_hints, f"the typical size of {place} is left out")
    add(
        "shape_id",
        mark.shape_group,
        torch.mark_groups,
        f"the sizes of group {mark.shape_group!r} are not tied together",
    )
    add("min", mark.minimum, torch.mark_bounds, f"the lower bound of {place} is left out")
    add("max", mark.maximum, torch.mark_bounds, f"the upper bound of {place} is left out")
    return tuple(options), losses


def read_call(module: Module, node: cst.CSTNode) -> tuple[str, WrittenCall] | None:
    """Return the text of the marked expression and what a statement says about it, or None."""
    if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
        return None
    call = node.value
    names = module.qualified_names(call.func)
    kinds = {_KINDS[name] for name in names if name in _KINDS}
    if not call.args or not (kinds or names & _OTHER_MARKS):
        return None
    target = module.code(call.args[0].value)
    if len(kinds) != 1:
        return target, WrittenCall(None, ())
    return target, _read_arguments(module, kinds.pop(), call)


def _read_arguments(module: Module, kind: MarkKind, call: cst.Call) -> WrittenCall:
    index: object = None
    options: list[tuple[str, str | int]] = []
    for number, argument in enumerate(call.args[1:]):
        value = _literal_value(module, argument.value)
        name = None if argument.keyword is None else argument.keyword.value
        if argument.star:
            return WrittenCall(None, ())
        if name == "index" or (name is None and number == 0):
            index = value
            continue
        if name is None:
            if kind is not MarkKind.UNBACKED or number > len(_UNBACKED_PARAMETERS):
                return WrittenCall(None, ())
            name = _UNBACKED_PARAMETERS[number - 1]
        if value is None:
            continue
        options.append((name, value if isinstance(value, str | int) else str(value)))
    dims = index if isinstance(index, list | tuple) else (index,)
    known = tuple(dim for dim in dims if isinstance(dim, int))
    if len(known) != len(dims) or not known:
        return WrittenCall(None, ())
    return WrittenCall(MarkCall(kind, known[0], tuple(options)), known)


def _literal_value(module: Module, expression: cst.BaseExpression) -> object:
    try:
        return ast.literal_eval(module.code(expression))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return module.code(expression)


def literal(value: str | int) -> str:
    """Return a string or an int as Python text, with the quotes that formatters want."""
    if isinstance(value, str) and value.isascii() and value.isprintable():
        return json.dumps(value)
    return repr(value)
