"""``compilation_metrics`` and ``bwd_compilation_metrics``: a compile ended, well or not."""

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from recompile_doctor.events.decoders.record import JSON_ERRORS, Envelope, TraceRecord
from recompile_doctor.events.decoders.torch_version import version_if_new
from recompile_doctor.events.messages import UNKNOWN
from recompile_doctor.events.vocabulary import (
    CompileFinished,
    Event,
    IssueKind,
    Origin,
    RecompileLimitHit,
    StackFrame,
)

_STACK_LINE = re.compile(r"Line: (?P<line>[0-9]{1,9}), Name: (?P<name>.*?), Filename: (?P<file>.*)")
_LIMIT = re.compile(r"\b(?:accumulated_)?(?:recompile_limit|cache_size_limit)\b")
_LIMIT_VALUE = re.compile(r"\(currently set to (?P<value>[0-9]{1,9})\)")
_LIMIT_EXCEPTIONS = ("RecompileLimitExceeded", "FailOnRecompileLimitHit", "FailOnCacheLimitHit")


class _Metrics(msgspec.Struct, gc=False):
    co_name: object = None
    co_filename: object = None
    co_firstlineno: object = None
    cache_size: object = None
    guard_count: object = None
    graph_op_count: object = None
    start_time: object = None
    entire_frame_compile_time_s: object = None
    backend_compile_time_s: object = None
    fail_type: object = None
    fail_reason: object = None
    fail_user_frame_filename: object = None
    fail_user_frame_lineno: object = None
    restart_reasons: object = None
    dynamo_time_before_restart_s: object = None
    has_guarded_code: object = None
    structured_logging_overhead_s: object = None
    dynamo_config: object = None
    recompile_reason: object = None
    stack_trace: object = None
    pytorch_version: object = None


class _Config(msgspec.Struct, gc=False, omit_defaults=True):
    """The settings that decide on recompiles. UNSET: this torch does not have it."""

    recompile_limit: object = msgspec.UNSET
    cache_size_limit: object = msgspec.UNSET
    accumulated_recompile_limit: object = msgspec.UNSET
    accumulated_cache_size_limit: object = msgspec.UNSET
    capture_scalar_outputs: object = msgspec.UNSET
    capture_dynamic_output_shape_ops: object = msgspec.UNSET
    assume_static_by_default: object = msgspec.UNSET
    automatic_dynamic_shapes: object = msgspec.UNSET
    force_parameter_static_shapes: object = msgspec.UNSET
    allow_unspec_int_on_nn_module: object = msgspec.UNSET
    specialize_int: object = msgspec.UNSET
    specialize_float: object = msgspec.UNSET


class _Record(Envelope, kw_only=True):
    compilation_metrics: _Metrics | None = None
    bwd_compilation_metrics: _Metrics | None = None


_DECODER = msgspec.json.Decoder(_Record)
_CONFIG_DECODER = msgspec.json.Decoder(_Config)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the end of the compile, the version it states, and the limit where it hit one."""
    form = record.decode(_DECODER)
    if form is None:
        return
    metrics = form.compilation_metrics or form.bwd_compilation_metrics
    if metrics is None:
        record.report(IssueKind.BAD_FIELD)
        return
    origin = record.origin(form)
    version = record.text(metrics.pytorch_version)
    if version is not None:
        yield from version_if_new(record, origin, version)
    finished = _finished(record, origin, metrics, form.compilation_metrics is not None)
    yield finished
    if _is_limit(finished):
        yield _limit_hit(finished)


def _finished(
    record: TraceRecord, origin: Origin, metrics: _Metrics, forward: bool
) -> CompileFinished:
    return CompileFinished(
        origin,
        function=record.text(metrics.co_name),
        file=record.text(metrics.co_filename),
        line=record.integer(metrics.co_firstlineno),
        seconds=record.number(metrics.entire_frame_compile_time_s),
        backend_seconds=record.number(metrics.backend_compile_time_s),
        cache_size=record.integer(metrics.cache_size),
        guard_count=record.integer(metrics.guard_count),
        graph_op_count=record.integer(metrics.graph_op_count),
        fail_type=record.text(metrics.fail_type),
        fail_reason=record.text(metrics.fail_reason),
        fail_place=_fail_place(record, metrics),
        restart_reasons=record.texts(metrics.restart_reasons),
        seconds_before_restart=record.number(metrics.dynamo_time_before_restart_s),
        recompile_reason=record.text(metrics.recompile_reason),
        has_guarded_code=record.truth(metrics.has_guarded_code),
        logging_seconds=record.number(metrics.structured_logging_overhead_s),
        start_time=record.number(metrics.start_time),
        user_stack=_stack(record, metrics.stack_trace),
        forward=forward,
        config=_config(record, metrics.dynamo_config),
    )


def _fail_place(record: TraceRecord, metrics: _Metrics) -> StackFrame | None:
    file = record.text(metrics.fail_user_frame_filename)
    line = record.integer(metrics.fail_user_frame_lineno)
    return None if file is None or line is None else StackFrame(file, line, UNKNOWN)


def _stack(record: TraceRecord, lines: object) -> tuple[StackFrame, ...]:
    matches = (_STACK_LINE.match(line) for line in record.texts(lines))
    return tuple(
        StackFrame(match["file"], int(match["line"]), match["name"]) for match in matches if match
    )


def _config(record: TraceRecord, text: object) -> tuple[tuple[str, str], ...]:
    config = record.text(text)
    if config is None:
        return ()
    values = _config_values(config)
    if values is None:
        record.report(IssueKind.BAD_FIELD)
    return values or ()


@lru_cache(maxsize=4)
def _config_values(text: str) -> tuple[tuple[str, str], ...] | None:
    """Return the settings that matter; a run's compiles mostly share them, so they are kept."""
    try:
        config = _CONFIG_DECODER.decode(text)
    except JSON_ERRORS:
        return None
    values = ((name, getattr(config, name)) for name in _Config.__struct_fields__)
    return tuple((name, str(value)) for name, value in values if value is not msgspec.UNSET)


def _is_limit(finished: CompileFinished) -> bool:
    """Tell whether the compile was refused; since torch 2.11 the type alone does not say so."""
    if finished.fail_type is None:
        return False
    if finished.fail_type in _LIMIT_EXCEPTIONS:
        return True
    return finished.fail_type == "Unsupported" and (finished.fail_reason or "").startswith(
        "Dynamo recompile limit exceeded"
    )


def _limit_hit(finished: CompileFinished) -> RecompileLimitHit:
    """Return the limit; its name and number stand in the reason or else in the settings."""
    reason = finished.fail_reason or ""
    # The advice in the reason names settings too, but the limit that was hit comes first.
    name = _LIMIT.search(reason)
    value = _LIMIT_VALUE.search(reason)
    limit = None if name is None else name.group()
    number = value["value"] if value else dict(finished.config).get(limit or "", "")
    return RecompileLimitHit(
        finished.origin,
        limit,
        int(number) if number.isdecimal() and len(number) < 10 else None,
        function=finished.function,
        file=finished.file,
        line=finished.line,
        last_reason=finished.recompile_reason,
    )
