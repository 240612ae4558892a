"""The values of a result in a few numbers that two runs can be compared by.

All sums are in float64 over the finite elements, block by block, so that a large tensor costs
little memory. ``weighted`` tells a permutation from the original. Nothing here draws a random
number, records for autograd, or is seen by a mode of the program.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from .arguments import is_any, is_simple, members, short, type_name
from .foreign import is_from_signal_handler
from .objects import attributes, held_by, items_of, text_of

_BLOCK = 1_000_000
_SAMPLE = 64
_DEEPEST = 20
_MOST_LEAVES = 10_000
_LARGEST = 1 << 63
_LARGEST_FLOAT = sys.float_info.max
_SIMPLE = (bool, int, float, str, type(None))


class _Walk:
    """How many leaves a walk may still yield, and the objects that it has been to.

    They are held, so that no other object gets the identity of one.
    """

    def __init__(self, left: int) -> None:
        self.left = left
        self.objects: dict[int, Any] = {}


class Fingerprints:
    """Takes fingerprints with one torch."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def quiet(self) -> ExitStack:
        """Return a context in which our own operations leave no trace in the program."""
        torch = self._torch
        stack = ExitStack()
        stack.enter_context(torch._C.DisableTorchFunction())
        if hasattr(torch._C, "_DisableAutocast"):
            stack.enter_context(torch._C._DisableAutocast())
        python_dispatch = sys.modules.get("torch.utils._python_dispatch")
        if python_dispatch is not None and torch._C._len_torch_dispatch_stack():
            stack.enter_context(python_dispatch._disable_current_modes())
        stack.enter_context(torch.no_grad())
        return stack

    def random_state(self) -> list[Any]:
        """Return the state of torch's default generators, to be compared; within ``quiet``."""
        torch = self._torch
        states = [torch.default_generator.get_state()]
        cuda: Any = sys.modules.get("torch.cuda")
        if cuda is not None and cuda.is_initialized() and not cuda.is_current_stream_capturing():
            states += [(each.initial_seed(), each.get_offset()) for each in cuda.default_generators]
        return states

    def is_same_state(self, one: list[Any], other: list[Any]) -> bool:
        """Return whether nothing was drawn between two states; within ``quiet``."""
        return (
            len(one) == len(other) and self._torch.equal(one[0], other[0]) and one[1:] == other[1:]
        )

    def leaves(self, value: Any) -> tuple[list[dict[str, Any]], bool]:
        """Return the leaves of a result in order, and whether these are all; within ``quiet``.

        An object of an ordinary class is a leaf with its type, and what it holds are leaves too.
        """
        walk = _Walk(_MOST_LEAVES)
        found = [
            {"path": path, "type": type_name(type(leaf)), "members": True}
            if walked
            else self.leaf(path, leaf)
            for path, leaf, walked in self._walk("", value, _DEEPEST, walk)
        ]
        return found, walk.left > 0

    def _walk(
        self, path: str, value: Any, depth: int, walk: _Walk
    ) -> Iterator[tuple[str, Any, bool]]:
        """Yield each leaf, its path, and whether what it holds has its own leaves."""
        if walk.left <= 0:
            return
        below = self._below(value) if depth else None
        held = attributes(value) if below is None and depth else None
        if below is None and held is None and depth:
            below = members(value)  # a dataclass of Python or torch
        if below is None:
            walk.left -= 1
            yield path, value, held is not None
        if held is not None:
            if id(value) in walk.objects:
                return  # the same object, at another place or within itself
            walk.objects[id(value)] = value
        for suffix, member in below or held or ():
            yield from self._walk(path + suffix, member, depth - 1, walk)

    def _below(self, value: Any) -> Iterable[tuple[str, Any]] | None:
        """Return the members of a container, or None for anything else."""
        kind = type(value)
        if is_any(kind, _SIMPLE):
            return None
        if kind is complex:
            return ((".real", value.real), (".imag", value.imag))
        if issubclass(kind, (dict, list, tuple)):
            found = items_of(value) if issubclass(kind, dict) else members(value) or ()
            return found if is_any(kind, (dict, list, tuple)) else _with_attributes(value, found)
        return self._inner(value) or self._registered(value)

    def _inner(self, value: Any) -> Iterator[tuple[str, Any]] | None:
        """Return the tensors that a tensor subclass is made of, or None for anything else."""
        if not isinstance(value, self._torch.Tensor) or not self._dispatches(type(value)):
            return None
        kind = type(value)
        if not hasattr(kind, "__tensor_flatten__") or hasattr(kind, "trigger_wait"):
            return None  # the second: a collective whose result may not have arrived
        try:
            names = list(value.__tensor_flatten__()[0])
            inner = [(f".{name}", getattr(value, name)) for name in names]
        except Exception as error:  # code of the user
            if is_from_signal_handler(error):
                raise
            return None
        return iter(inner)

    def _dispatches(self, kind: Any) -> bool:
        """Return whether a class of tensors has a ``__torch_dispatch__`` of its own."""
        tensor = self._torch.Tensor
        return kind is not tensor and getattr(kind, "__torch_dispatch__", None) not in (
            getattr(tensor, "__torch_dispatch__", None),
            getattr(self._torch._C, "_disabled_torch_dispatch_impl", None),
        )

    def _registered(self, value: Any) -> Iterator[tuple[str, Any]] | None:
        """Return the members of a class that is registered as a container with torch."""
        pytree: Any = sys.modules.get("torch.utils._pytree")
        if isinstance(value, self._torch.Tensor):
            return None
        # Not looked up: a metaclass of the user may have a __hash__.
        nodes = getattr(pytree, "SUPPORTED_NODES", {}).copy().items()
        node = next((node for kind, node in nodes if kind is type(value)), None)
        if node is None:
            return None
        try:
            children = list(node.flatten_fn(value)[0])
        except Exception as error:  # code of the user
            if is_from_signal_handler(error):
                raise
            return None
        return ((f"<{index}>", child) for index, child in enumerate(children))

    def leaf(self, path: str, value: Any) -> dict[str, Any]:
        """Return one leaf; to be called within ``quiet``."""
        kind = type(value)
        if kind is int and -_LARGEST <= value < _LARGEST:
            return {"path": path, "int": value}
        if is_simple(kind) and kind is not str:
            return {"path": path, "value": short(value)}
        if isinstance(value, self._torch.Tensor):
            return self.tensor(path, value)
        try:
            text = text_of(value)
            if text is not None:
                return {"path": path, "value": text}
            array = self._of_numpy(path, value)
        except Exception as error:  # then it is not known
            if is_from_signal_handler(error):
                raise
            array = None
        return array or {"path": path, "type": type_name(kind)}

    def _of_numpy(self, path: str, value: Any) -> dict[str, Any] | None:
        """Return the leaf of an array or a number of numpy."""
        numpy: Any = sys.modules.get("numpy")
        kind = type(value)
        if numpy is None or not issubclass(kind, (numpy.ndarray, numpy.generic)):
            return None
        if issubclass(kind, numpy.generic):
            number = numpy.generic.item(value)
            return None if type(number) is kind else self.leaf(path, number)
        array = numpy.ndarray.view(value, numpy.ndarray)
        if array.dtype.kind in "SU":
            return {"path": path, "value": text_of(repr(array.tolist()))}
        if array.dtype.kind in "mM":  # times
            array = array.view(numpy.int64)
        # Torch warns of memory that is not to be written to, and knows no negative strides.
        leaf = self.tensor(path, self._torch.from_numpy(array.copy()))
        return leaf if "numel" in leaf else None

    def tensor(self, path: str, value: Any) -> dict[str, Any]:
        """Return the leaf of a tensor; to be called within ``quiet``."""
        torch = self._torch
        leaf: dict[str, Any] = {"path": path}
        try:
            leaf["dtype"] = str(torch.Tensor.dtype.__get__(value))
            sizes = list(torch.Tensor.shape.__get__(value))
            if not all(type(size) is int for size in sizes):
                return _unknown(leaf, "its size is symbolic")
            leaf["sizes"] = sizes
            leaf["device"] = str(torch.Tensor.device.__get__(value))
            why = self._why_unreadable(value)
            if why is not None:
                return _unknown(leaf, why)
            plain = torch.Tensor.as_subclass(torch.Tensor.detach(value), torch.Tensor)
            leaf.update(self._numbers(plain))
        except Exception as error:  # e.g. overwritten by a later CUDA graph
            if is_from_signal_handler(error):
                raise
            return _unknown(leaf, f"{type(error).__name__}: {str(error)[:200]}")
        return leaf

    def _why_unreadable(self, value: Any) -> str | None:
        torch = self._torch
        tensor = torch.Tensor
        if self._dispatches(type(value)):
            return f"it is a {type_name(type(value))}, which computes in its own way"
        if tensor.layout.__get__(value) is not torch.strided:
            return f"its layout is {tensor.layout.__get__(value)}"
        if tensor.is_nested.__get__(value):
            return "it is nested"
        if tensor.is_quantized.__get__(value):
            return "it is quantized"
        if tensor.is_meta.__get__(value):
            return "it is on the meta device"
        if torch._is_functional_tensor(value):
            return "it is traced"
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return "it is inside of a function transform"
        cuda: Any = sys.modules.get("torch.cuda")
        if cuda is not None and cuda.is_initialized() and cuda.is_current_stream_capturing():
            return "a CUDA graph is being captured"
        if tensor.numel(value) and not tensor.untyped_storage(value).size():
            return "its memory was given back"
        return None

    def _numbers(self, value: Any) -> dict[str, Any]:
        torch = self._torch
        if value.is_complex():
            if value.dtype is torch.complex32:
                value = value.to(torch.complex64)
            value = torch.view_as_real(value.resolve_conj())
        if value.device.type == "mps":
            value = value.cpu()  # it has no float64
        total = value.numel()
        exact = not value.is_floating_point()
        if total <= _SAMPLE:
            return _of_few(value.reshape(-1).tolist(), exact=exact)
        numbers = [0.0] * 7
        least, most = float("inf"), float("-inf")
        whole = 0
        sample: list[float] = []
        start = 0
        for block in _blocks(value.resolve_neg()):
            stats, count = self._block(block, start, total)
            numbers = [number + stats[index] for index, number in enumerate(numbers)]
            least = min(least, stats[7])
            most = max(most, stats[8])
            sample += stats[9:]
            if exact:
                whole += int(block.to(torch.int64).sum().item())
            start += count
        return _found(total, [*numbers, least, most], sample, whole if exact else None)

    def _block(self, block: Any, start: int, total: int) -> tuple[list[float], int]:
        """Return the sums of one block, its smallest and largest element, and its sampled ones."""
        torch = self._torch
        values = block.to(torch.float64)
        count = values.numel()
        device = values.device
        inf = float("inf")
        finite = torch.isfinite(values)
        kept = torch.where(finite, values, 0.0)
        places = torch.arange(start, start + count, dtype=torch.int64, device=device)
        weights = ((places * 2654435761) & 0xFFFFFFFF).to(torch.float64) / 4294967296.0 + 1.0
        stats = torch.stack(
            (
                torch.isnan(values).sum(dtype=torch.float64),
                (values == inf).sum(dtype=torch.float64),
                (values == -inf).sum(dtype=torch.float64),
                kept.sum(),
                kept.abs().sum(),
                (kept * kept).sum(),
                (kept * weights).sum(),
                torch.where(finite, values, inf).amin(),
                torch.where(finite, values, -inf).amax(),
            )
        )
        # The k with start <= k * total // 64 < start + count.
        first = -(-start * _SAMPLE // total)
        end = -(-(start + count) * _SAMPLE // total)
        numbers = torch.arange(first, end, dtype=torch.int64, device=device)
        chosen = values[numbers * total // _SAMPLE - start]
        result: list[float] = torch.cat((stats, chosen)).tolist()
        return result, count


def _with_attributes(value: Any, found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the members of a container of the user's own class, then what else it holds."""
    known = set()
    for suffix, member in found:
        known.add(id(member))
        yield suffix, member
    for suffix, member in held_by(value):
        if id(member) not in known:  # transformers' ModelOutput holds each twice
            yield suffix, member


def _of_few(elements: list[Any], *, exact: bool) -> dict[str, Any]:
    """Return the numbers of a small tensor: without torch, which would take twenty operations."""
    values = [float(each) for each in elements]
    finite = [(index, value) for index, value in enumerate(values) if math.isfinite(value)]
    numbers = [
        float(sum(map(math.isnan, values))),
        float(values.count(float("inf"))),
        float(values.count(float("-inf"))),
        sum(value for _, value in finite),
        sum(abs(value) for _, value in finite),
        sum(value * value for _, value in finite),
        sum(value * _weight(index) for index, value in finite),
        min((value for _, value in finite), default=float("inf")),
        max((value for _, value in finite), default=float("-inf")),
    ]
    return _found(len(values), numbers, values, sum(elements) if exact else None)


def _weight(index: int) -> float:
    return ((index * 2654435761) & 0xFFFFFFFF) / 4294967296.0 + 1.0


def _found(
    total: int, numbers: list[float], sample: list[float], whole: int | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "numel": total,
        "nan": int(numbers[0]),
        "posinf": int(numbers[1]),
        "neginf": int(numbers[2]),
        "sum": _bounded(numbers[3]),
        "abs": _bounded(numbers[4]),
        "square": _bounded(numbers[5]),
        "weighted": _bounded(numbers[6]),
        "min": None if numbers[7] == float("inf") else numbers[7],
        "max": None if numbers[8] == float("-inf") else numbers[8],
        "sample": [_plain(each) for each in sample],
    }
    if whole is not None:
        found["exact"] = int(whole) % _LARGEST
    return found


def _blocks(value: Any) -> Iterator[Any]:
    """Yield the elements in logical order as flat tensors of bounded size; none is empty."""
    count = value.numel()
    if not count:
        return
    if count <= _BLOCK:
        yield value.reshape(-1)
    elif value.is_contiguous():
        yield from value.view(-1).split(_BLOCK)
    else:
        rows = max(1, _BLOCK // (count // value.shape[0]))
        for start in range(0, value.shape[0], rows):
            part = value[start : start + rows]
            yield from _blocks(part[0] if part.shape[0] == 1 else part)


def _bounded(number: float) -> float:
    """Return a sum that JSON can hold: one that is too large for a float stops at the largest."""
    if math.isnan(number):  # inf - inf
        return 0.0
    return max(-_LARGEST_FLOAT, min(_LARGEST_FLOAT, number))


def _plain(number: float) -> float | str:
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number


def _unknown(leaf: dict[str, Any], why: str) -> dict[str, Any]:
    return {**leaf, "values": "unknown", "why": why}
