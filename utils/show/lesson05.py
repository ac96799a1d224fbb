"""What lesson 05, the receipt, says about its measurements: computed sentences, tables and a check that must fail.

It measures nothing and decides nothing beforehand: each function takes receipts and races and words what they show, so that
every sentence stays true when the numbers surprise. A difference inside the A/A error is "no difference seen".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from utils.measure.stages import PIECES
from utils.model import expected, ledger
from utils.model.readings import Race, Reading, Receipt
from utils.model.recordings import receipt_label
from utils.show import catalogue, explain, figures, study_end
from utils.show.explain import Sentence
from utils.show.picture import Picture
from utils.show.tables import Table, format_difference, format_ns, format_share, group_prices, significant

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
GROUP_ANSWERS = {
    "front_end": ("python_is_the_bill", "The Python front end: the interpreter is slow"),
    "dispatch": ("dispatch_is_the_bill", "Dispatch and autograd: tables, keys and jumps"),
    "shapes": (None, "Shapes and strides: planning the loop"),
    "output": (None, "The result: memory and a tensor around it"),
    "kernel": ("arithmetic_is_the_bill", "The last group: that is where the work is done"),
}
DOOR_ANSWERS = {  # by the type of torch.Tensor.__add__
    "method_descriptor": (None, "A method that CPython's C API made"),
    "instancemethod": ("boundary_is_pybind", "A method bound by pybind11"),
    "function": ("operators_are_python", "A Python function that calls into C++"),
}
VIEW_ANSWERS = {
    "more": ("views_burden_their_base", "Dearer: two more tensors hang on `a` and `b`"),
    "same": ("unused_tensors_are_free", "The same: the add never touches the views"),
    "less": (None, "Cheaper"),
}
DROPPED_ANSWERS = {
    "less": ("dropping_is_cheaper", "Dropping is cheaper: nothing has to be kept"),
    "same": ("result_life_is_free", "The same: the op computes the same either way"),
    "more": (None, "Dropping is dearer"),
}

PLAIN, ONE_VIEW, TWO_VIEWS, COPIES = "a + b", "a view of each alive", "two views of each alive", "a copy of each alive"
PYBIND, DROPPED, WITHOUT = "pybind11 no-op call", "result dropped", "without grad"  # arms of a receipt
# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY_MEMORY = (
    "Around the memory a tensor is built and taken down again. An out= argument, a memory plan or a fused kernel saves both."
)
WHY_TIGHT = {  # by what the tight loops sum to, against the sum in place
    "less": "In a loop of its own a piece has the caches and the branch predictors to itself. In its place it shares them.",
    "more": "A loop of its own should help a piece. Here it did not, and this run does not show why.",
    "same": "A loop of its own hardly helped the pieces here.",
    None: "In a loop of its own a piece has the caches and the branch predictors to itself. Not all were timed so here.",
}
DEARER_ALONE = 1.1  # a stage that costs so many times its price in place when it is alone in a loop goes the other way
# Stages priced by taking other pieces off a call, in place and in the loop.
DIFFERENCES = {piece.stage for piece in PIECES if any("/" in name for name in piece.less)}
WHY_PROGRAM = {  # by what the race of code and data shows
    "fall": "The rise comes with other code: other data alone did not raise the price.",
    "flat": "The rise comes with other code: other data alone did not raise the price.",
    "code": "Most of the rise comes with other code, less of it with other data.",
    "data": "Most of the rise is there with other data and the same code.",
    "unsure": "Other ops bring other code and other data; this run cannot say which counts more.",
    "none": "The race of code and data saw no rise in this run.",
}
TAXED = range(10, 14)  # torch 2.x whose handle copies take the GIL (claim C01)


# ------------------------------------------------------------------------------------------------ which receipt is shown


def recorded(kind: str, grad: bool = False) -> Receipt | None:
    """The recorded receipt for "cpu" or "cuda", or None where the repository has none."""
    from utils.model import recordings

    recording = recordings.best(kind)
    return None if recording is None else recording.receipts.get(f"{kind}_grad" if grad else kind)


def with_stages(receipt: Receipt) -> Receipt:
    """`receipt` if any of its stages was measured, else the recorded one of the same kind; its label says which it is.

    A stage that alone is missing (a header that moved) stays missing, and the tables say why.
    """
    if any(stage.isolate is not None for stage in receipt.stages):
        return receipt
    return recorded(receipt.device, receipt.grad) or receipt


def _place(receipt: Receipt) -> str:
    if receipt.source == "live":
        return "On this machine"
    return f"In the recording ({receipt_label(receipt).removeprefix('recorded · ')})"


def _race(receipt: Receipt, **readings: Reading) -> Race:
    """Readings of one receipt as a race, judged by the receipt's own A/A pair."""
    first, again = receipt.control
    pair = {"A/A": first, "A/A (again)": again}
    return Race({**readings, **pair}, control=tuple(pair), device=receipt.device)


def _way(race: Race, a: str, b: str) -> str:
    """Whether b costs "more" or "less" than a, or the "same" as far as the A/A error lets it be seen."""
    found = race.difference(a, b)
    return "same" if not found.seen else "more" if found.ns > 0 else "less"


# ------------------------------------------------------------------------------------------------ the whole, and five groups


def whole_figure(receipt: Receipt, guess=None) -> Picture | None:
    """The last stage and everything before it, in percent of the whole; `guess` is marked. None where it was not measured."""
    price = _price(receipt, "kernel")
    if price is None:
        return None
    share = 100 * price.ns / receipt.total_ns
    name = "the loop over the elements" if receipt.device == "cpu" else "the launch of the loop"
    title = f"One {receipt.op}: {format_ns(receipt.end_to_end)} from end to end"
    parts = {name: share, "everything else": 100 - share}
    return figures.bar(parts, unit="%", guess=guess, title=title, source=receipt_label(receipt))


def _price(receipt: Receipt, stage_id: str) -> Reading | None:
    return next((s.isolate for s in receipt.stages if s.stage == stage_id), None)


def last_stage(receipt: Receipt, beside: Receipt | None = None) -> Sentence:
    """The share of the last stage: on a CPU the loop over the elements, on a GPU the launch that hands the loop over."""
    words = []
    for one in [receipt, *([beside] if beside else [])]:
        price = _price(one, "kernel")
        if price is None:
            words.append(f"{_place(one)} the last stage could not be measured.")
            continue
        of = f"{format_ns(price)} of {format_ns(one.end_to_end)}, {format_share(price.ns, one.total_ns)}"
        if one.device == "cpu":
            words.append(f"{_place(one)} the loop over the elements took {of}.")
            continue
        words.append(f"{_place(one)} the host never adds: its last stage, the launch, took {of}.")
        if "kernel" in one.device_time:
            words.append(f"The kernel, with the step to the next one, took the GPU {format_ns(one.device_time['kernel'])}.")
    return Sentence(*words)


def dearest_group(receipt: Receipt) -> tuple[str | None, Sentence]:
    """(text of the dearest group's option, sentence); None when the first two differ by less than the A/A error."""
    prices = {g: ns for g, ns in group_prices(receipt).items() if g != "context"}
    if not receipt.complete:
        return None, Sentence(f"{_place(receipt)} not every stage could be measured, so no group is called the dearest.")
    first, second = sorted(prices, key=prices.__getitem__, reverse=True)[:2]
    names = catalogue.groups(receipt.device)
    both = f"{names[first]} with {format_ns(prices[first])}, {format_share(prices[first], receipt.total_ns)} of the whole"
    then = f"{names[second]} with {format_ns(prices[second])}"
    if prices[first] - prices[second] <= max(receipt.aa_error, 0.005) * receipt.total_ns:
        return None, Sentence(f"{_place(receipt)} no difference seen between {both}, and {then}: both are the dearest.")
    return GROUP_ANSWERS[first][1], Sentence(f"{_place(receipt)} the dearest group is {both}; then comes {then}.")


# ------------------------------------------------------------------------------------------------ the boundary


def boundary(receipt: Receipt, kind: str) -> tuple[str | None, Sentence]:
    """(text of the option that holds, sentences) for the door of `a + b` into C++, from `kind`, the type of torch.Tensor.__add__.

    Prices do not decide this one: a pybind11 call copies the handles that it is given, which a receipt counts elsewhere.
    """
    words = [f"Asked here, torch.Tensor.__add__ is of the type {kind}."]
    rung = next((r for r in receipt.ladder if r.name == "THPVariable_add"), None)
    if rung is not None and kind == "method_descriptor":
        words.append(f"{_place(receipt)} the C function inside it, called directly, does the whole add in {format_ns(rung)}.")
    own = next((s for s in receipt.stages if s.stage == "python_boundary" and s.isolate), None)
    if own is not None:
        tight = "" if own.alone_ns is None else f" and {format_ns(own.alone_ns)} in a tight loop of its own"
        words.append(f"The boundary costs {format_ns(own.isolate)} in its place{tight}.")
    if PYBIND in receipt.arms:
        words.append(
            f"An all but empty pybind11 call costs {format_ns(receipt.arms[PYBIND])} in a tight loop, one handle copied."
        )
    return DOOR_ANSWERS.get(kind, (None, None))[1], Sentence(*words)


# ------------------------------------------------------------------------------------------------ a live view


def predicted_way(torch_version: str) -> str:
    """What a live view should do to the price if claim C01 is right: "less" on torch 2.10 to 2.13, "same" elsewhere."""
    major, minor = (int(part) for part in torch_version.split("+")[0].split(".")[:2])
    return "less" if major == 2 and minor in TAXED else "same"


def live_view(race: Race, torch_version: str) -> tuple[str, Sentence]:
    """(text of the option that was measured, sentences): the mechanism, its prediction, the intervention, two counter-cases.

    `race` holds PLAIN, ONE_VIEW, TWO_VIEWS and COPIES. The counter-cases agree when they move the price by less than half of
    what the first view did, or by no difference that is seen.
    """
    should, way = predicted_way(torch_version), _way(race, PLAIN, ONE_VIEW)
    release = ".".join(torch_version.split("+")[0].split(".")[:2])
    if should == "less":
        why = (
            f"The mechanism: on torch {release} a copy of a tensor's handle that takes its count from one to two must also keep "
            "the Python object alive, and takes the GIL for it. A live view holds a handle on its base: the count is two already."
        )
        expects = "It predicts a cheaper add with a view of each alive, and no further change with a second one."
    else:
        why = f"torch {release} is outside 2.10 to 2.13, where a copy of a handle takes the GIL."
        expects = "The mechanism predicts no change."
    met = "as predicted" if way == should else "not as predicted"
    effect = 0.0 if way == "same" else abs(race[ONE_VIEW].ns - race[PLAIN].ns)
    moved = [
        name
        for base, name in ((ONE_VIEW, TWO_VIEWS), (PLAIN, COPIES))
        if race.difference(base, name).seen and abs(race[name].ns - race[base].ns) > effect / 2
    ]
    if moved:
        counter = f"A counter-case fails: {' and '.join(moved)} moved the price too, so holding a view is not all there is to it."
    else:
        counter = "Both counter-cases hold: neither a second view nor a copy adds an effect of its own."
    said = explain.difference(race, PLAIN, ONE_VIEW).text()
    return VIEW_ANSWERS[way][1], Sentence(why, expects, f"Measured, {met}: {said}", counter)


def live_view_table(race: Race, torch_version: str) -> Table:
    """Each variant of the race with what the mechanism predicts for it and what was measured against the plain add."""
    should = {"less": "cheaper", "same": "no change"}[predicted_way(torch_version)]
    rows = [
        {"variant": PLAIN, "price": race[PLAIN], "predicted": None, "measured": None},
        *(
            {"variant": name, "price": race[name], "predicted": way, "measured": format_difference(race.difference(PLAIN, name))}
            for name, way in ((ONE_VIEW, should), (TWO_VIEWS, f"{should}, as one view"), (COPIES, "no change"))
        ),
        {"variant": race.control[1], "price": race[race.control[1]], "predicted": "no change", "measured": "the A/A error"},
    ]
    return Table(rows, caption="A view held alive: predicted and measured", notes=[f"torch {torch_version} · {race.device}"])


# ------------------------------------------------------------------------------------------------ the result


def memory(receipt: Receipt, beside: Receipt | None = None) -> Sentence:
    """The share of the memory in making the result: the allocator against the allocator and the tensor around the memory."""
    words = []
    for one in [receipt, *([beside] if beside else [])]:
        block, around = _price(one, "allocator"), _price(one, "output_tensor")
        if block is None or around is None:
            words.append(f"{_place(one)} the two could not be measured.")
            continue
        both = block.ns + around.ns
        share = format_share(block.ns, both)
        words.append(
            f"{_place(one)} the allocator took {format_ns(block)} of the {format_ns(both)} for memory and tensor: {share}."
        )
    return Sentence(*words)


# ------------------------------------------------------------------------------------------------ does it add up


def tight_loops(receipt: Receipt, beside: Receipt | None = None) -> Sentence:
    """What the same pieces sum to when each is repeated in a tight loop of its own, against their sum in place and the whole."""
    words = []
    for one in [receipt, *([beside] if beside else [])]:
        way, placed, tight = _tight(one)
        if way is None:
            words.append(f"{_place(one)} not every piece could be timed in a loop of its own.")
            continue
        than = "no difference seen" if way == "same" else f"{format_ns(abs(placed - tight))} {way}"
        share = format_share(tight, one.total_ns)
        words.append(
            f"{_place(one)} tight loops sum to {format_ns(tight)}, {share} of the whole; against the sum in place: {than}."
        )
    return Sentence(*words)


def _tight(receipt: Receipt) -> tuple[str | None, float, float]:
    """Whether tight loops sum to "less", "more" or the "same" (None: not all were timed); the sum in place, the loops' sum."""
    both = [(s.ns, s.alone_ns) for s in receipt.stages if s.ns is not None and s.alone_ns is not None]
    if len(both) < len(receipt.stages) or not both:
        return None, 0.0, 0.0
    placed, tight = (sum(prices) for prices in zip(*both, strict=True))
    gap = placed - tight
    return "same" if abs(gap) <= max(receipt.aa_error, 0.005) * placed else "less" if gap > 0 else "more", placed, tight


def why_tight(receipt: Receipt) -> str:
    """Why the sums differ; then each stage that goes the other way, dearer in a loop than in place, with what is known of it."""
    way = _tight(receipt)[0]
    least = max(DEARER_ALONE, 1.0 + receipt.aa_error)
    other = [s for s in receipt.stages if s.ns is not None and s.alone_ns is not None and s.alone_ns > least * s.ns]
    if way == "more" or not other:
        return WHY_TIGHT[way]
    names = " and ".join(
        f"{catalogue.title(s.stage, receipt.device)} ({format_ns(s.alone_ns)} in the loop, {format_ns(s.isolate)} in place)"
        for s in other
    )
    known = "Why is not established."
    if all(s.stage in DIFFERENCES for s in other):
        known = (
            "Such a price is a difference: a larger piece less the part of it that other stages count. The loop helps that part "
            "more than the larger piece; why is not established."
        )
    return f"{WHY_TIGHT[way]} The other way goes: {names}. {known}"


def leave_one_out(receipt: Receipt) -> Table:
    """The sum of the stages against its band, with every stage in and with each of the three dearest left out.

    Raises AssertionError when the check holds without the dearest stage: one that cannot fail proves nothing. The sum alone
    may miss a stage that is smaller than the band (the band must hold an honest run on any machine); the table then says so.
    """
    found = expected.judge("stages.sum", receipt)
    dear = sorted((s for s in receipt.stages if s.ns is not None), key=lambda s: s.ns, reverse=True)[:3]
    if found.value is None or found.lo is None or not dear:
        why = found.note or "; ".join(found.problems) or "no stage was measured"
        return Table([{"receipt": "every stage in", "check": f"cannot be judged: {why}"}], caption="The check of the sum")
    titles = [catalogue.title(s.stage, receipt.device) for s in dear]
    cases = {"every stage in": receipt}
    cases |= {f"without {title}": receipt.without(stage.stage) for title, stage in zip(titles, dear, strict=True)}
    rows = [{"receipt": name, **_judged(one, *found.ends)} for name, one in cases.items()]
    refusal = _refusal(receipt, dear[0].stage)
    if not refusal:
        raise AssertionError(f"the check of the sum passes without {titles[0]}: it cannot see that the dearest stage is missing")
    notes = [receipt_label(receipt), f"What expect() says without {titles[0]}: {refusal}"]
    unseen = [row["receipt"] for row in rows[1:] if row["check"] == "passes"]
    if unseen:
        notes.append(f"The sum alone cannot see it {' nor '.join(unseen)}: the band of this run is wider than that stage.")
    return Table(rows, caption="The check of the sum, and the same check with a stage left out", notes=notes)


def _judged(receipt: Receipt, low: float | None, high: float | None) -> dict:
    inside = (low is None or receipt.coverage >= low) and (high is None or receipt.coverage <= high)
    band = " to ".join(f"{100 * end:.0f} %" for end in (low, high) if end is not None)
    share = format_share(receipt.stage_sum_ns, receipt.total_ns)
    return {"sum": format_ns(receipt.stage_sum_ns), "of the whole": share, "band": band, "check": "passes" if inside else "fails"}


def _refusal(receipt: Receipt, stage_id: str) -> str:
    """What the check says without the stage; as a live one, since a recording would be refused for having been changed."""
    return "; ".join(expected.judge("stages.sum", replace(receipt.without(stage_id), source="live")).problems)


# ------------------------------------------------------------------------------------------------ with grad


def grad_figure(plain: Receipt, grad: Receipt) -> Picture:
    """The line without grad, with grad and the result kept, with grad and the result dropped; in grey the A/A error."""
    parts = {WITHOUT: grad.arms.get(WITHOUT, plain.end_to_end), "with grad, result kept": grad.end_to_end}
    if DROPPED in grad.arms:
        parts["with grad, result dropped"] = grad.arms[DROPPED]
    error = max(receipt.aa_error * receipt.total_ns for receipt in (plain, grad))
    return figures.bar(parts, title="The same line with grad", error_ns=error, source=receipt_label(grad))


def with_grad(plain: Receipt, grad: Receipt, bill: Receipt) -> Sentence:
    """What the line costs with grad against without, and the node's own price, from the receipt `bill`.

    The two are raced in the receipt with grad where that has both; else they come from two runs, judged by the noisier.
    """
    without, with_ = "the add without grad", "the add with grad"
    judge = grad if WITHOUT in grad.arms else max(plain, grad, key=lambda receipt: receipt.aa_error)
    race = _race(judge, **{without: grad.arms.get(WITHOUT, plain.end_to_end), with_: grad.end_to_end})
    words = f"{_place(grad)}: {explain.difference(race, without, with_).text()}"
    node = _price(bill, "autograd_node")
    if node is None:
        return Sentence(words, "The node could not be measured.")
    share = format_share(node.ns, bill.total_ns)
    return Sentence(words, f"{_place(bill)} the node takes {format_ns(node)}: {share} of the add with grad.")


def dropped(receipt: Receipt) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentence) for the arm "result dropped" against the result kept."""
    if DROPPED not in receipt.arms:
        return None, Sentence(f"{_place(receipt)} the arm with the result dropped was not measured.")
    race = _race(receipt, kept=receipt.end_to_end, dropped=receipt.arms[DROPPED])
    way = _way(race, "kept", "dropped")
    words = {
        "same": "no difference seen between dropping the result and keeping it",
        "more": f"dropping the result costs {format_ns(race['dropped'].ns - race['kept'].ns)} more than keeping it",
        "less": f"dropping the result costs {format_ns(race['kept'].ns - race['dropped'].ns)} less than keeping it",
    }[way]
    both = f"({format_ns(race['dropped'])} against {format_ns(race['kept'])})"
    return DROPPED_ANSWERS[way][1], Sentence(f"{_place(receipt)} {words} {both}.")


# ------------------------------------------------------------------------------------------------ in a program


def in_program_figure(receipt: Receipt, beside: Receipt | None = None) -> Picture:
    """The price after N other ops, yours and in a panel of its own the recorded one, each with its label."""
    other = beside.in_program if beside and beside.in_program else None
    names = {"source": receipt_label(receipt), "recorded_source": receipt_label(beside) if other else ""}
    return figures.curve(receipt.in_program, other, title=f"One {receipt.op} in a program", **names)


NOTHING, ADDS, OPS = "after nothing", "after adds of other tensors", "after other ops"  # as programs.code_or_data names them


def code_or_data(race: Race) -> Sentence:
    """Is it other code or other data that makes the add dearer in a program? `race` is from `programs.code_or_data`."""
    words = f"In one race, {PLAIN} took " + ", ".join(f"{format_ns(race[name])} {name}" for name in (NOTHING, ADDS, OPS)) + "."
    kind = _cause(race)
    cause = {
        "none": "No rise is seen after other ops, so there is no cause to look for.",
        "fall": "Other data with the same code shows no rise but a fall, so the rise comes with other code. "
        "Why adds of other tensors make the next add cheaper, this race does not show.",
        "flat": "Other data with the same code shows no rise that can be seen, so the rise comes with other code.",
        "code": "Other data with the same code shows less than half of the rise, so most of it comes with other code.",
        "data": "Other data with the same code shows most of the rise, so other code is not its main cause.",
        "unsure": "This race cannot say whether other code or other data makes most of the rise: too close, or too noisy.",
    }[kind]
    if kind == "none":
        return Sentence(words, cause)
    return Sentence(words, cause, "A clock cannot tell a cold table from a mispredicted jump; a processor's counters could.")


def why_in_program(race: Race) -> str:
    """The reason at the end of the lesson, as this race has it."""
    return WHY_PROGRAM[_cause(race)]


def _cause(race: Race) -> str:
    """What the race shows: "none" (no rise), "data", "unsure", or other code: after adds of other tensors the add is cheaper than
    after nothing ("fall"), no difference is seen ("flat"), or less than half of the rise ("code")."""
    if _way(race, NOTHING, OPS) != "more":
        return "none"
    rise, with_data = race[OPS].ns - race[NOTHING].ns, race[ADDS].ns - race[NOTHING].ns
    unsure = race.error * race[OPS].ns
    if with_data + unsure < rise / 2:
        return {"less": "fall", "same": "flat", "more": "code"}[_way(race, NOTHING, ADDS)]
    return "data" if with_data - unsure > rise / 2 else "unsure"


def first_calls(receipt: Receipt, beside: Receipt | None = None) -> Table:
    """The ladder of first calls in a fresh process; each first call with its multiple of the last call of the same kind.

    `beside` adds a second machine's ladder. Raises ValueError where this receipt has none.
    """
    if not receipt.first_call:
        raise ValueError("the first calls were not measured in this receipt")
    steps, other = dict(receipt.first_call), dict(beside.first_call) if beside else {}
    rows = [
        {
            "call": name,
            "price": _long(ns),
            "times": _over_last(name, steps),
            "beside": _long(other[name]) if name in other else None,
        }
        for name, ns in steps.items()
    ]
    rows += [{"call": name, "beside": _long(ns)} for name, ns in other.items() if name not in steps]
    columns = {"call": "in a fresh process", "price": "price", "times": "over the last of its kind"}
    notes = [receipt_label(receipt)]
    if beside:
        columns["beside"] = beside.source
        notes.append(f"Last column: {receipt_label(beside)}")
    return Table(
        rows,
        columns,
        "First calls, in the order in which a process meets them; what only the other machine has comes last",
        notes,
    )


def _long(ns: float) -> str:
    """A price that may be as long as seconds: an import and an add do not fit one unit."""
    if ns < 1e6:
        return format_ns(ns)
    return f"{significant(ns / 1e6, 3)} ms" if ns < 1e9 else f"{significant(ns / 1e9, 3)} s"


def _over_last(name: str, steps: dict[str, float]) -> str | None:
    """ "269 ×" for a step "first …" of which later ones follow, else None."""
    kind = name.removeprefix("first ")
    later = [ns for other, ns in steps.items() if kind in other and other != name]
    return f"{significant(steps[name] / later[-1], 3)} ×" if name.startswith("first ") and later else None


# ------------------------------------------------------------------------------------------------ the printed tables


PRINTED = {  # what a text prints as the rows of one op, and the claim with the total that it prints beside
    "text A: stages of one op": (ledger.STAGE_ROWS, "A08"),
    "text B: the four CPU steps": (("B03", "B04", "B05", "B02"), "B06"),
}


def printed_tables() -> Table:
    """Do the rows that the two texts print sum to the total that each prints? One row a text, from the claims ledger."""
    return Table([_summed(name, *rows) for name, rows in PRINTED.items()], caption="Do the printed rows add up?")


def _summed(name: str, rows: Sequence[str], total: str) -> dict:
    low, high = (sum(_end(ledger.find(i), end) for i in rows) for end in ("lo", "hi"))
    said = {end: _end(ledger.find(total), end) for end in ("lo", "hi")}
    out = [
        f"{significant(abs(ours - said[end]), 2)} µs {way}"
        for end, way, ours, sticks in (("lo", "below", low, low < said["lo"]), ("hi", "above", high, high > said["hi"]))
        if sticks
    ]
    return {
        "table": name,
        "its rows sum to": f"{low:g}–{high:g} µs",
        "it prints as total": f"{said['lo']:g}–{said['hi']:g} µs",
        "inside it": f"no: up to {' and '.join(out)}" if out else "yes",
    }


def _end(claim: ledger.Claim, end: str) -> float:
    """The low or high end of what a claim states, in its own unit."""
    value = getattr(claim, end) if claim.around is None else claim.around
    if value is None:
        raise ValueError(f"claim {claim.id} states no {end}")
    return value


def verdicts(receipt: Receipt, grad: Receipt) -> Table:
    """Every claim of this lesson: yours, recorded on a GPU, cited, and the ledger's verdict with its sentence."""
    from utils.model import recordings

    best = recordings.best("cuda")
    columns = study_end.COLUMNS | {"yours": f"yours ({receipt.device})"}
    notes = [f"Yours: {receipt_label(receipt)}", f"Recorded: {best.label()}" if best else "Recorded: no recording of a GPU yet"]
    return Table(ledger.verdict_table("price_each_stage", receipt, receipt_grad=grad), columns, "Claims and verdicts", notes)


# ------------------------------------------------------------------------------------------------ the end


def transfer(race: Race | None, right: bool, alone: str = "mine") -> Sentence | Table:
    """What the reader's own pricing of the transfer op shows: a hint before it is written, then the table and the difference."""
    if race is None:
        return Sentence("Nothing priced yet: let mine() return the result of your op, and run this cell again.")
    if not right:
        return Sentence("mine() returns something else than the op, so its price would be the price of something else.")
    table_of = [{"op": name, "price": race[name], "against": _against(race, name)} for name in race.readings]
    return Table(table_of, {"op": "op", "price": "price", "against": "against a + b"}, "Your op, priced by you")


def _against(race: Race, name: str) -> str | None:
    if name == PLAIN:
        return None
    return "the A/A error" if name == race.control[1] else format_difference(race.difference(PLAIN, name))
