"""What lesson 06, ridge point, says about its measurements: computed sentences, tables, figures, and the numbers that are judged.

It measures nothing: each function takes what `utils.measure.ridge_here` found (live here, recorded there, or nothing, with the
reason) and words it, so that a sentence stays true when the numbers surprise.
"""

from __future__ import annotations

from collections.abc import Mapping

from utils.measure import ridge_point, roofline
from utils.measure.intensity import Work
from utils.measure.launch_here import Found
from utils.measure.ridge_here import Both
from utils.measure.roofline import Roof, Roofline
from utils.model import devices
from utils.show import figures, own_answer, ridge_figures, roofline_figure, study_end
from utils.show.explain import Sentence
from utils.show.here_and_there import each, not_measured, option, per_cent, tables, times, told
from utils.show.picture import Picture
from utils.show.roofline_figure import Point
from utils.show.study_end import judged_here
from utils.show.tables import Table, format_ns, format_share, format_time, significant

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
INTENSITY_ANSWERS = {
    "one": ("elements_are_bytes", "1: one addition for each element"),
    "eighth": ("writes_are_free", "1/8: one addition for two inputs of four bytes"),
    "twelfth": (None, "1/12: one addition for two inputs and a result of four bytes"),
}
RIDGES_ANSWERS = {
    "one": ("one_ridge_per_machine", "One: its peak over its bandwidth"),
    "dtype": ("ridge_per_dtype", "One for each dtype"),
    "engine": (None, "One for each engine that can be the limit"),
}
WARM_ANSWERS = {
    "less": ("small_cannot_reach", "Fewer: small tensors do not use the whole memory"),
    "memory": ("cache_does_not_matter", "About as many: tensors are in memory"),
    "above": (None, "More than the memory can deliver"),
}
SOON_ANSWERS = {
    "longer": ("switching_ops_costs", "Longer: two kinds of op take turns"),
    "same": ("same_bytes_same_time", "As long: the same calls with the same bytes"),
    "shorter": (None, "Shorter"),
}
LAYOUT_ANSWERS = {
    "same": ("layout_is_free", "As long: the same bytes are added"),
    "somewhat": ("transposing_is_a_copy", "Somewhat longer, up to twice"),
    "many": (None, "More than twice as long"),
}
FRESH_ANSWERS = {
    "nothing": ("allocation_is_bookkeeping", "About as long: an allocation is bookkeeping"),
    "little": ("allocating_is_part_of_it", "A little longer, up to half as much again"),
    "more": (None, "Longer by half or more"),
}
BOUND_ANSWERS = {
    "none": ("bytes_always_decide", "None of them"),
    "large": (None, "Only matrix times matrix"),
    "products": ("products_are_compute", "The two products"),
    "special": ("special_functions_are_work", "The products, and what needs exp, erf or a square root"),
}
DECODE_ANSWERS = {
    "grows": ("weights_are_always_shared", "It grows with the batch"),
    "same": (None, "It stays"),
    "falls": ("batch_is_free", "It falls: more bytes for the same work"),
}
MFU_ANSWERS = {
    "same": ("mfu_is_the_machine", "None by much: the same code on the same machine"),
    "tiny": ("small_fits_the_cache", "The tiny one: all of it fits a cache"),
    "wide": (None, "The wide one"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "ridge_point.intensity": "An op is charged for all that crosses to memory: each input once, and the result.",
    "ridge_point.copy": "A plain store reads the line that it writes to. That traffic is in no one's count, and takes its time.",
    "ridge_point.ridges": "A ridge is a peak over a bandwidth, and each engine has a peak of its own.",
    "ridge_point.warm": "What was used a moment ago comes from a cache, and a cache has a bandwidth of its own.",
    "ridge_point.soon": "An intermediate that is read before it is driven out never comes from memory.",
    "ridge_point.layout": "Memory comes in lines. Who takes one number of each line pays for the rest of it.",
    "ridge_point.fresh": "Memory that is new to the process comes page by page; each page traps into the kernel and is cleared.",
    "ridge_point.bound": "Work per byte must reach the ridge of the op's own engine, and only large products have that much.",
    "ridge_point.decode": "Each sequence brings its own cache: bytes and work grow alike. Weights are what a batch shares.",
    "ridge_point.census": "Most ops of a step are small things: updates, sums, copies. The few products have the work.",
    "ridge_point.mfu": "A small step waits for the host, op by op, and MFU counts that time as the machine's.",
}

ONE = ("vector_fp32",)  # the roof that is drawn first
APART = 1.15  # ridges, rates and times within 15 % of each other are called the same
OVER = 1.05  # a rate so far above the best stream of another race is above what the memory can do
ENGINES = ("vector_fp32", "integer", "issue")
GROUPS = {
    "product": "products",
    "attention": "attention",
    "normalisation": "normalisation",
    "elementwise": "elementwise",
    "reduction": "reductions",
    "optimizer": "optimiser",
    "copy": "copies",
    "lookup": "look-ups",
}


# ------------------------------------------------------------------------------------------------ counting


def intensity(work: Work) -> tuple[str, Sentence]:
    """(text of the option that counting gives, sentences): FLOP per byte of one a + b."""
    op, elements = work.computing[0], 1
    for length in op.shape:
        elements *= length
    bytes_each = work.bytes / elements
    kind = min(("one", 1.0), ("eighth", 1 / 8), ("twelfth", 1 / 12), key=lambda one: abs(one[1] - work.intensity))[0]
    words = (
        f"{elements:,} additions over {significant(work.bytes * 1e-6)} million bytes, {significant(bytes_each)} bytes for each "
        f"addition: {significant(work.intensity)} FLOP per byte.",
        "Counted from shapes; no number was added.",
    )
    return INTENSITY_ANSWERS[kind][1], Sentence(*words)


def count_table(counted: Mapping[str, Work]) -> Table:
    """What was counted for each callable: FLOPs, bytes as its ops move them, bytes that one kernel would, and FLOP per byte."""
    rows = [
        {
            "code": code,
            "ops": len(work.computing),
            "flops": significant(work.flops * 1e-6),
            "bytes": significant(work.bytes * 1e-6),
            "least": significant(work.least_bytes * 1e-6),
            "intensity": significant(work.intensity),
        }
        for code, work in counted.items()
    ]
    columns = {
        "code": "code",
        "ops": "ops",
        "flops": "million FLOP",
        "bytes": "million bytes",
        "least": "in one kernel",
        "intensity": "FLOP per byte",
    }
    return Table(rows, columns, "Counted from shapes", ["Views move nothing; a special function counts as one FLOP"])


# ------------------------------------------------------------------------------------------------ roofs


def line_of(found: Found) -> Roofline | None:
    """The roofline of a part "peaks", or None."""
    if found.value is None:
        return None
    return roofline.from_peaks(found.value, found.label, "measured" if found.live else "recorded")


def own_line(peaks: Both) -> Roofline | None:
    """The roofline measured here, for the controls."""
    return line_of(peaks.here)


def roofs(peaks: Both) -> dict[str, float] | None:
    """The roofs measured here as other parts take them, or None."""
    return None if peaks.here.value is None else peaks.here.value["numbers"]


def copy_share(peaks: Both) -> Sentence:
    """What torch's copy moves a second beside the best stream of the same race."""
    return told(peaks, "the bandwidth", _copy)


def _copy(part: Mapping) -> str:
    moved = part["bandwidth"]
    best, ours = moved["numbers"]["gbps"], moved["numbers"]["torch_copy_gbps"]
    return (
        f"torch's copy moved {significant(ours)} GB/s, the best stream (“{moved['best']}”) {significant(best)} GB/s: "
        f"{per_cent(ours / best)}."
    )


def one_roof(peaks: Both) -> Sentence:
    """One bandwidth, one roof, and their ridge."""
    return told(peaks, "the first roof", _one)


def _one(part: Mapping) -> str:
    numbers = part["numbers"]
    name = next((n for n in (*ONE, "gemm_fp32") if n in numbers), None)
    if name is None:
        return f"Memory: {significant(numbers['gbps'])} GB/s; no roof over it was measured."
    peak = numbers[name]
    return (
        f"Memory moves {significant(numbers['gbps'])} GB/s, {roofline.NAMES[name]} do {significant(peak)} · 10¹² FLOP a second: "
        f"the ridge is at {significant(1e3 * peak / numbers['gbps'])} FLOP per byte."
    )


def first_figures(peaks: Both) -> list[Picture]:
    """One roof over the bandwidth, and one a + b on it: here and on the recorded GPU, each in a figure of its own."""
    out = []
    for found in each(peaks):
        line = line_of(found)
        name = next((n for n in (*ONE, "gemm_fp32") if n in line.roofs), None)
        if name:
            point = Point("a + b in fp32, at its most", 1 / 12, name)
            out.append(roofline_figure.figure(line, [point], "One roof", roofs=(name,)))
    return out


def stream_figures(peaks: Both) -> list[Picture]:
    """GB/s of every stream of the race, counted bytes over time."""
    return [
        figures.bar(found.value["bandwidth"]["gbps"], title="Streams through the memory", unit="GB/s", source=found.label)
        for found in each(peaks)
    ]


def ridges(peaks: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): how many ridges there are, and where."""
    return option(peaks, _ridge_kind, RIDGES_ANSWERS), told(peaks, "the ridges", _ridges)


def _ridge_kind(part: Mapping) -> str:
    """One for all, apart by dtype only, or apart by engine."""
    line = roofline.from_peaks(part, "")
    ridges = {name: line.ridge(name) for name in line.roofs}
    products = [ridge for name, ridge in ridges.items() if name.startswith("gemm_")]
    for name in ENGINES:
        if name in ridges and all(_apart(ridges[name], other) for other in products):
            return "engine"
    return "dtype" if any(_apart(a, b) for a in products for b in products) else "one"


def _apart(a: float, b: float) -> bool:
    return max(a, b) > APART * min(a, b)


def _ridges(part: Mapping) -> str:
    line = roofline.from_peaks(part, "")
    if not line.roofs:
        return "No roof was measured."
    at = line.ridges()
    told = ", ".join(f"{line.roofs[name].title} at {significant(ridge)}" for name, ridge in at.items())
    words = f"Ridges, in work per byte: {told}."
    lowest, highest = min(at.values()), max(at.values())
    return f"{words} The highest is {times(highest / lowest)} the lowest." if len(at) > 1 else words


def roof_figures(peaks: Both) -> list[Picture]:
    """All measured roofs over one bandwidth: here and on the recorded GPU, each in a figure of its own."""
    return [roofline_figure.figure(line_of(found), [], "Several roofs") for found in each(peaks) if line_of(found).roofs]


def beside_tables(peaks: Both) -> list[Table]:
    """Each ceiling as measured, beside the datasheet's, or beside what a CPU's clock and lanes give on paper."""
    out = []
    for found in each(peaks):
        sheet = devices.find(found.value["machine"])
        rows = [
            {
                "roof": row["roof"],
                "unit": row["unit"],
                "measured": significant(row["measured"]),
                "sheet": None if row["datasheet"] is None else significant(row["datasheet"]),
                "share": None if row["share"] is None else format_share(row["measured"], row["datasheet"]),
            }
            for row in roofline.beside(line_of(found), sheet)
        ]
        columns = {"roof": "ceiling", "unit": "in", "measured": "measured"}
        if sheet:
            columns |= {"sheet": f"datasheet, {sheet.name}", "share": "share"}
        notes = [found.label, *found.value["notes"], *(f"{what}: {why}" for what, why in _missing(found.value).items())]
        out.append(Table(rows, columns, "Ceilings", notes))
    return out


def _missing(part: Mapping) -> dict[str, str]:
    return {**part["gemm"]["missing"], **part["engines"]["missing"]}


def gap(peaks: Both) -> Sentence:
    """What of the promised ceilings was reached, and why not all of it."""
    return told(peaks, "the gap to the datasheet", _gap)


def _gap(part: Mapping) -> str:
    numbers, sheet, paper = part["numbers"], part["datasheet"], part["paper"]
    if sheet:
        shares = [f"memory {per_cent(numbers['gbps'] / sheet['gbps'])}"]
        shares += [
            f"products in {dtype} {per_cent(numbers[f'gemm_{dtype}'] / peak)}"
            for dtype, peak in sheet["tflops"].items()
            if f"gemm_{dtype}" in numbers
        ]
        return (
            f"Of its datasheet this {sheet['name']} reached: {', '.join(shares)}. A memory also refreshes and turns from reading "
            "to writing; a chip full of products draws so much power that its clock falls below the sheet's."
        )
    if paper and "vector_fp32" in numbers:
        return (
            f"No datasheet of this machine is known. On paper {paper['cores']} cores of {significant(paper['ghz'])} GHz with "
            f"{paper['lanes']} lanes and two multiply-adds a cycle do {significant(paper['fp32_tflops'])} · 10¹² FLOP a second; "
            f"the loop in registers reached {per_cent(numbers['vector_fp32'] / paper['fp32_tflops'])} of it. Cores that are two "
            "threads of one, a clock that falls under load and neighbours on the machine take the rest."
        )
    return "Nothing is known that these ceilings could be compared with."


# ------------------------------------------------------------------------------------------------ what data costs


def warm(part: Both, peaks: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): bytes a second of an add on the same data again and again."""

    def beside(found: Found) -> float | None:
        value = peaks.here.value if found is part.here else peaks.there.value
        return None if value is None else value["numbers"]["gbps"]

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        roof = beside(part.here if value is part.here.value else part.there)
        words = (
            f"On the same tensors again and again the add moved {significant(numbers['warm_gbps'])} GB/s, on {value['sets']} "
            f"sets in turn {significant(numbers['cold_gbps'])} GB/s: cold data take {times(numbers['ratio'])} as long."
        )
        return words if roof is None else f"{words} The best stream through the memory moved {significant(roof)} GB/s."

    def kind(value: Mapping) -> str:
        rate, roof = value["numbers"]["warm_gbps"], beside(part.first) or value["numbers"]["cold_gbps"]
        return "above" if rate > OVER * roof else "less" if rate < roof / APART else "memory"

    return option(part, kind, WARM_ANSWERS), told(part, "warm against cold data", say)


def soon(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): two ops over pieces that fit a cache, against all of each in turn."""

    def kind(value: Mapping) -> str:
        found = value["race"].difference("late", "reused")
        return "same" if not found.seen else "shorter" if found.ns < 0 else "longer"

    def say(value: Mapping) -> str:
        race, numbers = value["race"], value["numbers"]
        return (
            f"All first ops, then all second ones: {format_time(race['late'].ns)}. Piece by piece, each into a result of its "
            f"own, {format_time(race['soon'].ns)}; with one small intermediate for all pieces {format_time(race['reused'].ns)}. "
            f"{significant(value['bytes'] * 1e-6)} million bytes were counted each time. Counted bytes over time give "
            f"{significant(numbers['reused_gbps'])} GB/s, where the best stream of the race reached "
            f"{significant(numbers['roof_gbps'])}."
        )

    return option(part, kind, SOON_ANSWERS), told(part, "an intermediate in the cache", say)


def race_views(part: Both, title: str) -> list[Picture]:
    """The race of a part, here and on the recorded GPU, each in a figure of its own."""
    return [figures.compare(found.value["race"], title=title, source=found.label) for found in each(part)]


def layout(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): an add with one transposed operand."""

    def kind(value: Mapping) -> str:
        ratio = value["numbers"]["transposed_ratio"]
        return "same" if ratio < APART else "somewhat" if ratio < 2 else "many"

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        copied = numbers["copied_ratio"]
        cheaper = "less than as it lies" if copied < numbers["transposed_ratio"] else "no gain over adding it as it lies"
        return (
            f"With one transposed operand the add took {times(numbers['transposed_ratio'])} as long as with none, with both and "
            f"the result transposed {times(numbers['both_ratio'])}: the bytes counted are the same. Making it contiguous first, "
            f"which moves more bytes, took {times(copied)} as long: {cheaper}. Copying every 16th number took "
            f"{times(numbers['every_16_ratio'])} as long as copying as many that lie side by side."
        )

    return option(part, kind, LAYOUT_ANSWERS), told(part, "layouts", say)


def fresh(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): c = a + b beside an add into a tensor that is there, 64 MiB each."""

    def kind(value: Mapping) -> str:
        ratio = value["numbers"]["fresh_64_ratio"]
        return "nothing" if ratio < APART else "little" if ratio < 1.5 else "more"

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        words = (
            f"c = a + b took {times(numbers['fresh_64_ratio'])} as long as an add into a given c, with "
            f"{numbers['fresh_64_faults']:,.0f} page faults a call against {numbers['fresh_64_given_faults']:,.0f}."
        )
        if "pinned_64_ratio" in numbers:
            words += (
                f" With malloc told to keep what is freed, {times(numbers['pinned_64_ratio'])} as long and "
                f"{numbers['pinned_64_faults']:,.0f} faults."
            )
        return words

    here = part.here
    words = say(here.value) + f" ({here.label})" if here.value is not None else not_measured(here, "an allocation in the clock")
    right = None if here.value is None else FRESH_ANSWERS[kind(here.value)][1]
    return right, Sentence(words, "A GPU's results come from torch's own allocator, which keeps what is freed.")


def fresh_table(part: Both) -> Table | None:
    """Every history of the process, size and arm: time, page faults, counted bytes over time."""
    if part.here.value is None:
        return None
    rows = [
        {
            "history": row["history"],
            "size": f"{row['mb']} MiB",
            "arm": row["arm"],
            "ns": format_time(row["ns"]),
            "faults": f"{row['faults']:,.0f} of {row['pages']:,.0f}",
            "gbps": significant(row["gbps"]),
        }
        for row in part.here.value["rows"]
    ]
    columns = {
        "history": "process",
        "size": "a tensor",
        "arm": "result",
        "ns": "an add",
        "faults": "faults a call, of pages",
        "gbps": "GB/s",
    }
    return Table(rows, columns, "Where the result's memory comes from", [part.here.label, *part.here.value["notes"]])


# ------------------------------------------------------------------------------------------------ real ops


def bound(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): which ops of the table are right of the ridge of their own engine."""
    return option(part, _bound_kind, BOUND_ANSWERS), told(part, "the op table", _bound)


def _right_of(part: Mapping) -> list[str]:
    return [row["op"] for row in part["rows"] if row["bound"] == "arithmetic"]


def _bound_kind(part: Mapping) -> str:
    right = set(_right_of(part))
    return "none" if not right else "large" if right == {"gemm"} else "products" if right <= {"gemm", "matvec"} else "special"


def _bound(part: Mapping) -> str:
    title = {row["op"]: row["title"] for row in part["rows"]}
    right = [title[op] for op in _right_of(part)]
    left = sorted((row for row in part["rows"] if row["bound"] == "memory"), key=lambda row: row["share"])
    words = f"Right of the ridge of its own engine: {', '.join(right) if right else 'none'}."
    if not left:
        return words
    last, first = left[0], left[-1]
    return (
        f"{words} Of the others “{first['title']}” came nearest to the roof with {per_cent(first['share'])} of the rate that "
        f"its bytes allow, and “{last['title']}” stayed farthest with {per_cent(last['share'])}: left of its ridge, and not at "
        "the memory's roof either. FLOPs are not all that a kernel does; a kernel's instructions must issue, too."
    )


def op_figures(part: Both) -> list[Picture]:
    """The ops on the roofline of the same race: here and on the recorded GPU, each in a figure of its own."""
    out = []
    for found in each(part):
        named = found.value["roofs"]
        line = roofline.from_peaks({"numbers": named}, found.label)
        spare = "vector_fp32" if "vector_fp32" in line.roofs else next(iter(line.roofs))
        out.append(roofline_figure.figure(line, roofline_figure.points_of(found.value["rows"], spare), "Where the ops stand"))
    return out


def op_tables(part: Both) -> list[Table]:
    """Every op: counted intensity; time, FLOPs and counted bytes a second as measured; its floor, and floor over time."""
    columns = {
        "title": "op",
        "shape": "shapes",
        "intensity": "FLOP per byte",
        "ns": "took",
        "tera": "1e12 FLOP/s",
        "gbps": "GB/s",
        "floor": "floor",
        "bound": "set by",
        "share": "floor / time",
    }
    out = []
    for found in each(part):
        rows = [
            {
                "title": row["title"],
                "shape": row["shape"],
                "intensity": significant(row["intensity"]),
                "ns": format_time(row["ns"]),
                "tera": significant(row["tera"]),
                "gbps": significant(row["gbps"]),
                "floor": format_time(row["floor_ns"]),
                "bound": "bytes" if row["bound"] == "memory" else "arithmetic",
                "share": format_share(row["floor_ns"], row["ns"]),
            }
            for row in found.value["rows"]
        ]
        notes = [found.label, f"dtype {found.value['dtype']}", *found.value["notes"]]
        out.append(Table(rows, columns, "Ops on the roofline", notes))
    return out


def decode(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was counted, sentences): what a larger batch makes of decode's FLOP per byte."""

    def kind(value: Mapping) -> str:
        numbers = value["numbers"]
        ratio = numbers["intensity_largest"] / numbers["intensity"]
        return "grows" if ratio > APART else "falls" if ratio < 1 / APART else "same"

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        return (
            f"Attention of one new token does {significant(numbers['intensity'])} FLOP per byte for one sequence and "
            f"{significant(numbers['intensity_largest'])} in the largest batch; a linear layer goes from "
            f"{significant(numbers['linear_first'])} to {significant(numbers['linear_largest'])}. Where four heads share a cache "
            f"it is {significant(numbers['intensity_shared'])}. One sequence moved {significant(numbers['gbps'])} GB/s, "
            f"{per_cent(numbers['share'])} of the best stream of the race."
        )

    return option(part, kind, DECODE_ANSWERS), told(part, "attention decode", say)


def decode_tables(part: Both) -> list[Table]:
    """Each batch and sharing of heads: intensity, time, bytes a second, and a linear layer's intensity beside it."""
    columns = {
        "batch": "sequences",
        "kv_heads": "cached heads",
        "intensity": "FLOP per byte",
        "linear": "a linear layer's",
        "ns": "took",
        "gbps": "GB/s",
    }
    out = []
    for found in each(part):
        rows = [
            {
                "batch": row["batch"],
                "kv_heads": f"{row['kv_heads']} for {row['heads']}",
                "intensity": significant(row["intensity"]),
                "linear": significant(row["linear_intensity"]),
                "ns": format_time(row["ns"]),
                "gbps": significant(row["gbps"]),
            }
            for row in found.value["rows"]
        ]
        context = found.value["rows"][0]["context"]
        notes = [found.label, f"{found.value['dtype']}, {context:,} cached tokens", *found.value["notes"]]
        out.append(Table(rows, columns, "Attention of one new token", notes))
    return out


def census(part: Both) -> Sentence:
    """What of a training step is below its ridge, by count and by time, and where the products stand."""
    return told(part, "a census of a training step", _census)


def _census(part: Mapping) -> str:
    numbers = part["numbers"]
    return (
        f"Of {numbers['ops']:,.0f} ops of a training step ({part['model']}), {per_cent(numbers['below_count'])} are below the "
        f"ridge of their own engine. They take {per_cent(numbers['below_time'])} of the time. Products are "
        f"{per_cent(numbers['product_count'])} of the ops and {per_cent(numbers['product_time'])} of the time, the optimiser's "
        f"{per_cent(numbers['optimizer_count'])} and {per_cent(numbers['optimizer_time'])}."
    )


def census_figures(part: Both) -> list[Picture]:
    """Each group's share of the ops and of the time."""
    out = []
    for found in each(part):
        numbers = found.value["numbers"]
        shares = {
            name: (numbers[f"{group}_count"], numbers[f"{group}_time"])
            for group, name in GROUPS.items()
            if numbers.get(f"{group}_count")
        }
        out.append(ridge_figures.shares(shares, f"A training step, op by op: {found.value['model']}", found.label))
    return out


def mfu(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): which model's step comes nearest to the peak of products."""

    def kind(value: Mapping) -> str:
        ratio = value["numbers"]["wide_over_tiny"]
        return "wide" if ratio > 1.5 else "tiny" if ratio < 1 / 1.5 else "same"

    def say(value: Mapping) -> str:
        rows = value["rows"]
        told = ", ".join(f"the {row['model']} one {per_cent(row['mfu'])}" for row in rows)
        return f"Of the measured peak of products in {value['dtype']}, a training step reached: {told}."

    return option(part, kind, MFU_ANSWERS), told(part, "MFU", say)


def mfu_tables(part: Both) -> list[Table]:
    """Each model: parameters, tokens, time of a step, FLOPs counted and by the rule of thumb, and both kinds of MFU."""
    columns = {
        "model": "model",
        "words": "size",
        "step": "a step",
        "flops": "million FLOP, counted",
        "six": "6 × parameters × tokens",
        "mfu": "MFU, of the measured peak",
        "sheet": "of the datasheet's",
    }

    def line(row: Mapping) -> dict:
        return {
            "model": row["model"],
            "words": row["words"],
            "step": format_time(row["step_ns"]),
            "flops": significant(row["flops"] * 1e-6),
            "six": significant(row["six_nd"] * 1e-6),
            "mfu": per_cent(row["mfu"]),
            "sheet": None if row["mfu_datasheet"] is None else per_cent(row["mfu_datasheet"]),
        }

    return tables(part, columns, "MFU of a training step", line)


# ------------------------------------------------------------------------------------------------ deeper


def levels(part: Both) -> Sentence:
    """The bandwidth of each cache level beside the memory's."""

    def say(value: Mapping) -> str:
        rates = {name.removesuffix("_gbps"): rate for name, rate in value["numbers"].items() if name.endswith("_gbps")}
        told = ", ".join(f"{name} {significant(rate)}" for name, rate in rates.items())
        first, last = next(iter(rates.values())), list(rates.values())[-1]
        return f"Reading, in GB/s: {told}. The first is {times(first / last)} the last, so each level has ridges of its own."

    return told(part, "the bandwidth of each cache", say)


def level_figures(part: Both) -> list[Picture]:
    return [ridge_figures.levels(found.value["points"], found.value["caches"], found.label) for found in each(part)]


def knee(part: Both) -> Sentence:
    """Where the roof bends for multiply-adds, and where for work without a single FLOP."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        told = [
            f"{words} {significant(numbers[name])}"
            for name, words in (("ridge_fma", "multiply-adds at"), ("ridge_integer", "integer work at"))
            if name in numbers
        ]
        if not told:
            return "The line did not bend within the range that was tried."
        return f"The line bends, in operations per byte: {', '.join(told)}. Integer work has no FLOP at all, and bends it, too."

    return told(part, "a traced roof", say)


def knee_figures(part: Both) -> list[Picture]:
    """Measured points of a kernel with ever more operations an element, with the roofline that they trace."""
    out = []
    for found in each(part):
        numbers, points = found.value["numbers"], found.value["points"]
        named, shown = {}, []
        for engine, roof in (("fma", "vector_fp32"), ("integer", "integer")):
            if engine in numbers:
                named[roof] = Roof(roof, numbers[engine], roofline.UNITS.get(roof, roofline.FLOP))
                kind = "multiply-adds" if engine == "fma" else "integer operations"
                shown += [Point(f"{p['k']} {kind}", p["intensity"], roof, p["tera"]) for p in points[engine]]
        if named:
            out.append(roofline_figure.figure(Roofline(found.label, numbers["gbps"], named), shown, "A roof, traced"))
    return out


def activation(part: Both) -> Sentence:
    """The paper sum of one large activation beside what was measured."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        words = (
            f"Reading and writing 256 MiB: {format_time(numbers['paper_read_write'])} on paper at 3.3 TB/s, measured "
            f"{format_time(numbers['read_write'])}."
        )
        if "read" not in numbers:
            return words
        return f"Reading 256 MiB: {format_time(numbers['paper_read'])} on paper, measured {format_time(numbers['read'])}. {words}"

    return told(part, "one activation", say)


def gemm_tax(part: Both) -> Sentence:
    """The host's price beside a product's time."""

    def say(value: Mapping) -> str:
        shares = ", ".join(f"n = {row['n']:,} {per_cent(row['share'])}" for row in value["rows"])
        return f"The host's price of a product, as a share of its time: {shares}."

    return told(part, "a product's tax", say)


# ------------------------------------------------------------------------------------------------ the numbers that are judged


# Part → the numbers that the lesson's checks speak of.
JUDGED = {
    "peaks": ("gemm_fp32", "vector_fp32"),
    "ops": ("intensity_add", "intensity_gemm"),
    "warm_cold": ("ratio",),
    "intermediate": ("reused_ratio",),
    "layout": ("transposed_ratio", "both_ratio"),
    "allocation": ("fresh_64_faults",),
    "decode": ("intensity", "intensity_largest"),
    "census": ("product_time", "product_count", "below_count"),
    "mfu": ("wide_over_tiny",),
}


def judged(device: str, **parts: Both) -> dict[str, dict]:
    """For `expect`: by part, the numbers that were measured here; in place of one that was not, why not."""
    return {name: judged_here(device, part.here, JUDGED[name], ridge_point.judged) for name, part in parts.items()}


# ------------------------------------------------------------------------------------------------ the end


def verdicts(device: str, found: Mapping[str, Both]) -> Table:
    """The claims of this lesson: yours (the parts `found` live, by name), recorded, cited, the verdict with its sentence."""
    return study_end.verdicts("ridge_point", device, found)


TRANSFER_DEVICE = "NVIDIA H100 SXM"


@own_answer.in_unit("µs")
def transfer(mine_us: float | None, work: Work, mine_line: Roofline | None = None) -> Sentence | Table:
    """The reader's least time of a gate (two ops) on a datasheet's memory, beside what counting gives, and on their own."""
    device = next(d for d in devices.load() if d.name == TRANSFER_DEVICE)
    if mine_us is None:
        return Sentence(
            f"Nothing predicted yet: write the least time on the {device.name} in µs, mine = …, and run this cell again."
        )
    line = roofline.from_datasheet(device)
    ops, fused = (line.floor("vector_fp32", work.flops, nbytes) for nbytes in (work.bytes, work.least_bytes))
    rows = [
        {"what": "you", "time": format_ns(1e3 * mine_us)},
        {"what": f"two ops, {significant(work.bytes * 1e-6)} million bytes", "time": format_time(1e9 * ops.seconds)},
        {"what": f"in one kernel, {significant(work.least_bytes * 1e-6)} million", "time": format_time(1e9 * fused.seconds)},
        {"what": "the FLOPs alone", "time": format_time(1e9 * ops.arithmetic_s)},
    ]
    if mine_line is not None:
        own = work.bytes / mine_line.gbps
        rows.append({"what": "two ops through the memory of this machine", "time": format_time(own)})
    near = abs(1e-6 * mine_us - ops.seconds) <= 0.1 * ops.seconds
    counts = "Near enough: within 10 %." if near else "More than 10 % off: which tensors did you count, and how often?"
    notes = [counts, line.label, *([mine_line.label] if mine_line else [])]
    return Table(rows, {"what": "whose", "time": "least time"}, "silu(x) * y in bf16", notes)
