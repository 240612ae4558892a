"""Whose code a frame is."""

import pytest

from recompile_doctor.events.user_code import is_torch_frame


@pytest.mark.parametrize(
    ("path", "theirs"),
    [
        ("/v/site-packages/torch/_dynamo/eval_frame.py", True),
        ("/v/site-packages/recompile_doctor/capture/probe/eval_frame_importlib_bootstrap.py", True),
        ("C:\\v\\recompile_doctor\\capture\\probe\\eval_frame_importlib_bootstrap.py", True),
        ("/home/me/recompile_doctor/model.py", False),
        ("/home/me/capture/probe/calls.py", False),
    ],
)
def test_our_own_wrapper_is_no_code_of_the_user(path: str, theirs: bool) -> None:
    """It stands beside torch's own in the stacks of a captured run."""
    assert is_torch_frame(path) is theirs
