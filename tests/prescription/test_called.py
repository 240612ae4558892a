"""Which observed calls belong to which code object of a log."""

from recompile_doctor.prescription.called import seen_calls
from recompile_doctor.prescription.observed import ObservedFrame, Place, observe
from tests.diagnosis.handmade import Maker
from tests.diagnosis.logs import FIXTURES, read_run
from tests.prescription.called import Values, called

SEQUENTIAL = "/home/user/venv213/lib/python3.11/site-packages/torch/nn/modules/container.py"
WRAPPER = "/usr/lib/python3/dist-packages/torch/_dynamo/external_utils.py"


def wrapped(*sizes: dict[str, tuple[int, ...]]) -> Maker:
    """Return a log of calls of torch's wrapper."""
    maker = Maker(file=WRAPPER)
    for number, each in enumerate(sizes):
        failed = {f"0/{number - 1}": "tensor 'x' size mismatch at index 0. expected 0, actual 0"}
        maker.compile(f"0/{number}", failed=failed if number else {}, sizes=each, function="inner")
    return maker


def frame_of(case: str, *rows: tuple[Values, int]) -> ObservedFrame:
    """Return the one frame of a stored log of a Sequential, with these calls of it."""
    run = read_run(FIXTURES / "case-logs" / case / "trace")
    function = called("forward", *rows, file=SEQUENTIAL, line=250, parameters=("input",))
    (frame,) = observe(run, [function])
    return frame


def test_a_wrapper_of_torch_gets_the_calls_of_what_it_wraps() -> None:
    """Two real programs: what torch compiled is ``inner``, and the argument ``L['args'][0]``."""
    for case, sizes in (
        ("12_train_eval_toggle", (10, 10, 7, 10, 10, 1, 4)),
        ("33_hooks_and_call_wrapper", (4, 4, 6, 1, 4, 5, 7, 3, 2, 9, 8)),
    ):
        width = 6 if case.startswith("12") else 3
        frame = frame_of(case, *(({"L['input']": (size, width)}, 1) for size in sizes))
        assert frame.frame.function == "inner"
        weights = frame.weights(Place("L['args'][0]", 0))
        assert weights == {size: sizes.count(size) for size in sizes}


def test_a_function_with_other_sizes_is_not_what_was_wrapped() -> None:
    """Its calls were served by another code object, or torch compiled nothing of it."""
    assert frame_of("12_train_eval_toggle", ({"L['input']": (10, 5)}, 1)).rows == ()


def test_arguments_of_a_wrapper_are_found_by_position_and_by_keyword() -> None:
    """Also members of lists, *args and **kwargs."""
    run = wrapped(
        {
            "L['args'][0]": (4,),
            "L['args'][1][0]": (5,),
            "L['args'][2]": (6,),
            "L['kwargs']['mask']": (7,),
            "L['kwargs']['bias']": (8,),
        }
    ).run()
    function = called(
        "forward",
        (
            {
                "L['x']": (4,),
                "L['xs'][0]": (5,),
                "L['rest'][0]": (6,),
                "L['mask']": (7,),
                "L['more']['bias']": (8,),
                "G['other']": (9,),
            },
            3,
        ),
        parameters=("x", "xs", "mask"),
        varargs="rest",
        varkw="more",
    )
    (rows,) = seen_calls(run, [function]).values()
    assert [(dict(row.arguments), row.calls) for row in rows] == [
        (
            {
                "L['args'][0]": (4,),
                "L['args'][1][0]": (5,),
                "L['args'][2]": (6,),
                "L['kwargs']['mask']": (7,),
                "L['kwargs']['bias']": (8,),
            },
            3,
        )
    ]


def test_two_modules_share_the_wrapper() -> None:
    """Torch keeps the graphs of both under one code object, so the calls of both count there."""
    run = wrapped({"L['args'][0]": (4, 2)}, {"L['args'][0]": (5, 3)}).run()
    functions = [
        called("forward", ({"L['x']": (4, 2)}, 10), line=1, parameters=("x",)),
        called("forward", ({"L['y']": (5, 3)}, 20), line=9, parameters=("y",)),
    ]
    (rows,) = seen_calls(run, functions).values()
    assert [row.calls for row in rows] == [10, 20]


def test_a_function_that_torch_compiled_itself_is_not_looked_for_in_a_wrapper() -> None:
    """Even where its sizes would fit."""
    maker = wrapped({"L['args'][0]": (4,)})
    maker.compile("1/0", sizes={"L['x']": (4,)}, function="step")
    (own,) = [
        key for key in {each.frame for each in maker.run().compilations} if key.function == "step"
    ]
    function = called("step", ({"L['x']": (4,)}, 5), file=WRAPPER, parameters=("x",))
    assert list(seen_calls(maker.run(), [function])) == [own]
