"""What lesson 04, launch, says about its measurements: computed sentences, tables, figures, and the numbers that are judged.

It measures nothing: each function takes what `utils.measure.launch_here` found (live on a GPU, recorded elsewhere, or nothing,
with the reason) and words it, so that a sentence stays true when the numbers surprise. What is recorded or simulated says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from utils.measure.dispatch_trace import Dispatch
from utils.measure.launch_here import Found
from utils.model import ledger, studies
from utils.model.quantities import NotMeasured
from utils.model.readings import Race
from utils.show import figures, lanes_figure, launch_figures, own_answer, queue_explorer, study_end
from utils.show.explain import Sentence
from utils.show.lanes_figure import Lanes
from utils.show.picture import Picture
from utils.show.tables import Table, format_ns, format_share, format_time, significant

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
RETURN_ANSWERS = {
    "queued": (None, "When the kernel is in the queue, long before it begins"),
    "begun": ("launch_waits_for_start", "When the device has begun the kernel"),
    "ended": ("call_is_work", "When the kernel has ended"),
}
FULL_ANSWERS = {
    "endless": ("queue_is_endless", "Nothing: a launch only puts something into a list"),
    "waits": (None, "At some launch the calls become as slow as the kernels"),
    "fails": ("full_queue_fails", "At some launch the call fails: the queue is full"),
}
PACE_ANSWERS = {
    "half": ("faster_kernel_faster_step", "About half as long: the kernels take half as long"),
    "same": (None, "About as long as before"),
    "longer": ("gaps_cost_extra", "Longer: the device now has more gaps"),
}
CLOCK_ANSWERS = {
    "profiler": ("profiler_slows_kernels", "The profiler: watching a kernel slows it"),
    "graph": ("graph_adds_to_kernels", "The graph: it has a start-up of its own"),
    "pair": (None, "The pair of events around it"),
    "agree": ("a_kernel_has_one_time", "None: they time the same kernel, so they agree"),
}
ONE_SM_ANSWERS = {
    "share": ("utilisation_counts_sms", "Next to nothing: one SM of them all"),
    "none": ("tiny_is_unseen", "Zero: a single block is too little to be seen"),
    "full": (None, "Full: some kernel is there all the time"),
}
WAITING_ANSWERS = {
    "none": ("item_is_a_read", "None of them: they only read"),
    "item": ("only_item_waits", "Only .item(), which says so"),
    "several": (None, "Several: each that gives Python a value, or a shape that depends on one"),
    "all": ("gpu_lines_wait", "All of them: each line needs the line before"),
}
THREAD_ANSWERS = {
    "same": ("threads_run_at_once", "About what it costs alone: there are two cores"),
    "more": (None, "Clearly more than alone"),
    "less": ("threads_share_the_work", "Less: the two share the work"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "launch.returns": "A launch puts the kernel into a queue. Nothing in it looks at what the device is doing.",
    "launch.full": "The queue is finite. Who launches into a full one waits for a place, so for a kernel to end.",
    "launch.pace": "Host and device work side by side. The slower of the two sets the pace, and the other one waits.",
    "launch.share": "The launch is one stage of the op; the path to it is the rest.",
    "launch.clocks": "Each clock starts and stops elsewhere: at the kernel's edges, at marks in the queue, at the next kernel.",
    "launch.one_sm": "The reading counts time in which some kernel was there, and not how much of the chip it used.",
    "launch.waiting": "Python needs the value now, and the value is at the end of the queue.",
    "launch.threads": "Both threads want Python's lock for most of an op, and hand it to each other.",
}

OTHER_WAY = 1.25  # a price this many times another is called clearly more
CLOCK_NOISE = 0.02  # SM clocks within 2 % of each other are called the same
TAKEN = 10.0  # a second thread that costs ten times the whole add was not being woken: it waited for a core
SHARED = 1.05  # two threads that gain less than this are called no faster
AGREE = 1.15  # clocks within 15 % of each other are said to agree
NO_LINE = "none"  # the variant of the study's steps without one more line
READS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::masked_select", "aten::_unique2")
# What the reader writes → the expression that is traced for it: lines that need a value on the host, and lines that do not.
ASKING = {
    "loss.item()": "loss.item()",
    "print(loss)": "loss.__repr__()",
    "if loss > 0: …": "(loss > 0).__bool__()",
    "h[h > 0]": "h[h > 0]",
    "torch.nonzero(h > 0)": "torch.nonzero(h > 0)",
}
QUIET = {line: line for line in ("torch.where(h > 0, h, 0)", "h * loss", "h.sum()", "loss.detach()")}


def not_measured(found: Found, what: str) -> Sentence:
    """The words that stand where there is no number: what was not measured, and why."""
    return Sentence(f"Not measured: {what}; {found.why or 'nobody has measured it yet'}.")


def _why(found: Found) -> str:
    return f"Shown from a recording: {found.why}." if found.why and found.value is not None else ""


# ------------------------------------------------------------------------------------------------ lanes


def lanes_of(case: Mapping, label: str) -> Lanes:
    """The first launches of a case of the study's part `lanes` as two lanes."""
    shown = len(case["begin"]["i"])
    return Lanes.of(
        case["begin"],
        label,
        price_us=case["numbers"]["host_ahead_us"],
        full_from=case["numbers"]["fills_at"],
        waits=bool(case["sync_every"]),
        simulated=case["label"] == "simulated",
        cut=f"the first {shown} of {case['n']:,} launches" if case["n"] > shown else "",
    )


def returned(found: Found, simulated: Mapping) -> tuple[str, Sentence]:
    """(text of the option that the lanes show, sentences): when launches returned, on a GPU and in the simulated queue."""
    cases = [(simulated, queue_explorer.LABEL)]
    if found.value is not None:
        cases.insert(0, (found.value["slow"], found.label))
    words = [_returned(case, label) for case, label in cases]
    kind = _return_kind(cases[0][0])
    missing = "" if found.value is not None else str(not_measured(found, "the lanes of a GPU"))
    return RETURN_ANSWERS[kind][1], Sentence(*words, missing or _why(found))


def _return_kind(case: Mapping) -> str:
    """When the launches after the first returned, by the majority: before their kernel began, before it ended, or after."""
    lanes = lanes_of(case, "")
    kinds = [
        "queued" if back <= began else "begun" if back < ended else "ended"
        for (_, back), (began, ended) in list(zip(lanes.calls, lanes.device, strict=True))[1:]
    ]
    return max(("queued", "begun", "ended"), key=kinds.count)


def _returned(case: Mapping, label: str) -> str:
    numbers, lanes = case["numbers"], lanes_of(case, label)
    returned = lanes.calls[-1][1]
    return (
        f"{case['what']} ({label}): a launch took the host {_us(numbers['host_ahead_us'])}, a kernel the device "
        f"{_us(numbers['kernel_us'])}. Launch {len(lanes.calls)} had returned after {_us(returned)}, and its kernel began at "
        f"{_us(lanes.device[-1][0])}. When the first kernel ended, {lanes.ahead} of these launches had returned."
    )


def _us(value: float | None) -> str:
    return "not measured" if value is None else format_time(value * 1e3)


def lane_figures(found: Found, simulated: Mapping) -> list[Picture]:
    """Launches of a long kernel: on the GPU where there is one, and always in the simulated queue, each in its own figure."""
    out = []
    if found.value is not None:
        out.append(lanes_figure.figure(lanes_of(found.value["slow"], found.label), found.value["slow"]["what"]))
    out.append(lanes_figure.figure(lanes_of(simulated, queue_explorer.LABEL), f"Simulated: {simulated['what']}"))
    return out


def filled(found: Found, simulated: Mapping) -> tuple[str, Sentence]:
    """(text of the option that was seen, sentences): what became of the launch calls when nobody waited."""
    cases = [(simulated, queue_explorer.LABEL)]
    if found.value is not None:
        cases.insert(0, (found.value["slow"], found.label))
    words = []
    for case, label in cases:
        numbers = case["numbers"]
        if numbers["fills_at"] is None:
            words.append(f"In {case['n']:,} launches the queue never filled ({label}): at most {numbers['depth_max']:,} waited.")
            continue
        ended = numbers["fills_at"] - numbers["depth_max"]
        words.append(
            f"Up to launch {numbers['fills_at']:,} a call took {_us(numbers['host_ahead_us'])}; from then on "
            f"{_us(numbers['host_full_us'])}, {significant(numbers['host_full_us'] / numbers['host_ahead_us'], 2)} times as "
            f"long, where a kernel takes {_us(numbers['kernel_us'])}{_gap(numbers)}. {ended:,} kernels had ended by then, and at "
            f"most {numbers['depth_max']:,} were in the queue ({label})."
        )
    kind = "endless" if cases[0][0]["numbers"]["fills_at"] is None else "waits"
    missing = "" if found.value is not None else str(not_measured(found, "the queue of a GPU"))
    return FULL_ANSWERS[kind][1], Sentence(*words, missing or _why(found))


def _gap(numbers: Mapping) -> str:
    """The pause between two kernels, which a full queue's launches wait for as well."""
    gap = numbers.get("gap_us")
    return f" and the step to the next one {_us(gap)}" if gap else ""


def call_figures(found: Found, simulated: Mapping) -> list[Picture]:
    """What each call took, by its number: of the GPU where there is one, and of the simulated queue, never on one axis."""
    out = []
    if found.value is not None:
        out.append(launch_figures.calls(found.value["slow"], found.label))
    out.append(launch_figures.calls(simulated, queue_explorer.LABEL))
    return out


def cases_table(found: Found) -> Table | None:
    """The GPU's three cases side by side: device faster, host faster, and a wait after each launch."""
    if found.value is None:
        return None
    rows = []
    for name in ("fast", "slow", "synchronised"):
        numbers = found.value[name]["numbers"]
        rows.append(
            {
                "case": found.value[name]["what"],
                "host": _us(numbers["host_ahead_us"]),
                "full": "–" if numbers["host_full_us"] is None else _us(numbers["host_full_us"]),
                "kernel": _us(numbers["kernel_us"]),
                "gap": _us(numbers["gap_us"]),
                "busy": format_share(numbers["busy_share"], 1.0),
                "depth": f"{numbers['depth_max']:,}",
            }
        )
    columns = {
        "case": "case",
        "host": "a launch call",
        "full": "when the queue is full",
        "kernel": "a kernel",
        "gap": "gap before the next",
        "busy": "device busy",
        "depth": "most in the queue",
    }
    error = found.value.get("alignment", {}).get("clock_error_us")
    notes = [found.label, *([f"The two clocks are aligned to {significant(error, 2)} µs"] if error else [])]
    return Table(rows, columns, "Who waits for whom", notes)


def other_lanes(found: Found) -> list[Picture]:
    """The GPU's two other cases as lanes: a device that is faster than its host, and a host that waits after each launch."""
    if found.value is None:
        return []
    cases = [found.value[name] for name in ("fast", "synchronised")]
    return [lanes_figure.figure(lanes_of(case, found.label), case["what"]) for case in cases]


def pace(kernel_us: float = 2.0, launch_us: float = 5.0) -> tuple[str, Sentence]:
    """(text of the option that the model gives, sentences): 40 launches, and the same with kernels of half the length."""
    before, after = (queue_explorer.simulate(launch_us, k) for k in (kernel_us, kernel_us / 2))
    ratio = after.end / before.end
    kind = "longer" if ratio > 1.02 else "same" if ratio > 0.9 else "half"
    long_before, long_after = (queue_explorer.simulate(launch_us, k) for k in (8 * launch_us, 4 * launch_us))
    words = (
        f"40 kernels of {significant(kernel_us, 2)} µs behind launches of {significant(launch_us, 2)} µs take "
        f"{_us(before.end)} in all, kernels of half the length {_us(after.end)} ({queue_explorer.LABEL}).",
        f"It is otherwise where kernels are longer than launches: halved from {significant(8 * launch_us, 2)} to "
        f"{significant(4 * launch_us, 2)} µs, they take {_us(long_after.end)} instead of {_us(long_before.end)}.",
        "A step takes about the number of launches times the larger of the two, as long as nobody waits in between.",
    )
    return PACE_ANSWERS[kind][1], Sentence(*words)


# ------------------------------------------------------------------------------------------------ floor and clocks


def launch_share(found: Found) -> Sentence:
    """What the bare launch takes of `c = a + b` on the host of a GPU, and what waiting after each launch would make of it."""
    race = found.value
    if race is None:
        return not_measured(found, "what a launch costs the host of a GPU")
    whole, empty = (race[name].ns for name in ("c = a + b", "empty launch"))
    words = [
        f"One c = a + b took the host {format_ns(whole)}, a launch of an empty kernel {format_ns(empty)}: "
        f"{format_share(empty, whole)} ({found.label}).",
    ]
    if "launch by torch" in race.readings:
        words.append(f"Launched by torch's own code, a kernel took {format_ns(race['launch by torch'])}.")
    if "launch and wait" in race.readings:
        wait = race["launch and wait"].ns
        words.append(
            f"With a wait after each launch it took {format_ns(wait)}, {significant(wait / empty, 2)} times the launch alone: "
            "that is the way there and back, and no price of a launch."
        )
    return Sentence(*words, _why(found))


def race_view(found: Found, title: str, hidden: Sequence[str] = ("empty loop",)) -> list:
    """A race of the study as figure and table, or nothing; its notes say which readings are missing.

    `hidden` readings are left out: a loop of 2 ns would stretch the axis for all the others.
    """
    if found.value is None:
        return []
    race = replace(found.value, readings={n: r for n, r in found.value.readings.items() if n not in hidden})
    notes = [f"{note[0].upper()}{note[1:]}." for note in race.notes]
    return [figures.compare(race, title=title, source=found.label), *([Sentence(*notes)] if notes else [])]


PAIR, GRAPH, PROFILER, STEADY = "event pair", "graph node", "profiler", "back to back"
HELD, EMPTY = "event pair, queue held", "empty event pair, queue held"


def clocks(found: Found) -> tuple[str | None, Sentence]:
    """(text of the option that the race shows, sentences): which clock makes the small kernel longest, and why they disagree."""
    race = found.value
    if race is None:
        return None, not_measured(found, "what a one-element kernel takes by three clocks")
    seen = {
        name: race[key].ns for name, key in (("pair", PAIR), ("graph", GRAPH), ("profiler", PROFILER)) if key in race.readings
    }
    words = []
    for name, text in (
        ("pair", "two events around it in an idle queue"),
        ("graph", "one node more in a graph"),
        ("profiler", "the profiler"),
    ):
        words.append(f"by {text}: {format_ns(seen[name])}" if name in seen else f"by {text}: not measured")
    longest, shortest = max(seen, key=seen.get), min(seen, key=seen.get)
    kind = "agree" if seen[longest] <= AGREE * seen[shortest] else longest
    said = [f"The kernel of one a + b of one element takes, {'; '.join(words)} ({found.label})."]
    if kind != "agree":
        said.append(
            f"The longest is {significant(seen[longest] / seen[shortest], 2)} times the shortest, of one and the same kernel."
        )
    if {HELD, EMPTY} <= set(race.readings):
        said.append(
            f"In an idle queue the pair also times the host between marks. With the queue held it is {format_ns(race[HELD])}, "
            f"and two marks with nothing between them are {format_ns(race[EMPTY])} apart."
        )
    if STEADY in race.readings:
        said.append(f"Behind each other, kernels take {format_ns(race[STEADY])} each: the kernel and the step to the next one.")
    said.append("The profiler reads when the kernel itself began and ended.")
    return CLOCK_ANSWERS[kind][1], Sentence(*said, _why(found))


def sm_clock(found: Found) -> Sentence:
    """What the SM clock was before there was a context, after a pause, once settled, and under matrix products."""
    if found.value is None:
        return not_measured(found, "the SM clock, idle and busy")
    n = found.value["numbers"]
    words = []
    if n.get("smi_untouched_mhz") is not None:
        words.append(f"Before this process used the GPU, nvidia-smi read {_mhz(n['smi_untouched_mhz'])}.")
    pause = f"After {significant(n['idle_s'], 2)} s without work"
    if abs(n["first_mhz"] / n["settled_mhz"] - 1) <= CLOCK_NOISE:
        words.append(
            f"{pause} the first kernel and later ones saw {_mhz(n['settled_mhz'])}: here, a pause did not slow the clock."
        )
    else:
        ramp = f", after {significant(n['ramp_ms'], 2)} ms" if n.get("ramp_ms") else ""
        words.append(f"{pause} the first kernel saw {_mhz(n['first_mhz'])}, later ones {_mhz(n['settled_mhz'])}{ramp}.")
    change = n["gemm_mhz"] / n["settled_mhz"] - 1
    side = "lower" if change < 0 else "higher"
    words.append(
        f"Under large matrix products it was {_mhz(n['gemm_mhz'])}, "
        + (f"{significant(100 * abs(change), 2)} % {side}." if abs(change) > CLOCK_NOISE else "about the same.")
    )
    if n.get("smi_idle_mhz") is not None and n.get("smi_busy_mhz") is not None:
        words.append(f"nvidia-smi's own readings: {_mhz(n['smi_idle_mhz'])} idle, {_mhz(n['smi_busy_mhz'])} busy.")
    words[-1] = f"{words[-1].removesuffix('.')} ({found.label})."
    return Sentence(*words, _why(found))


def _mhz(value: float | None) -> str:
    return "an unknown clock" if value is None else f"{significant(value, 4).removesuffix('.0')} MHz"


def clock_figure(found: Found) -> Picture | None:
    """The SM clock over time: after a pause, and, in a panel of its own, with one block alone and under matrix products."""
    if found.value is None:
        return None
    panels = [{"after a pause": "after_idle"}, {"one block alone": "alone", "under matrix products": "under_gemm"}]
    curves = [{name: found.value[key] for name, key in panel.items() if found.value.get(key, {}).get("mhz")} for panel in panels]
    return launch_figures.over_time([panel for panel in curves if panel], found.label) if any(curves) else None


# ------------------------------------------------------------------------------------------------ utilisation and occupancy

WORKLOADS = {
    "idle": "nothing runs",
    "one_sm": "one block spins on one SM",
    "tiny": "tiny kernels, back to back",
    "tiny_10us": "tiny kernels, 10 µs of host work between",
    "tiny_100us": "tiny kernels, 100 µs of host work between",
    "eager": "one-element adds in a Python loop",
    "gemm": "large matrix products",
}
NOT_BOUND = ("idle", "one_sm", "gemm")  # workloads that no launch holds up
STREAMS = ("one_sm", "tiny", "eager")  # workloads that a claim about utilisation speaks of


def _loads(found: Found) -> dict[str, Mapping]:
    return {} if found.value is None else {row["workload"]: row for row in found.value["rows"]}


def one_sm(found: Found) -> tuple[str | None, Sentence]:
    """(text of the option that was read, sentences): the reading for one block that spins on one SM."""
    row = _loads(found).get("one_sm")
    if row is None or row["utilisation"] is None:
        return None, not_measured(found, "what nvidia-smi reads for one block on one SM")
    read, sms = row["utilisation"], found.value["sms"]
    kind = "none" if read < 0.5 else "full" if read > 50 else "share"
    return ONE_SM_ANSWERS[kind][1], Sentence(
        f"For one block that spun for {significant(row['seconds'], 2)} s, nvidia-smi read {_percent(read)} utilisation. "
        f"It ran on {row['sms_used']} of {sms} SMs: {format_share(row['sms_used'], sms)} of the chip ({found.label}).",
        _why(found),
    )


def _percent(value: float | None) -> str:
    return "nothing" if value is None else f"{significant(value, 3)} %"


def reads_low(found: Found) -> Sentence:
    """What was read of programs that are bound by launches, and whether the reading told them apart."""
    rows = [row for name, row in _loads(found).items() if name not in NOT_BOUND and row["utilisation"] is not None]
    if not rows:
        return not_measured(found, "when the reading is low")
    rows.sort(key=lambda row: -row["utilisation"])
    words = "; ".join(f"{_called(row)}: {_percent(row['utilisation'])}" for row in rows)
    end = (
        "All of them are bound by launches. The more holes the host leaves between kernels, the lower the reading."
        if rows[0]["utilisation"] > 50 > rows[-1]["utilisation"]
        else "All of them are bound by launches, and in this run the reading did not tell them apart."
    )
    return Sentence(f"{words[0].upper()}{words[1:]} ({found.label}).", end)


def _called(row: Mapping) -> str:
    return WORKLOADS.get(row["workload"], row["what"])


def utilisation_figure(found: Found) -> Picture | None:
    """For each workload what nvidia-smi read, the share of time with a kernel, and the share of SMs in use."""
    rows = [row for row in _loads(found).values() if row["utilisation"] is not None]
    return launch_figures.utilisation(rows, WORKLOADS, found.value["sms"], found.label) if rows else None


def occupancy(found: Found) -> Sentence:
    """What an add of one element fills of the chip, beside the largest kernel of the table; and where single blocks ran."""
    if found.value is None or not (found.value["kernels"] or found.value["residency"]):
        return not_measured(found, "how much of the chip a kernel fills")
    kernels, sms, room = found.value["kernels"], found.value["sms"], found.value["max_warps_per_sm"]
    words = [f"There are {sms} SMs, and {room} warps fit on each ({found.label})."]
    small, large = (f(kernels, key=lambda k: k["blocks"] * k["threads"], default=None) for f in (min, max))
    for one in {id(k): k for k in (small, large) if k}.values():
        grid = f"{one['blocks']:,} block{'s' * (one['blocks'] > 1)} of {one['threads']:,} threads"
        words.append(f"“{one['what']}” ran as {grid}: {_share_of_warps(one, found.value)} of the warps that fit.")
    for row in found.value["residency"][:1]:
        words.append(f"A kernel of {row['blocks']} block was seen on {row['sms_used']} SM.")
    return Sentence(*words, *(f"{why[0].upper()}{why[1:]}." for why in found.value.get("why", ())), _why(found))


def _share_of_warps(kernel: Mapping, part: Mapping) -> str:
    warps = kernel["blocks"] * -(-kernel["threads"] // 32)
    room = part["sms"] * part["max_warps_per_sm"]
    return format_share(min(warps, room), room)


def occupancy_tables(found: Found) -> list[Table]:
    """Each kernel with its grid and the share of the warps that fit; and on how many SMs blocks of our own kernel were seen."""
    if found.value is None:
        return []
    out = []
    if found.value["kernels"]:
        rows = [
            {
                "kernel": one["what"],
                "blocks": one["blocks"],
                "threads": one["threads"],
                "fills": _share_of_warps(one, found.value),
                "us": _us(one["us"]),
            }
            for one in found.value["kernels"]
        ]
        columns = {
            "kernel": "op",
            "blocks": "blocks",
            "threads": "threads a block",
            "fills": "of the warps that fit",
            "us": "time",
        }
        note = "More warps than fit run in waves. The share counts warps that are there, and not how well they work"
        out.append(Table(rows, columns, "How much of the chip a kernel fills", [found.label, note]))
    if found.value["residency"]:
        rows = [
            {"blocks": r["blocks"], "sms": r["sms_used"], "at_once": r["at_once"], "fills": format_share(r["warps_share"], 1.0)}
            for r in found.value["residency"]
        ]
        columns = {
            "blocks": "blocks launched",
            "sms": "SMs they ran on",
            "at_once": "at the same moment",
            "fills": "of the warps",
        }
        out.append(Table(rows, columns, "Where blocks ran: each wrote down its SM", [found.label]))
    return out


# ------------------------------------------------------------------------------------------------ hidden waits


def trace_lines(trace: Callable[..., Dispatch], tensors: Mapping) -> dict[str, Dispatch]:
    """Each line of ASKING and QUIET, traced on `tensors` (h and loss) by `trace` (`utils.measure.trace.dispatch_trace`)."""
    return {line: trace(expression, arguments=dict(tensors)) for line, expression in {**ASKING, **QUIET}.items()}


def read_outs(traced: Mapping[str, Dispatch]) -> dict[str, list[str]]:
    """Line → the ops in it that hand a value, or a shape that depends on values, to the host."""
    return {line: [op.name for op in d.ops if op.name.startswith(READS)] for line, d in traced.items()}


def waiting(found: Found, traced: Mapping[str, Dispatch]) -> tuple[str, Sentence]:
    """(text of the option that was seen, sentences): which lines make the host wait, by the GPU's timeline or by their ops."""
    if found.value is None:
        waits = [line for line, ops in read_outs(traced).items() if ops]
        calm = [line for line in traced if line not in waits]
        said = f"By their ops, these lines hand a value, or a shape, to the host: {_join(waits) or 'none'}."
        said += " On a GPU each of them would wait." if waits else ""
        more = str(not_measured(found, "how long each of them waits"))
    else:
        rows = found.value["rows"]
        waits = [row["code"] for row in rows if row["waits"]]
        calm = [row["code"] for row in rows if not row["waits"] and row["variant"] != NO_LINE]
        said = f"On the timeline ({found.label}) the host waited in {_join(waits) or 'none of the lines'}" + (
            f"; not in {_join(calm)}." if calm else "."
        )
        more = f"{_steps(rows)} {_why(found)}"
    kind = "none" if not waits else "all" if not calm else "item" if _only_item(waits) else "several"
    return WAITING_ANSWERS[kind][1], Sentence(said, more)


def _steps(rows: Sequence[Mapping]) -> str:
    """A step without a line more, and the dearest with one that waits."""
    plain = [row for row in rows if row["variant"] == NO_LINE]
    waits = [row for row in rows if row["waits"]]
    if not plain or not waits:
        return ""
    dearest = max(waits, key=lambda row: row["step_us"])
    idle = f"; after the wait the device had nothing to do for {_us(dearest['idle_us'])}" if dearest["idle_us"] else ""
    return (
        f"A step took {_us(plain[0]['step_us'])} without such a line and {_us(dearest['step_us'])} with {dearest['code']}{idle}."
    )


def _only_item(waits: Sequence[str]) -> bool:
    return all(".item()" in code for code in waits)


def _join(words: Sequence[str]) -> str:
    return ", ".join(words)


def waits_table(traced: Mapping[str, Dispatch]) -> Table:
    """Each line with the op that hands a value to the host, as this torch runs it."""
    rows = [
        {"line": line, "op": ", ".join(dict.fromkeys(ops)) or "none", "ops": len(traced[line].ops)}
        for line, ops in read_outs(traced).items()
    ]
    columns = {"line": "line", "op": "ops that hand a value, or a shape, to the host", "ops": "ops in all"}
    note = "Seen here, op by op. h.tolist() reads memory without an op, so a trace of ops does not see it"
    return Table(rows, columns, f"What stands behind a line ({next(iter(traced.values())).device})", [note])


def syncs_table(found: Found) -> Table | None:
    """Each line in a training step: the calls of the runtime that wait, the time in them, and the device's idle time."""
    if found.value is None:
        return None
    rows = [
        {
            "code": row["code"],
            "calls": ", ".join(f"{name} {significant(float(n), 2)}×" for name, n in row["syncs"].items()) or "none",
            "wait": _us(row["held_us"]),
            "idle": None if row["idle_us"] is None else _us(row["idle_us"]),
            "step": _us(row["step_us"]),
            "warned": row["warned"],
        }
        for row in found.value["rows"]
    ]
    columns = {
        "code": "line in the step",
        "calls": "waiting calls a step",
        "wait": "host held",
        "idle": "device idle after it",
        "step": "step",
        "warned": "torch warns",
    }
    note = (
        "torch warns: in torch.cuda.set_sync_debug_mode('warn'). The profiler stretches times: compare them with each other only"
    )
    return Table(rows, columns, "Hidden waits, found in a timeline", [found.label, note])


def sync_figures(found: Found) -> list[Picture]:
    """The same steps without and with a line that waits, as two lanes."""
    if found.value is None:
        return []
    codes = {row["variant"]: row["code"] for row in found.value["rows"]}
    titles = {
        name: "Steps without a line that waits" if name == NO_LINE else f"Steps with {code}" for name, code in codes.items()
    }
    timelines = found.value.get("timelines", {})
    return [launch_figures.profiled(one, titles[name], found.label) for name, one in timelines.items()]


# ------------------------------------------------------------------------------------------------ deeper


def threads(found: Found) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): an add in one Python thread of two, against alone."""
    if found.value is None:
        return None, not_measured(found, "two Python threads")
    n = found.value["numbers"]
    kind = "more" if n["ratio"] > OTHER_WAY else "less" if n["ratio"] < 1 / OTHER_WAY else "same"
    words = [
        f"Alone, an add took {_us(n['alone_us'])}. With a second thread that adds as well, each of the two got an add done every "
        f"{_us(n['together_us'])}: {significant(n['ratio'], 3)} times as long ({found.label})."
    ]
    if n["ratio"] >= 2:
        words.append("At twice the price or more, two threads get no more done than one.")
    if not n.get("gil", 1.0):
        words.append("This Python has no such lock.")
    return THREAD_ANSWERS[kind][1], Sentence(*words)


def threads_table(found: Found) -> Table | None:
    """An add alone and in each of two threads, with grad mode on and in inference mode."""
    if found.value is None:
        return None
    n = found.value["numbers"]
    rows = [
        {
            "mode": words,
            "alone": _us(n[f"{mode}alone_us"]),
            "two": _us(n[f"{mode}together_us"]),
            "ratio": f"{significant(n[f'{mode}ratio'], 3)} ×",
        }
        for mode, words in {"": "a + b", "inference_": "a + b in inference_mode"}.items()
    ]
    columns = {"mode": "what runs", "alone": "alone", "two": "in each of two threads", "ratio": "two over one"}
    return Table(rows, columns, "Two Python threads", [found.label, *found.value.get("notes", ())])


def openmp(found: Found) -> Sentence:
    """What it costs on a CPU to wake a second thread, by the largest add that one thread runs and the smallest that two share."""
    if found.value is None:
        return not_measured(found, "what waking a thread costs")
    n, sizes = found.value["numbers"], found.value["sizes"]
    words = [
        f"With two threads allowed, an add of {sizes['below']:,} elements took {_us(n['below_2_us'])}, one of {sizes['above']:,} "
        f"{_us(n['above_2_us'])}; with one thread {_us(n['below_1_us'])} and {_us(n['above_1_us'])} ({found.label})."
    ]
    if n["wake_seen"] and n["wake_us"] > TAKEN * n["below_1_us"]:
        words.append(f"The second thread came {_us(n['wake_us'])} late: in this run, its core was taken by other work.")
    elif n["wake_seen"]:
        words.append(f"Beyond its share of the work, the second thread cost {_us(n['wake_us'])}: the CPU's own launch.")
    else:
        words.append("What waking the second thread costs is not seen in this run: it is smaller than the error.")
    gain = n["far_1_us"] / n["far_2_us"]
    words.append(
        f"At {sizes['far']:,} elements two threads were {significant(gain, 2)} times as fast as one."
        if gain > SHARED
        else f"At {sizes['far']:,} elements two threads were no faster than one."
    )
    return Sentence(*words)


def openmp_table(found: Found) -> Table | None:
    """One add at three sizes, with one thread and with two."""
    if found.value is None:
        return None
    n = found.value["numbers"]
    rows = [
        {"size": f"{size:,}", "one": _us(n[f"{place}_1_us"]), "two": _us(n[f"{place}_2_us"])}
        for place, size in found.value["sizes"].items()
    ]
    columns = {"size": "elements", "one": "one thread", "two": "two threads allowed"}
    return Table(rows, columns, "The CPU's own launch", [found.label, *found.value.get("notes", ())])


NOT_FIRST = ("import torch", "second ", "third ", "a + b after")  # steps of the ladder that are no first call


def first_calls(found: Found) -> Sentence:
    """The dearest first call, beside the warm price of the same thing where both were taken."""
    if found.value is None:
        return not_measured(found, "what first calls cost")
    steps = found.value["steps"]
    dearest = max((step for step in steps if not step[0].startswith(NOT_FIRST)), key=lambda step: step[1])
    words = [f"The dearest first call was “{dearest[0]}” with {format_time(dearest[1])} ({found.label})."]
    took = dict(map(tuple, steps))
    for name in ("a + b", "x @ x"):
        if {f"first {name}", f"second {name}"} <= set(took):
            first, second = took[f"first {name}"], took[f"second {name}"]
            words.append(f"{name} took {format_time(first)} the first time and {format_time(second)} the second.")
            if second >= first:
                words[-1] += " So this run shows no price of a first call there."
    return Sentence(*words)


def first_table(found: Found) -> Table | None:
    """What a fresh process pays, in its order."""
    if found.value is None:
        return None
    rows = [{"step": name, "took": format_time(ns)} for name, ns in found.value["steps"]]
    if found.value.get("eager"):
        eager = dict(map(tuple, found.value["eager"]))
        rows = [{**row, "eager": format_time(eager[row["step"]]) if row["step"] in eager else None} for row in rows]
    columns = {
        "step": "in this order",
        "took": "took",
        **({"eager": "all code loaded at the start"} if "eager" in rows[0] else {}),
    }
    notes = [found.label, *found.value.get("notes", ()), *([found.value["why"]] if found.value.get("why") else [])]
    return Table(rows, columns, "First calls of a fresh process", notes)


# ------------------------------------------------------------------------------------------------ the numbers that are judged


def judged(found: Found, fast: Mapping, slow: Mapping, waited: Mapping) -> dict:
    """The lanes' numbers for `expect`, ns: of the GPU that was measured here, else of the simulated queue's three cases.

    A recording is never judged as if it had run here.
    """
    here = found.live and found.value is not None
    cases = found.value if here else {"fast": fast, "slow": slow, "synchronised": waited}
    slow, fast, waited = cases["slow"], cases["fast"], cases["synchronised"]
    full = slow["numbers"]["host_full_us"]
    clocks = found.value["alignment"] if here else {"clock_error_us": 0.0, "timer_resolution_ns": 0}
    error = 1e3 * clocks["clock_error_us"] + clocks["timer_resolution_ns"]
    early = sum(
        began < called - error
        for one in (fast, slow, waited)
        for called, began in zip(one["points"]["host_start_ns"], one["points"]["start_ns"], strict=True)
    )
    return {
        "device": "cuda" if here else "simulated",
        "ahead": 1e3 * slow["numbers"]["host_ahead_us"],
        "kernel": 1e3 * slow["numbers"]["kernel_us"],
        "full": NotMeasured("the queue never filled") if full is None else 1e3 * full,
        "waited step": 1e3 * waited["numbers"]["span_us"] / waited["n"],
        "fast step": 1e3 * fast["numbers"]["span_us"] / fast["n"],
        "fast launch": 1e3 * fast["numbers"]["host_ahead_us"],
        "kernels before their launch": early,
    }


def judged_lines(traced: Mapping[str, Dispatch]) -> dict:
    """For `expect`: how many of the lines that ask for a value, and of those that do not, ran an op that hands one over."""
    reads = read_outs(traced)
    return {
        "device": next(iter(traced.values())).device,
        "asking": len(ASKING),
        "asking seen": sum(bool(reads[line]) for line in ASKING),
        "quiet seen": sum(bool(reads[line]) for line in QUIET),
    }


def judged_floor(found: Found) -> dict:
    """For `expect`, ns: the bare launch and the whole op on the GPU that is here."""
    if not found.live or found.value is None:
        why = NotMeasured(found.why or "no GPU was measured here")
        return {"device": "cuda", "empty": why, "op": why}
    return {"device": "cuda", "empty": found.value["empty launch"].ns, "op": found.value["c = a + b"].ns}


def judged_threads(found: Found) -> dict:
    """For `expect`, µs: an add alone and in each of two threads, as measured here."""
    return {"device": "cpu", **_here(found, "alone_us", "together_us")}


def judged_openmp(found: Found) -> dict:
    """For `expect`, µs: an add below the size that is shared, with one thread and with two allowed, as measured here."""
    return {"device": "cpu", **_here(found, "below_1_us", "below_2_us")}


def _here(found: Found, *names: str) -> dict:
    """These numbers where they were measured in this run, else why not."""
    if found.live and found.value is not None:
        return {name: found.value["numbers"][name] for name in names}
    return {name: NotMeasured(found.why or "it was not measured here") for name in names}


def judged_first(found: Found) -> dict:
    """For `expect`, ns: the first and the third add of a fresh process here."""
    steps = dict(map(tuple, found.value["steps"])) if found.live and found.value is not None else {}
    why = NotMeasured(found.why or "it was not measured here")
    return {"device": "cpu", "first": steps.get("first a + b", why), "later": steps.get("third a + b", why)}


# ------------------------------------------------------------------------------------------------ the end


def verdicts(found: Mapping[str, Found]) -> Table:
    """The claims of this lesson: yours (the parts `found` live, by name), recorded, cited, the verdict with its sentence.

    A claim is about a GPU or about the CPU beside it, and is shown of the one that its metric names.
    """
    from utils.measure import machine

    live, where = {name: one.value for name, one in found.items() if one.live and one.value is not None}, machine.fingerprint()
    tables = {d: ledger.verdict_table("launch", yours=studies.live("launch", d, where, live)) for d in ("cuda", "cpu")}
    by_id = {d: {row["id"]: row for row in rows} for d, rows in tables.items()}
    rows = [by_id[(claim.metric or {}).get("device", "cuda")][claim.id] for claim in ledger.claims("launch")]
    kept = studies.best("launch", "cuda")
    here, there = _evidence(live), _evidence({} if kept is None else kept.parts)
    rows = [
        {**row, "yours": here.get(row["id"], row["yours"]), "recorded": there.get(row["id"], row["recorded"])} for row in rows
    ]
    best = [study.label() for device in ("cuda", "cpu") if (study := studies.best("launch", device)) is not None]
    return Table(rows, study_end.COLUMNS, "Claims and verdicts", [*(best or ["Recorded: nothing yet"]), ledger.RULE])


def _evidence(parts: Mapping[str, Race | dict]) -> dict[str, str]:
    """A few words of what the parts show of the claims that have no figure; "not measured" where a part is missing."""
    words = dict.fromkeys(("A21", "A32", "A48"), "not measured")
    if lanes := parts.get("lanes"):
        n = lanes["slow"]["numbers"]
        full = "the queue never full" if n["fills_at"] is None else f"queue full at launch {n['fills_at']:,}"
        words["A21"] = f"a call {_us(n['host_ahead_us'])}, its kernel {_us(n['kernel_us'])}; {full}"
    read = {row["workload"]: row for row in parts.get("utilisation", {}).get("rows", ()) if row["utilisation"] is not None}
    if read:
        words["A32"] = "; ".join(
            f"{_called(row)} {_percent(row['utilisation'])}" for name, row in read.items() if name in STREAMS
        )
    if "one_sm" in read:
        share = format_share(read["one_sm"]["sms_used"], parts["utilisation"]["sms"])
        words["A48"] = f"{_percent(read['one_sm']['utilisation'])} read, on {share} of the SMs"
    return words


TRANSFER_LAUNCHES, TRANSFER_KERNEL_US = 200, 3.0


def own_price(race: Race) -> Sentence:
    """The reader's own host price of one add, for the transfer item."""
    name = race.control[0]
    return Sentence(f"On this machine one {name} takes the host {format_ns(race[name])}, hot and alone.")


@own_answer.in_unit("µs")
def transfer(mine_us: float | None, race: Race) -> Sentence | Table:
    """The reader's guess of 200 launches of 3 µs kernels at their own host price, beside what the model of the sliders gives."""
    if mine_us is None:
        return Sentence(
            f"Nothing predicted yet: write what {TRANSFER_LAUNCHES} launches take in µs, mine = …, and run this cell again."
        )
    price = race[race.control[0]].ns * 1e-3
    lanes = queue_explorer.simulate(price, TRANSFER_KERNEL_US, launches=TRANSFER_LAUNCHES)
    waited = queue_explorer.simulate(price, TRANSFER_KERNEL_US, sync_every=10, launches=TRANSFER_LAUNCHES)
    near = abs(mine_us - lanes.end) <= 0.1 * lanes.end
    rule = TRANSFER_LAUNCHES * max(price, TRANSFER_KERNEL_US)
    rows = [
        {"what": "you", "us": _us(mine_us)},
        {"what": "launches × the larger of host price and kernel", "us": _us(rule)},
        {"what": "the simulated queue", "us": _us(lanes.end)},
        {"what": "the same, with a wait after every 10 launches", "us": _us(waited.end)},
    ]
    notes = [
        "Near enough: within 10 %." if near else "More than 10 % off: which of the two lanes did you count?",
        queue_explorer.LABEL,
    ]
    caption = f"{TRANSFER_LAUNCHES} launches of kernels of {significant(TRANSFER_KERNEL_US, 2)} µs, host price {_us(price)}"
    return Table(rows, {"what": "whose", "us": "in all"}, caption, notes)
