"""Expressions that torch evaluated while tracing: guards, assertions, assumptions."""

import re

from recompile_doctor.events.messages import parse_user_stack
from recompile_doctor.events.text_decoders.forms import user_and_torch_frame
from recompile_doctor.events.text_decoders.message import Decoded, Message, MessageKind
from recompile_doctor.events.vocabulary import AssumptionMade, GuardAdded, GuardRole

_ADDED = re.compile(
    r"(?P<word>eval|runtime_assert)(?P<suppressed> \[guard suppressed\])?(?: \(forcing_spec\))? "
    r"(?P<expression>\S.*?) \[guard added\](?P<rest>.*)\Z",
    re.DOTALL,
)
# Known before any guard was needed.
_NO_GUARD = re.compile(r".* (?:\[statically known\]|\[trivial\])\Z", re.DOTALL)
_ASSUMED = re.compile(
    r"could not evaluate (?P<expression>.+?) due to data dependency, it was assumed to be "
    r"(?P<assumed>\S+) with no runtime assertions(?P<rest>.*)\Z",
    re.DOTALL,
)
_PROPAGATED = re.compile(
    r"propagate_real_tensors \w+\((?P<expression>.+)\) -> (?P<assumed>\S+)\Z", re.DOTALL
)


def decode_evaluation(message: Message) -> Decoded:
    """Return the guard, or nothing for an expression whose value was known without one."""
    match = _ADDED.match(message.text)
    if match is None:
        return () if _NO_GUARD.match(message.text) else (message.not_understood(),)
    user_stack, torch_frame = user_and_torch_frame(match["rest"].split("\n", 1)[0])
    return (GuardAdded(message.origin, match["expression"], _role(match), user_stack, torch_frame),)


def _role(match: re.Match[str]) -> GuardRole:
    if match["suppressed"] is not None:
        return GuardRole.SUPPRESSED
    return GuardRole.GUARD if match["word"] == "eval" else GuardRole.RUNTIME_ASSERT


def decode_assumption(message: Message) -> Decoded:
    """Return the truth value that torch assumed where it could not evaluate."""
    match = _ASSUMED.match(message.text)
    if match is None:
        return (message.not_understood(),)
    place, *stack_lines = match["rest"].split("\n")
    user_stack = parse_user_stack(stack_lines) or user_and_torch_frame(place)[0]
    return (AssumptionMade(message.origin, match["expression"], match["assumed"], user_stack),)


def decode_propagation(message: Message) -> Decoded:
    """Return the value that torch took from the real tensors of this run."""
    match = _PROPAGATED.match(message.text)
    if match is None:
        return (message.not_understood(),)
    return (AssumptionMade(message.origin, match["expression"], match["assumed"]),)


_FILES = ("symbolic_shapes.py",)

EVALUATIONS = MessageKind(
    heads=("eval ", "runtime_assert "), decode=decode_evaluation, files=_FILES
)
ASSUMPTIONS = MessageKind(heads=("could not evaluate ",), decode=decode_assumption, files=_FILES)
PROPAGATIONS = MessageKind(
    heads=("propagate_real_tensors ",), decode=decode_propagation, files=_FILES
)
