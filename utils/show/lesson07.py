"""What lesson 07, two ceilings, says about its measurements: computed sentences, tables, figures, the numbers that are judged.

It measures nothing: each function takes what `utils.measure.study_here` found (live here, recorded there, or nothing, with the
reason), or works a `Profile` out, and words it, so that a sentence stays true when the numbers surprise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from utils.measure.launch_here import Found
from utils.measure.study_here import Both
from utils.measure.two_ceilings import judged as judged_part
from utils.measure.two_ceilings import prices
from utils.model.costmodel import ELEMENTWISE_TENSORS, MATMUL_TENSORS, Prices, Profile, break_even_elements, total_max, total_sum
from utils.show import ceiling_figures, cost_profiler, own_answer, study_end
from utils.show.explain import Sentence
from utils.show.here_and_there import each, option, per_cent, tables, times, told
from utils.show.picture import Picture
from utils.show.price_seeds import STOCK, seeds
from utils.show.study_end import judged_here
from utils.show.tables import Table, format_ns, format_time, significant

STUDY = "two_ceilings"

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
CAPTURE_ANSWERS = {
    "launch": (None, "The launch bar"),
    "memory": ("graph_saves_bytes", "The memory bar"),
    "both": ("graph_is_fusion", "Both bars"),
}
FUSE_ANSWERS = {
    "launch": ("fusion_saves_launches_only", "The launch bar"),
    "memory": ("fusion_keeps_its_launches", "The memory bar"),
    "both": (None, "Both bars"),
}
HOST_ANSWERS = {
    "max": (None, "The maximum"),
    "sum": ("kernels_run_elsewhere", "The sum"),
    "alike": ("models_agree", "Neither: they hardly differ"),
}
DEVICE_ANSWERS = {
    "max": ("launch_is_kernel_time", "The maximum"),
    "sum": (None, "The sum"),
    "alike": ("models_agree", "Neither: they hardly differ"),
}
FLIP_ANSWERS = {
    "proportion": ("time_follows_size", "Nearly in proportion to the size"),
    "between": (None, "Less time, and far from in proportion"),
    "same": ("launches_are_all", "As long as before"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "two_ceilings.paper": "Count tensors, then bytes; then divide. 1 GB/s is a thousand bytes in a microsecond.",
    "two_ceilings.capture": "A graph hands over all launches at once. Its kernels are the same, on the same bytes.",
    "two_ceilings.fuse": "One kernel is one launch, and what stood between its ops never goes to memory.",
    "two_ceilings.host": "With one thread for both halves nothing overlaps: the halves add up.",
    "two_ceilings.device": "In a long chain the host issues ahead while kernels run: the halves overlap.",
    "two_ceilings.break_even": "Far left of it an op costs what issuing it costs; far right of it, what its bytes cost.",
    "two_ceilings.flip": "Bytes and FLOPs follow the size. The number of launches does not.",
    "two_ceilings.flop_only": "FLOPs at the peak rate leave out the bytes and the launches, and those are most of an eager step.",
    "two_ceilings.drift": "The host's price depends on clocks, caches and neighbours, and they change while one looks on.",
}

APART = 0.05  # two models whose median errors differ by less are called alike
LONG = 16  # ops from which a chain is called long
IN_PROPORTION = 1.5  # a time within this factor of the sizes' ratio follows the size
AS_LONG = 1.15
CALLS = 5  # of the texts' block
STALE = 1.2  # an error so much larger is laid to the age of the prices
APART_RATE = 1.25  # a rate so far above the memory's did not come from memory
OP_NAMES = {"scale": "times a Python number"}
SIDES = {"host": "the host", "device": "the kernels"}


def _us(us: float) -> str:
    return format_time(1e3 * us)


# ------------------------------------------------------------------------------------------------ on paper


def given() -> Table:
    """What the paper exercise starts from."""
    profile, charged = Profile(), Prices()
    rows = [
        {"what": "matrix products", "value": 1},
        {"what": "elementwise ops behind it", "value": profile.ops},
        {"what": "elements of the activation, in millions", "value": significant(profile.elements * 1e-6)},
        {"what": "bytes of an element (bf16)", "value": profile.bytes_each},
        {"what": "dispatch of an op, µs", "value": significant(charged.dispatch_us)},
        {"what": "launch of a kernel, µs", "value": significant(charged.launch_us)},
        {"what": "bandwidth, GB/s", "value": significant(charged.gbps, 4)},
    ]
    return Table(rows, {"what": "given", "value": "value"}, "A step on paper", ["Round figures: nobody's measurement"])


def paper(profile: Profile = Profile()) -> Sentence:  # noqa: B008 (frozen)
    """The two bars of the exercise, worked out step by step."""
    tensors = MATMUL_TENSORS + ELEMENTWISE_TENSORS * profile.ops
    return Sentence(
        f"{MATMUL_TENSORS} tensors for the product and {ELEMENTWISE_TENSORS} for each of {profile.ops} ops: {tensors}, of "
        f"{significant(profile.activation_bytes * 1e-6)} MB each, {significant(profile.nbytes * 1e-6)} MB in all.",
        f"At {profile.prices.gbps:,g} GB/s they take {_us(profile.memory_us)}: the memory bar.",
        f"{profile.launches} launches of {_us(profile.prices.host_us)} take {_us(profile.launch_us)}: the launch bar.",
        f"The longer bar is the {profile.bottleneck} bar.",
    )


def paper_views() -> list:
    """The exercise drawn, at its own size and at the small one."""
    label = seeds()[STOCK].label
    return [cost_profiler.figure(one, label) for one in (Profile(), Profile(small=True))]


def judged_paper() -> dict[str, float | str]:
    """For `expect`: both worked figures of the texts, and what each switch leaves of launches and bytes."""
    eager, graph, fused = Profile(), Profile(capture=True), Profile(fuse=True)
    return {
        "device": "cpu",
        "megabytes": eager.nbytes * 1e-6,
        "memory_us": eager.memory_us,
        "small_launch_us": Profile(small=True).launch_us,
        "captured_bytes": graph.nbytes / eager.nbytes,
        "captured_launches": graph.launches / eager.launches,
        "fused_bytes": fused.nbytes / eager.nbytes,
        "fused_launches": fused.launches / eager.launches,
    }


# ------------------------------------------------------------------------------------------------ the switches


def capture() -> tuple[str, Sentence]:
    """(text of the option that working it out gives, sentences): what a graph takes off which bar."""
    return _switch("Captured", Profile(capture=True), CAPTURE_ANSWERS)


def fuse() -> tuple[str, Sentence]:
    """(text of the option that working it out gives, sentences): what a fused kernel takes off which bar."""
    return _switch("Fused", Profile(fuse=True), FUSE_ANSWERS)


def _switch(name: str, on: Profile, answers: Mapping[str, tuple]) -> tuple[str, Sentence]:
    off = cost_profiler.eager(on)
    shrunk = {
        "launch": on.launch_us < off.launch_us,
        "memory": on.memory_us < off.memory_us,
    }
    kind = "both" if all(shrunk.values()) else "launch" if shrunk["launch"] else "memory"
    step = off.totals()["queue"], on.totals()["queue"]
    return answers[kind][1], Sentence(
        f"{name}, the step's launches go from {off.launches} to {on.launches}, its bytes from "
        f"{significant(off.nbytes * 1e-6)} to {significant(on.nbytes * 1e-6)} million.",
        f"The launch bar goes from {_us(off.launch_us)} to {_us(on.launch_us)}, the memory bar from {_us(off.memory_us)} to "
        f"{_us(on.memory_us)}.",
        f"A queue that is played through takes {_us(step[0])} without it and {_us(step[1])} with it.",
        "Replay is charged one launch here; what a real graph costs is measured in a later lesson." if on.capture else "",
    )


def switch_view(**switches: bool) -> Picture:
    """The profiler at the texts' settings with one switch on."""
    return cost_profiler.figure(Profile(**switches), seeds()[STOCK].label)


# ------------------------------------------------------------------------------------------------ prices


def charged(calibration: Both) -> Sentence:
    """The host's price of one op, hot and after other ops, and the bandwidth."""

    def say(part: Mapping) -> str:
        numbers = part["numbers"]
        return (
            f"Issuing one add costs the host {format_ns(numbers['hot'])} hot and {format_ns(numbers['in_program'])} after other "
            f"ops; memory moves {significant(numbers['gbps'])} GB/s."
        )

    return told(calibration, "the prices", say)


def price_tables(calibration: Both) -> list[Table]:
    """What each machine charges: the host's price of an op, the launch, bandwidth, gap; here and recorded."""
    return [_price_table(found) for found in each(calibration)]


def _price_table(found: Found) -> Table:
    charged, part = prices(found.value), found.value
    rows = [
        {"what": "dispatch of an op, hot", "price": _us(charged.dispatch_us)},
        {"what": "launch of a kernel", "price": _us(charged.launch_us) if charged.launch_us else "none: no device"},
        {"what": "an op after other ops", "price": format_ns(part["numbers"]["in_program"])},
        {"what": "a kernel that moves nothing", "price": _us(charged.start_us) if charged.start_us else "none: no device"},
        {"what": "gap between two waiting kernels", "price": _us(charged.gap_us) if charged.gap_us else "none: no device"},
        {"what": "bandwidth", "price": f"{significant(charged.gbps)} GB/s"},
    ]
    rows += [{"what": f"{kind['kind']}, hot", "price": _us(kind["host_us"])} for kind in part["kinds"] if kind["kind"] != "add"]
    return Table(rows, {"what": "what", "price": "price"}, "What this machine charges", [found.label, *part["notes"]])


def profiler_of(calibration: Both, device: str) -> cost_profiler.SeededPanel:
    """The cost profiler, with the prices measured here and every recorded machine's to choose from."""
    return cost_profiler.profiler(seeds(calibration.here, device))


# ------------------------------------------------------------------------------------------------ three models


def on_host(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): which model is farther off where one thread does both halves."""
    return option(part, _kind, HOST_ANSWERS), told(part, "three models on a CPU", _said(part), "recorded")


def on_device(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): which model is farther off for long chains on a GPU."""
    return option(part, _kind, DEVICE_ANSWERS), told(part, "three models on a GPU", _said(part), "recorded")


def _asked(part: Mapping) -> list[Mapping]:
    """The cases that the question is about: all on a CPU, the long chains on a GPU."""
    return part["rows"] if part["device"] == "cpu" else _long(part) or part["rows"]


def _kind(part: Mapping) -> str:
    return _worse({"rows": _asked(part)})


def _long(part: Mapping) -> list[Mapping]:
    return [row for row in part["rows"] if row["length"] >= LONG]


def _error(rows: Sequence[Mapping], model: str) -> float:
    """The median of |predicted / measured − 1|."""
    return median(_off(row, model) for row in rows)


def _off(row: Mapping, model: str) -> float:
    return abs(row[f"{model}_us"] / row["measured_us"] - 1.0)


def _worse(part: Mapping) -> str:
    """Which of sum and maximum has the larger median error, or that they are alike."""
    by = {model: _error(part["rows"], model) for model in ("sum", "max")}
    return "alike" if abs(by["sum"] - by["max"]) < APART else max(by, key=by.get)


def _said(part: Both) -> Callable[[Mapping], str]:
    """What is said of the three models: who was farther off, the errors, what they mean; the meaning of both machines once."""

    def say(value: Mapping) -> str:
        here, means = part.here.value, _meaning(value)
        known = here is not None and value is not here and _meaning(here) == means
        return _models(value) if known else f"{_models(value)} {means}"

    return say


def _models(part: Mapping) -> str:
    rows, long = part["rows"], _long(part)
    which = f" for chains of {LONG} ops and more" if part["device"] == "cuda" and long else ""
    verdict = {
        "max": f"Farther off{which} was the maximum.",
        "sum": f"Farther off{which} was the sum.",
        "alike": f"Neither sum nor maximum was clearly farther off{which}.",
    }[_kind(part)]
    names = ceiling_figures.MODELS
    told = ", ".join(f"{name} {per_cent(_error(rows, key))}" for key, name in names.items())
    words = f"{verdict} Median error over {len(rows)} cases: {told}."
    if long and len(long) < len(rows):
        told = ", ".join(f"{name} {per_cent(_error(long, key))}" for key, name in names.items())
        words += f" Over the {len(long)} with {LONG} ops and more: {told}."
    ends = []
    for key, name in names.items():
        worst = max(rows, key=lambda row, key=key: _off(row, key))
        way = "too long" if worst[f"{key}_us"] > worst["measured_us"] else "too short"
        ends.append(f"{name} {per_cent(_off(worst, key))} {way} on “{ceiling_figures.short(worst['case'])}”")
    words += f" At its worst each was: {'; '.join(ends)}."
    if part["device"] == "cpu" and any(row["max_us"] > (1.0 + APART) * row["measured_us"] for row in rows):
        words += " Where even the maximum is too long, the prices were too high for that case."
    return words


def _meaning(part: Mapping) -> str:
    """What the errors say about who worked at the same time as whom."""
    worse = _kind(part)
    if part["device"] == "cpu":
        same = all(abs(row["queue_us"] / row["sum_us"] - 1.0) < 1e-6 for row in part["rows"])
        queue = " With no device to drain it, the queue played through is the sum." if same else ""
        words = {
            "max": "The host runs the loop itself here: nothing overlaps, so a maximum leaves the shorter half out.",
            "sum": "One thread does both halves, and yet the sum was farther off: its prices did not hold in these cases.",
            "alike": "One half outweighs the other in most of these cases, so sum and maximum hardly differ.",
        }[worse]
        return words + queue
    return {
        "sum": "In long chains the device works while the host issues: a sum charges for both, and is too long.",
        "max": "The maximum was farther off: something between the two sides is waited for and not in it.",
        "alike": "One side outweighs the other in most of these chains, so sum and maximum hardly differ.",
    }[worse]


def model_figures(*parts: Both) -> list[Picture]:
    """Predicted over measured, case by case and model by model: each machine in a figure of its own."""
    return [
        ceiling_figures.models(found.value["rows"], "Three models beside the measured step", found.label)
        for part in parts
        for found in each(part)
    ]


# ------------------------------------------------------------------------------------------------ size


def break_even(sweep: Both, calibration: Both) -> Sentence:
    """At how many elements an add's kernel takes as long as the host needs for it; beside it what the prices predict."""

    def say(part: Mapping) -> str:
        numbers = part["numbers"]
        found = calibration.here if part is sweep.here.value else calibration.there
        if numbers.get("break_even") is None:
            words = "Within the sizes that were tried the two did not cross."
        else:
            words = (
                f"An fp32 add takes its kernel as long as its host at {significant(numbers['break_even'], 2)} elements. "
                f"{_below(part)}"
            )
        if found.value is None:
            return words
        charged = prices(found.value)
        predicted = break_even_elements(charged, 12)
        less = " less an empty kernel's and a gap's" if charged.start_us or charged.gap_us else ""
        words += (
            f" From prices (the host's{less}, times the bandwidth to memory, 12 bytes an element): {significant(predicted, 2)}."
        )
        if numbers.get("break_even") is None:
            return words
        rate = numbers["break_even_bytes"] / numbers["fixed"]  # bytes a ns are GB/s
        cached = "; such tensors come from a cache, which the prices do not know" if rate > APART_RATE * charged.gbps else ""
        return (
            f"{words} An add of the measured size moves {significant(rate)} GB/s, the memory {significant(charged.gbps)}{cached}."
        )

    return told(sweep, "the break-even size", say)


def _below(part: Mapping) -> str:
    """What one add costs below the break-even size: about the same at all sizes, or more and more as it comes near."""
    below = [row for row in part["rows"] if row["elements"] < part["numbers"]["break_even"]]
    first, last = below[0], below[-1]
    ends = f"from {first['elements']:,} to {last['elements']:,} elements"
    if max(row["step_us"] for row in below) < AS_LONG * first["step_us"]:
        return f"Below, {ends}, one more costs about {_us(first['step_us'])} whatever its size."
    why = ", since one thread does both" if part["device"] == "cpu" else ""
    rise = f"from {_us(first['step_us'])} to {_us(last['step_us'])}"
    return f"It is a bend, not a corner: {ends} the price of one goes {rise}{why}."


def crossing_figures(sweep: Both) -> list[Picture]:
    return [
        ceiling_figures.crossing(found.value["rows"], found.value["numbers"].get("break_even"), found.label)
        for found in each(sweep)
    ]


def flip(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the same five calls at a small size."""

    def kind(value: Mapping) -> str:
        small, large = value["rows"]
        sizes, times = large["elements"] / small["elements"], large["step_us"] / small["step_us"]
        return "proportion" if times > sizes / IN_PROPORTION else "same" if times < AS_LONG else "between"

    def say(value: Mapping) -> str:
        small, large = value["rows"]
        numbers = value["numbers"]
        ops = (
            f"{numbers['ops_small']:g} ops that compute both times"
            if numbers["ops_small"] == numbers["ops_large"]
            else f"{numbers['ops_small']:g} ops that compute against {numbers['ops_large']:g}"
        )
        if max(numbers["ops_small"], numbers["ops_large"]) > CALLS:
            which = "of which a CPU's dropout is several" if value["device"] == "cpu" else "at least one of which is several"
            ops += f" ({CALLS} calls, {which})"
        first, last = SIDES[small["bottleneck"]], SIDES[large["bottleneck"]]
        same = first == last
        ends = f"The longer side is {first} at both sizes" if same else (
            f"The longer side flips: {first} at the small size, {last} at the large one"
        )  # fmt: skip
        return (
            f"{large['elements']:,} elements took {_us(large['step_us'])}, {small['elements']:,} took {_us(small['step_us'])}: "
            f"{times(large['elements'] / small['elements'])} the elements, {times(numbers['flops_ratio'])} the FLOPs, "
            f"{times(large['step_us'] / small['step_us'])} the time, {ops}. {ends}."
        )

    return option(part, kind, FLIP_ANSWERS), told(part, "the same ops at two sizes", say)


def flip_tables(part: Both) -> list[Table]:
    """Both sizes: FLOPs, bytes, the host's time, the kernels', the step's, and the longer bar."""
    columns = {
        "elements": "elements",
        "flops": "million FLOP",
        "bytes": "million bytes",
        "host": "host",
        "device": "kernels",
        "step": "the step",
        "bottleneck": "longer side",
    }

    def line(row: Mapping) -> dict:
        return {
            "elements": f"{row['elements']:,}",
            "flops": significant(row["flops"] * 1e-6),
            "bytes": significant(row["bytes"] * 1e-6),
            "host": _us(row["host_us"]),
            "device": _us(row["device_us"]),
            "step": _us(row["step_us"]),
            "bottleneck": SIDES[row["bottleneck"]],
        }

    return tables(part, columns, "The same five calls at two sizes", line)


# ------------------------------------------------------------------------------------------------ FLOPs alone, and drift


def flop_only(part: Both) -> Sentence:
    """How far too fast FLOPs over the peak are for eager steps."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        near = min(value["rows"], key=lambda row: row["times_too_fast"])
        return (
            f"FLOPs over the peak are too fast by {times(numbers['least'])} to {times(numbers['most'])}, "
            f"{times(numbers['median'])} in the median of {len(value['rows'])} cases; nearest to the truth on “{near['case']}”."
        )

    return told(part, "an estimate from FLOPs alone", say)


def flop_tables(part: Both) -> list[Table]:
    """Each case: FLOPs, their time at the peak, the measured time, and how far too fast."""
    columns = {"case": "case", "flops": "million FLOP", "peak": "FLOPs at the peak", "took": "measured", "times": "too fast by"}

    def line(row: Mapping) -> dict:
        return {
            "case": row["case"],
            "flops": significant(row["flops"] * 1e-6),
            "peak": _us(row["flop_us"]),
            "took": _us(row["measured_us"]),
            "times": times(row["times_too_fast"]),
        }

    return tables(part, columns, "FLOPs alone", line)


def drift(part: Both) -> Sentence:
    """How far the price of one add moved while it was watched, second by second, and what that makes of one read at the start."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        by = [median(block_ns) for block_ns in ceiling_figures.by_second(value["points"])]
        low, high, chance = min(by), max(by), numbers["twins"] - 1
        words = (
            f"Watched for {significant(numbers['seconds'], 2)} s, each second counted by its median, the same add took from "
            f"{format_ns(low)} to {format_ns(high)}: the highest is {per_cent(high / low - 1)} above the lowest, where two "
            f"readings of the same moment are {per_cent(chance)} apart."
        )
        if high / low - 1 <= chance:
            return f"{words} That is no more than chance: no drift was seen in this run."
        worst = max(abs(later / by[0] - 1.0) for later in by)
        return (
            f"{words} Whoever had read the price once, in the first second ({format_ns(by[0])}), would have been off by up to "
            f"{per_cent(worst)} later."
        )

    return told(part, "how a price moves", say)


def stale(*parts: Both) -> Sentence:
    """The model's errors with prices of another moment beside those of the same one, from the recorded studies that have both."""
    out = []
    for part in parts:
        numbers = {} if part.there.value is None else part.there.value["numbers"]
        if "stale_median" in numbers:
            old, new = numbers["stale_median"], numbers["fresh_median"]
            apart = "old prices cost accuracy there" if old > STALE * new else "in that run the old prices had held"
            out.append(
                f"For the cases of a run's last quarter the model's median error was {per_cent(old)} with prices of the first "
                f"quarter and {per_cent(new)} with prices of the same one: {apart} ({part.there.label})."
            )
    moral = "A model is no better than the moment of its prices: they belong between its cases, in the same windows."
    return Sentence(moral, *(out or ["Prices of another moment were not tried in a recording yet."]), apart=True)


def drift_figures(part: Both) -> list[Picture]:
    return [ceiling_figures.drift(found.value["points"], found.label) for found in each(part)]


# ------------------------------------------------------------------------------------------------ deeper


def toy_block(part: Both) -> Sentence:
    """The texts' block: launches, the four memory-bound ops, its tax."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        return (
            f"add(x, dropout(gelu(bias(x @ w)))) ran as {numbers['launches']:g} ops that compute. On an activation of "
            f"{significant(numbers['activation_bytes'] / 2**20)} MiB its four ops behind the product took "
            f"{format_time(numbers['tail'])}, on paper at 3.3 TB/s {format_time(numbers['paper_tail'])}; issuing the whole block "
            f"cost the host {format_time(numbers['tax'])}."
        )

    return told(part, "the texts' block", say)


def toy_tables(part: Both) -> list[Table]:
    """Each op of the block: launches, bytes, its time, and what the bytes need on paper and at the measured bandwidth."""
    columns = {
        "op": "op",
        "launches": "ops that compute",
        "bytes": "million bytes",
        "took": "took",
        "paper": "bytes at 3.3 TB/s",
        "gbps": "GB/s",
    }

    def line(row: Mapping) -> dict:
        return {
            "op": row["op"],
            "launches": row["launches"],
            "bytes": significant(row["bytes"] * 1e-6),
            "took": _us(row["us"]),
            "paper": _us(row["paper_us"]),
            "gbps": significant(row["gbps"]),
        }

    return tables(part, columns, "The texts' block, op by op", line)


def thousand(part: Both) -> Sentence:
    """The host's time for a thousand ops."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        words = f"A thousand small adds cost the host {format_time(numbers['thousand'])}, {format_ns(numbers['per_op'])} each"
        if numbers.get("thousand_kinds") is None:
            return f"{words}."
        return f"{words}; a thousand ops of many kinds {format_time(numbers['thousand_kinds'])}."

    return told(part, "a thousand ops", say)


# ------------------------------------------------------------------------------------------------ the numbers that are judged


# Part → the numbers that the lesson's checks speak of.
JUDGED = {
    "calibration": ("hot", "in_program"),
    "sweep": ("break_even",),
    "flip": ("flops_ratio", "ops_small", "ops_large", "host_share_small", "host_share_large"),
    "flop_only": ("least",),
    "three_models": ("sum_median", "max_median", "queue_median"),
    "drift": ("ratio",),
    "thousand": ("thousand", "per_op"),
    "toy_block": ("launches",),
}


def judged(device: str, **parts: Both) -> dict[str, dict]:
    """For `expect`: by part, the numbers that were measured here; in place of one that was not, why not."""
    return {name: judged_here(device, part.here, JUDGED[name], judged_part) for name, part in parts.items()}


# ------------------------------------------------------------------------------------------------ the end


def verdicts(device: str, found: Mapping[str, Both]) -> Table:
    """The claims of this lesson: yours (the parts `found` live, by name), recorded, cited, the verdict with its sentence."""
    return study_end.verdicts(STUDY, device, found)


TRANSFER_TENSORS, TRANSFER_OPS = 5, 2  # g read, t written; p and t read, p written
UPDATES, SIDE = 100, 256  # parameters of a model, each SIDE × SIDE numbers in fp32


@own_answer.in_unit("µs")
def transfer(mine_us: float | None, calibration: Both, measured_us: float | None = None) -> Sentence | Table:
    """The reader's price of an optimiser step of two ops a parameter, beside three models with this machine's prices."""
    if mine_us is None:
        return Sentence("Nothing predicted yet: write your price of the step in µs, mine = …, and run this cell again.")
    found = calibration.first
    charged = Prices() if found.value is None else prices(found.value)
    nbytes = 4 * SIDE * SIDE
    ops = [charged.op(nbytes * tensors) for _ in range(UPDATES) for tensors in (2, TRANSFER_TENSORS - 2)]
    on_cpu = found.value is not None and found.value["device"] == "cpu"
    models = {"sum": total_sum(ops), "maximum": total_max(ops), "queue": charged.play(ops).wall_us}
    best = "sum" if on_cpu else "queue"
    launches, memory = sum(op.host_us for op in ops), sum(op.device_us or 0.0 for op in ops)
    rows = [
        {"what": "you", "time": _us(mine_us)},
        {"what": f"launch bar, {len(ops)} ops", "time": _us(launches)},
        {"what": f"memory bar, {significant(UPDATES * TRANSFER_TENSORS * nbytes * 1e-6)} million bytes", "time": _us(memory)},
        *({"what": name, "time": _us(us)} for name, us in models.items()),
    ]
    near = abs(mine_us - models[best]) <= 0.25 * models[best]
    notes = [f"Near enough: within a quarter of the {best}." if near else (
        f"More than a quarter off the {best}: which bar is longer, how many ops are there, and how many tensors does each move?"
    )]  # fmt: skip
    if measured_us is not None:
        rows.append({"what": "measured here", "time": _us(measured_us)})
        way = "less" if models[best] < measured_us else "more"
        notes.append(f"The {best} is {per_cent(abs(models[best] / measured_us - 1.0))} {way} than what was measured.")
    label = found.label if found.value is not None else "the texts' prices: nothing was measured"
    return Table(rows, {"what": "whose", "time": "a step"}, "A hundred updates by hand", [*notes, label])
