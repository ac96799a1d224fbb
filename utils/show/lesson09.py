"""What lesson 09, fuse, says about its measurements: computed sentences, tables, figures, the numbers that are judged.

It measures nothing: each function takes what `utils.measure.fuse_here` found (live here, recorded there, or nothing, with the
reason), or works a form's bytes out, and words it, so that a sentence stays true when the numbers surprise.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

from utils import paths
from utils.kernels.forms import STEPS, Form
from utils.measure.fuse import judged as judged_part
from utils.measure.launch_here import Found
from utils.measure.study_here import Both
from utils.show import fuse_figures, own_answer, study_end
from utils.show.explain import Sentence
from utils.show.here_and_there import each, option, per_cent, tables, times, told
from utils.show.listing import Listing
from utils.show.picture import Picture
from utils.show.study_end import judged_here
from utils.show.tables import Table, format_time, significant

STUDY = "fuse"

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
PAPER_ANSWERS = {
    "three": (None, "Three instead of five"),
    "four": ("intermediates_are_written", "Four instead of five"),
    "five": ("fusion_saves_launches_only", "Five, as before"),
    "two": ("all_ops_move_two", "Two instead of four"),
}
BIAS_ANSWERS = {
    "nothing": (None, "Hardly anything"),
    "tensor": ("broadcast_is_a_copy", "As much as one more tensor to read"),
    "op": ("launches_are_steps", "As much as one more op"),
}
INTENSITY_ANSWERS = {
    "rises": (None, "Rises: as many FLOPs on fewer bytes"),
    "stays": ("fusion_saves_flops", "Stays: FLOPs and bytes go together"),
    "falls": ("intensity_is_bytes_per_flop", "Falls: there are fewer bytes"),
}
SMALL_ANSWERS = {
    "gain": (None, "A gain: fewer calls"),
    "nothing": ("bytes_are_the_gain", "Nothing: there are hardly bytes to save"),
    "loss": (None, "A loss"),
}
ALONE_ANSWERS = {
    "longer": (None, "Takes longer than eager"),
    "alike": ("compiled_calls_are_kernels", "Takes as long: one op is one kernel either way"),
    "shorter": ("compile_always_wins", "Is faster than eager"),
}
PEER_ANSWERS = {
    "hand": (None, "The kernel by hand"),
    "alike": (None, "They hardly differ"),
    "compiled": ("compile_always_wins", "torch.compile"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "fuse.paper": "What one op hands to the next stays in a register: neither written nor read again.",
    "fuse.eight": "Bytes bound the gain where memory decides on both sides, and where both sides store alike.",
    "fuse.bias": "A broadcast bias is one row. It is read once and stays close by.",
    "fuse.intensity": "Fusing keeps the FLOPs and drops the bytes in between.",
    "fuse.free": "While a kernel waits for memory, arithmetic on what is there costs nothing; up to a ridge.",
    "fuse.small": "On few elements a step costs its calls, so what counts is how dear the one call left is.",
    "fuse.alone": "One op has nothing between ops to save. What is left is the way in: guards and wrappers.",
    "fuse.peer": "Both make one kernel that moves the same bytes. Then only how it is written can differ.",
    "fuse.fresh": "A fresh output's pages are touched for the first time, one page fault each.",
}

TINY, NEAR = 1.1, 1.05  # a time within this factor costs "hardly anything"; two times within that one are called alike
ACTIVATION = (1024, 4096)


def _us(us: float | None) -> str | None:
    return None if us is None else format_time(1e3 * us)


def _tensors(form: Form) -> tuple[float, float]:
    """Activations that the form moves op by op, and fused."""
    rows, cols = ACTIVATION
    return form.eager_words(rows, cols) / (rows * cols), form.words(rows, cols) / (rows * cols)


# ------------------------------------------------------------------------------------------------ on paper


def paper() -> tuple[str, Sentence]:
    """(text of the option that working it out gives, sentences): what two ops move, one by one and fused."""
    eager, fused = _tensors(STEPS["two ops"])
    kind = {(5, 3): "three", (5, 4): "four", (5, 5): "five", (4, 2): "two"}[round(eager), round(fused)]
    return PAPER_ANSWERS[kind][1], Sentence(
        f"One by one: x is read and the sum written, then the sum and the residual are read and y is written: "
        f"{eager:.3g} activations. Fused: x and the residual are read, y is written: {fused:.3g}.",
        f"If bytes are all that counts, one kernel is {significant(eager / fused)} times as fast.",
    )


def paper_table() -> Table:
    """Every step of the chain: ops, activations moved one by one and fused, their ratio."""
    rows = []
    for name, form in STEPS.items():
        eager, fused = _tensors(form)
        rows.append({"step": name, "ops": form.ops, "eager": significant(eager), "fused": significant(fused),
                     "ratio": significant(eager / fused)})  # fmt: skip
    columns = {"step": "step", "ops": "ops", "eager": "activations, op by op", "fused": "fused", "ratio": "times fewer"}
    return Table(rows, columns, "What bytes predict", ["Counted from shapes; the bias is a row, next to nothing"])


def judged_paper() -> dict[str, float | str]:
    """For `expect`: what is counted from shapes."""
    two, eight = (_tensors(STEPS[name]) for name in ("two ops", "eight ops"))
    before, after = intensities(STEPS["eight ops"], "fp32")
    return {"device": "cpu", "two": two[0] / two[1], "eight": eight[0] / eight[1], "intensity": after / before}


# ------------------------------------------------------------------------------------------------ step by step


def eight(part: Both) -> Sentence:
    """How many times faster eight ops are as one kernel, what their bytes predict, and where the rest comes from."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        gain, predicted = numbers["eight_gain"], numbers["eight_predicted"]
        words = f"Eight ops as one kernel are {times(gain)} as fast as one by one; bytes predict {significant(predicted)}. "
        words += _beside(gain / predicted, max(TINY - 1, numbers["error"]))
        plain = numbers.get("eight_plain_gain")
        if plain is None:
            return words
        eager, fused = _tensors(STEPS["eight ops"])
        fetched = eager + STEPS["eight ops"].ops  # torch's ops store plainly: each fetches the lines of its result as well
        words += f" With plain stores the same kernel is {times(plain)} as fast. {_stores(gain, plain, numbers['error'])}"
        return (
            f"{words} With fetched lines counted as well, bytes predict {significant(fetched / fused)}, and with plain stores "
            f"{significant(fetched / (fused + 1))}."
        )

    return told(part, "the chain fused", say)


def _beside(ratio: float, error: float) -> str:
    if abs(ratio - 1) <= error:
        return "That is the prediction, as near as one can ask."
    if ratio > 1:
        return f"That is {per_cent(ratio - 1)} more than saved bytes explain."
    return f"That is {per_cent(1 - ratio)} less than the saved bytes promise."


def _stores(gain: float, plain: float, error: float) -> str:
    clear = max(TINY, 1 + error)
    if gain > clear * plain:
        return (
            "So stores are part of it: a plain one first fetches the line that it overwrites, traffic that no count of tensors "
            "shows; the fused kernel's own go past the caches."
        )
    if plain > clear * gain:
        return "So storing past the caches does not pay here."
    return "So how it stores makes no difference here."


def step_figures(part: Both) -> list[Picture]:
    return [fuse_figures.predicted(found.value["rows"], found.label) for found in each(part)]


def step_tables(part: Both) -> list[Table]:
    """Each step, op by op and fused: predicted from bytes at the plain add's rate, measured, page faults."""
    columns = {
        "step": "step",
        "ops": "ops",
        "eager_paper": "op by op, predicted",
        "eager": "measured",
        "fused_paper": "fused, predicted",
        "fused": "measured ",
        "faults": "page faults a call",
    }

    def line(row: Mapping) -> dict:
        return {
            "step": row["step"],
            "ops": row["ops"],
            "eager_paper": _us(row["eager_paper_us"]),
            "eager": _us(row["eager_us"]),
            "fused_paper": _us(row["fused_paper_us"]),
            "fused": _us(row["fused_us"]),
            "faults": f"{significant(row['eager_faults'])} and {significant(row['fused_faults'])}",
        }

    return tables(
        part, columns, "The chain, step by step", line, "Predicted: bytes at the rate of torch's own add in the same race"
    )


def bias(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): what a broadcast bias adds to a fused kernel."""
    eager, fused = _tensors(STEPS["with bias"])

    def kind(value: Mapping) -> str:
        extra = value["numbers"]["bias_extra"]
        tensor, op = (fused + 1) / fused, (fused + 2) / fused  # one more tensor read; an op of its own reads and writes one
        return "nothing" if extra < max(TINY, 1 + value["numbers"]["error"]) else "tensor" if extra < (tensor + op) / 2 else "op"

    def say(value: Mapping) -> str:
        by = {row["step"]: row for row in value["rows"]}
        without, with_ = by["eight ops"], by["with bias"]
        return (
            f"Fused, {_us(without['fused_us'])} without the bias and {_us(with_['fused_us'])} with it: "
            f"{_change(value['numbers']['bias_extra'], value['numbers']['error'])}. Op by op it makes "
            f"{_us(without['eager_us'])} into {_us(with_['eager_us'])}."
        )

    return option(part, kind, BIAS_ANSWERS), told(part, "the bias", say)


def _change(ratio: float, error: float) -> str:
    if abs(ratio - 1) <= error:
        return "no difference seen"
    return f"{per_cent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}"


# ------------------------------------------------------------------------------------------------ the kernel itself


def by_hand() -> list[Listing]:
    """The arithmetic of the kernel as Triton and as C++ have it, cut from the files that run."""
    return [
        Listing(
            "Triton (utils/kernels/triton_kernels.py), where dropout is off: a program's rows, one after the other",
            _cut("kernels/triton_kernels.py", "            y = xs[j].to(tl.float32)", '            if DRAW == "one":')
            + "\n…\n"
            + _cut(
                "kernels/triton_kernels.py",
                "            if RESIDUAL:\n                y +=",
                "            if WHOLE:\n                tl.store",
            ),
        ),  # fmt: skip
        Listing(
            "C++ (utils/measure/csrc/fused_tail_loops.h): a line of vectors",
            _cut("measure/csrc/fused_tail_loops.h", "  fetch(x, from);", "  if constexpr (DROP)"),
        ),  # fmt: skip
    ]


def _cut(file: str, first: str, until: str) -> str:
    """The lines of a file of the course from one text to another. ValueError where it has neither."""
    text = (paths.REPO / "utils" / file).read_text(encoding="utf-8")
    start = text.index(first)
    return dedent(text[start : text.index(until, start)].rstrip())


def interpreted(part: Both) -> Sentence:
    """Whether the Triton kernel computes what it should, in the interpreter."""

    def say(value: Mapping) -> str:
        rows = value["rows"]
        wrong = [f"{row['step']}: {row['wrong']}" for row in rows if row["wrong"]]
        if wrong:
            return f"Triton's kernel is wrong in {len(wrong)} of {len(rows)} steps: {'; '.join(wrong)}."
        return f"Triton's kernel ran {len(rows)} steps in the interpreter, and every element was float64's, but for its rounding."

    return told(part, "the Triton kernel in its interpreter", say, "recorded")


def right_here(part: Both) -> Sentence:
    """Which kernel was timed above, and that every arm's output was right."""

    def say(value: Mapping) -> str:
        wrong = [row["wrong"] for row in value["rows"] if row["wrong"]]
        done = f"wrong: {'; '.join(wrong)}" if wrong else "and every output was checked against float64 before it was timed"
        return f"What was timed is {value['by']}, {done}."

    return told(part, "a kernel of our own", say)


# ------------------------------------------------------------------------------------------------ intensity


def intensities(form: Form, dtype: str) -> tuple[float, float]:
    """FLOP a byte op by op and fused, an op counted as one FLOP an element."""
    rows, cols = ACTIVATION
    flops = form.ops * rows * cols
    return flops / form.eager_nbytes(rows, cols, dtype), flops / form.nbytes(rows, cols, dtype)


def intensity(dtype: str = "fp32") -> tuple[str, Sentence]:
    """(text of the option that working it out gives, sentences): intensity before and after fusing eight ops."""
    form = STEPS["eight ops"]
    before, after = intensities(form, dtype)
    kind = "rises" if after > before * NEAR else "falls" if after * NEAR < before else "stays"
    eager, fused = _tensors(form)
    return INTENSITY_ANSWERS[kind][1], Sentence(
        f"Eight ops are {form.ops} FLOP an element either way. Op by op they move {eager:.3g} numbers an element, "
        f"fused {fused:.3g}: in {dtype} {significant(before)} FLOP a byte before, {significant(after)} after.",
    )


def intensity_table() -> Table:
    """Every step's FLOP a byte, op by op and fused."""
    rows = [
        {"step": name, "ops": form.ops} | dict(zip(("eager", "fused"), map(significant, intensities(form, "fp32")), strict=True))
        for name, form in STEPS.items()
    ]
    columns = {"step": "step", "ops": "FLOP an element", "eager": "FLOP a byte, op by op", "fused": "fused"}
    return Table(rows, columns, "Intensity in fp32", ["An op counts as one FLOP an element; GELU does more"])


def free(part: Both) -> Sentence:
    """How many adds a fused chain takes in for nothing."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        longest = numbers["longest"]
        if numbers["free"] >= longest:
            words = f"Fused, even {longest:g} adds, the most that were tried, took no more than a tenth longer than one"
        else:
            words = (
                f"Fused, {numbers['free']:g} adds took no more than a tenth longer than one, at "
                f"{significant(numbers['intensity_free'])} FLOP a byte; {longest:g} took {times(numbers['longest_rise'])} as long"
            )
        return (
            f"{words}. Op by op, eight adds took {times(numbers['eager_rise'])} as long as one; fused, "
            f"{times(numbers['fused_rise'])}."
        )

    return told(part, "a longer chain", say)


def free_figures(part: Both) -> list[Picture]:
    out = []
    for found in each(part):
        rows = found.value["rows"]
        series = {"one kernel": {row["adds"]: row["fused_us"] for row in rows},
                  "op by op": {row["adds"]: row["eager_us"] for row in rows if row["eager_us"]}}  # fmt: skip
        out.append(fuse_figures.lines(series, "adds", "Ever more adds on the same tensor", found.label))
    return out


# ------------------------------------------------------------------------------------------------ sizes


def small(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): eight ops fused on the smallest tensor, beside the largest."""

    def kind(value: Mapping) -> str:
        gain, clear = value["numbers"]["small_chain_gain"], max(TINY, 1 + value["numbers"]["error"])
        return "gain" if gain > clear else "loss" if gain * clear < 1 else "nothing"

    def say(value: Mapping) -> str:
        first, last, numbers = value["rows"][0], value["rows"][-1], value["numbers"]
        one = first["add_eager_us"]
        calls = f"{significant(first['chain_hand_us'] / one, 2)} eager adds{_number(first)}"
        return (
            f"On {first['elements']:,} elements eight ops take {_us(first['chain_eager_us'])} and the one kernel "
            f"{_us(first['chain_hand_us'])}: {_as_fast(first['chain_gain'], numbers)}, where launches alone would give "
            f"{numbers['launches_ratio']:g}. Calling the kernel costs as much as {calls}. On {last['elements']:,} elements: "
            f"{_as_fast(last['chain_gain'], numbers)}, where bytes alone would give {significant(numbers['bytes_ratio'])}."
        )

    return option(part, kind, SMALL_ANSWERS), told(part, "the chain by size", say)


def _number(row: Mapping) -> str:
    """What one of the chain's seven adds of a number costs on so few elements, where that is more than an add of two tensors."""
    adds = STEPS["eight ops"].adds
    ratio = (row["chain_eager_us"] - row["add_eager_us"]) / adds / row["add_eager_us"]
    if ratio <= TINY:
        return ""
    return f", and one `+ 0.25` as much as {significant(ratio, 2)}: torch makes a tensor of the number first, and a result after"


def _as_fast(gain: float, numbers: Mapping) -> str:
    if abs(gain - 1) <= numbers["error"]:
        return "no difference seen"
    return f"{times(gain)} as fast" if gain > 1 else f"{times(1 / gain)} slower"


def alone(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): one small `a + b`, compiled, against eager."""

    def kind(value: Mapping) -> str | None:
        gain, clear = value["numbers"].get("small_compiled_gain"), max(NEAR, 1 + value["numbers"]["error"])
        return None if gain is None else "longer" if gain * clear < 1 else "shorter" if gain > clear else "alike"

    def say(value: Mapping) -> str:
        rows = value["rows"]
        first, last = rows[0], rows[-1]
        eager = f"On {first['elements']:,} elements `a + b` takes {_us(first['add_fresh_us'])} eager"
        if first["add_compiled_us"] is None:
            return f"{eager}; it could not be compiled: {_why(value)}."
        tax = first["add_compiled_us"] - first["add_fresh_us"]
        verdict = f"a compiled call costs {_us(tax)} more" if tax > 0 else f"a compiled call saves {_us(-tax)}"
        given = f"from {_us(first['add_eager_us'])} to {_us(first['add_hand_us'])}"
        return (
            f"{eager} and {_us(first['add_compiled_us'])} compiled: {verdict}. {_even(rows, value['numbers'])} On "
            f"{last['elements']:,} elements: {_as_fast(last['compiled_gain'], value['numbers'])}. By hand, both into an output "
            f"that is there, `a + b` goes {given} on the smallest tensor, and on the largest: "
            f"{_as_fast(last['add_gain'], value['numbers'])}."
        )

    return option(part, kind, ALONE_ANSWERS), told(part, "`a + b` alone", say)


def _why(value: Mapping) -> str:
    return next((note for note in value["notes"] if "torch.compile failed" in note), "no reason was kept")


def _even(rows: list[Mapping], numbers: Mapping) -> str:
    """From which size on compiled `a + b` is no slower than eager."""
    slower = [row["elements"] for row in rows if row["compiled_gain"] * max(NEAR, 1 + numbers["error"]) < 1]
    if not slower:
        return "At no size that was tried is it slower than eager."
    later = [row["elements"] for row in rows if row["elements"] > slower[-1]]
    return (
        f"From {later[0]:,} elements on it no longer loses."
        if later
        else "It loses at every size up to the largest that was tried."
    )


def size_figures(part: Both) -> list[Picture]:
    out = []
    for found in each(part):
        rows = found.value["rows"]
        series = {
            "eight ops, by hand": {row["elements"]: row["chain_gain"] for row in rows},
            "a + b, by hand": {row["elements"]: row["add_gain"] for row in rows},
            "a + b, compiled": {row["elements"]: row["compiled_gain"] for row in rows if row["compiled_gain"]},
        }
        kept = {name: points for name, points in series.items() if points}
        out.append(fuse_figures.lines(kept, "elements", "What fusing gains, by size", found.label, unit=""))
    return out


def size_tables(part: Both) -> list[Table]:
    """A call's time by size: one op and eight, eager, by hand, compiled."""
    columns = {
        "elements": "elements",
        "add_eager": "a + b, output given, eager",
        "add_hand": "by hand",
        "add_fresh": "result made, eager",
        "add_compiled": "result made, compiled",
        "chain_eager": "eight ops, eager",
        "chain_hand": "by hand ",
    }

    def line(row: Mapping) -> dict:
        return {"elements": f"{row['elements']:,}"} | {key: _us(row[f"{key}_us"]) for key in list(columns)[1:]}

    return tables(part, columns, "What one more call adds to a row of calls", line)


# ------------------------------------------------------------------------------------------------ the peer


def peer(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the chain by hand against torch.compile, into the same output."""

    def kind(value: Mapping) -> str:
        against = value["numbers"]["against"]
        near = max(NEAR - 1, value["numbers"]["error"])
        return "alike" if abs(against - 1) < near else "hand" if against > 1 else "compiled"

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        by = {row["who"]: row for row in value["rows"]}
        kernels = "1 kernel" if numbers["kernels"] == 1 else f"{numbers['kernels']:g} kernels"
        add = by["a + b of torch"]["us"]
        return (
            f"By hand {_us(by['by hand']['us'])}, torch.compile {_us(by['torch.compile']['us'])}, op by op "
            f"{_us(by['op by op']['us'])}, where torch's own `a + b` takes {_us(add)} for the same bytes: "
            f"{numbers['by_hand_share']:.0%} and {numbers['compiled_share']:.0%} of its speed.{_beyond(value)} torch.compile "
            f"wrote {kernels} in {value['language']}; compiling took {significant(numbers['compile_s'], 2)} s this time."
        )

    return option(part, kind, PEER_ANSWERS), told(part, "torch.compile as the peer", say)


def _beyond(value: Mapping) -> str:
    """How a kernel can be faster than torch's add of the same bytes: on a CPU by what those stores fetch."""
    beyond = value["device"] == "cpu" and value["numbers"]["by_hand_share"] > 1 + value["numbers"]["error"]
    return " More than all of it: torch's add also fetches the lines that it overwrites." if beyond else ""


def peer_views(part: Both) -> list:
    """The three ways beside torch's add, with page faults; and the kernel that torch.compile wrote."""
    out: list = []
    columns = {"who": "way", "us": "time", "gbps": "GB/s of the fused bytes", "faults": "page faults a call"}
    for found in each(part):
        rows = [
            {"who": row["who"], "us": _us(row["us"]), "gbps": significant(row["gbps"]), "faults": significant(row["faults"])}
            for row in found.value["rows"]
        ]
        out.append(Table(rows, columns, "Seven adds, a bias, a residual", [found.label, *found.value["notes"]]))
        title = f"What torch.compile wrote, in {found.value['language']} ({found.label})"
        if found.value["kernel"].strip():
            out.append(Listing(title, found.value["kernel"]))
        else:
            out.append(Sentence(f"{title}: its kernel was not found in the module; this torch writes it in another way."))
    return out


# ------------------------------------------------------------------------------------------------ the output


def fresh(part: Both) -> Sentence:
    """What a fresh output costs the same kernel, in page faults."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        return (
            f"Into a fresh output the same kernel takes {times(numbers['ratio'])} as long as into one that is there: "
            f"{significant(numbers['fresh_faults'])} page faults a call against {significant(numbers['given_faults'], 2)}, on an "
            f"output of {significant(numbers['pages'])} pages."
        )

    return told(part, "a fresh output", say, "recorded")


def fresh_tables(part: Both) -> list[Table]:
    columns = {"arm": "output", "us": "time", "faults": "page faults a call"}

    def line(row: Mapping) -> dict:
        return {"arm": row["arm"], "us": _us(row["us"]), "faults": significant(row["faults"])}

    return tables(part, columns, "The same kernel, its output given or fresh", line)


# ------------------------------------------------------------------------------------------------ the numbers that are judged


# Part → the numbers that the lesson's checks speak of.
JUDGED = {
    "steps": ("eight_gain", "eight_predicted", "bias_extra", "wrong"),
    "chain": ("eager_rise", "fused_rise"),
    "sizes": ("small_chain_gain", "small_compiled_gain", "wrong"),
    "peer": ("kernels", "wrong"),
    "interpreter": ("wrong",),
    "fresh_output": ("fresh_faults", "given_faults"),
}


def judged(device: str, **parts: Both) -> dict[str, dict]:
    """For `expect`: by part, the numbers that were measured here; in place of one that was not, why not.

    A recording that stands in for this machine (`fuse_here.part`) is not judged either.
    """
    live = {name: part.here if part.here.live else Found(None, why=part.here.why) for name, part in parts.items()}
    return {name: judged_here(device, here, JUDGED[name], judged_part) for name, here in live.items()}


# ------------------------------------------------------------------------------------------------ the end


def verdicts(device: str, found: Mapping[str, Both]) -> Table:
    """The claims of this lesson: yours (the parts `found` live, by name), recorded, cited, the verdict with its sentence."""
    return study_end.verdicts(STUDY, device, found)


# The op to price alone: relu(a * b + c) - d, four ops; each reads its inputs and writes its result.
TRANSFER = {"a * b": 3, "+ c": 3, "relu": 2, "- d": 3}
TRANSFER_FUSED = 5  # a, b, c, d and the result


@own_answer.in_unit()
def transfer(mine: float | None, eager_us: float | None = None) -> Sentence | Table:
    """The reader's gain of fusing four ops beside what bytes say; from the time op by op, what the kernel should take."""
    if mine is None:
        return Sentence("Nothing predicted yet: write how many times faster one kernel is, mine = …, and run this cell again.")
    one_by_one = sum(TRANSFER.values())
    ratio = one_by_one / TRANSFER_FUSED
    rows = [
        {"what": "you", "value": significant(mine)},
        {"what": "tensors, op by op", "value": f"{one_by_one}"},
        {"what": "tensors, fused", "value": f"{TRANSFER_FUSED}"},
        {"what": "bytes say", "value": f"{significant(ratio)} times"},
        {"what": "launches say", "value": f"{len(TRANSFER)} times"},
    ]
    if eager_us is not None:
        rows.append({"what": "op by op, measured here", "value": _us(eager_us)})
        rows.append({"what": "so one kernel should take", "value": _us(eager_us / ratio)})
    near = abs(mine - ratio) <= 0.05 * ratio
    missed = "which tensors does each op read and write, and which of them does the one kernel still meet?"
    verdict = (
        "Near enough: within a twentieth of what bytes say." if near else f"More than a twentieth off what bytes say: {missed}"
    )
    return Table(rows, {"what": "what", "value": "value"}, "relu(a * b + c) - d", [verdict, "Large tensors: bytes decide"])
