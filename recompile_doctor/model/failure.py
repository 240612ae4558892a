"""Failed guards as typed values: which check of a cached entry did not hold, and how."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.model.expression import ComparisonOperator, Expression, Literal
from recompile_doctor.model.guard import ShapeGuard, ShapeGuardKind, Variable
from recompile_doctor.model.source import SizeSource, Source

_ENUM = re.compile(r"<[^\W\d][\w.]*\.[^\W\d]\w*: .*>\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """What every failed check has.

    ``text`` is torch's words of this check. ``source`` is what was checked, where torch names
    it. ``user_frame`` is the line that torch shows for it; it can lie in torch's own ``nn``
    modules, and its file is cut (shorten_filename: ``ome/user/p.py`` for ``/home/user/p.py``), so
    prefer the lines of structured records. ``torch_frame`` is torch's line that asked. ``hint``
    is torch's own advice or note.
    """

    text: str
    source: Source | None = None
    user_frame: StackFrame | None = None
    torch_frame: StackFrame | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeMismatch(_Check):
    """A size that was compiled as static has changed. Torch names the first such dimension."""

    source: Source
    dim: int
    expected: int
    actual: int
    on_parameter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StrideMismatch(_Check):
    """A stride, in elements, that was compiled as static has changed."""

    source: Source
    dim: int
    expected: int
    actual: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMismatch(_Check):
    """A tensor has another number of dimensions."""

    source: Source
    expected: int
    actual: int


class TensorProperty(Enum):
    """A property of a tensor other than its sizes and strides."""

    DTYPE = "dtype"
    DEVICE = "device"
    DEVICE_INDEX = "device index"
    REQUIRES_GRAD = "requires_grad"
    LAYOUT = "layout"
    DISPATCH_KEYS = "dispatch key set"
    METADATA = "subclass metadata"
    COPY_ON_WRITE = "copy on write"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPropertyMismatch(_Check):
    """A property of a tensor has changed. The values are torch's words, None where untold."""

    property: TensorProperty
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeGuardFailure(_Check):
    """A guard on symbolic sizes (or on a symbolic int) failed.

    ``zero_one_note`` tells that torch says it is 0/1 specialization; on a merged bound
    (``2 <= x <= 10``) that is said of the lower bound alone, and ``upper_user_frame`` and
    ``upper_torch_frame`` belong to the upper one. ``duck_note``: torch tied two sizes because
    they were equal. ``exclusion_note``: the guard only leaves the sizes of an older entry to it
    (``automatic_dynamic_exclusion_guard``).
    """

    guard: ShapeGuard
    zero_one_note: bool = False
    duck_note: bool = False
    exclusion_note: bool = False
    upper_user_frame: StackFrame | None = None
    upper_torch_frame: StackFrame | None = None

    @property
    def expression(self) -> Expression:
        """Return the guard's expression."""
        return self.guard.expression

    @property
    def kind(self) -> ShapeGuardKind:
        """Return what the guard asks for."""
        return self.guard.kind

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Return what the guard is about, each once."""
        return self.guard.variables

    @property
    def sizes(self) -> tuple[SizeSource, ...]:
        """Return the tensor sizes that the guard is about, each once."""
        return self.guard.sizes


@dataclass(frozen=True, slots=True)
class OtherConstant:
    """A constant that is no literal, in torch's words: ``<Color.RED: 1>``, ``torch.float32``."""

    text: str

    @property
    def is_enum(self) -> bool:
        """Return whether it looks like a member of an Enum."""
        return _ENUM.match(self.text) is not None


ConstantValue: TypeAlias = Literal | OtherConstant


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueMismatch(_Check):
    """A value that was compiled as a constant has changed; torch does not tell the new value.

    ``module_int_hint``: torch says that it is an int attribute of a module.
    """

    expected: ConstantValue
    operator: ComparisonOperator = ComparisonOperator.EQUAL
    module_int_hint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthMismatch(_Check):
    """A list, tuple, dict, set or iterator has another length."""

    source: Source
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysMismatch(_Check):
    """A container lacks a key, has a new one, or has its keys in another order.

    ``source`` is the container where the check names it, otherwise the missing item.
    """

    source: Source
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMismatch(_Check):
    """A value has another type, or is or is not None. The types are torch's words."""

    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityMismatch(_Check):
    """Another object stands where torch guarded on this very one (a function, its code, ...)."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalStateMismatch(_Check):
    """A setting of the process or thread has changed; ``fields`` in torch's words.

    Torch's names of ``GLOBAL_STATE`` (``grad_mode``, ``autocast(cpu)_enabled``, or ``autocast``
    up to 2.8, ``num_threads``, ...), and ours for what torch checks apart:
    ``torch_function_mode_stack``, ``default_device``, ``forward_ad_level``, ``functorch_stack``,
    ``saved_tensors_hooks``, ``current_stream``.
    """

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendMismatch(_Check):
    """The function was compiled by another backend object.

    Both in torch's words; None in 2.10 and 2.11, which do not name them.
    """

    cached: str | None
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasingMismatch(_Check):
    """Arguments are the same object, or share storage, where they did not before, or the reverse.

    ``were_same`` tells what the entry was compiled for: True from ``a is b``, which torch also
    writes of objects that are no tensors; None where torch does not say.
    """

    sources: tuple[Source, ...]
    were_same: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeMissing(_Check):
    """An attribute that was there is missing, or one that was absent is there (``appeared``).

    ``source`` is the object, or the attribute itself where torch names only that, and None for
    a bare exception text. ``'NoneType' object has no attribute 'size'`` comes from a guard on
    the base of a view: the argument is no view any more.
    """

    attribute: str | None
    type_name: str | None = None
    appeared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkingMismatch(_Check):
    """A tensor's marks (``mark_dynamic``, ``mark_unbacked``, ...) are not those compiled for.

    ``attribute`` is where torch keeps the mark, e.g. ``_dynamo_dynamic_indices``. Torch 2.13 and
    later do not name the tensor.
    """

    attribute: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadReference(_Check):
    """The entry was dropped because an object that it was made for has died."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedRecompilation(_Check):
    """Every guard passed when torch looked for the reason.

    Torch up to 2.9 then writes nothing at all (``text`` is empty), also for another backend
    object; 2.10 and later say which it is.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecognizedReason(_Check):
    """A text of no known form."""


GuardFailure: TypeAlias = (
    SizeMismatch
    | StrideMismatch
    | RankMismatch
    | TensorPropertyMismatch
    | ShapeGuardFailure
    | ValueMismatch
    | LengthMismatch
    | KeysMismatch
    | TypeMismatch
    | IdentityMismatch
    | GlobalStateMismatch
    | BackendMismatch
    | AliasingMismatch
    | AttributeMissing
    | MarkingMismatch
    | DeadReference
    | UnexpectedRecompilation
    | UnrecognizedReason
)
