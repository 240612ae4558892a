"""Which of torch's own frames asked for a guard."""

import re
from functools import lru_cache

# Files that torch itself passes over when it names the torch line that asked for a guard
# (``uninteresting_files`` in symbolic_shapes.py).
_PASSED_OVER = re.compile(
    r"(?:^|/)(?:fx/experimental/(?:symbolic_shapes|recording|sym_node)|fx/interpreter"
    r"|fx/_symbolic_trace|_compile|_dynamo/eval_frame|_dynamo/guards|_inductor/sizevars"
    r"|_library/(?:custom_ops|fake_impl)|_subclasses/(?:meta_utils|fake_tensor)"
    r"|_logging/(?:_internal|structured)|_higher_order_ops/\w+|export/_trace|torch/__init__"
    r"|utils/_traceback)\.py\Z"
)


@lru_cache(maxsize=4096)
def is_passed_over(path: str) -> bool:
    """Tell whether torch passes over a file when it names the torch line that asked."""
    return _PASSED_OVER.search(path.replace("\\", "/")) is not None
