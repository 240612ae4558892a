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
    r"|\A(?:nn/(?:modules|functional|parallel|utils|init)|fx/experimental|utils/_\w+)(?:/|\.py)"
    r"|<eval_with_key>"
    # Our own wrapper around torch's, in the stacks of a captured run.
    r"|/recompile_doctor/capture/probe/\w+\.py\Z"
)
_STANDARD_LIBRARY = re.compile(
    r"/lib/python[0-9.]+/(?!site-packages|dist-packages)|\A<frozen |\A<string>\Z"
)


@lru_cache(maxsize=4096)
def is_torch_frame(path: str) -> bool:
    """Tell whether a file belongs to torch, and is not the user's or another library's."""
    return _TORCH.search(path.replace("\\", "/")) is not None


@lru_cache(maxsize=4096)
def is_standard_library_frame(path: str) -> bool:
    """Tell whether a file belongs to Python itself."""
    return _STANDARD_LIBRARY.search(path.replace("\\", "/")) is not None


def user_frames(stack: Iterable[StackFrame]) -> tuple[StackFrame, ...]:
    """Return the frames that belong neither to torch nor to Python, in the same order."""
    return tuple(
        frame
        for frame in stack
        if frame.file
        and not is_torch_frame(frame.file)
        and not is_standard_library_frame(frame.file)
    )
