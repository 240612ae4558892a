"""What can reach a source: a call in the program, an entry of a list, or nothing."""

from enum import Enum

from recompile_doctor.model.frame import resume_point
from recompile_doctor.model.source import Attribute, Item, Local, Source, parse_source
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.observed import is_module_tensor


class Reach(Enum):
    """CODE: a ``mark_...`` call on an argument, and the lists. LIST: only the lists."""

    CODE = "code"
    LIST = "list"


def reach_of(mark: Mark) -> Reach:
    """Return what can express a mark.

    A call in the program marks tensors that it passes to the compiled function. It cannot reach
    an int, what a resume function takes from the stack or has as a local variable, the attributes
    of a module, and globals or closures, which the program does not pass.
    """
    source = parse_source(mark.source)
    if mark.dim is None or not isinstance(source.root, Local) or source.is_resume_stack:
        return Reach.LIST
    if mark.frame is not None and resume_point(mark.frame.function or "") is not None:
        return Reach.LIST
    if is_module_tensor(source) or _through_module(source):
        return Reach.LIST
    return Reach.CODE


def _through_module(source: Source) -> bool:
    if source.root == Local("self"):
        return True
    return any(
        step == Attribute("_modules") or (isinstance(step, Item) and not _is_plain(step))
        for step in source.steps
    )


def _is_plain(step: Item) -> bool:
    return isinstance(step.key, int | str)
