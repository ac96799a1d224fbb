"""What lesson 13, scoreboard, says about its measurements: computed sentences, tables, figures, and the numbers that are judged.

It measures nothing: each function takes what `utils.measure.study_here` found (live here, recorded there, or nothing, with the
reason), a board of the reader's own, or a trace, and words it, so that a sentence stays true when the numbers surprise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from utils.measure import intensity, sick
from utils.measure.on_the_board import judged as judged_part
from utils.measure.scoreboard import Board
from utils.measure.study_here import Both
from utils.measure.three_losses import SMALL_BLOCK, WIDE, WIDE_DRAWLESS
from utils.model import diagnosis, limits, sick_traces, traces
from utils.model.sick_traces import Recorded
from utils.model.trace_features import features
from utils.show import board_figures, cure_explorer, own_answer, study_end, trace_lanes
from utils.show.board_figures import signed
from utils.show.controls import Panel
from utils.show.cure_explorer import Known
from utils.show.explain import Sentence
from utils.show.here_and_there import each, option, per_cent, tables, times, told
from utils.show.picture import Picture
from utils.show.study_end import judged_here
from utils.show.tables import NOTHING, Table, format_time, significant

STUDY = "scoreboard"

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
LAUNCHES_ANSWERS = {
    "one": ("compiled_is_one_kernel", "One: everything is fused"),
    "two": (None, "Two: the product, and one kernel for the rest"),
    "more": (None, "Three or more"),
}
TRAFFIC_ANSWERS = {
    "least": ("compiled_moves_ends_only", "About 2: x in, the result out"),
    "some": (None, "About 5"),
    "all": ("fusion_saves_launches_only", "About as many as eager"),
}
MEMORY_ANSWERS = {
    "less": ("graph_plans_its_memory", "Less: a graph knows when each result dies"),
    "same": ("graph_needs_no_memory", "As much: the same results"),
    "more": (None, "More, and all the time"),
}
SUM_ANSWERS = {
    "more": (None, "To more than all together save"),
    "equal": ("losses_add_up", "To what all together save: each has its own loss"),
    "less": ("cures_need_each_other", "To less: the cures help each other"),
}
ORDER_ANSWERS = {
    "less": (None, "Less than before"),
    "same": ("losses_add_up", "As much as before: traffic is traffic"),
    "more": ("cures_need_each_other", "More than before"),
}
COMPILED_ANSWERS = {
    "faster": ("compile_always_wins", "Faster than eager"),
    "alike": (None, "About as fast as eager"),
    "slower": (None, "Slower than eager"),
}
DRAW_ANSWERS = {
    "most": ("saved_is_traffic", "Most of it is still saved: the traffic was the loss"),
    "half": (None, "About half of it is still saved"),
    "little": (None, "Little is still saved: the draw was the loss"),
}
FLOPS_ANSWERS = {
    "fewer": ("fusion_saves_flops", "Fewer: a fused kernel works out less"),
    "same": (None, "As many, to a few per cent"),
    "more": (None, "Clearly more"),
}
DIAGNOSIS_ANSWERS = {
    "launch_bound": (None, "Many small ops: each has its price, whatever it computes"),
    "waits_for_data": (None, "It waits for its data"),
    "reads_out": (None, "It reads values out, op after op"),
    "bandwidth_bound": (None, "A few large ops that move bytes"),
    "compute_bound": ("slow_means_flops", "Large products: arithmetic takes its time"),
    "recompiles": ("first_is_typical", "It compiles again in every step"),
}
VERDICTS = (limits.LAUNCH, limits.BANDWIDTH, limits.COMPUTE, limits.SYNCHRONISING, limits.OFF)
VERDICT_WORDS = {
    limits.LAUNCH: "Launch bound: the host's part sets the time",
    limits.BANDWIDTH: "Bandwidth bound: its bytes do",
    limits.COMPUTE: "Compute bound: its FLOPs do",
    limits.SYNCHRONISING: "Synchronising: a wait in the middle does",
    limits.OFF: "None of these: neither bytes nor FLOPs explain it",
}
VERDICT_ANSWERS = {kind: ("slow_means_flops" if kind == limits.COMPUTE else None, words) for kind, words in VERDICT_WORDS.items()}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "scoreboard.launches": "A library's product stays a launch of its own, and dropout's seed is drawn by one as well.",
    "scoreboard.traffic": "The product writes its result to memory and the tail reads it again. Only what lies between goes.",
    "scoreboard.memory": "A graph's addresses are its own for as long as it lives, whether or not anything is replayed.",
    "scoreboard.sum": "Capture needs fixed memory, so it plans; a fused kernel is issued once, so it launches less. They "
    "overlap.",
    "scoreboard.order": "What a cure saves depends on what is left. One that comes second finds less.",
    "scoreboard.compiled": "Guards, a wrapper, and kernels of its own: what is generated may cost more than it saves.",
    "scoreboard.draw": "Leave one thing out and see what stays: a fused kernel may win by doing some of the work another way.",
    "scoreboard.flops": "The product is the same call. The rest is the same arithmetic, spelled out.",
    "scoreboard.verdict": "Count, bound, time: what explains the time gets the name, and each cure a best case.",
    "scoreboard.a": "Many short blocks side by side, none of them worth the call. The count is the price.",
    "scoreboard.b": "One long block that is no op of torch: whatever follows it is short, and waits.",
    "scoreboard.c": "Few blocks, all long, all elementwise. Capture leaves each as long as it was.",
    "scoreboard.d": "The same small call again and again: a value for the host. On a GPU the device waits at each.",
}

LOST = 0.05  # of the step: what planning must cost before a reason is given for it
NEAR = 0.1  # sums within a tenth of each other are called equal
ALIKE = 1.15  # times within 15 % of each other are called about as long


# ------------------------------------------------------------------------------------------------ counted


def _rows(value: Mapping) -> dict[str, Mapping]:
    return {row["key"]: row for row in value["rows"]}


def launches(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was counted, sentences): what the compiled block launches, beside eager and the kernel by hand."""

    def kind(value: Mapping) -> str | None:
        found = value["numbers"].get("compiled_kernels")
        return None if found is None else "one" if found <= 1 else "two" if found <= 2 else "more"

    def say(value: Mapping) -> str:
        rows = _rows(value)
        out = [f"Eager runs {rows['eager']['kernels']}: {', '.join(rows['eager']['names'])}."] if "eager" in rows else []
        if "compiled" in rows:
            out.append(f"Compiled: {rows['compiled']['kernels']}, {', '.join(rows['compiled']['names'])}.")
        else:
            out.append(_missing(value, "torch.compile"))
        if "captured" in rows:
            one = rows["captured"]
            out.append(f"Captured, the host launches {one['launches']} and {one['kernels']} run: capture takes no kernel away.")
        return " ".join(out)

    return option(part, kind, LAUNCHES_ANSWERS), told(part, "the block's kernels", say)


def _missing(value: Mapping, way: str) -> str:
    return f"Not measured: {way} ({value['missing'].get(way, 'it is not among the ways here')})."


def traffic(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was counted, sentences): the compiled block's bytes, in activations, and where they go."""

    def kind(value: Mapping) -> str | None:
        n = value["numbers"]
        if "compiled_traffic" not in n:
            return None
        found = n["compiled_traffic"]
        return "least" if found < n["least"] + 1 else "all" if found > 0.75 * n["eager_traffic"] else "some"

    def say(value: Mapping) -> str:
        n = value["numbers"]
        if "compiled_traffic" not in n:
            return _missing(value, "torch.compile")
        return (
            f"Of an activation's bytes eager moves {significant(n['eager_traffic'])}, compiled code "
            f"{significant(n['compiled_traffic'])}: "
            f"{times(n['traffic_ratio'])} less. One kernel for it all, product included, would move {significant(n['least'])}."
        )

    return option(part, kind, TRAFFIC_ANSWERS), told(part, "the block's bytes", say)


def memory(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was traced, sentences): what the captured block holds beside eager's peak."""

    def kind(value: Mapping) -> str | None:
        n = value["numbers"]
        if not {"captured_peak", "eager_peak"} <= set(n):
            return None
        ratio = n["captured_peak"] / n["eager_peak"]
        return "same" if abs(ratio - 1) < 0.05 else "more" if ratio > 1 else "less"

    def say(value: Mapping) -> str:
        n, rows = value["numbers"], _rows(value)
        if "captured" not in rows:
            return _missing(value, "captured")
        held = rows["captured"]["held"] / n["activation"]
        planned = f" Planned ahead, the same ops take {significant(n['planned_peak'])}." if "planned_peak" in n else ""
        asked = f"Eager asks for memory {n['eager_requests']:,.0f} times a step, a replay {n['captured_requests']:,.0f}."
        return (
            f"Eager's peak: {significant(n['eager_peak'])} activations, and nothing in between. Captured: "
            f"{significant(n['captured_peak'])}, of which {significant(held)} are held between replays.{planned} {asked}"
        )

    return option(part, kind, MEMORY_ANSWERS), told(part, "the block's memory", say)


def flops(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was counted, sentences): the compiled block's FLOPs beside eager's."""

    def kind(value: Mapping) -> str | None:
        found = value["numbers"].get("flops_ratio")
        return None if found is None else "same" if abs(found - 1) < 0.05 else "more" if found > 1 else "fewer"

    def say(value: Mapping) -> str:
        n = value["numbers"]
        if "flops_ratio" not in n:
            return _missing(value, "torch.compile")
        return (
            f"Of products: {significant(n['product_ratio'], 4)} of eager's. Of the rest: {significant(n['rest_ratio'])} of "
            f"eager's, "
            f"counted in the generated code. All: {significant(n['flops_ratio'], 4)}. Integer work, such as a draw, is no FLOP."
        )

    return option(part, kind, FLOPS_ANSWERS), told(part, "the block's FLOPs", say)


def boards(board: Both, losses: Both) -> list[Picture]:
    """One figure and one table of every way, here and as recorded: what was counted, and where it was timed the times."""
    out = []
    for counted, timed in ((board.here, losses.here), (board.there, losses.there)):
        if counted.value is None:
            continue
        n = {} if timed.value is None else timed.value["numbers"]
        activation = counted.value["numbers"]["activation"]
        rows = [
            {"way": row["way"], "kernels": row["kernels"], "launches": row["launches"], "activations": row["activations"]}
            | {
                "peak": row["peak"] / activation,
                "small": n.get(f"{SMALL_BLOCK}_{row['key']}"),
                "wide": n.get(f"{WIDE}_{row['key']}"),
            }
            for row in counted.value["rows"]
        ]
        more = "; planned, dropout counts as one kernel and runs more" if counted.value["device"] == "cuda" else ""
        out.append(board_figures.board(rows, "The toy block's scoreboard", counted.label + more))
    return out


# ------------------------------------------------------------------------------------------------ the losses


def total(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): what each cure saves alone, their sum, and what all together save."""

    def kind(value: Mapping) -> str | None:
        found = value["numbers"].get(f"{SMALL_BLOCK}_overlap")
        return None if found is None else "equal" if abs(found - 1) <= NEAR else "more" if found > 1 else "less"

    def say(value: Mapping) -> str:
        if f"{SMALL_BLOCK}_overlap" not in value["numbers"]:
            return _missing(value, "one of the cures")
        return " ".join(_cures(value, size) for size in (SMALL_BLOCK, WIDE) if f"{size}_overlap" in value["numbers"])

    return option(part, kind, SUM_ANSWERS), told(part, "the cures' savings", say)


def _cures(value: Mapping, size: str) -> str:
    n = value["numbers"]
    saved = ", ".join(f"{word} {signed(n[f'{size}_{key}'])}" for key, word in _CURE_WORDS.items())
    lost = value["device"] == "cuda" and n[f"{size}_plan"] < -LOST * n[f"{size}_eager"]
    why = " Planned, dropout costs more: its out= form makes the results elsewhere and copies them." if lost else ""
    return (
        f"The {size} block's step takes {format_time(n[f'{size}_eager'])}. Saved by one cure alone: {saved}; together "
        f"{signed(n[f'{size}_cures'])}. All at once save {signed(n[f'{size}_all'])}: the sum is "
        f"{times(n[f'{size}_overlap'])} that.{why}"
    )


_CURE_WORDS = {"plan": "planning", "capture": "capture", "fuse": "fusing"}


def order(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): what fusing saves of the small block after capture, and before."""

    def ratio(value: Mapping) -> float | None:
        n = value["numbers"]
        alone, after = n.get(f"{SMALL_BLOCK}_alone"), n.get(f"{SMALL_BLOCK}_left_by_capture")
        return None if alone is None or after is None or alone <= 0 else after / alone

    def kind(value: Mapping) -> str | None:
        found = ratio(value)
        return None if found is None else "same" if abs(found - 1) <= NEAR else "more" if found > 1 else "less"

    def say(value: Mapping) -> str:
        found, n = ratio(value), value["numbers"]
        if found is None:
            return "Not measured: fusing before and after capture."
        return (
            f"Fusing the small block as it was written saves {signed(n[f'{SMALL_BLOCK}_alone'])}, fusing the captured one "
            f"{signed(n[f'{SMALL_BLOCK}_left_by_capture'])}: {times(found)} as much. The traffic was the same both times."
        )

    return option(part, kind, ORDER_ANSWERS), told(part, "the order of cures", say)


def compiled(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): torch.compile beside eager and beside all cures by hand."""

    def kind(value: Mapping) -> str | None:
        n = value["numbers"]
        if f"{SMALL_BLOCK}_compiled" not in n:
            return None
        gain = n[f"{SMALL_BLOCK}_eager"] / n[f"{SMALL_BLOCK}_compiled"]
        return "faster" if gain > ALIKE else "slower" if gain < 1 / ALIKE else "alike"

    def say(value: Mapping) -> str:
        n, out = value["numbers"], []
        for size in (SMALL_BLOCK, WIDE):
            if {f"{size}_compiled", f"{size}_all"} <= set(n):
                out.append(
                    f"The {size} block: eager {format_time(n[f'{size}_eager'])}, compiled {format_time(n[f'{size}_compiled'])}, "
                    f"all cures by hand {format_time(n[f'{size}_both'])}. Eager less compiled: "
                    f"{signed(n[f'{size}_to_compiled'])}; "
                    f"the three cures alone come to {signed(n.get(f'{size}_cures', 0.0))}."
                )
        return " ".join(out) or _missing(value, "torch.compile, small")

    return option(part, kind, COMPILED_ANSWERS), told(part, "the compiled block", say)


def draw(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the wide block's saving with dropout and without it."""

    def kind(value: Mapping) -> str | None:
        share = value["numbers"].get("draw_share")
        return None if share is None else "most" if share < 1 / 3 else "little" if share > 2 / 3 else "half"

    def say(value: Mapping) -> str:
        n = value["numbers"]
        if "draw_share" not in n:
            return _missing(value, "the wide block without its draw")
        return (
            f"With dropout all cures save {signed(n[f'{WIDE}_all'])} of {format_time(n[f'{WIDE}_eager'])}; without it "
            f"{signed(n[f'{WIDE_DRAWLESS}_all'])} of {format_time(n[f'{WIDE_DRAWLESS}_eager'])}. So "
            f"{per_cent(n['draw_share'])} of the "
            "saving is the draw: our kernel draws another way. That is none of the three losses."
        )

    return option(part, kind, DRAW_ANSWERS), told(part, "the block without its draw", say)


def loss_figures(part: Both) -> list[Picture]:
    """Bars of what each cure saves alone, their sum, all at once, and torch.compile: the small block, here and as recorded."""
    out = []
    for found in each(part):
        n, size = found.value["numbers"], SMALL_BLOCK
        names = {f"{size}_{key}": f"{word}, alone" for key, word in _CURE_WORDS.items()}
        names |= {
            f"{size}_cures": "the three, added up",
            f"{size}_all": "all at once, measured",
            f"{size}_to_compiled": "torch.compile",
        }
        bars = [(name, n[key]) for key, name in names.items() if key in n]
        if bars:
            out.append(board_figures.savings(bars, "The small block: what each cure saves", found.label))
    return out


def loss_tables(part: Both) -> list[Table]:
    """Every way of every program, timed."""
    columns = {"program": "block", "way": "way", "ns": "a step", "saves": "saves", "seen": "more than the A/A error"}
    words = {SMALL_BLOCK: "small", WIDE: "wide", WIDE_DRAWLESS: "wide, no dropout"}

    def line(row: Mapping) -> dict:
        saves = NOTHING if row["key"] == "eager" else signed(row["saves"])
        seen = NOTHING if row["key"] == "eager" else "yes" if row["seen"] else "no"
        return {"program": words[row["program"]], "way": row["way"], "ns": format_time(row["ns"]), "saves": saves, "seen": seen}

    return tables(part, columns, "The block's steps, input in place", line)


# ------------------------------------------------------------------------------------------------ any callable


def board_table(board: Board, profiled: int | None = None) -> Table:
    """One callable's scoreboard: counts, times, verdict with its reason, and the cures, most leverage first."""
    facts, verdict = board.facts, board.verdict
    rows = [
        {"what": "launches", "value": "not counted" if board.launches is None else f"{board.launches:,}"},
        {"what": "bytes moved, launch by launch", "value": _bytes(board.bytes)},
        {"what": "bytes of one kernel for it all", "value": _bytes(board.work.least_bytes)},
        {"what": "FLOPs", "value": _flops(board.work.flops)},
        {"what": "peak memory beyond what was there", "value": _bytes(board.peak)},
        {"what": "a step", "value": format_time(facts.step_ns)},
        {"what": "host, issuing", "value": format_time(facts.host_ns)},
        {"what": "device, busy", "value": format_time(facts.device_ns)},
        {"what": "read-outs", "value": ", ".join(f"{name} {n}" for name, n in board.read_outs.items()) or "none"},
        {"what": "verdict", "value": verdict.kind},
        {"what": "because", "value": verdict.reason},
    ]
    if profiled is not None:
        rows.insert(1, {"what": "launches, by the profiler", "value": f"{profiled:,}"})
    rows += [
        {"what": f"cure {at}: {cure.name}", "value": f"{cure.words}; {format_time(cure.best_ns)} at best"}
        for at, cure in enumerate(verdict.cures, 1)
    ]
    if not verdict.cures:
        rows.append({"what": "cures", "value": "none on the list could save a twentieth of the step"})
    title = f"Scoreboard: {board.name}"
    return Table(rows, {"what": "what", "value": ""}, title, [f"live · {board.machine}, {board.dtype}", *board.notes])


def _bytes(n: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{significant(n / size)} {unit}"
    return f"{n:.0f} bytes"


def _flops(n: float) -> str:
    return f"{significant(n * 1e-6)} million"


def verdict(board: Board) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): the verdict on a callable, its reason and the cure with most leverage."""
    found = board.verdict
    cure = found.cure
    best = (
        f"Most leverage: {cure.name}, {format_time(cure.best_ns)} of {format_time(board.facts.step_ns)} at best."
        if cure
        else "No cure on the list could save a twentieth of the step."
    )
    words = f"{board.name}: {found.kind}, {found.reason}. {best}"
    return VERDICT_ANSWERS[found.kind][1], Sentence(words)


def twice(board: Board, profiled: int | None) -> Sentence:
    """Launches by the board and by the profiler: a second count that knows nothing of the first."""
    if profiled is None or board.launches is None:
        return Sentence("Not measured: the profiler did not show this call.")
    same = "the same" if profiled == board.launches else f"not the same: {abs(profiled - board.launches):,} apart"
    return Sentence(f"The board counts {board.launches:,} launches of {board.name}, torch.profiler {profiled:,}: {same}.")


def model_tables(part: Both) -> list[Table]:
    """Every model that was put on the board, here and as recorded; where a library is missing, why."""
    columns = {"name": "model", "launches": "launches", "profiled": "by the profiler", "bytes": "bytes", "flops": "FLOPs"}
    columns |= {"peak": "peak memory", "step": "a step", "verdict": "verdict", "cure": "first cure"}

    def line(row: Mapping) -> dict:
        cure = row["cures"][0]["name"] if row["cures"] else "none"
        counts = {name: NOTHING if row[name] is None else f"{row[name]:,}" for name in ("launches", "profiled")}
        sizes = {"bytes": _bytes(row["bytes"]), "flops": _flops(row["flops"]), "peak": _bytes(row["peak"])}
        return {
            "name": row["name"],
            **counts,
            **sizes,
            "step": format_time(row["step_ns"]),
            "verdict": row["verdict"],
            "cure": cure,
        }

    return tables(part, columns, "Models on the scoreboard", line)


def cures_panel(*boards: Board) -> Panel:
    """The controls over a made-up program and these boards."""
    known = [Known(board.name, board.facts, board.roofs, f"live · {board.machine}") for board in boards]
    return cure_explorer.explorer(known)


# ------------------------------------------------------------------------------------------------ sick programs

PATIENTS = {"A": "one_by_one", "B": "slow_loader", "C": "captured_chain", "D": "read_outs"}  # in the lesson; others are lab 10's


def patient(letter: str, device: str) -> Recorded | None:
    """The recorded trace of one sick program: this device's where one is recorded, else a CPU's; None where there is neither."""
    return sick_traces.of(PATIENTS[letter], device=device) or sick_traces.of(PATIENTS[letter], device="cpu")


def lanes(letter: str, trace: Recorded | None) -> Picture | Sentence:
    """One step of the trace, without the answer."""
    if trace is None:
        return Sentence(f"Program {letter}: its trace has not been recorded.")
    return trace_lanes.figure(trace, title=f"Program {letter}", label=trace.label())


def diagnosed(letter: str, trace: Recorded | None) -> tuple[str | None, Sentence]:
    """(text of the option that the trace supports, sentences): what is read from it, the cure, and the step with and without."""
    if trace is None:
        return None, Sentence(f"Not measured: program {letter}.")
    found = diagnosis.diagnose(trace.events)
    text = DIAGNOSIS_ANSWERS[found.id][1] if found.id in DIAGNOSIS_ANSWERS else None
    program, facts = sick.PROGRAMS[trace.program], trace.facts
    words = f"Program {letter}, {program.title.lower()}: {found.name}. {found.reason} Cure: {found.cure}"
    twin = ""
    if facts.get("twin_step_ns"):
        both_ways = f"{format_time(facts['step_ns'])}, its twin, {program.twin}, {format_time(facts['twin_step_ns'])}"
        twin = f"Without the profiler a step takes {both_ways}."
    only = f"On a CPU {program.on_a_cpu}." if trace.device == "cpu" and program.on_a_cpu else ""
    return text, Sentence(*(one for one in (words, twin, trace.label(), only, _on_a_gpu(trace)) if one))


def _on_a_gpu(trace: Recorded) -> str:
    """What the recording of the same program on a GPU shows, beside a CPU's trace; that there is none; "" beside a GPU's own."""
    if trace.device == "cuda":
        return ""
    there = sick_traces.of(trace.program, trace.form, "cuda")
    if there is None:
        return "On a GPU it has not been recorded yet."
    found, facts = diagnosis.diagnose(there.events), there.facts
    seen = f" All the while nvidia-smi showed {facts['utilisation']:.0f} % utilisation." if facts.get("utilisation") else ""
    twin = f", its twin {format_time(facts['twin_step_ns'])}" if facts.get("twin_step_ns") else ""
    reason = found.finding.reason if found.finding else found.saw
    return f"On a GPU: {found.name}. {reason} A step takes {format_time(facts['step_ns'])}{twin}.{seen} ({there.label()})"


def reading(trace: Recorded | None) -> list[Table]:
    """What was read from the trace, beside its healthy twin."""
    if trace is None:
        return []
    healthy = sick_traces.of(trace.program, "healthy", trace.device)
    seen = {"this trace": features(trace.events)} | ({"its twin": features(healthy.events)} if healthy else {})
    return [
        trace_lanes.features_table(seen),
        trace_lanes.diagnosis_table(diagnosis.diagnose(trace.events), notes=[trace.label()]),
    ]


def read_trace(file: str | None) -> Sentence | list[Picture | Table]:
    """A trace that the reader brings (Chrome JSON of torch.profiler, plain or gzipped), read in the same way."""
    if file is None:
        return Sentence("No trace given: write the path of what prof.export_chrome_trace(path) wrote in place of None.")
    try:
        events = traces.read(file)
    except (traces.NoTrace, OSError) as error:
        return Sentence(f"It cannot be read: {error}")
    found = diagnosis.diagnose(events)
    figure = trace_lanes.figure(events, title="Your program", label=f"your trace: {Path(file).name}")
    return [figure, trace_lanes.features_table(found.features), trace_lanes.diagnosis_table(found)]


# ------------------------------------------------------------------------------------------------ the end

JUDGED = {
    "board": ("eager_kernels", "compiled_kernels", "fused_kernels", "captured_kernels", "captured_launches", "captured_traffic",
              "eager_traffic", "fused_traffic", "traffic_ratio", "product_ratio", "flops_ratio", "planned_requests"),
    "losses": ("small_eager", "small_both", "small_captured", "wrong"),
    "models": ("agree", "models"),
}  # fmt: skip


def judged(device: str, **parts: Both) -> dict[str, dict]:
    """For `expect`: by part, the numbers that were measured here; in place of one that was not, why not."""
    return {name: judged_here(device, part.here, JUDGED[name], judged_part) for name, part in parts.items() if name in JUDGED}


def mine(board: Board, profiled: int | None, *patients: Recorded | None) -> dict[str, float | str]:
    """For `expect`: launches of a board counted twice, and the share of the traces whose reading is the key's."""
    out: dict[str, float | str] = {"device": board.device}
    there = [one for one in patients if one is not None]
    if there:
        right = [diagnosis.diagnose(one.events).id == sick.PROGRAMS[one.program].diagnosis for one in there]
        out["read_right"] = sum(right) / len(right)
    if profiled and board.launches:
        out["launches_twice"] = board.launches / profiled
    return out


def verdicts(device: str, found: Mapping[str, Both]) -> Table:
    """The claims of this lesson: yours (the parts `found` live, by name), recorded, cited, the verdict with its sentence."""
    return study_end.verdicts(STUDY, device, found)


@own_answer.in_unit()
def transfer(mine: Sequence[int | None], block: Callable, x, w) -> Table | Sentence:
    """The reader's (kernels eager, kernels with the tail fused, activations eager, activations fused) beside what is counted."""
    if any(one is None for one in mine):
        return Sentence("Nothing predicted yet: write four numbers in place of None and run the cell again.")
    work = intensity.count(block, x, w)
    ops = work.computing
    products = [op for op in ops if op.product]
    tail = intensity.count(lambda h: block(x, None, h=h), x.new_empty(x.shape).normal_())
    counts = [len(ops), len(products) + 1, work.bytes / x.nbytes]
    counts.append((sum(op.bytes for op in products) + tail.least_bytes) / x.nbytes)
    names = ("kernels, op by op", "kernels, the tail fused", "activations moved, op by op", "activations moved, the tail fused")
    rows = [
        {"what": name, "counted": significant(found), "you": significant(said) if said else "0"}
        for name, found, said in zip(names, counts, mine, strict=True)
    ]
    right = sum(abs(said - found) <= 0.15 * found for said, found in zip(mine, counts, strict=True))
    word = "All four are right." if right == 4 else f"{right} of 4 are right: write down what each kernel reads and writes."
    return Table(rows, {"what": "what", "counted": "counted", "you": "you"}, "Your block on the scoreboard", [word])
