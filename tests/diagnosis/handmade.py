"""Small runs made by hand, in torch's words."""

from collections.abc import Mapping, Sequence

from recompile_doctor.diagnosis.diagnose import diagnose
from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.events.vocabulary import (
    CompileFinished,
    CompileStarted,
    EntryFailure,
    Event,
    InputDescribed,
    LogKind,
    Origin,
    Position,
    RecompileReported,
    SymbolCreated,
    SymbolSpecialized,
)
from recompile_doctor.ids import parse_compile_id
from recompile_doctor.model.build import build_run
from recompile_doctor.model.run import Run

FILE = "/home/user/project/train.py"
ZERO_ONE_NOTE = (
    "(user code shown is first use of this value--the guard itself is not due user code but due to "
    "0/1 specialization in the framework; to avoid specialization try "
    "torch._dynamo.decorators.mark_unbacked(tensor, dim))"
)


class Maker:
    """Makes the events of one log, line after line."""

    def __init__(self, kind: LogKind = LogKind.TRACE, process: str = "7", file: str = FILE) -> None:
        self.kind = kind
        self.file = file
        self.process = process
        self.events: list[Event] = []

    def compile(
        self,
        compile_id: str,
        *,
        failed: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        sizes: Mapping[str, tuple[int, ...]] | None = None,
        symbols: Mapping[str, int] | None = None,
        constants: Mapping[str, int] | None = None,
        seconds: float | None = None,
        function: str = "forward",
    ) -> None:
        """Add one compile.

        ``failed`` is what torch says of each cached entry, in its order. ``sizes`` are those of
        the tensors, ``symbols`` the values of sizes that got a symbol; ``constants`` those among
        them that the program then made constant.
        """
        pairs = failed.items() if isinstance(failed, Mapping) else failed
        if pairs:
            entries = tuple(EntryFailure(parse_compile_id(one), text) for one, text in pairs)
            self._add(compile_id, RecompileReported, entries, function, self.file, 3)
        self._add(compile_id, CompileStarted, function, self.file, 3)
        for source, size in (sizes or {}).items():
            self._add(compile_id, InputDescribed, source, size, None, "torch.float32", "cpu")
        for number, (source, value) in enumerate((symbols or {}).items()):
            name = f"s{number}"
            self._add(compile_id, SymbolCreated, name, source, str(value), "[2, int_oo]")
            if source in (constants or {}):
                self._add(compile_id, SymbolSpecialized, name, str(value), "find")
        if seconds is not None:
            self._add(compile_id, CompileFinished, function, self.file, 3, seconds)

    def _add(self, compile_id: str, event: type, *values: object) -> None:
        number = len(self.events) + 1
        position = Position("made.log", number)
        ids = parse_compile_id(compile_id)
        origin = Origin(self.kind, position, self.process, None, ids, float(number))
        self.events.append(event(origin, *values))

    def run(self) -> Run:
        """Return the run so far."""
        return build_run(self.events)

    def findings(self) -> dict[str, Finding]:
        """Return the findings by rule; each rule may have one only."""
        found = diagnose(self.run()).findings
        by_rule = {each.rule: each for each in found}
        assert len(by_rule) == len(found)
        return by_rule
