"""What the program does around the compiled function: state, limits, ranks."""

from recompile_doctor.prescription.advice.text import AdviceText

PROGRAM = {
    "global-state-change": AdviceText(
        "A global setting of torch differs between calls, and each combination has a graph of its "
        "own. Set it once before the first call where the difference is not meant.",
    ),
    "tensor-property-change": AdviceText(
        "A property of {subject} (dtype, device, requires_grad) differs between calls. Convert it "
        "before the call where the difference is not meant.",
        """\
import torch

@torch.compile(backend="eager")
def normalized(image):
    return image / 255

for image in (torch.ones(4), torch.ones(4, dtype=torch.uint8)):
    normalized(image.to(torch.float32))
""",
    ),
    "recompile-limit-hit": AdviceText(
        "From the limit on the function runs eagerly and the log is silent. Cure what made it "
        "recompile, run again, and diagnose again: the limit hid what came later. A higher "
        "torch._dynamo.config.recompile_limit shows the rest and cures nothing.",
    ),
    "rank-divergence": AdviceText(
        "The ranks compile differently, and a rank that compiles alone keeps the others waiting. "
        "Give the sizes of all ranks the same marks before the first step.",
    ),
    "cudagraph-rerecord": AdviceText(
        "Each size gets a CUDA graph of its own. Pad to a few sizes, or set "
        "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs.",
    ),
    "unattributed-recompile": AdviceText(
        "No rule explains this reason; torch's own words are all there is. A rerun with "
        "TORCH_LOGS=+dynamic,recompiles_verbose,guards tells more.",
    ),
}
