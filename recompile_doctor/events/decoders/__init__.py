"""One module for each kind of trace record that the rules need."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from recompile_doctor.events.decoders import (
    chromium_event,
    compilation_metrics,
    create_symbol,
    create_unbacked_symbol,
    describe_source,
    describe_tensor,
    dynamo_error,
    dynamo_output_graph,
    dynamo_start,
    graph_break_reason,
    guard_added,
    guard_on_data_dependent_error,
    propagate_real_tensors,
    recompile_reasons,
    strings,
    symbolic_shape_specialization,
    torch_version,
)
from recompile_doctor.events.decoders.record import TraceRecord
from recompile_doctor.events.vocabulary import Event

Decoder: TypeAlias = Callable[[TraceRecord], Iterator[Event]]

# By the event's name, and for artifacts by "artifact/" and the artifact's name.
DECODERS: dict[str, Decoder] = {
    "artifact/dynamo_error": dynamo_error.decode,
    "artifact/dynamo_graph_break_reason": graph_break_reason.decode,
    "artifact/recompile_reasons": recompile_reasons.decode,
    "artifact/torch_version": torch_version.decode,
    "bwd_compilation_metrics": compilation_metrics.decode,
    "chromium_event": chromium_event.decode,
    "compilation_metrics": compilation_metrics.decode,
    "create_symbol": create_symbol.decode,
    "create_unbacked_symbol": create_unbacked_symbol.decode,
    "describe_source": describe_source.decode,
    "describe_tensor": describe_tensor.decode,
    "dynamo_output_graph": dynamo_output_graph.decode,
    "dynamo_start": dynamo_start.decode,
    "guard_added": guard_added.decode,
    "guard_added_fast": guard_added.decode,
    "guard_on_data_dependent_error": guard_on_data_dependent_error.decode,
    "propagate_real_tensors": propagate_real_tensors.decode,
    "propagate_real_tensors_provenance": propagate_real_tensors.decode,
    "str": strings.decode,
    "symbolic_shape_specialization": symbolic_shape_specialization.decode,
}
