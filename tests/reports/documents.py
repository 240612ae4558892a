"""Documents as real runs give them, made by hand: figures from the logs of torch 2.13."""

from dataclasses import replace

from recompile_doctor.diagnosis.finding import (
    Confidence,
    Disposition,
    Evidence,
    Finding,
    LocationRole,
    RecompileRef,
    Severity,
    UserLocation,
)
from recompile_doctor.events.vocabulary import Position, StackFrame
from recompile_doctor.ids import CompileId
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.run import CompileKey
from recompile_doctor.reports.document import (
    CallWeight,
    Document,
    Entry,
    FrameSummary,
    NextCommand,
    Notice,
    NoticeKind,
    SourceKind,
    Summary,
    UnreadExample,
    UnreadSummary,
)

PROJECT = "/home/user/project"
TRACE = f"{PROJECT}/.recompile-doctor/case-0412/trace/dedicated_log_torch_trace_6ioano7e.log"
TEXT = f"{PROJECT}/.recompile-doctor/case-0412/logs/24523.log"
ALL_READ = UnreadSummary(0, 0, ())
NEXT = (
    NextCommand("recompile-doctor suggest", "what to change"),
    NextCommand("recompile-doctor verify", "try the changes and keep the smallest that works"),
    NextCommand("recompile-doctor explain 0/3", "the whole chain behind one recompile"),
)
WHY_ZERO_ONE = (
    "torch compiles sizes 0 and 1 apart from all others, because a size of 1 broadcasts; "
    "mark_dynamic and dynamic=True do not change that"
)
WHY_STATIC = (
    "the first compile takes every size as a constant; when one changes, torch compiles again "
    "with that dimension dynamic, once"
)


def key(text: str, process: str = "24523", epoch: int = 0) -> CompileKey:
    frame, compiled = text.split("/")
    return CompileKey(process, epoch, CompileId(int(frame), int(compiled)))


def ref(
    text: str, seconds: float | None = None, rank: int | None = None, process: str = "24523"
) -> RecompileRef:
    return RecompileRef(key(text, process), rank, seconds)


def evidence(line: int, text: str, file: str = TRACE) -> Evidence:
    return Evidence(Position(file, line), text)


def location(
    line: int, code: str | None, function: str, role: LocationRole, file: str = f"{PROJECT}/case.py"
) -> UserLocation:
    return UserLocation(StackFrame(file, line, function, code), role)


def summary(**changes: object) -> Summary:
    """Return a summary of one compiled function, with ``changes``."""
    plain = Summary(
        ranks=1,
        frames=1,
        compilations=1,
        recompiles=0,
        graphs_captured=1,
        graph_breaks=0,
        graph_break_times=0,
        recompile_limit_hits=0,
        retries=0,
        compile_seconds=2.1,
        recompile_seconds=0.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


OVERVIEWS = ("resume-function-churn", "rank-divergence")


def led(finding: Finding) -> Finding:
    """Return a finding that leads all the recompiles it explains, unless another one does."""
    if finding.together_with is not None or finding.rule in OVERVIEWS:
        return finding
    return replace(finding, leading=tuple(ref.key for ref in finding.recompiles))


def document(**changes: object) -> Document:
    """Return a document about nothing, with ``changes``."""
    plain = Document(
        tool_version="0.1.0",
        torch_version="2.13.0",
        source=SourceKind.BUNDLE,
        subject=".recompile-doctor/case-0412",
        summary=summary(),
        frames=(),
        findings=(),
        unread=ALL_READ,
    )
    changed = replace(plain, **changes)  # type: ignore[arg-type]
    return replace(changed, findings=tuple(led(each) for each in changed.findings))


FORWARD = FrameKey("forward", f"{PROJECT}/case.py", 21)
SHAPE_LINE = location(22, "b, t, d = x.shape", "forward", LocationRole.FIRST_USE)


def _attention_finding(dim: int, values: str, refs: tuple[RecompileRef, ...]) -> Finding:
    return Finding(
        rule="zero-one-specialization",
        title="a dimension is 0 or 1 in some calls",
        frame=FORWARD,
        source="L['x']",
        dim=dim,
        message=f"L['x'] dim {dim} was 0 or 1 in some calls, and each of them compiled anew",
        why=WHY_ZERO_ONE,
        evidence=(
            evidence(2319 + dim, "0/2: 2 <= x.size()[0]  # b, t, d = x.shape"),
            evidence(3404, "0/5: 2 <= x.size()[0]"),
        ),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.FIXABLE,
        severity=Severity.HIGH,
        values=tuple(values.split()),
        recompiles=refs,
        seconds=sum(each.seconds or 0 for each in refs),
        location=SHAPE_LINE,
    )


def _warm_up(dim: int, values: str, one: RecompileRef) -> Finding:
    return Finding(
        rule="unmarked-dynamic-dim",
        title="a tensor dimension varies but is not marked dynamic",
        frame=FORWARD,
        source="L['x']",
        dim=dim,
        message=f"L['x'] dim {dim} changed once, and torch made it dynamic",
        why=WHY_STATIC,
        evidence=(
            evidence(1120, "0/0: tensor 'x' size mismatch at index 1. expected 16, actual 17"),
        ),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.ONE_OFF,
        severity=Severity.LOW,
        values=tuple(values.split()),
        recompiles=(one,),
        seconds=one.seconds,
        location=SHAPE_LINE,
    )


def _together(source: str, dim: int, other: Finding) -> Finding:
    return replace(
        other,
        source=source,
        dim=dim,
        confidence=Confidence.INFERRED,
        seconds=None,
        location=None,
        together_with=other.id,
    )


def attention() -> Document:
    """Case 51: an attention block; batch and length vary and touch 0 and 1."""
    batch = _attention_finding(0, "4 2 1 3 0 8 1", (ref("0/3", 0.81), ref("0/6", 0.74)))
    length = _attention_finding(1, "16 17 9 1 5 32 30", (ref("0/4", 0.69), ref("0/5", 0.71)))
    entries = [
        Entry(f"0/{n}", None, 0.7, (("L['x']", f"[{b}, {t}, 32]"),), n > 0)
        for n, (b, t) in enumerate([(4, 16), (4, 17), (2, 9), (1, 9), (1, 1), (3, 1), (0, 5)])
    ]
    return document(
        summary=summary(
            compilations=7,
            recompiles=6,
            graphs_captured=7,
            compile_seconds=5.23,
            recompile_seconds=4.13,
            run_seconds=9.4,
            logging_seconds=0.16,
        ),
        frames=(FrameSummary(FORWARD, 7, 6, 7, 0, 5.23, tuple(entries)),),
        findings=(
            batch,
            length,
            _together("L['mask']", 0, batch),
            _together("L['mask']", 2, length),
            _together("L['mask']", 3, length),
            _warm_up(1, "16 17", ref("0/1", 0.62)),
            _warm_up(0, "4 2", ref("0/2", 0.56)),
        ),
        next_commands=NEXT,
    )


LOSS = FrameKey("loss_fn", f"{PROJECT}/train.py", 12)


def last_batch() -> Document:
    """Case 01: the last batch holds one sample; evaluation runs without gradients."""
    inputs = Finding(
        rule="zero-one-specialization",
        title="a dimension is 0 or 1 in some calls",
        frame=LOSS,
        source="L['inputs']",
        dim=0,
        message="L['inputs'] dim 0 was 1 in some calls",
        why=WHY_ZERO_ONE,
        evidence=(evidence(118, "tensor 'inputs' size mismatch at index 0. expected 8, actual 1"),),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.FIXABLE,
        severity=Severity.HIGH,
        values=("8", "8", "8", "8", "8", "1", "8", "8", "8", "8", "8", "1", "20", "20", "1"),
        recompiles=(ref("0/1", 1.2), ref("0/3", 0.9)),
        seconds=2.1,
        location=location(
            15, "logits = net(inputs)", "loss_fn", LocationRole.FIRST_USE, f"{PROJECT}/train.py"
        ),
        related=(
            location(
                23,
                "loss = loss_fn(inputs, labels)",
                "<module>",
                LocationRole.CALL,
                f"{PROJECT}/train.py",
            ),
        ),
    )
    grad_mode = Finding(
        rule="global-state-change",
        title="a global setting of torch changed",
        frame=LOSS,
        source=None,
        dim=None,
        message="grad mode was on, then off",
        why="a graph made for training is not valid without gradients",
        evidence=(evidence(240, "GLOBAL_STATE changed: grad_mode"),),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.EXPECTED,
        severity=Severity.INFO,
        values=("grad_mode on", "grad_mode off"),
        recompiles=(ref("0/2", 0.8),),
        seconds=0.8,
    )
    return document(
        summary=summary(
            compilations=4,
            recompiles=3,
            graphs_captured=4,
            compile_seconds=4.6,
            recompile_seconds=2.9,
            run_seconds=9.0,
        ),
        frames=(FrameSummary(LOSS, 4, 3, 4, 0, 4.6, ()),),
        findings=(inputs, _together("L['labels']", 0, inputs), grad_mode),
        next_commands=NEXT[:2],
        weights={inputs.id: CallWeight(3, 15, "1")},
    )


FEATURES = FrameKey("features", f"{PROJECT}/case.py", 9)


def limit() -> Document:
    """Case 19: the recompile limit is reached, and the rest runs eagerly, unseen."""
    refs = tuple(ref(f"0/{n}", 0.4) for n in range(1, 8))
    hit = Finding(
        rule="recompile-limit-hit",
        title="from here on features runs eagerly: recompile limit hit",
        frame=FEATURES,
        source=None,
        dim=None,
        message="torch compiled features 8 times (recompile_limit 8) and then gave up: calls that "
        "fit no compiled entry run eagerly, and the logs say nothing of them",
        why="torch bounds the entries of one function, since each call tries them in turn",
        evidence=(evidence(88, "torch._dynamo hit config.recompile_limit (8)", TEXT),),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.FIXABLE,
        severity=Severity.HIGH,
    )
    sizes = Finding(
        rule="unmarked-dynamic-dim",
        title="a tensor dimension varies but is not marked dynamic",
        frame=FEATURES,
        source="L['img']",
        dim=2,
        message="L['img'] dim 2 took 9 values",
        why="dynamic=False makes every size a constant",
        evidence=(
            evidence(12, "tensor 'img' size mismatch at index 2. expected 8, actual 9", TEXT),
        ),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.FIXABLE,
        severity=Severity.HIGH,
        values=tuple(str(n) for n in range(8, 17)),
        recompiles=refs,
        seconds=2.8,
        location=location(13, "return conv(img).flatten(1)", "features", LocationRole.FIRST_USE),
    )
    return document(
        summary=summary(
            compilations=8,
            recompiles=7,
            graphs_captured=8,
            recompile_limit_hits=1,
            compile_seconds=3.5,
            recompile_seconds=2.8,
        ),
        frames=(FrameSummary(FEATURES, 8, 7, 8, 0, 3.5, ()),),
        findings=(sizes, hit, _together("L['img']", 3, sizes)),
        next_commands=NEXT[:1],
    )


REFINE = FrameKey("refine", f"{PROJECT}/case.py", 6)


def eager() -> Document:
    """Case 20: no recompile and one break, which looks healthy: but nothing runs compiled."""
    branch = Finding(
        rule="data-dependent-branch",
        title="a branch depends on a tensor's values",
        frame=REFINE,
        source=None,
        dim=None,
        message="Data-dependent branching in a loop: torch gives up the whole function",
        why="a graph has no branches: torch cannot know the value while it traces",
        evidence=(evidence(61, "Graph Break Reason: Data-dependent branching"),),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.FIXABLE,
        severity=Severity.HIGH,
        graph_breaks=1,
        break_times=1,
        location=location(10, "if delta.abs().max() < tol:", "refine", LocationRole.BREAK),
        hints=(
            "Use `torch.cond` to express dynamic control flow.",
            "This graph break is fundamental - it is unlikely that Dynamo will ever be able to "
            "trace through your code. Consider finding a workaround.",
        ),
    )
    return document(
        summary=summary(
            graphs_captured=0,
            graph_breaks=1,
            graph_break_times=1,
            compile_seconds=0.31,
        ),
        frames=(FrameSummary(REFINE, 1, 0, 0, 1, 0.31, ()),),
        findings=(branch,),
        next_commands=NEXT[:1],
    )


STEP = FrameKey("local_step", f"{PROJECT}/case.py", 10)


def two_ranks() -> Document:
    """Case 30: two ranks see different shapes; rank 1 recompiles three times."""
    zero_one = Finding(
        rule="zero-one-specialization",
        title="a dimension is 0 or 1 in some calls",
        frame=STEP,
        source="L['x']",
        dim=0,
        message="L['x'] dim 0 was 1 and 0 on rank 1",
        why=WHY_ZERO_ONE,
        evidence=(evidence(301, "2 <= x.size()[0]"),),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.FIXABLE,
        severity=Severity.HIGH,
        values=("6", "9", "1", "0", "4"),
        recompiles=(ref("0/2", 0.9, 1, "22288"), ref("0/3", 0.8, 1, "22288")),
        seconds=1.7,
        location=location(11, "return (x @ w).relu().mean()", "local_step", LocationRole.FIRST_USE),
    )
    warm_up = replace(_warm_up(0, "6 9", ref("0/1", 1.1, 1, "22288")), frame=STEP, location=None)
    diverge = Finding(
        rule="rank-divergence",
        title="ranks compile differently",
        frame=STEP,
        source=None,
        dim=None,
        message="local_step compiled once on rank 0 and 4 times on rank 1; while one rank "
        "compiles, the others wait in the next collective",
        why="each rank compiles for the shapes that it sees itself",
        evidence=(evidence(301, "0/1 on rank 1 only"),),
        confidence=Confidence.INFERRED,
        disposition=Disposition.FIXABLE,
        severity=Severity.MEDIUM,
    )
    return document(
        source=SourceKind.TRACE,
        summary=summary(
            ranks=2,
            compilations=5,
            recompiles=3,
            graphs_captured=5,
            compile_seconds=4.4,
            recompile_seconds=2.8,
        ),
        frames=(FrameSummary(STEP, 5, 3, 5, 0, 4.4, ()),),
        findings=(zero_one, diverge, warm_up),
    )


def graph_net() -> Document:
    """Case 39: message passing; a break in the middle, and many functions."""
    conv = FrameKey("forward", f"{PROJECT}/models/message_passing/convolution.py", 11)
    edges = Finding(
        rule="zero-one-specialization",
        title="a dimension is 0 or 1 in some calls",
        frame=conv,
        source="L['edge_index']",
        dim=1,
        message="L['edge_index'] dim 1 was 1 and 0",
        why=WHY_ZERO_ONE,
        evidence=(evidence(901, "2 <= edge_index.size()[1]"),),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.FIXABLE,
        severity=Severity.HIGH,
        values=("10", "14", "1", "0", "1", "7", "0", "30"),
        recompiles=tuple(ref(f"{f}/{n}", 0.21) for f in (0, 1, 3) for n in range(1, 6)),
        seconds=3.15,
        location=location(
            12, "src, dst = edge_index", "forward", LocationRole.FIRST_USE, str(conv.file)
        ),
    )
    stride = replace(
        edges,
        rule="stride-change",
        title="a stride changed",
        source="L['edge_index'].stride()[0]",
        dim=None,
        values=("10", "14", "1"),
        why="the graph was made for one memory layout",
        recompiles=(ref("3/6", 0.2),),
        seconds=0.2,
        severity=Severity.LOW,
        location=None,
    )
    bincount = Finding(
        rule="data-dependent-shape",
        title="an output's shape depends on a tensor's values",
        frame=conv,
        source=None,
        dim=None,
        message="Dynamic shape operator (aten.bincount.default)",
        why="the number of bins is known only when the values are",
        evidence=(evidence(402, "Graph Break Reason: Dynamic shape operator"),),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.FIXABLE,
        severity=Severity.MEDIUM,
        graph_breaks=1,
        break_times=19,
        location=location(
            14,
            "deg = torch.bincount(dst, minlength=num_nodes).clamp(min=1)",
            "forward",
            LocationRole.BREAK,
            str(conv.file),
        ),
        hints=(
            "Enable tracing of dynamic shape operators with "
            "`torch._dynamo.config.capture_dynamic_output_shape_ops = True`",
        ),
    )
    printing = replace(
        bincount,
        rule="graph-break",
        title="the graph breaks",
        message="Failed to trace builtin operator: print (GB0059)",
        why="",
        severity=Severity.LOW,
        break_times=4,
        hints=(),
        location=location(31, "print(h.shape)", "encode", LocationRole.BREAK, f"{PROJECT}/net.py"),
        frame=FrameKey("encode", f"{PROJECT}/net.py", 27),
    )
    others = tuple(
        FrameSummary(FrameKey(f"layer_{n}", f"{PROJECT}/net.py", 40 + n), 1, 0, 1, 0, 0.05, ())
        for n in range(18)
    )
    unread = UnreadSummary(
        3,
        41_872,
        (
            UnreadExample(
                Position(TRACE, 5012), "the record ends in the middle", '{"guard_added_fast": {"ex'
            ),
            UnreadExample(
                Position(TEXT, 77), "a line of a known kind has a form that is not known", "eval ??"
            ),
        ),
    )
    return document(
        summary=summary(
            frames=20,
            compilations=41,
            recompiles=16,
            graphs_captured=39,
            graph_breaks=2,
            graph_break_times=23,
            compile_seconds=6.9,
            recompile_seconds=3.35,
            retries=1,
        ),
        frames=(
            FrameSummary(conv, 21, 16, 21, 1, 5.2, ()),
            FrameSummary(FrameKey("encode", f"{PROJECT}/net.py", 27), 2, 0, 2, 1, 0.4, ()),
            *others,
            FrameSummary(FrameKey("decode", f"{PROJECT}/net.py", 99), 1, 0, 0, 0, 0.1, ()),
        ),
        findings=(edges, bincount, stride, printing),
        unread=unread,
        notices=(
            Notice(
                NoticeKind.NOTE,
                "pgo-off",
                "the run ignored torch's saved profile, so that it is the same each time",
            ),
            Notice(
                NoticeKind.WARNING,
                "cut-short",
                "the program was killed by signal 9 after 49.6 s: what came later is not logged",
            ),
        ),
        next_commands=NEXT,
        pages=f"{PROJECT}/.recompile-doctor/case-0412/tlparse/index.html",
    )


def nothing() -> Document:
    """Nothing was compiled, which is no success."""
    return document(
        torch_version=None,
        summary=summary(
            frames=0,
            compilations=0,
            graphs_captured=0,
            compile_seconds=None,
            recompile_seconds=None,
        ),
        notices=(
            Notice(
                NoticeKind.WARNING,
                "nothing-compiled",
                "torch logged no compilation: the program never called a compiled function, or "
                "TORCH_COMPILE_DISABLE was set",
            ),
        ),
    )


def well() -> Document:
    """All is well."""
    frames = tuple(
        FrameSummary(FrameKey(name, f"{PROJECT}/train.py", 9), 1, 0, 1, 0, 0.7, ())
        for name in ("encode", "decode", "loss_fn")
    )
    return document(summary=summary(frames=3, compilations=3, graphs_captured=3), frames=frames)


def text_only() -> Document:
    """A text log of somebody else: it has no times, and does not tell the number of graphs."""
    whole = last_batch()
    inputs, labels, grad_mode = whole.findings
    return replace(
        whole,
        torch_version=None,
        source=SourceKind.TEXT,
        subject="ci.log",
        summary=replace(
            whole.summary,
            graphs_captured=None,
            compile_seconds=None,
            recompile_seconds=None,
            run_seconds=None,
        ),
        frames=(FrameSummary(LOSS, 4, 3, None, 0, None, ()),),
        findings=(
            replace(inputs, seconds=None, recompiles=(ref("0/1"), ref("0/3"))),
            labels,
            replace(grad_mode, seconds=None, recompiles=(ref("0/2"),)),
        ),
        weights={},
    )


HOSTILE = (
    "\x1b[31mred\x1b[0m [red]rich[/red] \u202eturned\u202c\r\nnew line\x07\udc80 <script>alert(1)"
    "</script> | `tick` **bold** @octocat [link](http://evil.example) ![x](y) #1 &lt; ${{ x }}"
)


def hostile() -> Document:
    """Every text that a log can influence tries to break the report."""
    frame = FrameKey(f"f{HOSTILE}", f"/home/{HOSTILE}/{'long' * 60}.py", 7)
    finding = Finding(
        rule="unattributed-recompile",
        title="torch's reason fits no rule",
        frame=frame,
        source=f"L['{HOSTILE}']",
        dim=0,
        message=f"torch said: {HOSTILE}",
        why=f"because {HOSTILE}",
        evidence=(evidence(3, HOSTILE, f"/tmp/{HOSTILE}.log"),),
        confidence=Confidence.OBSERVED,
        disposition=Disposition.FIXABLE,
        severity=Severity.MEDIUM,
        values=(HOSTILE, "日本語" * 40, "x" * 300),
        recompiles=(ref("0/1", 0.5),),
        seconds=0.5,
        location=location(5, HOSTILE, HOSTILE, LocationRole.ASKED, f"/home/{HOSTILE}.py"),
        hints=(HOSTILE,),
    )
    broken = replace(
        finding, rule="graph-break", recompiles=(), values=(), graph_breaks=1, break_times=2,
        seconds=None,
    )  # fmt: skip
    once = replace(finding, rule="container-keys-change", disposition=Disposition.ONE_OFF)
    return document(
        torch_version=HOSTILE,
        subject=HOSTILE,
        summary=summary(
            compilations=2, recompiles=1, graphs_captured=0, graph_breaks=1, recompile_seconds=0.5
        ),
        frames=(
            FrameSummary(
                frame, 2, 1, 0, 1, 2.1, (Entry("0/0", None, None, ((HOSTILE, HOSTILE),), False),)
            ),
        ),
        findings=(finding, replace(once, source="L['y']", together_with=finding.id), once, broken),
        unread=UnreadSummary(1, 9, (UnreadExample(Position(HOSTILE, 1), HOSTILE, HOSTILE),)),
        notices=(Notice(NoticeKind.WARNING, "hostile", HOSTILE),),
        next_commands=(NextCommand(f"recompile-doctor explain {HOSTILE}", HOSTILE),),
        pages=f"/tmp/{HOSTILE}",
    )


ALL = {
    "attention": attention,
    "last_batch": last_batch,
    "limit": limit,
    "eager": eager,
    "two_ranks": two_ranks,
    "graph_net": graph_net,
    "nothing": nothing,
    "well": well,
    "text_only": text_only,
    "hostile": hostile,
}
