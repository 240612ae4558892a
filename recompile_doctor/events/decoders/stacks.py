"""Whose code a stack frame is: the user's, torch's, or Python's own."""

import re
from collections.abc import Iterable
from functools import lru_cache

from recompile_doctor.events.vocabulary import StackFrame

# An installed torch, a source tree of torch, the short names that torch prints, generated code.
_TORCH = re.compile(
    r"/(?:site|dist)-packages/(?:torch|functorch|torchgen)/"
    r"|(?:^|/)torch/(?:_\w+|ao|autograd|backends|cuda|distributed|export|func|futures|fx|jit|library"
    r"|linalg|masked|nested|nn|optim|overrides|sparse|special|storage|utils)(?:/|\.py\Z)"
    r"|(?:^|/)torch/(?:__init__|functional)\.py\Z"
    r"|\A_(?:compile|decomp|dynamo|functorch|guards|higher_order_ops|inductor|library|logging"
    r"|meta_registrations|ops|prims|prims_common|refs|subclasses|tensor|utils_internal)(?:/|\.py)"
    r"|<eval_with_key>"
)
_STANDARD_LIBRARY = re.compile(
    r"/lib/python[0-9.]+/(?!site-packages|dist-packages)|\A<frozen |\A<string>\Z"
)
# Files that torch itself passes over when it names the torch line that asked for a guard
# (``uninteresting_files`` in symbolic_shapes.py).
_PASSED_OVER = re.compile(
    r"(?:^|/)(?:fx/experimental/(?:symbolic_shapes|recording|sym_node)|fx/interpreter"
    r"|fx/_symbolic_trace|_compile|_dynamo/eval_frame|_dynamo/guards|_inductor/sizevars"
    r"|_library/(?:custom_ops|fake_impl)|_subclasses/(?:meta_utils|fake_tensor)"
    r"|_logging/(?:_internal|structured)|_higher_order_ops/\w+|export/_trace|torch/__init__"
    r"|utils/_traceback)\.py\Z"
)


def is_torch_frame(path: str) -> bool:
    """Tell whether a file belongs to torch, and is not the user's or another library's."""
    return _TORCH.search(path.replace("\\", "/")) is not None


def is_standard_library_frame(path: str) -> bool:
    """Tell whether a file belongs to Python itself."""
    return _STANDARD_LIBRARY.search(path.replace("\\", "/")) is not None


def user_frames(stack: Iterable[StackFrame]) -> tuple[StackFrame, ...]:
    """Return the frames that belong neither to torch nor to Python, in the same order."""
    return tuple(
        frame
        for frame in stack
        if not is_torch_frame(frame.file) and not is_standard_library_frame(frame.file)
    )


@lru_cache(maxsize=4096)
def is_passed_over(path: str) -> bool:
    """Tell whether torch passes over a file when it names the torch line that asked."""
    return _PASSED_OVER.search(path.replace("\\", "/")) is not None
