"""What lesson 12, memory plan, says about its measurements: computed sentences, tables, figures, and the numbers judged.

It measures nothing: each function takes what `utils.measure.study_here` found (live here, recorded there, or nothing, with the
reason) and words it, so that a sentence stays true when the numbers surprise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils.measure import planned_memory
from utils.measure.alloc_trace import Trace
from utils.measure.arena_traffic import APART, ARENA, EAGER
from utils.measure.block_memory import FORWARD, KEEPING, TRAINING
from utils.measure.compiled_memory import COMPILED
from utils.measure.compiled_memory import EAGER as AS_WRITTEN
from utils.measure.fragmentation import LARGER
from utils.measure.recompute import name_of
from utils.measure.stream_reuse import RECORDED, UNTOLD
from utils.measure.stream_reuse import SAME as SAME_STREAM
from utils.measure.study_here import Both, recorded
from utils.model import memory_plan
from utils.model.memory_plan import Buffer
from utils.show import arena_explorer, arena_figure, batch_figures, figures, own_answer, study_end
from utils.show.arena_figure import Laid, mib
from utils.show.controls import Panel
from utils.show.explain import Sentence
from utils.show.here_and_there import each, not_measured, option, per_cent, tables, times, told
from utils.show.picture import Picture
from utils.show.study_end import judged_here
from utils.show.tables import NOTHING, Table, format_time, significant

STUDY = "memory_plan"

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
PEAK_ANSWERS = {
    "one": ("next_takes_the_place", "One: each result takes the place of the one before"),
    "some": (None, "More than one, and far fewer than all"),
    "all": ("peak_is_the_sum", "All: every result is there until the end"),
}
GRAD_ANSWERS = {
    "same": ("backward_needs_nothing", "As much as without: backward comes later"),
    "more": (None, "More: what backward reads stays"),
    "all": ("backward_keeps_all", "The sum: backward needs every result"),
}
MISS_ANSWERS = {
    "alike": ("requests_cost_alike", "About as much"),
    "tens": (None, "Up to a hundred times as much"),
    "more": (None, "Hundreds of times as much, or more"),
}
PLAN_ANSWERS = {
    "time": ("allocators_see_ahead", "First fit in the order of time, as an allocator works"),
    "size": (None, "The largest first"),
    "alike": ("every_plan_reaches_the_peak", "Neither: both need what lives at once"),
}
COMPILED_ANSWERS = {
    "same": ("compile_saves_time_only", "As high: the same results are needed"),
    "less": (None, "Lower, and more than one buffer"),
    "one": ("compiled_needs_one_buffer", "One buffer: a fused program has no intermediates"),
}
BYTES_ANSWERS = {
    "fewer": ("plan_cuts_bytes", "Fewer bytes: it has less memory to go through"),
    "same": (None, "As many bytes: the ops read and write what they did"),
}
PLACE_ANSWERS = {
    "never": ("plan_changes_no_time", "At no size: the bytes are the same"),
    "always": ("plan_is_always_faster", "At every size"),
    "some": (None, "At some sizes"),
}
RECOMPUTE_ANSWERS = {
    "one": ("store_least_is_least", "At every layer's input"),
    "some": (None, "At the input of every few layers"),
    "last": ("store_least_is_least", "At the first layer's input alone"),
}
MEMORY_ANSWERS = {
    "request": (None, "The request that found no room"),
    "largest": ("error_names_the_culprit", "The buffer that takes most of the memory"),
    "need": ("error_names_the_need", "How much the step needs in all"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "memory_plan.peak": "A result lives as long as somebody holds it. A chain lets go of each once the next op has read it.",
    "memory_plan.grad": "What an op saves for backward is held by its node. The rest goes as before.",
    "memory_plan.miss": "A hit is a look into a list. A miss asks the system: pages on a CPU, the driver on a GPU.",
    "memory_plan.plan": "In the order of time a small buffer may lie where a large one wants to be. A plan places it last.",
    "memory_plan.compiled": "A fused result is never made; what is made lives by the same rules as before.",
    "memory_plan.bytes": "A place is where bytes lie. How often they are read and written is in the ops.",
    "memory_plan.place": "A small arena may stay in a cache that the sum of all results does not fit.",
    "memory_plan.recompute": "Stored inputs are layers over k; a group's results grow with k. Their sum has a least in between.",
    "memory_plan.memory": "The allocator knows one number when it fails: what it was just asked for.",
}

ALL, ONE = 0.95, 1.05  # a peak within 5 % of the sum is called all of it, one within 5 % of one result is called one
ALIKE, HUNDRED = 2.0, 100.0
FASTER = 1.15  # times within 15 % of each other are called about as long


def _row(value: Mapping, case: str) -> Mapping:
    return next(row for row in value["rows"] if row["case"] == case)


# ------------------------------------------------------------------------------------------------ when buffers live


def peak(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): forward without gradients, its peak beside its sum."""

    def kind(value: Mapping) -> str:
        row, numbers = _row(value, FORWARD), value["numbers"]
        return "all" if row["peak"] >= ALL * row["sum"] else "one" if numbers["forward_peak"] <= ONE else "some"

    def say(value: Mapping) -> str:
        row = _row(value, FORWARD)
        return (
            f"Buffers: {row['buffers']}, together {mib(row['sum'])}. At most {mib(row['peak'])} lived at one moment: "
            f"{per_cent(row['peak'] / row['sum'])} of the sum. {_agrees(value, row)}"
        )

    return option(part, kind, PEAK_ANSWERS), told(part, "the block's buffers", say)


def _agrees(value: Mapping, row: Mapping) -> str:
    """What the second count says of the same run."""
    who = "the allocator's own totals of requested bytes" if value["device"] == "cuda" else "a count of what the ops returned"
    off = max(abs(row["sum"] - row["counted_sum"]), abs(row["peak"] - row["counted_peak"]))
    words = f"By {who}: the same, to the byte." if not off else f"By {who} it is off by {mib(off)}."
    kept = "; ".join(f"{one['what']}: {mib(one['bytes'])}" for one in value["workspaces"])
    return f"{words} Beside it the library keeps memory: {kept}." if kept else words


def grad(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the same forward with gradients, and with backward."""

    def kind(value: Mapping) -> str:
        without, row = _row(value, FORWARD), _row(value, KEEPING)
        return "same" if row["peak"] <= ONE * without["peak"] else "all" if row["peak"] >= ALL * row["sum"] else "more"

    def say(value: Mapping) -> str:
        without, row, step = (_row(value, case) for case in (FORWARD, KEEPING, TRAINING))
        return (
            f"Without gradients the peak was {mib(without['peak'])}, with them {mib(row['peak'])} of a sum of {mib(row['sum'])}; "
            f"{mib(row['kept'])} stayed for backward and as the result. Forward and backward took {step['buffers']} buffers of "
            f"{mib(step['sum'])}; their peak: {mib(step['peak'])}, {per_cent(step['peak'] / step['sum'])} of the sum."
        )

    return option(part, kind, GRAD_ANSWERS), told(part, "the block with gradients", say)


def lives(part: Both, case: str) -> list[Picture]:
    """Every buffer of the case, each with a place of its own: as high as the sum; the peak as a dashed line."""
    out = []
    for found in each(part):
        seen = Trace.from_dict(found.value["traces"][case])
        buffers = seen.buffers()
        plan = memory_plan.no_reuse(buffers, align=1)
        laid = Laid(
            tuple((b.size, b.start, b.end) for b in buffers),
            tuple(block.op for block in seen.blocks),
            tuple(plan.offsets[b.id] for b in buffers),
            plan.size,
            seen.peak,
        )
        out.append(arena_figure.figure(laid, f"{case[:1].upper()}{case[1:]}: no byte used twice", found.label))
    return out


def life_tables(part: Both) -> list[Table]:
    columns = {
        "case": "case",
        "buffers": "buffers",
        "sum": "sum",
        "peak": "peak",
        "kept": "still there at the end",
        "counted": "peak by the second count",
    }

    def line(row: Mapping) -> dict:
        return {"case": row["case"], "buffers": row["buffers"], "sum": mib(row["sum"]), "peak": mib(row["peak"])} | {
            "kept": mib(row["kept"]),
            "counted": mib(row["counted_peak"]),
        }

    return tables(part, columns, "The block's memory", line)


# ------------------------------------------------------------------------------------------------ what a request costs


def miss(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): a large request from the system beside a small one that was kept."""

    def kind(value: Mapping) -> str:
        ratio = value["numbers"]["miss_over_hit"]
        return "alike" if ratio < ALIKE else "tens" if ratio <= HUNDRED else "more"

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        size = mib(max(row["bytes"] for row in value["rows"]))
        head = (
            f"A block of {size}: from what was kept {format_time(numbers['hit'])}, from the system "
            f"{format_time(numbers['miss'])}: {times(numbers['miss_over_hit'])}."
        )
        if value["device"] == "cuda":
            return (
                f"{head} A training step asked {numbers['requests']:,.0f} times; of the driver {numbers['first_faults']:,.0f} "
                "times "
                f"in the first step, {numbers['later_faults']:,.0f} in a later one."
            )
        where = (
            f" The asking itself took {format_time(numbers['asked_large'])}; the rest are {numbers['fresh_faults']:,.0f} page "
            "faults "
            f"at the first writing, {format_time(numbers['per_page'])} each."
            if "per_page" in numbers
            else ""
        )
        return (
            f"{head}{where} Pages that a training step touched anew: {numbers['first_faults']:,.0f} in the first, "
            f"{numbers['later_faults']:,.0f} in a later one."
        )

    return option(part, kind, MISS_ANSWERS), told(part, "the price of a request", say)


def miss_tables(part: Both) -> list[Table]:
    """Prices by size and place, and the first steps."""
    out = []
    for found in each(part):
        gpu = found.value["device"] == "cuda"
        name, words = ("segments", "asked of the driver, a call") if gpu else ("faults", "page faults, a call")
        rows = [
            {"state": row["state"], "bytes": mib(row["bytes"]), "what": row["what"], "took": format_time(row["ns"])}
            | {"fresh": significant(row[name], 4) if row[name] >= 0.01 else "0"}
            for row in found.value["rows"]
        ]
        columns = {"state": "memory", "bytes": "block", "what": "what", "took": "took", "fresh": words}
        out.append(Table(rows, columns, "One request", [found.label, *found.value["notes"]]))
        steps = [
            {"state": row["state"], "step": row["step"], "took": format_time(1e6 * row["ms"]), "fresh": f"{row[name]:,}"}
            for row in found.value["steps"]
        ]
        columns = {"state": "memory", "step": "step", "took": "took", "fresh": words.replace("a call", "a step")}
        out.append(Table(steps, columns, "The first training steps", [found.label]))
    return out


# ------------------------------------------------------------------------------------------------ an arena


def plan(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): the training step's arena, in the order of time and largest first."""

    def kind(value: Mapping) -> str:
        numbers = value["numbers"]
        online, offline = numbers["training_first_fit"], numbers["training_by_size"]
        return "alike" if abs(online - offline) < 0.005 else "time" if online < offline else "size"

    def say(value: Mapping) -> str:
        n = value["numbers"]
        same = "the very numbers of the op-by-op run" if n["same"] else "other numbers than the op-by-op run: a fault"
        over = "other numbers" if n["overlapped"] else "the same numbers all the same"
        return (
            f"Over what lives at once, the block's training step needs {significant(n['training_first_fit'], 4)} in the order "
            "of time and "
            f"{significant(n['training_by_size'], 4)} with the largest first; all buffers side by side "
            f"{significant(n['training_sum'], 3)}. A transformer layer: "
            f"{significant(n['layer_first_fit'], 4)}, {significant(n['layer_by_size'], 4)}, {significant(n['layer_sum'], 3)}. "
            "Run in its arena, the block "
            f"asked the allocator {n['requests_in_arena']:,.0f} times in place of {n['requests_before']:,.0f} and gave {same}; "
            "with one "
            f"buffer laid over another that is still needed it gave {over}."
        )

    return option(part, kind, PLAN_ANSWERS), told(part, "an arena", say)


def plan_tables(part: Both) -> list[Table]:
    columns = {
        "program": "program",
        "buffers": "buffers",
        "planner": "planner",
        "size": "arena",
        "bound": "lives at once",
        "over": "arena over it",
    }

    def line(row: Mapping) -> dict:
        return {"program": row["program"], "buffers": row["buffers"], "planner": row["planner"], "size": mib(row["size"])} | {
            "bound": mib(row["bound"]),
            "over": significant(row["over"], 4),
        }

    return tables(part, columns, "Arenas, planner by planner", line)


def arenas(part: Both) -> Panel | Sentence:
    """The controls over the traced programs, as measured here, else as recorded."""
    found = part.first
    if found.value is None:
        return Sentence(not_measured(found, "programs to plan"))
    return arena_explorer.explorer(found.value["programs"], found.label)


# ------------------------------------------------------------------------------------------------ what a compiler leaves


def with_cpu(part: Both, name: str) -> Both:
    """Where a part is neither here nor recorded on a GPU, the CPU's recording in the GPU's place: its label says whose it is."""
    if part.here.value is not None or part.there.value is not None:
        return part
    kept = recorded(STUDY, name, "cpu")
    return Both(part.here, kept) if kept.value is not None else part


def compiled(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the compiled forward's buffers beside eager's."""

    def kind(value: Mapping) -> str:
        n = value["numbers"]
        return "one" if n["forward_compiled_over_largest"] <= ONE else "less" if n["forward_peak"] < ALL else "same"

    def say(value: Mapping) -> str:
        rows = {(row["case"], row["way"]): row for row in value["rows"]}
        out = []
        for case in (FORWARD, TRAINING):
            if (case, COMPILED) in rows:
                eager, fast = rows[case, AS_WRITTEN], rows[case, COMPILED]
                out.append(
                    f"{case[:1].upper()}{case[1:]}: {eager['buffers']} buffers of {mib(eager['sum'])} with a peak of "
                    f"{mib(eager['peak'])}; "
                    f"compiled {fast['buffers']} of {mib(fast['sum'])}, peak {mib(fast['peak'])}, "
                    f"{times(fast['peak'] / fast['largest'])} the largest buffer."
                )
        return " ".join(out)

    return option(part, kind, COMPILED_ANSWERS), told(part, "the compiled block's buffers", say)


def compiled_tables(part: Both) -> list[Table]:
    columns = {
        "case": "case",
        "way": "way",
        "buffers": "buffers",
        "sum": "sum",
        "peak": "peak",
        "planned": "best arena for them",
    }

    def line(row: Mapping) -> dict:
        return {"case": row["case"], "way": row["way"], "buffers": row["buffers"]} | {
            name: mib(row[name]) for name in ("sum", "peak", "planned")
        }

    return tables(part, columns, "Buffers, eager and compiled", line)


# ------------------------------------------------------------------------------------------------ what planning moves


def moved(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was counted, sentences): bytes that the chain reads and writes, in each home."""

    def kind(value: Mapping) -> str:
        return "fewer" if value["numbers"]["moved_ratio"] > 1.01 else "same"

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        row = {row["way"]: row for row in value["rows"]}
        return (
            f"In the arena the results lie in {significant(1 / numbers['placed_ratio'], 2)} of the memory. The ops read and "
            "write "
            f"{mib(row[ARENA]['moved'])} there, and {mib(row[APART]['moved'])} with a place for each: "
            f"{times(numbers['moved_ratio'])} as many bytes."
        )

    return option(part, kind, BYTES_ANSWERS), told(part, "bytes of a chain of adds", say)


def place(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the time of the chain, each result apart over in an arena, by size."""

    def ratios(value: Mapping) -> dict[int, float]:
        return {row["activation"]: row["over"] for row in value["rows"] if row["way"] == APART}

    def kind(value: Mapping) -> str:
        faster = [ratio > FASTER for ratio in ratios(value).values()]
        return "always" if all(faster) else "some" if any(faster) else "never"

    def say(value: Mapping) -> str:
        n = value["numbers"]
        by = "; ".join(f"{mib(size)}: {times(ratio)}" for size, ratio in ratios(value).items())
        eager = [row["over"] for row in value["rows"] if row["way"] == EAGER]
        kept = max(value["caches"].values(), default=0)
        near = all(over < FASTER for over in eager)
        return (
            f"Each result in a place of its own, over the arena's time, by size of a result: {by}. The largest cache has "
            f"{mib(kept) if kept else 'an unknown size'}; the chain of {mib(n['most_at'])} results showed most. Eager results, "
            "from an "
            f"allocator that reuses what was just freed, took {significant(min(eager), 2)} to {significant(max(eager), 2)} "
            "times the "
            f"arena's time{': about as long' if near else ''}."
        )

    return option(part, kind, PLACE_ANSWERS), told(part, "the chain's time by size", say)


def traffic_figures(part: Both) -> list[Picture]:
    names = {APART: "a place for each", ARENA: "two places in turn", EAGER: "eager, fresh results"}
    out = []
    for found in each(part):
        lines = {
            words: {row["activation"] >> 10: 1e3 * row["us"] for row in found.value["rows"] if row["way"] == way}
            for way, words in names.items()
        }
        x = "KiB of one result"
        out.append(batch_figures.against_batch(lines, "A chain of adds, by where its results lie", found.label, x=x, short=x))
    return out


# ------------------------------------------------------------------------------------------------ store or recompute


def again(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the least peak, what it costs, and the gradients."""

    def kind(value: Mapping) -> str:
        every = value["numbers"]["least_every"]
        return "one" if every <= 1 else "last" if every >= value["layers"] else "some"

    def say(value: Mapping) -> str:
        n, store = value["numbers"], next(row for row in value["rows"] if not row["every"])
        least = min(value["rows"], key=lambda row: row["peak"])
        found = value["race"].difference(name_of(least["every"]), name_of(0))
        cost = f"{times(n['least_time'])} the time" if found.seen else "no difference in time seen"
        grads = "bit by bit those of storing" if n["same"] else "other than those of storing: a fault"
        careless = "still the same" if n["same_without"] else "others"
        return (
            f"Storing all: a peak of {mib(store['peak'])}. Least with the input of every {least['every']} layers stored: "
            f"{mib(least['peak'])}, {per_cent(n['least_peak'])} of it, for {cost} and {times(least['ops'] / store['ops'])} the "
            "ops. The "
            f"gradients are {grads}; without the generator's state, which is stored as well, they are {careless}."
        )

    return option(part, kind, RECOMPUTE_ANSWERS), told(part, "recomputing", say)


def again_figures(part: Both) -> list[Picture | Table]:
    """The peaks as bars, and beside them what each choice costs."""
    out: list[Picture | Table] = []
    for found in each(part):
        rows = found.value["rows"]
        peaks = {name_of(row["every"]): row["peak"] / (1 << 20) for row in rows}
        out.append(figures.bar(peaks, title="Peak of a training step, by what is stored", unit="MiB", source=found.label))
        lines = [
            {"every": name_of(row["every"]), "peak": mib(row["peak"]), "kept": mib(row["kept"]), "took": format_time(row["ns"])}
            | {"over": significant(row["over"], 2), "ops": row["ops"]}
            for row in rows
        ]
        columns = {
            "every": "stored",
            "peak": "peak",
            "kept": "kept after forward",
            "took": "a step",
            "over": "over storing",
            "ops": "ops",
        }
        out.append(Table(lines, columns, "Store or recompute", [found.label, *found.value["notes"]]))
    return out


# ------------------------------------------------------------------------------------------------ out of memory


def memory(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): the step at its limit, what the error says, and what goes on after it."""

    def stored(value: Mapping) -> Mapping:
        return next(row for row in value["rows"] if row["way"] == "store")

    def kind(value: Mapping) -> str | None:
        row = stored(value)
        if not row["failed"] or not row["asked"]:
            return None
        return "request" if row["asked"] < row["limit"] / 4 else "need" if row["asked"] >= row["peak"] / 2 else None

    def say(value: Mapping) -> str:
        row, n = stored(value), value["numbers"]
        if not row["failed"]:
            return f"With a limit of {mib(row['limit'])} the step of {mib(row['peak'])} did not fail: the limit did not bind"
        said = f"{row['error']}: “{row['said']}”"
        names = f"It names {mib(row['asked'])}, of a step that needs {mib(row['peak'])}." if row["asked"] else "It names no size."
        rest = "fits" if not n["recompute_failed"] else "fails too"
        after = "goes on" if not n["after_failed"] else "does not go on"
        untouched = (
            f" Asking for {mib(n['untouched'])} gave the process {mib(n['resident'])}; writing to {mib(n['written'])} of it "
            f"{mib(n['resident_written'])}."
            if "untouched" in n
            else ""
        )
        return (
            f"With {mib(row['limit'])} to take, storing all fails. {said}. {names} Under the same limit recomputing {rest}, and "
            "the "
            f"process {after} with smaller steps.{untouched}"
        )

    return option(part, kind, MEMORY_ANSWERS), told(part, "running out of memory", say)


def memory_tables(part: Both) -> list[Table]:
    columns = {"way": "step", "peak": "its peak", "limit": "the limit", "failed": "fails", "asked": "named by the error"}

    def line(row: Mapping) -> dict:
        return {"way": row["way"], "peak": mib(row["peak"]), "limit": mib(row["limit"])} | {
            "failed": row["error"] if row["failed"] else "no",
            "asked": mib(row["asked"]) if row["asked"] else NOTHING,
        }

    return tables(part, columns, "A limit between two peaks", line)


# ------------------------------------------------------------------------------------------------ deeper


def gaps(part: Both) -> Sentence:
    """What the allocator took from the system although enough bytes were free, and what a plan would have needed."""

    def say(value: Mapping) -> str:
        n = value["numbers"]
        row = next(row for row in value["rows"] if row["what"] == LARGER)
        return (
            f"Free in gaps: {mib(row['free'])}. Of what was asked then, new from the system: {_share(n['gaps_grew'])} for blocks "
            f"that fit the gaps, {_share(n['larger_grew'])} for blocks twice as large, {_share(n['joined_grew'])} for those "
            "where neighbours "
            f"had been freed. Known beforehand, the second case needs {significant(n['offline_over'], 3)} of what lives at "
            "once; in the "
            f"order of time {significant(n['online_over'], 3)}."
        )

    return told(part, "fragmentation", say)


def _share(share: float) -> str:
    return per_cent(share) if share else "none"


def gap_tables(part: Both) -> list[Table]:
    columns = {"what": "asked for", "asked": "bytes", "free": "free in gaps", "grew": "new from the system"}

    def line(row: Mapping) -> dict:
        return {"what": row["what"], "asked": mib(row["asked"]), "free": mib(row["free"]), "grew": mib(row["grew"])}

    return tables(part, columns, "Enough is free, and no gap is large enough", line)


def streams(part: Both) -> Sentence:
    """Whether a freed block was handed out while its reader still waited, and what the reader then read."""

    def say(value: Mapping) -> str:
        by = {row["case"]: row for row in value["rows"]}
        words = []
        for case in (SAME_STREAM, UNTOLD, RECORDED):
            row = by[case]
            given = "the freed block was handed out at once" if row["handed_out"] else "another block was handed out"
            words.append(f"{case}: {given}, the reader saw {'the old numbers' if row['right'] else 'the new ones, too early'}")
        pools = value["numbers"]
        if "pool_apart" in pools:
            words.append(
                "a private pool's block was "
                + ("kept for that pool" if pools["pool_apart"] and pools["pool_again"] else "handed out elsewhere")
            )
        how = "Played through, not measured: " if value["label"] == "simulated" else ""
        return f"{how}{'; '.join(words)}."

    here = part.here.value
    if here is not None and here["label"] == "simulated":
        there = part.there
        kept = (
            f"{say(there.value)} ({there.label})"
            if there.value is not None
            else not_measured(there, "reuse across streams, on a GPU")
        )
        return Sentence(say(here), kept)
    return told(part, "reuse across streams", say)


# ------------------------------------------------------------------------------------------------ the numbers that are judged


# Part → the numbers that the lesson's checks speak of.
JUDGED = {
    "liveness": (
        "forward_share",
        "keeping_share",
        "training_share",
        "forward_off",
        "keeping_off",
        "training_off",
        "forward_kept",
    ),
    "requests": ("miss_over_hit",),
    "arena": ("training_by_size", "layer_best", "layer_first_fit", "training_sum", "same", "overlapped", "requests_in_arena"),
    "compiled": ("forward_peak", "forward_sum"),
    "traffic": ("moved_ratio", "placed_ratio", "wrong"),
    "recompute": ("least_peak", "ops_ratio", "same", "same_without"),
    "out_of_memory": ("stored_failed", "recompute_failed", "after_failed"),
    "fragmentation": ("larger_grew", "gaps_grew", "offline_over", "online_over"),
    "reuse": ("untold_right", "recorded_right"),
}


def judged(device: str, **parts: Both) -> dict[str, dict]:
    """For `expect`: by part, the numbers that were measured here; in place of one that was not, why not."""
    return {name: judged_here(device, part.here, JUDGED[name], planned_memory.judged) for name, part in parts.items()}


# ------------------------------------------------------------------------------------------------ the end


def verdicts(device: str, found: Mapping[str, Both]) -> Table:
    """The claims of this lesson: yours (the parts `found` live, by name), recorded, cited, the verdict with its sentence."""
    return study_end.verdicts(STUDY, device, found)


@own_answer.in_unit("MiB")
def transfer(mine: int | None, buffers: Sequence[tuple[int, int, int]]) -> Sentence | Table:
    """The reader's smallest arena for these buffers (MiB, first moment, moment from which it is gone), beside what there is."""
    if mine is None:
        return Sentence("Nothing predicted yet: write your arena in MiB, mine = …, and run this cell again.")
    made = [Buffer(n, *one) for n, one in enumerate(buffers)]
    least = memory_plan.optimum(made, align=1).size
    rows = [
        {"arena": "yours", "mib": mine},
        {"arena": "all side by side", "mib": memory_plan.total(made, 1)},
        {"arena": "first fit, in the order of time", "mib": memory_plan.first_fit(made, 1).size},
        {"arena": "largest first", "mib": memory_plan.by_size(made, 1).size},
        {"arena": "the most that lives at once", "mib": memory_plan.peak(made, 1)},
        {"arena": "the smallest there is", "mib": least},
    ]
    said = (
        "That is the smallest there is."
        if mine == least
        else "Too small: at some moment more than that is alive, or two must share bytes."
        if mine < least
        else "It can be smaller: look for the moment at which most is alive, and place the largest first."
    )
    return Table(rows, {"arena": "arena", "mib": "MiB"}, "The smallest arena", [said])
