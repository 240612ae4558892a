"""Which argument of a call becomes which parameter of the function."""

from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

from recompile_doctor.prescription.codemods.module import FunctionNode


@dataclass(frozen=True, slots=True)
class Given:
    """The parameter is this argument of the call."""

    argument: cst.Arg


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The parameter is an element of ``*argument`` (an int) or ``**argument`` (a string)."""

    argument: cst.Arg
    key: int | str


@dataclass(frozen=True, slots=True)
class Defaulted:
    """The call does not give the parameter."""


@dataclass(frozen=True, slots=True)
class Unclear:
    """Which argument it is cannot be told from the text."""

    why: str


Binding: TypeAlias = Given | Unpacked | Defaulted | Unclear


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function as a call sees them, ``self`` left out where it is bound."""

    positional: tuple[cst.Param, ...]
    keyword_only: tuple[cst.Param, ...]
    positional_only: frozenset[str]
    star: str | None
    double_star: str | None
    receiver: str | None

    def parameter(self, name: str) -> cst.Param | None:
        """Return the parameter of that name; None for ``*args``, ``**kwargs`` and locals."""
        for each in (*self.positional, *self.keyword_only):
            if each.name.value == name:
                return each
        return None

    def accepts(self, call: cst.Call) -> bool:
        """Return whether the call has as many arguments as the function can take."""
        given = [each for each in call.args if not each.star and each.keyword is None]
        names = {each.keyword.value for each in call.args if each.keyword is not None}
        stars = {each.star for each in call.args}
        if self.star is None and len(given) > len(self.positional):
            return False
        by_name = [*self.positional, *self.keyword_only]
        if self.double_star is None and not names <= {each.name.value for each in by_name}:
            return False
        missing = [p for p in self.positional[len(given) :] if p.default is None]
        if "*" not in stars and "**" not in stars:
            return all(each.name.value in names for each in missing)
        return True


def signature_of(function: FunctionNode, *, bound: bool) -> Signature:
    """Return the parameters of a function; ``bound`` takes the first one off."""
    params = function.params
    positional = (*params.posonly_params, *params.params)
    receiver = positional[0].name.value if bound and positional else None
    star = params.star_arg
    return Signature(
        positional=positional[1:] if bound else positional,
        keyword_only=tuple(params.kwonly_params),
        positional_only=frozenset(each.name.value for each in params.posonly_params),
        star=star.name.value if isinstance(star, cst.Param) else None,
        double_star=None if params.star_kwarg is None else params.star_kwarg.name.value,
        receiver=receiver,
    )


def bind(signature: Signature, call: cst.Call, name: str) -> Binding:
    """Return which argument of ``call`` the parameter ``name`` is."""
    if name not in signature.positional_only:
        for argument in call.args:
            if argument.keyword is not None and argument.keyword.value == name:
                return Given(argument)
    parameter = signature.parameter(name)
    positions = [each.name.value for each in signature.positional]
    required = parameter is not None and parameter.default is None
    if name in positions:
        found = _at_position(call, positions.index(name), required=required)
        if not isinstance(found, Defaulted):
            return found
    return _in_double_star(call, name, required=required)


def bind_star(signature: Signature, call: cst.Call, index: int) -> Binding:
    """Return which argument of ``call`` is element ``index`` of the function's ``*args``."""
    if index < 0:
        return Unclear("an element of *args counted from its end")
    return _at_position(call, len(signature.positional) + index, required=True)


def bind_double_star(call: cst.Call, name: str) -> Binding:
    """Return which argument of ``call`` is the entry ``name`` of the function's ``**kwargs``."""
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value == name:
            return Given(argument)
    return _in_double_star(call, name, required=True)


def _at_position(call: cst.Call, index: int, *, required: bool) -> Binding:
    position = 0
    for number, argument in enumerate(call.args):
        if argument.star == "**" or argument.keyword is not None:
            continue
        if argument.star == "*":
            later = call.args[number + 1 :]
            if any(each.star == "*" or (not each.star and each.keyword is None) for each in later):
                return Unclear("it is behind or in one of several unpacked arguments")
            if not required:
                return Unclear("it may be missing in the unpacked argument")
            return Unpacked(argument, index - position)
        if position == index:
            return Given(argument)
        position += 1
    return Defaulted()


def _in_double_star(call: cst.Call, name: str, *, required: bool) -> Binding:
    unpacked = [argument for argument in call.args if argument.star == "**"]
    if not unpacked:
        return Defaulted()
    if len(unpacked) > 1:
        return Unclear("it is in one of several unpacked keyword arguments")
    if not required:
        return Unclear("it may be missing in the unpacked keyword arguments")
    return Unpacked(unpacked[0], name)
