"""What lesson 11, capture, says about its measurements: computed sentences, tables, figures, and the numbers that are judged.

It measures nothing: each function takes what `utils.measure.study_here` found (live here, recorded there, or nothing, with the
reason), or tensors that a reader's own graph wrote, and words them, so that a sentence stays true when the numbers surprise.
"""

from __future__ import annotations

from collections.abc import Mapping

from utils.measure.capture import judged as judged_part
from utils.measure.study_here import Both
from utils.model import payback, recordings
from utils.show import capture_figures, controls, own_answer, payback_explorer, study_end
from utils.show.explain import Sentence
from utils.show.here_and_there import each, not_measured, option, per_cent, tables, times, told
from utils.show.listing import Listing
from utils.show.payback_explorer import Cure
from utils.show.picture import Picture
from utils.show.study_end import judged_here
from utils.show.tables import Table, format_ns, format_time, significant

STUDY = "capture"

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
EMPTY_ANSWERS = {
    "answer": ("capture_computes", "f(x): the function has run once more"),
    "nothing": (None, "Nothing of use: the calls were only written down"),
}
STALE_ANSWERS = {
    "new": ("graphs_follow_names", "f of the new numbers: x names them now"),
    "old": (None, "f of the old numbers"),
    "neither": ("graphs_check_inputs", "Neither: the graph refuses another tensor"),
}
KEPT_ANSWERS = {
    "first": ("outputs_are_new", "The first result, as it was"),
    "second": (None, "The second result"),
}
LONGER_ANSWERS = {
    "same": ("graph_is_one_launch", "As long: either is one launch"),
    "some": ("fixed_part_is_most", "Longer, by a few times at most"),
    "ten": (None, "About ten times as long, or more"),
}
FX_ANSWERS = {
    "faster": ("fx_graph_is_fast", "Faster: nothing has to be found out any more"),
    "alike": ("list_is_free", "About as long: the same ops"),
    "slower": (None, "Longer"),
}
TAX_ANSWERS = {
    "python": (None, "Python, which finds and calls each op"),
    "result": ("memory_is_the_dear_half", "Making room for each result"),
    "dispatcher": ("dispatch_is_the_bill", "The dispatcher"),
    "setup": (None, "Working out types, shapes and strides anew"),
}
WIDE_ANSWERS = {
    "same": (None, "About as long as before"),
    "some": ("every_gap_counts", "Clearly shorter: no gap is left between its ops"),
    "half": ("graph_saves_bytes", "Half as long, or less"),
}
BOTH_ANSWERS = {
    "captured": ("launches_come_first", "Captured alone"),
    "fused": (None, "Fused; to capture it as well adds little"),
    "both": (None, "Fused and captured, clearly"),
    "none": (None, "None of them beats op by op"),
}
TAPE_ANSWERS = {
    "none": ("compiled_leaves_no_tape", "None: its backward was made ahead of time"),
    "one": (None, "One"),
    "more": ("compile_keeps_every_node", "As many as its ops"),
}
INPUTS_ANSWERS = {
    "same": ("guards_are_one_check", "As long: it is one compiled call"),
    "some": (None, "Longer, by less than half"),
    "more": (None, "Longer by half or more"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "capture.empty": "Capture writes down what would be launched. The first replay is the first time that it runs.",
    "capture.stale": "A graph keeps addresses. A name in Python that moves on to another tensor is none of its business.",
    "capture.kept": "The output's address was recorded as well. Every replay writes there, whoever still reads it.",
    "capture.gain": "What is left of an op is its node: no Python, no dispatcher, no launch of its own.",
    "capture.longer": "F is paid once a replay and c for every node, and a hundred nodes already outweigh F.",
    "capture.fx": "A list of calls in Python still goes all the way down, op by op. Only its order was found before.",
    "capture.tax": "Each way leaves out one layer more than the one before it. What goes between two ways is that layer's price.",
    "capture.wide": "The same kernels move the same bytes. A gap in front of a long kernel was hidden anyway.",
    "capture.both": "Fusing leaves fewer kernels, capture takes off what the host pays for those. (A seed is captured as well.)",
    "capture.pays": "Seconds once, microseconds each step: only many equal steps pay for it.",
    "capture.inputs": "Compiled code takes each input anew: it is checked, unpacked and handed over, call after call.",
    "capture.tape": "Forward and backward were traced together and cut in two. At run time one node joins the halves.",
}

CLOSE = 1.15  # times within 15 % of each other are called about as long
FEW = 5.0  # a thousand nodes for less than five times a hundred's: then F is most of it
HALF = 1.8
SIZES = {"small": "a small block", "wide": "a wide block"}
# From one way to the next a layer is left out: (key of TAX_ANSWERS, the way with it, the way without, its words).
LAYERS = (
    ("result", "eager", "out", "making results"),
    ("python", "out", "add_out", "Python"),
    ("dispatcher", "add_out", "cpu_add_out", "the dispatcher"),
    ("setup", "cpu_add_out", "baked", "each op's set-up"),
)


def _us(us: float | None) -> str | None:
    return None if us is None else format_time(1e3 * us)


def _alike(a, b) -> bool:
    """Whether two tensors hold the same numbers, up to rounding; NaN is like nothing."""
    return bool(((a - b).abs() <= 1e-5).all())


# ------------------------------------------------------------------------------------------------ a graph of one's own


def empty(output, answer, graph) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): what the output holds after capture; and what recorded the calls."""
    computed = _alike(output, answer)
    holds = "That is f(x)" if computed else "That is not f(x): nothing has run yet"
    nodes = "" if graph.nodes is None else f", {graph.nodes} nodes"
    nodes += f", {graph.baked} of them baked" if graph.baked else ""
    words = f"{holds}. Recorded as: {graph.by}{nodes}; capture took {format_time(1e9 * graph.capture_s)}."
    return EMPTY_ANSWERS["answer" if computed else "nothing"][1], Sentence(words, f"{graph.why}." if graph.why else "")


def stale(output, of_old, of_new) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): the output of a replay after the name x moved to a new tensor."""
    key = "new" if _alike(output, of_new) else "old" if _alike(output, of_old) else "neither"
    words = {
        "new": "The replay computed f of the new tensor's numbers.",
        "old": "The replay computed f of the old tensor's numbers: it reads where it read in the capture, and says nothing.",
        "neither": "The output is f of neither tensor.",
    }
    return STALE_ANSWERS[key][1], Sentence(words[key])


def kept(output, first, of_new) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): an output kept across a second replay, after copy_ into the input."""
    second = _alike(output, of_new)
    if second:
        words = "After copy_ the replay computed f of the new numbers, into the same memory: the output that was kept changed."
    else:
        still = "still holds the first result" if _alike(output, first) else "holds neither result"
        words = f"The output that was kept {still}."
    ends = " Who needs both results clones the first one, outside the graph." if second else ""
    return KEPT_ANSWERS["second" if second else "first"][1], Sentence(words + ends)


def by_hand(device: str, first, kept, of_old, of_new) -> dict[str, float | str]:
    """For `expect`: whether the reader's own graph kept the rules (1) or not (0)."""
    return {
        "device": device,
        "stale": float(_alike(first, of_old) and not _alike(first, of_new)),
        "overwritten": float(_alike(kept, of_new) and not _alike(kept, first)),
    }


# ------------------------------------------------------------------------------------------------ F + n · c


def gain(part: Both) -> Sentence:
    """A node beside an op issued by itself; F and c with their confidence; what a replay costs the host."""

    def say(value: Mapping) -> str:
        n = value["numbers"]
        row = _row(value, 100)
        fixed = (
            f"{format_ns(n['fixed'])} ({format_ns(n['fixed_lo'])} to {format_ns(n['fixed_hi'])})"
            if n["fixed_lo"] > 0
            else f"not to be told from 0 (up to {format_ns(max(0.0, n['fixed_hi']))})"
        )
        host = (
            "One thread is host and device here: what a replay takes, it takes of the host."
            if value["device"] == "cpu"
            else f"The host pays {format_ns(n['host_100'])} for a replay of 100 nodes, {format_ns(n['host_1000'])} for 1,000."
        )
        return (
            f"Op by op an add of one element costs {format_ns(n['eager_node'])}. A replay of 100 takes {_us(row['device_us'])}: "
            f"{times(n['gain_100'])} as fast. F is {fixed}, c {format_ns(n['node'])} a node ({format_ns(n['node_lo'])} to "
            f"{format_ns(n['node_hi'])}): in brackets what the readings' scatter leaves open, at 95 %. Nor is it quite a line: "
            f"it misses a reading by up to {per_cent(n['worst_fit'])}.{_bends(n)} {host}"
        )

    return told(part, "replays by their nodes", say).then(receipt_words(part))


def _bends(n: Mapping) -> str:
    """The words on the longest graph, where it takes more than the line of the shorter ones says."""
    times_the_line = n.get("longest_over_fit", 1.0)
    if times_the_line < CLOSE:
        return ""
    return (
        f" Beyond, it bends: {n['longest']:,.0f} nodes take {times(times_the_line)} what the line says, as a list does that no "
        "longer fits a cache."
    )


def _row(value: Mapping, nodes: int) -> Mapping:
    return next(row for row in value["rows"] if row["nodes"] == nodes)


def _longer(value: Mapping) -> float:
    return _row(value, 1000)["device_us"] / _row(value, 100)["device_us"]


def longer(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): a thousand nodes beside a hundred."""

    def kind(value: Mapping) -> str:
        found = _longer(value)
        return "same" if found < CLOSE else "some" if found < FEW else "ten"

    def say(value: Mapping) -> str:
        n = value["numbers"]
        share = max(0.0, n["fixed"]) / (1e3 * _row(value, 100)["device_us"])
        return f"1,000 nodes took {times(_longer(value))} as long as 100. Of 100 nodes' replay F is {per_cent(share)}."

    return option(part, kind, LONGER_ANSWERS), told(part, "a longer graph", say)


def receipt_words(part: Both) -> str:
    """Where the study has no recorded GPU: the three numbers about graphs that the recorded receipt of one has."""
    best = recordings.best("cuda")
    if part.there.value is not None or best is None:
        return ""
    found = best.receipt().device_time
    if not {"replay host", "captured per node", "period"} <= set(found):
        return ""
    host, node, period = (format_ns(found[name]) for name in ("replay host", "captured per node", "period"))
    return (
        f"What the recorded receipt of a GPU has of graphs: op by op an add every {period}, in a graph a node more {node}; the "
        f"host pays {host} for a replay of 100 nodes ({recordings.label(best.where, best.date, 'cuda')})."
    )


def node_views(part: Both) -> list[Picture]:
    """A replay against its nodes, here and as recorded, each in a figure of its own with its table."""
    return [capture_figures.nodes(found.value["rows"], found.label) for found in each(part)]


# ------------------------------------------------------------------------------------------------ without CUDA


def three_forms(traced, listed) -> Table:
    """What three kinds of capture hold of one function: an fx graph, a list of calls, and code made ahead of time."""
    nodes = [node for node in traced.graph.nodes if node.op not in ("placeholder", "output")]
    names = ", ".join(getattr(node.target, "__name__", str(node.target)) for node in nodes)
    rows = [
        {"form": "an fx graph", "holds": f"ops by name: {names}", "call": "Python, parser, dispatcher, set-up, result"},
        {
            "form": "a list of calls",
            "holds": f"ops with their tensors: {', '.join(listed.graph.calls)}",
            "call": "whatever the walker of the list cannot leave out",
        },
        {"form": "compiled ahead of time", "holds": "one function of machine code", "call": "its guards, then the kernels"},
        {"form": "a CUDA graph", "holds": "kernels with their arguments: addresses", "call": "one launch of the whole"},
    ]
    columns = {"form": "form", "holds": "what it holds", "call": "what each call still pays"}
    return Table(rows, columns, "Four ways to hold a program")


def _ways(value: Mapping, ops: int = 100, elements: int = 1) -> dict[str, Mapping]:
    return {row["key"]: row for row in value["rows"] if (row["ops"], row["elements"]) == (ops, elements)}


def fx(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): an fx graph, and lists that Python walks, beside eager."""

    def kind(value: Mapping) -> str:
        found = _ways(value)["fx"]["gain"]
        return "faster" if found > CLOSE else "slower" if found < 1 / CLOSE else "alike"

    def say(value: Mapping) -> str:
        found = _ways(value)
        eager, graph = found["eager"]["ns_an_op"], found["fx"]["ns_an_op"]
        listed = ", ".join(
            f"{found[key]['way']} {times(found[key]['gain'])} as fast" for key in ("out", "list", "ops_list") if key in found
        )
        return (
            f"One hundred adds of one element: eager {format_ns(eager)} an op, the fx graph {format_ns(graph)}, "
            f"{times(graph / eager)} as much.{_by_overload(found)} Other lists that Python walks: {listed}."
        )

    return option(part, kind, FX_ANSWERS), told(part, "adds without a graph", say, "by a recording")


def _by_overload(found: Mapping) -> str:
    """Why an fx graph of aten ops takes longer than the same ops, where the graph of the function's own lines does not."""
    if "fx_python" not in found or found["fx"]["gain"] >= 1 / CLOSE or found["fx_python"]["gain"] <= CLOSE * found["fx"]["gain"]:
        return ""
    return (
        " It is the calls and not the graph: this one names each overload, and such a call checks its arguments against a schema "
        f"in general code; traced as x + b, with the add's own parser, a graph takes {format_ns(found['fx_python']['ns_an_op'])}."
    )


def tax(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): which layer's absence takes off most, and what is left at the end."""

    def kind(value: Mapping) -> str | None:
        seen = {key: ns for key, ns, _ in _layers(value) if ns is not None}
        return max(seen, key=seen.get) if seen and max(seen.values()) > 0 else None

    def say(value: Mapping) -> str:
        layers = _layers(value)
        if not layers:
            missing = "; ".join(dict.fromkeys(value["missing"].values()))
            return f"Not measured: the ways in C++ did not run ({missing})."
        found, eager = _ways(value), _ways(value)["eager"]["ns_an_op"]
        words = []
        for _, ns, name in layers:
            size = "" if ns is None else f"{format_ns(abs(ns))} ({per_cent(abs(ns) / eager)})"
            words.append(f"{name}: {'no difference seen' if ns is None else f'{size} saved' if ns > 0 else f'{size} more'}")
        left = found["baked"]
        return (
            f"An op costs {format_ns(eager)}. Left out, one after the other: {'; '.join(words)}. What stays is "
            f"{format_ns(left['ns_an_op'])} for the walk and the kernel: {times(left['gain'])} as fast as eager."
        )

    return option(part, kind, TAX_ANSWERS), told(part, "where the price goes", say, "by a recording")


def _layers(value: Mapping) -> list[tuple[str, float | None, str]]:
    """(key, ns an op that leaving it out saves, None inside the error, its words) of each layer; [] where a way did not run."""
    found = _ways(value)
    if not {way for _, *pair, _ in LAYERS for way in pair} <= set(found):
        return []
    race = value["races"]["100x1"]
    out = []
    for key, before, after, name in LAYERS:
        seen = race.difference(found[before]["way"], found[after]["way"]).seen
        out.append((key, found[before]["ns_an_op"] - found[after]["ns_an_op"] if seen else None, name))
    return out


def way_figures(part: Both, ops: int = 100, elements: int = 1) -> list[Picture]:
    """Every way to run the adds, here and recorded, each figure with its table."""
    out = []
    for found in each(part):
        rows = [{**row, "ns": row["ns_an_op"]} for row in _ways(found.value, ops, elements).values()]
        if rows:
            title = f"{ops} adds of {elements:,} element{'s' if elements > 1 else ''}, in every way"
            out.append(capture_figures.ways(rows, title, found.label))
    return out


def sizes(part: Both, replays: Both) -> list[Table]:
    """Every way by number of ops and of elements: times as fast as eager; beside them, labelled, a CUDA graph's gain."""
    gain_there, whose = graph_gain(replays)
    out = []
    for found in each(part):
        cases = list(dict.fromkeys((row["ops"], row["elements"]) for row in found.value["rows"]))
        names = {row["key"]: row["way"] for row in found.value["rows"]}
        by = {(row["key"], row["ops"], row["elements"]): significant(row["gain"], 2) for row in found.value["rows"]}
        rows = [{"way": name} | {f"{n}x{e}": by.get((key, n, e)) for n, e in cases} for key, name in names.items()]
        if gain_there is not None:
            rows.append({"way": "a CUDA graph, on another machine", "100x1": significant(gain_there, 2)})
        columns = {"way": "way"} | {f"{n}x{e}": f"{n:,} ops of {e:,}" for n, e in cases}
        out.append(Table(rows, columns, "Times as fast as eager", [found.label, f"CUDA graph: {whose}", *found.value["notes"]]))
    return out


def graph_gain(replays: Both) -> tuple[float | None, str]:
    """(how many times as fast as op by op a recorded CUDA graph of 100 adds is, whose): the study's, else the receipt's."""
    if replays.there.value is not None:
        return replays.there.value["numbers"]["gain_100"], replays.there.label
    best = recordings.best("cuda")
    found = best.receipt().device_time if best else {}
    if not {"period", "captured of 100"} <= set(found):
        return None, f"not measured, {replays.there.why}"
    return found["period"].ns / found["captured of 100"].ns, recordings.label(best.where, best.date, "cuda")


def rules(part: Both) -> Table | Sentence:
    """Which of the three rules each stand-in has, found by trying; and a CUDA graph's, which are why they are asked for."""
    value = part.first.value
    if value is None:
        return Sentence(not_measured(part.here, "the rules of the stand-ins"))
    rows = [
        {"way": way} | {rule: "yes" if holds else "no" for rule, holds in found.items()} for way, found in value["rules"].items()
    ]
    columns = {"way": "way", "static": "reads fixed addresses", "stale": "stale until copy_", "overwritten": "output overwritten"}
    return Table(rows, columns, "The three rules, tried", [part.first.label])


# ------------------------------------------------------------------------------------------------ what a graph does not fix


def _block(value: Mapping, size: str) -> dict[str, Mapping]:
    return {row["key"]: row for row in value["rows"] if row["size"] == size}


def wide(part: Both, moved: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): a wide block captured and fused; and the bytes of a replay, counted."""

    def kind(value: Mapping) -> str | None:
        found = _block(value, "wide")
        if "captured" not in found:
            return None
        ratio = found["captured"]["gain"]
        return "same" if ratio < CLOSE else "some" if ratio < HALF else "half"

    def say(value: Mapping) -> str:
        found = _block(value, "wide")
        words = [f"op by op {_us(found['eager']['step_us'])}"]
        words += [
            f"{name} {_us(found[key]['step_us'])}, {times(found[key]['gain'])} as fast"
            for key, name in (("captured", "captured"), ("fused", "fused"), ("both", "fused and captured"))
            if key in found
        ]
        return f"The wide block: {'; '.join(words)}."

    def counted(value: Mapping) -> str:
        n = value["numbers"]
        what = "calls" if value["device"] == "cpu" else "kernels"
        moved_too = (
            f" and moves {n['captured_bytes']:,.0f} bytes, as against {n['eager_bytes']:,.0f}" if "captured_bytes" in n else ""
        )
        extra = n.get("extra_calls", 0)
        same = f"the same, and {extra:,.0f} more that hand the graph its random numbers" if extra else "the same, one by one"
        verdict = same if n["same"] == 1 else "not the same"
        counts = f"op by op {n['eager_calls']:,.0f} {what}; a replay has {n['captured_calls']:,.0f}{moved_too}"
        return f"Counted, on the small block: {counts}: {verdict}."

    said = told(part, "a wide block", say).then(*told(moved, "what a replay moves", counted).parts)
    return option(part, kind, WIDE_ANSWERS), said


def both_cures(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the small block captured, fused, and both."""

    def kind(value: Mapping) -> str:
        found = {key: row["gain"] for key, row in _block(value, "small").items() if key in ("captured", "fused", "both")}
        best = max(found, key=found.get, default="none")
        if not found or found[best] <= 1:
            return "none"
        return "fused" if best == "both" and found["both"] < CLOSE * found.get("fused", 0.0) else best

    def say(value: Mapping) -> str:
        found = _block(value, "small")
        words = [
            f"{row['way']} {_us(row['step_us'])}, {times(row['gain'])} as fast" for key, row in found.items() if key != "eager"
        ]
        copies = value["numbers"].get("small_copy")
        ends = f" In every captured way new inputs are copied in: {format_ns(copies)}, inside its price." if copies else ""
        return f"The small block: op by op {_us(found['eager']['step_us'])}; {'; '.join(words)}.{ends}"

    return option(part, kind, BOTH_ANSWERS), told(part, "a small block", say)


def block_figures(part: Both) -> list[Picture]:
    """Gains of both blocks in every way, here and as recorded."""
    out = []
    for found in each(part):
        rows = [row for row in found.value["rows"] if row["key"] != "eager"]
        if rows:
            out.append(capture_figures.gains(rows, SIZES, "A small block and a wide one, cured", found.label))
    return out


def block_tables(part: Both) -> list[Table]:
    """Each block in each way: the host's part, the device's, the step, the gain, and what was paid once."""
    columns = {"size": "block", "way": "way", "host": "host", "device": "device", "step": "step", "gain": "times as fast"}
    columns["once"] = "paid once"

    def line(row: Mapping) -> dict:
        return {
            "size": SIZES[row["size"]],
            "way": row["way"],
            "host": _us(row["host_us"]),
            "device": _us(row["device_us"]),
            "step": _us(row["step_us"]),
            "gain": significant(row["gain"]),
            "once": format_time(1e9 * row["once_s"]) if row["once_s"] else None,
        }

    return tables(part, columns, "Two blocks, every way", line)


# ------------------------------------------------------------------------------------------------ when it pays


def pays(part: Both) -> Sentence:
    """Each cure of each program: what it took once, what it saves in a step, after how many steps it has paid."""

    def say(value: Mapping) -> str:
        words = []
        for row in value["rows"]:
            end = f"paid after {row['steps']:,} steps" if row["steps"] is not None else "it never pays"
            saves = f"saves {_us(row['saving_us'])} a step" if row["saving_us"] > 0 else "saves nothing"
            words.append(f"{row['program']}, {row['way']}: {format_time(1e9 * row['once_s'])} once, {saves}, {end}")
        return f"{'; '.join(words)}."

    return told(part, "what a cure costs once", say)


def pay_tables(part: Both) -> list[Table]:
    columns = {"program": "program", "way": "cure", "once": "paid once", "step": "a step then", "saving": "saved a step"}
    columns["steps"] = "paid after, steps"

    def line(row: Mapping) -> dict:
        return {
            "program": row["program"],
            "way": row["way"],
            "once": format_time(1e9 * row["once_s"]),
            "step": _us(row["step_us"]),
            "saving": _us(row["saving_us"]) if row["saving_us"] > 0 else "nothing",
            "steps": "never" if row["steps"] is None else f"{row['steps']:,}",
        }

    return tables(part, columns, "When it has paid", line)


def cures(part: Both) -> list[Cure]:
    """The cures of the part, here and recorded, as the panel offers them."""
    return [
        Cure(
            f"{row['program']}, {row['way']} ({'here' if found.live else 'recorded'})",
            row["once_s"],
            1e3 * (row["step_us"] + row["saving_us"]),
            1e3 * row["step_us"],
            found.label,
        )
        for found in each(part)
        for row in found.value["rows"]
    ]


def payback_panel(part: Both) -> controls.Panel:
    """The controls over payback, fed with what was measured; they start with made-up numbers."""
    return payback_explorer.explorer(cures(part))


# ------------------------------------------------------------------------------------------------ guards, and the tape


def inputs(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): a compiled call with few inputs and with many, and what guards are."""

    def ends(value: Mapping) -> tuple[Mapping, Mapping] | None:
        rows = sorted((row for row in value["rows"] if row["us"] is not None), key=lambda row: row["inputs"])
        return (rows[0], rows[-1]) if len(rows) > 1 else None

    def kind(value: Mapping) -> str | None:
        found = ends(value)
        if found is None:
            return None
        ratio = found[1]["us"] / found[0]["us"]
        return "same" if ratio < CLOSE else "some" if ratio < 1.5 else "more"

    def say(value: Mapping) -> str:
        found, n, words = ends(value), value["numbers"], []
        if found is not None:
            (few, many) = found
            words.append(
                f"A compiled call of {few['inputs']} inputs takes {_us(few['us'])}, of {many['inputs']} {_us(many['us'])}: "
                f"{format_ns(n['per_input'])} an input (95 %: {format_ns(n['per_input_lo'])} to {format_ns(n['per_input_hi'])})."
            )
        if "guards_an_input" in n:
            words.append(f"Guards, counted: {significant(n['guards_an_input'])} more for each input more.")
        if {"nothing_per_input", "unguarded_per_input"} <= set(n):
            checked, bare = n["nothing_per_input"], n["unguarded_per_input"]
            part_of = (
                f"so the guards are {format_ns(checked - bare)} of it"
                if checked - bare > n.get("error", n["aa_error"]) * checked
                else "so no difference is seen that would be the guards'"
            )
            words.append(
                f"An empty graph, which only checks its inputs and hands them over, takes {format_ns(checked)} an input, and "
                f"with its guards left out, which nobody should, {format_ns(bare)}: {part_of}."
            )
        return " ".join(words)

    return option(part, kind, INPUTS_ANSWERS), told(part, "calls by their inputs", say)


def input_figures(part: Both) -> list[Picture]:
    """A call against its inputs, here and as recorded."""
    return [capture_figures.inputs(found.value["rows"], found.label) for found in each(part)]


def tape(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): the nodes that a compiled call leaves, and the joint graph's ops."""

    def kind(value: Mapping) -> str:
        left = value["numbers"]["compiled_nodes"]
        return "none" if left == 0 else "one" if left == 1 else "more"

    def say(value: Mapping) -> str:
        n = value["numbers"]
        return (
            f"{value['expression']}: eager leaves {n['eager_nodes']:.0f} nodes ({', '.join(value['eager_tape'])}), compiled "
            f"{n['compiled_nodes']:.0f} ({', '.join(value['compiled_tape'])}). The joint graph has {n['joint_ops']:.0f} ops; cut "
            f"in two they are {n['forward_ops']:.0f} forward and {n['backward_ops']:.0f} backward, and {n['saved']:.0f} tensors "
            f"go across."
        )

    return option(part, kind, TAPE_ANSWERS), told(part, "a joint graph", say)


def joint_code(part: Both) -> Listing | Sentence:
    """The text of the joint graph."""
    found = part.first
    if found.value is None:
        return Sentence(not_measured(part.here, "a joint graph"))
    return Listing(f"Forward and backward of {found.value['expression']} as one graph · {found.label}", found.value["code"])


# ------------------------------------------------------------------------------------------------ deeper


def edges(part: Both) -> Sentence:
    """Nodes whose next one may start before they end (programmatic dependent launch), beside plain edges."""

    def say(value: Mapping) -> str:
        n = value["numbers"]
        words = f"A node takes {format_ns(n['plain'])} behind a plain edge"
        if "programmatic" not in n:
            return f"{words}; programmatic edges were not measured."
        early = f", {format_ns(n['early'])} when the next one is let go early" if "early" in n else ""
        less = "less" if n["programmatic"] < n["plain"] else "no less"
        return f"{words}, {format_ns(n['programmatic'])} behind a programmatic one{early}: {less}."

    return told(part, "edges that let the next kernel start early", say)


# ------------------------------------------------------------------------------------------------ the numbers that are judged


# Part → the numbers that the lesson's checks speak of.
JUDGED = {
    "nodes": ("gain_100", "longer"),
    "stand_ins": ("fx_100x1", "list_100x1", "baked_100x1"),
    "block": ("wide_captured", "small_both"),
    "same_bytes": ("same",),
    "guards": ("per_input", "fixed"),
    "joint": ("compiled_nodes",),
}


def judged(device: str, **parts: Both) -> dict[str, dict]:
    """For `expect`: by part, the numbers that were measured here; in place of one that was not, why not."""
    return {name: judged_here(device, part.here, JUDGED[name], _numbers) for name, part in parts.items() if name in JUDGED}


def _numbers(value: Mapping) -> dict:
    """The part's own numbers, and of replays a thousand nodes over a hundred."""
    rows = value["rows"] if "node" in value["numbers"] else ()
    return dict(judged_part(value)) | ({"longer": _longer(value)} if {100, 1000} <= {row["nodes"] for row in rows} else {})


def verdicts(device: str, found: Mapping[str, Both]) -> Table:
    """The claims of this lesson: yours (the parts `found` live, by name), recorded, cited, the verdict with its sentence."""
    return study_end.verdicts(STUDY, device, found)


@own_answer.in_unit("steps")
def transfer(mine: float | None, *, ops: int, host_us: float, fixed_us: float, node_us: float, once_s: float) -> Table | Sentence:
    """A step of `ops` ops on paper: op by op, captured, and the steps until capture has paid; beside it what the reader said."""
    if mine is None:
        return Sentence("Nothing predicted yet: write the steps in place of None and run the cell again.")
    before, after = 1e3 * ops * host_us, 1e3 * (fixed_us + ops * node_us)
    steps = payback.steps(once_s, before, after)
    rows = [
        {"what": "op by op, the ops' host part", "number": format_time(before)},
        {"what": "a replay, F + n · c", "number": format_time(after)},
        {"what": "saved a step", "number": format_time(before - after)},
        {"what": "steps until it has paid", "number": f"{steps:,}"},
        {"what": "you said", "number": significant(mine)},
    ]
    near = 0.9 * steps <= mine <= 1.1 * steps
    told_of = "Near enough." if near else "More than 10 % off: seconds over what a step saves, in the same unit."
    return Table(rows, {"what": "what", "number": ""}, "Payback of a captured step, on paper", [told_of])
