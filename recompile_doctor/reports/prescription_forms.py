"""A prescription as lines to paste and as JSON: what all reports on prescriptions share."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.text import Text

from recompile_doctor.prescription.call_sites import why_not_editable
from recompile_doctor.prescription.environment import Shell, environment_for, lines_for
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.prescription_file import needs_calls
from recompile_doctor.prescription.reach import Reach, reach_of
from recompile_doctor.prescription.rendering import Rendering, frame_words
from recompile_doctor.prescription.verified import Shown
from recompile_doctor.reports.layout import Page
from recompile_doctor.torch_compat import TorchFeatures


def in_code(rendering: Rendering) -> bool:
    """Return whether a prescription needs calls in the program to say what it says."""
    return needs_calls(rendering.prescription.marks)


def can_be_patched(rendering: Rendering) -> bool:
    """Return whether a patch could write some call: of a function in a file of the user's."""
    return any(
        group.frame is not None
        and group.frame.file is not None
        and why_not_editable(group.frame.file) is None
        for group in rendering.calls
    )


def variables_beside_calls(
    rendering: Rendering, features: TorchFeatures, sources: Iterable[str]
) -> Mapping[str, str]:
    """Return the variables for what the calls of a prescription leave: other marks, and flags.

    ``sources`` are all names of inputs in the run.
    """
    marks = [each for each in rendering.prescription.marks if reach_of(each) is Reach.LIST]
    return environment_for(marks, rendering.prescription.flags, features, sources).variables


def pasted(page: Page, lines: Iterable[str], indent: int) -> Iterator[Text]:
    """Yield lines that are there to be copied: whole, however long."""
    for line in lines:
        yield Text(" " * indent + page.safe(line), "bold")


def call_lines(page: Page, rendering: Rendering, indent: int) -> Iterator[Text]:
    """Yield the calls to write, under the function before whose calls they stand."""
    for group in rendering.calls:
        where = page.name(frame_words(group.frame), page.width - 30)
        yield Text.assemble(" " * indent, "before each call of ", (where, "bold"), ":")
        yield from pasted(page, group.calls, indent + 3)


def setting_lines(rendering: Rendering) -> list[str]:
    """Return the lines for the settings that torch takes from no variable."""
    return [f"{each.name} = {each.value!r}" for each in rendering.environment.code_flags]


def shell_lines(variables: Mapping[str, str]) -> list[str]:
    """Return the lines that set variables in most shells."""
    return list(lines_for(variables, Shell.SH))


def calls_as_code(rendering: Rendering) -> Iterator[str]:
    """Yield the calls of all functions, each under a comment that says where they stand."""
    for group in rendering.calls:
        yield f"# before each call of {frame_words(group.frame)}"
        yield from group.calls


def prescription_json(rendering: Rendering, shown: Shown | None = None) -> dict[str, Any]:
    """Return a prescription with all its forms as JSON has it, and what a rerun measured of it."""
    prescription = rendering.prescription
    return {
        "id": prescription.id,
        "title": prescription.title,
        "marks": [mark_json(each) for each in prescription.marks],
        "config": {each.name: each.value for each in prescription.flags},
        "advice": [
            {"rule": each.rule, "finding": each.finding, "text": each.text, "example": each.example}
            for each in prescription.advice
        ],
        "environment": dict(rendering.environment.variables),
        "environment_loses": list(rendering.environment_loses),
        "calls": [
            {
                "function": None if each.frame is None else each.frame.function,
                "file": None if each.frame is None else each.frame.file,
                "line": None if each.frame is None else each.frame.line,
                "calls": list(each.calls),
            }
            for each in rendering.calls
        ],
        "patch": None,
        "explains": list(prescription.explains),
        "estimated_recompiles_after": prescription.estimated_recompiles_after,
        "risks": list(prescription.risks),
        "status": prescription.status.value,
        "measured": None
        if shown is None
        else {
            "recompiles_before": shown.before,
            "recompiles_after": shown.after,
            "verdict": shown.verdict,
            "outputs": shown.outputs,
        },
    }


def refused_json(shown: Shown) -> dict[str, Any]:
    """Return what speaks against a prescription as JSON has it."""
    return {
        "id": shown.prescription.id,
        "verdict": shown.verdict,
        "recompiles": shown.after,
        "why": shown.why,
    }


def mark_json(mark: Mark) -> dict[str, Any]:
    """Return one mark as JSON has it."""
    frame = mark.frame
    return {
        "source": mark.source,
        "dim": mark.dim,
        "kind": mark.kind.value,
        "shape_group": mark.shape_group,
        "min": mark.minimum,
        "max": mark.maximum,
        "hint": mark.hint,
        "frame": None
        if frame is None
        else {"function": frame.function, "file": frame.file, "line": frame.line},
    }
