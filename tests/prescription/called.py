"""Calls as the probe saw them, made by hand."""

from collections.abc import Iterator, Mapping

from recompile_doctor.capture.calls import (
    Argument,
    CalledFunction,
    CallRow,
    FunctionKey,
    IntArgument,
    TensorArgument,
)
from tests.diagnosis.handmade import FILE

Values = Mapping[str, tuple[int, ...] | int]


def called(
    name: str,
    *rows: tuple[Values, int],
    file: str = FILE,
    line: int = 3,
    compiled: int | None = None,
    parameters: tuple[str, ...] = (),
    varargs: str | None = None,
    varkw: str | None = None,
) -> CalledFunction:
    """Return a function with its calls: rows of arguments, and how many calls had them.

    A tuple is a tensor of that size. ``compiled`` is how many rows compiled once, the first ones;
    all do when it is left out.
    """
    compiling = len(rows) if compiled is None else compiled
    return CalledFunction(
        key=FunctionKey(name, name, file, line),
        parameters=parameters,
        varargs=varargs,
        varkw=varkw,
        calls=sum(calls for _, calls in rows),
        compiled_calls=min(compiling, len(rows)),
        rows=tuple(
            CallRow(tuple(_arguments(values)), calls, compiled_calls=int(number < compiling))
            for number, (values, calls) in enumerate(rows)
        ),
    )


def _arguments(values: Values) -> Iterator[Argument]:
    for source, value in values.items():
        if isinstance(value, tuple):
            yield TensorArgument(source, "torch.float32", value)
        else:
            yield IntArgument(source, value)
