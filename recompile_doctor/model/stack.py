"""Which lines of a Python stack are the user's."""

import re
from collections.abc import Iterable
from functools import lru_cache

from recompile_doctor.events.vocabulary import StackFrame

# Paths of torch's own code as torch writes them: whole, cut from the left, or relative to the
# package (`nn/modules/linear.py`, `_dynamo/variables/builder.py`), beside compiled strings.
_TORCH = re.compile(
    r"(?:^|[/\\])(?:torch|torchgen|functorch)[/\\](?:_|nn|fx|utils|autograd|optim|functional|"
    r"distributed|export|library|compiler|amp|ao|overrides|jit|cuda|__init__)"
    r"|^(?:_dynamo|_inductor|_functorch|_subclasses|_higher_order_ops|_export|nn[/\\]modules|"
    r"nn[/\\]functional|fx[/\\]experimental)(?:[/\\.]|$)"
)
_STANDARD_LIBRARY = re.compile(r"[/\\]lib[/\\]python3\.\d+[/\\](?!site-packages|dist-packages)")
_NO_FILE = re.compile(r"^<.*>$")


@lru_cache(maxsize=4096)
def is_users_file(path: str) -> bool:
    """Return whether ``path`` is neither torch's, nor the standard library's, nor generated."""
    if not path or _NO_FILE.match(path):
        return False
    return not (_TORCH.search(path) or _STANDARD_LIBRARY.search(path))


def user_frames(stack: Iterable[StackFrame]) -> tuple[StackFrame, ...]:
    """Return those frames of a stack that are the user's, in order."""
    return tuple(frame for frame in stack if is_users_file(frame.file))
