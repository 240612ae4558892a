"""The kinds of message that the text reader knows, one module a subject, all in one table."""

from dataclasses import dataclass

from recompile_doctor.events.text_decoders.compiles import PASSES, STARTS
from recompile_doctor.events.text_decoders.cudagraphs import CUDAGRAPHS
from recompile_doctor.events.text_decoders.evaluations import (
    ASSUMPTIONS,
    EVALUATIONS,
    PROPAGATIONS,
)
from recompile_doctor.events.text_decoders.failures import FAILED_EVALUATIONS, GUARD_ERRORS
from recompile_doctor.events.text_decoders.graph_breaks import (
    GRAPH_BREAKS,
    ITEM_WARNING,
    UNCONVERTED,
)
from recompile_doctor.events.text_decoders.limits import LIMITS
from recompile_doctor.events.text_decoders.marks import MARKS
from recompile_doctor.events.text_decoders.message import MessageKind
from recompile_doctor.events.text_decoders.recompiles import RECOMPILES
from recompile_doctor.events.text_decoders.symbols import (
    BACKED_SYMBOLS,
    REPLACED_SYMBOLS,
    TRACKED_SYMBOLS,
    UNBACKED_SYMBOLS,
)

# A message of no kind here is one that nobody needs: guard trees, lru_cache_stats,
# constrain_symbol_range, and whatever else TORCH_LOGS can print.
KINDS: tuple[MessageKind, ...] = (
    RECOMPILES,
    GRAPH_BREAKS,
    UNCONVERTED,
    ITEM_WARNING,
    STARTS,
    PASSES,
    BACKED_SYMBOLS,
    UNBACKED_SYMBOLS,
    TRACKED_SYMBOLS,
    REPLACED_SYMBOLS,
    EVALUATIONS,
    ASSUMPTIONS,
    PROPAGATIONS,
    MARKS,
    LIMITS,
    FAILED_EVALUATIONS,
    GUARD_ERRORS,
    CUDAGRAPHS,
)


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of message that one place logs, and all the ways in which they begin."""

    kinds: tuple[MessageKind, ...] = ()
    heads: tuple[str, ...] = ()

    def kind_of(self, text: str) -> MessageKind | None:
        """Return the kind of a message that begins with ``text``."""
        return next((kind for kind in self.kinds if text.startswith(kind.heads)), None)

    def also(self, kind: MessageKind) -> "Kinds":
        """Return these kinds and another one."""
        return Kinds((*self.kinds, kind), self.heads + kind.heads)


_NONE = Kinds()


def _by_place() -> dict[tuple[str | None, str | None], Kinds]:
    table: dict[tuple[str | None, str | None], Kinds] = {}
    for kind in KINDS:
        places = [(None, name) for name in kind.artifacts] + [(name, None) for name in kind.files]
        for place in places:
            table[place] = table.get(place, _NONE).also(kind)
    return table


# Every message of these artifacts is needed: what begins otherwise has lost its begin.
NEEDED_ARTIFACTS = frozenset(RECOMPILES.artifacts + GRAPH_BREAKS.artifacts)

_BY_PLACE = _by_place()


def kinds_logged_at(path: str, artifact: str | None) -> Kinds:
    """Return the kinds that torch's file at ``path`` logs, or that belong to an artifact."""
    if artifact is not None:
        return _BY_PLACE.get((None, artifact), _NONE)
    return _BY_PLACE.get((path.replace("\\", "/").rpartition("/")[2], None), _NONE)
