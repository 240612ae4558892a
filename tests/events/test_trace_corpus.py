"""All logs of a larger collection, where it lies beside the checkout."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from recompile_doctor.events.trace import iter_trace_events
from recompile_doctor.events.vocabulary import (
    ForeignLines,
    InputDescribed,
    ParseIssue,
    RecompileReported,
)

CORPUS = Path(__file__).parents[3] / "shared" / "logs"
FILES = sorted(CORPUS.glob("*/*/trace/*.log.gz"))


@pytest.mark.skipif(not FILES, reason="the collection of logs is not here")
def test_every_log_of_the_collection_is_understood() -> None:
    """No issue in any release and scenario, and every recompile and input is told."""
    for path in FILES:
        with path.open("rb") as stream:
            kinds = Counter(type(item) for item in iter_trace_events(stream, path.name))
        data = gzip.decompress(path.read_bytes())
        name = "/".join(path.parts[-4:-2])
        assert kinds[ParseIssue] == kinds[ForeignLines] == 0, name
        reasons = data.count(b'] {"artifact": {"name": "recompile_reasons"')
        assert kinds[RecompileReported] == reasons, name
        assert kinds[InputDescribed] == data.count(b'] {"describe_source"'), name
