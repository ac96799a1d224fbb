"""What lesson 10, reach the roof, says about its measurements: computed sentences, tables, figures, the numbers that are judged.

It measures nothing: each function takes what `utils.measure.study_here` found (live here, recorded there, or nothing, with the
reason) and words it, so that a sentence stays true when the numbers surprise.
"""

from __future__ import annotations

from collections.abc import Mapping

from utils.kernels.forms import ABLATIONS, P
from utils.kernels.ladder import rungs
from utils.measure import honest_tail
from utils.measure.fuse_arms import COLS, ROWS
from utils.measure.launch_here import Found
from utils.measure.reach_the_roof import judged as judged_part
from utils.measure.study_here import Both, recorded
from utils.measure.tail_instructions import ALONE, FIRST
from utils.model.step_model import BYTES
from utils.show import own_answer, study_end, tail_figures
from utils.show.explain import Sentence
from utils.show.here_and_there import each, not_measured, option, per_cent, tables, times, told
from utils.show.picture import Picture
from utils.show.study_end import judged_here
from utils.show.tables import NOTHING, Table, format_time, significant

STUDY = "reach_the_roof"

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
FLOPS_ANSWERS = {
    "left": (None, "Left of it: by its FLOPs it is memory bound"),
    "right": ("slow_means_flops", "Right of it: its arithmetic is too much"),
}
ABLATION_ANSWERS = {
    "draw": (None, "The draw of dropout"),
    "erf": ("hard_functions_cost_most", "erf"),
    "remainder": ("division_costs_most", "The remainder that finds the bias"),
}
RECOVERY_ANSWERS = {
    "roof": (None, "Much less, down to about its bytes"),
    "quarter": ("saving_is_proportional", "A quarter of its time"),
    "between": (None, "Less, but it stays far above its bytes"),
    "same": ("bytes_always_decide", "As long as before: the memory is the limit"),
}
CHEAT_ANSWERS = {
    "share": ("right_share_is_random", "The share that is kept"),
    "down": (None, "Neighbours in a column"),
    "seeds": ("same_seed_is_the_fault", "Another seed"),
}
GELU_ANSWERS = {
    "formula with erf": ("formula_is_exact", "The formula with erf, in fp32"),
    "torch, bf16": ("library_is_exact", "torch's own, in bf16"),
    "cheap, degree 4": (None, "A short polynomial, as the exponent of 2"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "reach_the_roof.first": "A kernel is as fast as its slowest resource, and bytes are only one of them.",
    "reach_the_roof.flops": "A draw is integer work: no FLOP of it shows in a roofline of FLOPs.",
    "reach_the_roof.instructions": "Each instruction of each thread takes a turn at a scheduler, whatever it computes.",
    "reach_the_roof.ablation": "What the time loses without a part, that part had cost. What hides had cost nothing.",
    "reach_the_roof.cached": "In a cache bytes are cheap: arithmetic shows. From memory it hides if a core does both at once.",
    "reach_the_roof.recovery": "Work goes down with the number of calls; time goes down only as far as the next roof.",
    "reach_the_roof.cheat": "A mask is random if its elements are independent. A share looks at one element at a time.",
    "reach_the_roof.gelu": "1 + erf cancels in the tail. A power of 2 keeps its relative error however small it gets.",
}

CLOSE = 1.15  # a time within this factor of the plain add's is called at the roof
QUARTER = 0.3  # of the time before
SAME = 0.95
HIDES = 0.1  # a smaller share of an addition is not told from none
BEFORE, AFTER = "cheap gelu", "four words"  # the rungs between which the other three words are used
CHEAT = "one word for four rows"
ELEMENTS = ROWS["cuda"] * COLS
NBYTES = 3 * BYTES["bf16"]  # of an element: x and the residual read, y written
RUNGS = tuple(one.name for one in rungs())
TITLES = {
    "first try": "the first try",
    "bias by mask": "bias found by an AND",
    "rows, no %": "whole rows, no %, own draw",
    "cheap gelu": "and a cheap exact GELU",
    "four words": "and four words of a call",
    "eight halves": "and halves of 16 bits",
    RUNGS[-1]: "and cut narrower, eight rows ahead",
}


def _us(ns: float) -> str:
    return format_time(ns)


def _by_name(part: Mapping) -> dict[str, Mapping]:
    return {row["name"]: row for row in part["rows"]}


# ------------------------------------------------------------------------------------------------ what is known together


def rates(tails: Both) -> tuple[dict[str, float], str]:
    """({"gbps", "issue", "vector_fp32"} of the GPU that the tails ran on, else of the one whose peaks are recorded, its label);
    ({}, why) where there is neither."""
    wanted = ("gbps", "issue", "vector_fp32")
    for found in (tails.first, recorded("ridge_point", "peaks")):
        if found.value is not None and all(name in found.value["numbers"] for name in wanted):
            return {name: found.value["numbers"][name] for name in wanted}, found.label
    return {}, tails.there.why or tails.here.why


def totals(found: Found, counts: Both) -> dict[str, float]:
    """Instructions an element by variant, from the machine that `found` was measured on; what it lacks, from the other count."""
    order = (counts.there, counts.here) if found.live else (counts.here, counts.there)
    out: dict[str, float] = {}
    for one in order:  # the later one counts
        if one.value is not None:
            out |= {row["name"]: row["total"] for row in one.value["rows"]}
    return out


def floor_ns(instructions: float, issue: float, elements: int = ELEMENTS) -> float:
    """ns that a GPU needs to issue so many instructions an element at `issue` 1e12 a second."""
    return instructions * elements / issue * 1e-3


# ------------------------------------------------------------------------------------------------ the first try


def first(tails: Both) -> Sentence:
    """What share of a plain add's speed the first try reaches, and beside it the op-by-op and the compiled tail."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        words = (
            f"A plain add of the same bytes takes {_us(numbers['add'])}, the first try {_us(numbers['first_try'])}: "
            f"{per_cent(numbers['share_first'])} of the add's speed."
        )
        peers = [
            f"{name} {_us(numbers[key])}"
            for key, name in (("eager", "op by op"), ("compiled", "by torch.compile"))
            if key in numbers
        ]
        return f"{words} The same tail takes {', '.join(peers)}." if peers else words

    said = told(tails, "the fused tail", say)
    if tails.first.value is not None:
        return said
    return said.then("Until it is, the sections below work with floors: instructions counted, at an H200's rates.")


def flops(counts: Both, tails: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): the first try's FLOPs per byte beside the ridge of the vector units."""
    known, label = rates(tails)
    found = counts.first
    if not known or found.value is None:
        return None, Sentence(not_measured(found if known else Found(None, why=label), "FLOPs per byte beside the fp32 ridge"))
    row = _by_name(found.value)[FIRST]
    ridge = known["vector_fp32"] * 1e3 / known["gbps"]
    left = row["flops_per_byte"] < ridge
    words = (
        f"Its machine code does {significant(row['flops'])} FLOPs for an element ({found.label}), on {row['bytes']:g} bytes: "
        f"{significant(row['flops_per_byte'], 2)} FLOP/byte. The ridge of the fp32 units lies at {significant(ridge)} ({label})."
    )
    ends = "Left of it, so FLOPs do not explain a slow kernel." if left else "Right of it: FLOPs alone would bind this kernel."
    return FLOPS_ANSWERS["left" if left else "right"][1], Sentence(words, ends)


def instructions(counts: Both, tails: Both) -> Sentence:
    """How many instructions an element takes, of what kinds, and how long a GPU needs to issue them all."""

    def say(value: Mapping) -> str:
        row = _by_name(value)[FIRST]
        most = max(row["kinds"], key=row["kinds"].get)
        return (
            f"The first try takes {significant(row['total'])} instructions for an element, {significant(row['flops'], 2)} FLOPs "
            f"among them; most are {most}, {significant(row['kinds'][most])}; as Triton {value['triton']} compiles it"
        )

    here, there = counts.here, counts.there
    if here.value is not None and there.value is not None and say(here.value) == say(there.value):
        said = Sentence(f"{say(here.value)} ({here.label}; the same: {there.label}).", apart=True)
    else:
        said = told(counts, "instructions of the first try", say, "by a recording")
    known, label = rates(tails)
    found = counts.first
    if known and found.value is not None:
        total = _by_name(found.value)[FIRST]["total"]
        nbytes = _by_name(found.value)[FIRST]["bytes"]
        ridge = known["issue"] * 1e3 / known["gbps"]
        issue, memory = floor_ns(total, known["issue"]), nbytes * ELEMENTS / known["gbps"]
        said = said.then(
            f"The ridge of instruction issue lies at {significant(ridge, 2)} instructions a byte ({label}); the first try has "
            f"{significant(total / nbytes, 2)}. To issue them takes at least {_us(issue)}, to move its bytes {_us(memory)}: "
            f"{'issue' if issue > memory else 'memory'} is the longer floor."
        )
    return said


def kind_tables(counts: Both) -> list[Table]:
    """Instructions an element of each variant that was counted, by kind."""
    out = []
    for found in each(counts):
        kinds = list(found.value["rows"][0]["kinds"])
        rows = [
            {"name": TITLES.get(row["name"], row["name"]), "total": significant(row["total"])}
            | {kind: significant(row["kinds"][kind], 2) for kind in kinds}
            | {"flops": significant(row["flops"], 2), "per_byte": significant(row["per_byte"], 2)}
            for row in found.value["rows"]
        ]
        columns = {"name": "variant", "total": "instructions an element", **{kind: kind for kind in kinds}}
        columns |= {"flops": "FLOPs", "per_byte": "instructions a byte"}
        out.append(Table(rows, columns, "What the kernels are made of", [found.label, *found.value["notes"]]))
    return out


# ------------------------------------------------------------------------------------------------ taken apart


WITHOUT = {"draw": "without the draw", "erf": "without erf", "remainder": "bias by mask"}
PART_NAMES = {"draw": "the draw", "erf": "erf", "remainder": "the remainder"}


def ablations(tails: Both, counts: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): what the first try loses when a part goes."""

    def saved(value: Mapping) -> dict[str, float]:
        ns = {name: row["ns"] for name, row in _by_name(value).items()}
        return {part: ns[FIRST] - ns[name] for part, name in WITHOUT.items() if name in ns}

    def kind(value: Mapping) -> str | None:
        by = saved(value)
        return max(by, key=by.get) if by else None

    def say(value: Mapping) -> str:
        by, found = saved(value), tails.here if value is tails.here.value else tails.there
        count, known = totals(found, counts), value["numbers"]
        words = []
        for part, ns in sorted(by.items(), key=lambda pair: -pair[1]):
            seen = value["race"].difference(FIRST, WITHOUT[part]).seen
            change = f"{_us(abs(ns))} {'less' if ns > 0 else 'more'}" if seen else "no difference seen"
            gone = count[FIRST] - count[WITHOUT[part]] if {FIRST, WITHOUT[part]} <= set(count) else None
            predicted = (
                f" (its {significant(gone, 2)} instructions need {_us(floor_ns(gone, known['issue']))} to issue)"
                if gone is not None and gone > 0 and "issue" in known
                else ""
            )
            words.append(f"without {PART_NAMES[part]} {change}{predicted}")
        neither = known.get("with_neither")
        ends = f" With neither draw nor erf it takes {_us(neither)}, the plain add {_us(known['add'])}." if neither else ""
        return f"Of {_us(known['first_try'])}: {'; '.join(words)}.{ends}"

    said = told(tails, "the tail taken apart", say).then(_apart_by_count(tails, counts))
    return option(tails, kind, ABLATION_ANSWERS), said


def _apart_by_count(tails: Both, counts: Both) -> str:
    """Where nothing is timed: what each part's instructions would take to issue."""
    known, label = rates(tails)
    count = totals(tails.first, counts)
    gone = {part: count[FIRST] - count[name] for part, name in WITHOUT.items() if {FIRST, name} <= set(count)}
    if tails.first.value is not None or not known or not gone:
        return ""
    words = [
        f"{PART_NAMES[part]} {significant(n, 2)} instructions an element, {_us(floor_ns(n, known['issue']))} to issue"
        if n > 0
        else f"{PART_NAMES[part]} no more than what takes its place"
        for part, n in sorted(gone.items(), key=lambda pair: -pair[1])
    ]
    return f"By count alone, at recorded rates ({label}): {'; '.join(words)}."


def apart_views(tails: Both, counts: Both) -> list[Picture | Table]:
    """Every ablation beside the floors of its bytes and of its instructions; where no time is known, the floors alone."""
    return _views(tails, counts, tuple(ABLATIONS), "The first try, taken apart")


def back_views(tails: Both, counts: Both, until: str = RUNGS[-1]) -> list[Picture | Table]:
    """Every rung up to `until` beside the floors of its bytes and of its instructions; without a time the floors alone."""
    return _views(tails, counts, RUNGS[: RUNGS.index(until) + 1], "Back to the roof, one change at a time")


def _views(tails: Both, counts: Both, names: tuple[str, ...], title: str) -> list[Picture | Table]:
    return _figures(tails, counts, names, title) or _floors(tails, counts, names, title)


def _floors(tails: Both, counts: Both, names: tuple[str, ...], title: str) -> list[Table]:
    """What a count and two rates say of each variant: how long its instructions take to issue, and its bytes to move."""
    known, label = rates(tails)
    found = {row["name"]: (row, one.label) for one in (counts.there, counts.here) if one.value for row in one.value["rows"]}
    wanted = [(name, *found[name]) for name in names if name in found]
    if not known or not wanted:
        return []
    rows = []
    for name, row, _ in wanted:
        issue, memory = floor_ns(row["total"], known["issue"]), row["bytes"] * ELEMENTS / known["gbps"]
        rows.append(
            {"name": TITLES.get(name, name), "instructions": significant(row["total"]), "issue": _us(issue)}
            | {"bytes": _us(memory), "longer": "issue" if issue > memory else "memory"}
        )
    columns = {
        "name": "variant",
        "instructions": "instructions an element",
        "issue": "issuing them",
        "bytes": "its bytes",
        "longer": "longer floor",
    }
    whose = dict.fromkeys(label for _, _, label in wanted)
    return [Table(rows, columns, f"{title}: floors, nothing timed", [f"rates: {label}", *(f"counts: {one}" for one in whose)])]


def counted_on() -> str:
    """The device whose recording has instructions counted: a count is the same on every machine that has the compiler."""
    return "cuda" if recorded(STUDY, "instructions").value is not None else "cpu"


def _figures(tails: Both, counts: Both, names: tuple[str, ...], title: str) -> list[Picture]:
    out = []
    for found in each(tails):
        ns, count, numbers = _by_name(found.value), totals(found, counts), found.value["numbers"]
        rows = []
        for name in names:
            if name not in ns:
                continue
            issue = floor_ns(count[name], numbers["issue"]) if name in count and "issue" in numbers else None
            rows.append(
                {"name": TITLES.get(name, name), "us": 1e-3 * ns[name]["ns"], "instructions": count.get(name)}
                | {"issue_us": None if issue is None else 1e-3 * issue}
            )
        if rows:
            out.append(tail_figures.variants(rows, 1e-3 * numbers["add"], title, found.label))
    return out


def cached(chain: Both) -> Sentence:
    """The finished tail on a CPU over the add: in a cache, and from memory."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        parts = (("of GELU's", "gelu"), ("of the draw's", "draw"), ("of both together", "both"))
        hidden = ", ".join(f"{name} {_hidden(numbers[f'{key}_hides'])}" for name, key in parts)
        return (
            f"In a cache the whole tail takes {times(numbers['cached_times'])} the add's time, from memory "
            f"{times(numbers['memory_times'])}. Of what arithmetic adds to the add in a cache, memory's bytes hide: {hidden}."
        )

    return told(chain, "the chain on a CPU", say, "by a recording")


def _hidden(share: float) -> str:
    """The share that hides, in words; what is within the error of such a difference counts as nothing."""
    return "nothing" if share < HIDES else per_cent(min(share, 1.0))


def cached_figures(chain: Both) -> list[Picture]:
    return [
        tail_figures.places(found.value["rows"], "One chain, in a cache and from memory", found.label) for found in each(chain)
    ]


# ------------------------------------------------------------------------------------------------ the way back


def recovery(tails: Both, counts: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): all four words of a call used instead of one."""

    def pair(value: Mapping) -> tuple[float, float] | None:
        ns = {name: row["ns"] for name, row in _by_name(value).items()}
        return (ns[BEFORE], ns[AFTER]) if {BEFORE, AFTER} <= set(ns) else None

    def kind(value: Mapping) -> str | None:
        found = pair(value)
        if found is None:
            return None
        before, after = found
        if after < CLOSE * value["numbers"]["add"]:
            return "roof"
        return "quarter" if after < QUARTER * before else "same" if after > SAME * before else "between"

    def say(value: Mapping) -> str:
        found = pair(value)
        if found is None:
            return "One of the two variants did not run."
        before, after = found
        add = value["numbers"]["add"]
        return (
            f"With one word of each call {_us(before)}, with all four {_us(after)}: {per_cent(after / before)} of the time, for "
            f"a quarter of the calls. The plain add's bytes take {_us(add)}; {per_cent(add / after)} of its speed is reached."
        )

    said = told(tails, "four words a call", say).then(_recovery_by_count(tails, counts))
    return option(tails, kind, RECOVERY_ANSWERS), said


def _recovery_by_count(tails: Both, counts: Both) -> str:
    """Where nothing is timed: the longer floor with one word of a call, and with four."""
    known, label = rates(tails)
    count = totals(tails.first, counts)
    if tails.first.value is not None or not known or not {BEFORE, AFTER} <= set(count):
        return ""
    memory = NBYTES * ELEMENTS / known["gbps"]
    longer = {}
    for name in (BEFORE, AFTER):
        issue = floor_ns(count[name], known["issue"])
        longer[name] = f"{_us(max(issue, memory))}, its {'instructions' if issue > memory else 'bytes'}"
    return (
        f"By count alone, at recorded rates ({label}), the longer floor with one word of a call is {longer[BEFORE]}; "
        f"with all four {longer[AFTER]}."
    )


def ladder(tails: Both) -> Sentence:
    """Each rung's step over the one before it, and how near the last comes to the add."""

    def say(value: Mapping) -> str:
        ns = {name: row["ns"] for name, row in _by_name(value).items()}
        known = [name for name in RUNGS if name in ns]
        words = []
        for before, after in zip(known, known[1:], strict=False):
            ratio = ns[after] / ns[before]
            less = f"{per_cent(abs(1 - ratio))} {'less' if ratio < 1 else 'more'}"
            change = less if value["race"].difference(before, after).seen else "no difference seen"
            words.append(f"{TITLES.get(after, after)}: {change}")
        add = value["numbers"]["add"]
        return (
            f"{'; '.join(words)}. The last takes {_us(ns[known[-1]])}, {per_cent(add / ns[known[-1]])} of the plain add's speed, "
            f"and {times(ns[known[0]] / ns[known[-1]])} as fast as the first try."
        )

    return told(tails, "the way back to the roof", say)


def cut_tables(cuts: Both) -> list[Table]:
    """The finished tail by elements a lane and rows ahead: µs, and in brackets the share of the add's speed."""
    out = []
    for found in each(cuts):
        rows = found.value["rows"]
        ahead = sorted({row["ahead"] for row in rows})
        by = {(row["lane"], row["ahead"]): f"{_us(row['ns'])} ({per_cent(row['share'])})" for row in rows}
        table = [
            {"lane": lane} | {f"ahead{n}": by.get((lane, n), NOTHING) for n in ahead}
            for lane in sorted({row["lane"] for row in rows})
        ]
        columns = {"lane": "elements a lane and row"} | {f"ahead{n}": f"{n} rows ahead" for n in ahead}
        out.append(Table(table, columns, "The same work, cut differently", [found.label, *found.value["notes"]]))
    return out


def cut(cuts: Both) -> Sentence:
    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        best = min(value["rows"], key=lambda row: row["ns"])
        return (
            f"Between the best cut and the worst lie {per_cent(numbers['spread'] - 1)}. The best: {best['lane']} elements a "
            f"lane, {best['ahead']} rows loaded ahead, {_us(best['ns'])}."
        )

    return told(cuts, "the finished tail cut in other ways", say)


# ------------------------------------------------------------------------------------------------ honest?


def promises() -> Table:
    """What the finished kernel says of its dropout, from its own code: threshold, probability, scale, and their product."""
    from utils.kernels.forms import dropped, scale, threshold

    rows = []
    for draw, bits in (("four", 32), ("eight", 16)):
        kept = 1.0 - dropped(draw)
        rows.append(
            {"draw": f"{bits} bits", "threshold": f"{threshold(draw):,} of {2**bits:,}", "dropped": f"{dropped(draw):.9f}"}
            | {"scale": f"{scale(draw):.9f}", "product": f"{kept * scale(draw):.9f}", "asked": f"{1 / (1 - P):.9f}"}
        )
    columns = {
        "draw": "draw",
        "threshold": "dropped below",
        "dropped": "probability",
        "scale": "scale",
        "product": "kept × scale",
    }
    columns["asked"] = "scale of p = 0.1"
    return Table(rows, columns, "Threshold and scale belong together")


def sigmas(found: Mapping[str, float], seed: int) -> Table:
    """One mask's tests, in standard deviations."""
    bad = honest_tail.fails(found)
    rows = [
        {"test": honest_tail.NAMES[name], "sigmas": f"{value:+.2f}", "passes": "no" if name in bad else "yes"}
        for name, value in found.items()
    ]
    columns = {"test": "test", "sigmas": "standard deviations off", "passes": "passes"}
    return Table(rows, columns, "Your mask, tested", [f"seed {seed}; a test fails beyond {honest_tail.LIMIT:g}"])


def cheat(honest: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): which test sees the word that is used four times."""

    def worst(value: Mapping) -> str:
        return max(_masks(value)[CHEAT]["sigmas"].items(), key=lambda pair: abs(pair[1]))[0]

    def kind(value: Mapping) -> str | None:
        found = worst(value)
        return found if found in CHEAT_ANSWERS else None

    def say(value: Mapping) -> str:
        masks = _masks(value)
        own, wrong = masks.pop("the kernel's own"), masks
        sigma = wrong[CHEAT]["sigmas"]
        missed = [name for name, one in wrong.items() if not one["fails"]]
        ends = f"Not caught: {', '.join(missed)}." if missed else f"All {len(wrong)} wrong ways are caught."
        return (
            f"“{CHEAT}”: the share is {significant(abs(sigma['share']), 2)} standard deviations off, neighbours in a column "
            f"{significant(abs(sigma['down']), 2)}. The kernel's own mask passes {len(own['sigmas']) - len(own['fails'])} of "
            f"{len(own['sigmas'])} tests. {ends} {value['kernel']['said'][:1].upper()}{value['kernel']['said'][1:]}."
        )

    return option(honest, kind, CHEAT_ANSWERS), told(honest, "masks under test", say, "by a recording")


def _masks(value: Mapping) -> dict[str, Mapping]:
    return {one["name"]: one for one in value["masks"]}


def mask_table(honest: Both) -> Table | Sentence:
    """Every mask and every test: standard deviations, a star where it fails."""
    found = honest.first
    if found.value is None:
        return Sentence(not_measured(found, "masks under test"))
    rows = [
        {"mask": one["name"]}
        | {name: f"{value:+.1f}{' *' if name in one['fails'] else ''}" for name, value in one["sigmas"].items()}
        for one in found.value["masks"]
    ]
    return Table(rows, {"mask": "mask", **honest_tail.NAMES}, "Standard deviations off; * fails", [found.label])


def gelus(honest: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was found, sentences): which GELU stays nearest to float64 over all finite bf16 numbers."""

    def kind(value: Mapping) -> str | None:
        by = {row["name"]: row["ulp"] for row in value["gelus"] if row["name"] in GELU_ANSWERS}
        best = min(by, key=by.get)
        return best if list(by.values()).count(by[best]) == 1 else None

    def say(value: Mapping) -> str:
        by = {row["name"]: row for row in value["gelus"]}
        own = by["cheap, degree 4"]
        others = "; ".join(f"{name}: {row['ulp']:,}" for name, row in by.items() if name != "cheap, degree 4")
        return (
            f"Of {own['inputs']:,} inputs the cheap GELU is off by {own['ulp']:,} bf16 step{'s' if own['ulp'] != 1 else ''} at "
            f"most, and by {own['absolute']:.1e} where GELU is below a millionth. The others: {others}."
        )

    return option(honest, kind, GELU_ANSWERS), told(honest, "GELU over every bf16", say, "by a recording")


def tried(errors: Mapping) -> Sentence:
    """The reader's own run of the exhaustive test."""
    return Sentence(
        f"Your own run of the kernel's version: {errors['ulp']:,} bf16 step{'s' if errors['ulp'] != 1 else ''} at most, at "
        f"x = {errors['at']:.4g}; {errors['off']:,} inputs miss the nearest number."
    )


def gelu_table(honest: Both) -> Table | Sentence:
    """Every GELU: the most bf16 steps off and where, the largest absolute error near 0, how many inputs are off."""
    found = honest.first
    if found.value is None:
        return Sentence(not_measured(found, "GELU over every bf16"))
    rows = [
        {"name": row["name"], "ulp": f"{row['ulp']:,}", "at": f"{row['at']:.4g}", "off": f"{row['off']:,} of {row['inputs']:,}"}
        | {"absolute": f"{row['absolute']:.1e}"}
        for row in found.value["gelus"]
    ]
    columns = {
        "name": "GELU",
        "ulp": "bf16 steps off, at most",
        "at": "at x =",
        "off": "inputs off by one or more",
        "absolute": "error where GELU is below 1e-6",
    }
    return Table(rows, columns, "Every finite bf16 number, beside float64", [found.label])


# ------------------------------------------------------------------------------------------------ sideways


def sideways(part: Both) -> Sentence:
    """An optimiser's step over many small parameters and over few large ones: loop, foreach, fused."""

    def say(value: Mapping) -> str:
        small, large = (_case(value, case) for case in ("small", "large"))
        words = ", ".join(f"{kind} {_us(row['ns'])} ({row['ops']:,} ops)" for kind, row in small.items())
        one = next(iter(small.values()))
        big = next(iter(large.values()))
        saved = large["fused"]["ns"] < SAME * large["loop"]["ns"]
        ends = " A list of tensors saves launches; a fused op also saves the bytes between its steps." if saved else ""
        return (
            f"AdamW on {one['parameters']} parameters of {one['elements']}: {words}. On {big['parameters']} of "
            f"{big['elements']:,} foreach takes {times(large['foreach']['ns'] / large['loop']['ns'])} the loop's time, fused "
            f"{times(large['fused']['ns'] / large['loop']['ns'])}.{ends}"
        )

    return told(part, "an optimiser's step", say)


def _case(value: Mapping, case: str) -> dict[str, Mapping]:
    return {row["kind"]: row for row in value["rows"] if row["case"] == case}


def sideways_tables(part: Both) -> list[Table]:
    columns = {"case": "parameters", "kind": "step", "ops": "ops", "took": "took", "gain": "the loop's over it"}

    def line(row: Mapping) -> dict:
        words = {"case": f"{row['parameters']} of {row['elements']:,}", "kind": row["kind"], "ops": f"{row['ops']:,}"}
        return words | {"took": _us(row["ns"]), "gain": significant(row["gain"], 2)}

    return tables(part, columns, "One step of AdamW, three ways", line)


# ------------------------------------------------------------------------------------------------ the numbers that are judged


# Part → the numbers that the lesson's checks speak of.
JUDGED = {
    "tails": ("add", "first_try", "without_draw", "finished"),
    "instructions": ("first", "flops_per_byte", "draw"),
    "honest": ("worst_sigma", "caught", "ways", "ulp", "absolute", "scale_off_ppm", "kernel_agrees"),
    "chain": ("cached_times", "memory_times"),
    "sideways": ("loop", "fused", "ops_loop", "ops_foreach", "ops_fused"),
}


def judged(device: str, **parts: Both) -> dict[str, dict]:
    """For `expect`: by part, the numbers that were measured here; in place of one that was not, why not."""
    return {name: judged_here(device, part.here, JUDGED[name], judged_part) for name, part in parts.items()}


# ------------------------------------------------------------------------------------------------ the end


def verdicts(device: str, found: Mapping[str, Both]) -> Table:
    """The claims of this lesson: yours (the parts `found` live, by name), recorded, cited, the verdict with its sentence."""
    return study_end.verdicts(STUDY, device, found)


WORDS = 2  # tensors that dropout alone moves: one read, one written


def given(counts: Both, tails: Both) -> Table | Sentence:
    """What the transfer starts from: a dropout that nothing is fused with, and the GPU's two rates."""
    known, label = rates(tails)
    total = {**totals(tails.first, counts)}.get(ALONE)
    if not known or total is None:
        return Sentence(not_measured(Found(None, why=label if not known else counts.first.why), "a dropout of its own"))
    rows = [
        {"what": "elements, in millions", "value": significant(ELEMENTS * 1e-6)},
        {"what": "bytes of an element (bf16)", "value": BYTES["bf16"]},
        {"what": "instructions an element", "value": significant(total)},
        {"what": "bandwidth, GB/s", "value": significant(known["gbps"], 4)},
        {"what": "instructions issued, 1e12 a second", "value": significant(known["issue"])},
    ]
    return Table(rows, {"what": "given", "value": "value"}, "A dropout of its own, one call of the generator an element", [label])


@own_answer.in_unit("µs")
def transfer(mine_us: float | None, counts: Both, tails: Both) -> Sentence | Table:
    """The reader's floor of a dropout that is a kernel of its own, beside both floors worked out."""
    if mine_us is None:
        return Sentence("Nothing predicted yet: write your least time in µs, mine = …, and run this cell again.")
    known, label = rates(tails)
    total = totals(tails.first, counts).get(ALONE)
    if not known or total is None:
        return Sentence(not_measured(Found(None, why=label if not known else counts.first.why), "a dropout of its own"))
    memory = WORDS * BYTES["bf16"] * ELEMENTS / known["gbps"]
    issue = floor_ns(total, known["issue"])
    truth = max(memory, issue)
    rows = [
        {"what": "you", "time": _us(1e3 * mine_us)},
        {"what": "its bytes", "time": _us(memory)},
        {"what": "its instructions", "time": _us(issue)},
    ]
    near = abs(1e3 * mine_us - truth) <= 0.15 * truth
    counts_ = f"Near enough: the longer floor is that of its {'bytes' if memory >= issue else 'instructions'}." if near else (
        "More than 15 % off: two tensors are moved, each element takes its instructions, and the longer of the two floors counts."
    )  # fmt: skip
    return Table(rows, {"what": "whose", "time": "at least"}, "A dropout of its own", [counts_, label])
