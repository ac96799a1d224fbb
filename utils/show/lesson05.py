"""What lesson 05, the receipt, says about its measurements: computed sentences, tables and a check that must fail.

It measures nothing and decides nothing beforehand: each function takes receipts and races and words what they show, so that
every sentence stays true when the numbers surprise. A difference inside the A/A error is "no difference seen".
"""

from __future__ import annotations

from collections.abc import Sequence

from utils.model.readings import Race, Reading, Receipt
from utils.show import catalogue, explain, theme
from utils.show.explain import Sentence
from utils.show.tables import Table, format_difference, format_ns, format_share, group_prices, significant

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
GROUP_ANSWERS = {
    "front_end": ("python_is_the_price", "The Python front end: an interpreter is slow"),
    "dispatch": ("dispatcher_is_the_price", "Dispatch and autograd: tables, keys and jumps"),
    "shapes": (None, "Shapes and strides: planning the loop"),
    "output": (None, "The result: memory and a tensor around it"),
    "kernel": ("work_is_the_price", "The last group: that is where the work is done"),
}
BOUNDARY_ANSWERS = {
    "same": ("boundary_is_pybind11", "About as much: the boundary of an op is a pybind11 call"),
    "less": (None, "Less: the op does not go through pybind11"),
    "more": ("operator_costs_more_than_a_call", "More: an operator has to be looked up first"),
}
VIEW_ANSWERS = {
    "more": ("views_burden_their_base", "Dearer: two more tensors hang on `a` and `b`"),
    "same": ("unused_tensors_are_free", "The same: the add never touches the views"),
    "less": (None, "Cheaper"),
}
DROPPED_ANSWERS = {
    "less": ("dropping_saves_time", "Dropping is cheaper: nothing has to be kept"),
    "same": ("result_life_is_free", "The same: the op computes the same either way"),
    "more": (None, "Dropping is dearer"),
}

PLAIN, ONE_VIEW, TWO_VIEWS, COPIES = "a + b", "a view of each alive", "two views of each alive", "a copy of each alive"
TAXED = range(10, 14)  # torch 2.x whose handle copies take the GIL (claim C01)


# ------------------------------------------------------------------------------------------------ which receipt is shown


def recorded(kind: str, grad: bool = False) -> Receipt | None:
    """The recorded receipt for "cpu" or "cuda", or None where the repository has none."""
    from utils.model import recordings

    recording = recordings.best(kind)
    return None if recording is None else recording.receipts.get(f"{kind}_grad" if grad else kind)


def with_stages(receipt: Receipt) -> Receipt:
    """`receipt` if all its stages were measured, else the recorded one of the same kind; its label says which it is."""
    if receipt.complete:
        return receipt
    return recorded(receipt.device, receipt.grad) or receipt


def _place(receipt: Receipt) -> str:
    return "On this machine" if receipt.source == "live" else f"In the recording ({theme.label(receipt)})"


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


def addition(receipt: Receipt, beside: Receipt | None = None, *, guess=None) -> Sentence:
    """The share of the last stage: on a CPU the loop over the elements, on a GPU the launch that hands the loop over."""
    words = []
    for one in [receipt, *([beside] if beside else [])]:
        price = next((s.isolate for s in one.stages if s.stage == "kernel"), None)
        if price is None:
            words.append(f"{_place(one)} the last stage could not be measured alone.")
            continue
        of = f"{format_ns(price)} of {format_ns(one.end_to_end)}, {format_share(price.ns, one.total_ns)}"
        if one.device == "cpu":
            words.append(f"{_place(one)} the loop over the elements took {of}.")
            continue
        words.append(f"{_place(one)} the host never adds: its last stage, the launch, took {of}.")
        if "kernel" in one.device_time:
            words.append(f"The kernel itself ran on the GPU for {format_ns(one.device_time['kernel'])}.")
    return Sentence(*words, guess=guess)


def dearest_group(receipt: Receipt) -> tuple[str | None, Sentence]:
    """(text of the option of the dearest group, sentence); None when the first two are inside the A/A error, or one is missing."""
    prices = {g: ns for g, ns in group_prices(receipt).items() if g != "context"}
    if not receipt.complete:
        return None, Sentence(f"{_place(receipt)} not every stage could be measured alone, so no group is called the dearest.")
    first, second = sorted(prices, key=prices.__getitem__, reverse=True)[:2]
    names = catalogue.groups()
    both = f"{names[first]} with {format_ns(prices[first])}, {format_share(prices[first], receipt.total_ns)} of the whole"
    then = f"{names[second]} with {format_ns(prices[second])}"
    if prices[first] - prices[second] <= max(receipt.aa_error, 0.005) * receipt.total_ns:
        return None, Sentence(f"{_place(receipt)} no difference seen between {both}, and {then}: both are the dearest.")
    return GROUP_ANSWERS[first][1], Sentence(f"{_place(receipt)} the dearest group is {both}; then comes {then}.")


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
            f"The mechanism: on torch {release} a copy of a tensor's handle that takes its count from one to two must also keep the "
            "Python object alive, and takes the GIL for it. A live view holds a handle on its base, so the count is two already."
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


# ------------------------------------------------------------------------------------------------ does it add up


def leave_one_out(receipt: Receipt, check, errors: type[Exception] | tuple = AssertionError) -> Table:
    """`check(receipt)` with everything in, then with each of the three dearest stages left out; the latter must raise.

    Raises AssertionError when the check passes without one of these stages: a check that cannot fail proves nothing.
    """
    dear = sorted((s for s in receipt.stages if s.ns is not None), key=lambda s: s.ns, reverse=True)[:3]
    if not dear:
        raise AssertionError("no stage was measured alone, so none can be left out")
    rows = [_judged("everything in", receipt, check, errors)]
    rows += [_judged(f"without {catalogue.title(s.stage)}", receipt.without(s.stage), check, errors) for s in dear]
    passed = [row["receipt"] for row in rows[1:] if row["check"] == "passes"]
    if passed:
        raise AssertionError(f"the check passes {' and '.join(passed)}: it cannot tell whether a stage is missing")
    return Table(rows, caption="The check with a stage left out", notes=[theme.label(receipt)])


def _judged(name: str, receipt: Receipt, check, errors) -> dict:
    row = {"receipt": name, "sum": format_ns(receipt.stage_sum_ns), "share": format_share(receipt.stage_sum_ns, receipt.total_ns)}
    try:
        check(receipt)
    except errors as error:
        return {**row, "check": "fails", "it says": str(error).splitlines()[0]}
    return {**row, "check": "passes", "it says": None}


# ------------------------------------------------------------------------------------------------ with grad


def with_grad(plain: Receipt, grad: Receipt) -> Sentence:
    """What the same line costs with grad against without, and what the node alone takes of it."""
    without, with_ = "the add without grad", "the add with grad"
    noisier = max(plain, grad, key=lambda receipt: receipt.aa_error)
    race = _race(noisier, **{without: plain.end_to_end, with_: grad.end_to_end})
    words = explain.difference(race, without, with_).text()
    node = next((s for s in grad.stages if s.stage == "autograd_node"), None)
    if node is None or node.isolate is None:
        return Sentence(f"{_place(grad)}: {words}", "The node could not be measured alone.")
    share = format_share(node.ns, grad.total_ns)
    return Sentence(f"{_place(grad)}: {words}", f"The node, measured alone, takes {format_ns(node.isolate)}: {share} of it.")


def dropped(receipt: Receipt) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentence) for the arm "result dropped" against the result kept."""
    if "result dropped" not in receipt.arms:
        return None, Sentence(f"{_place(receipt)} the arm with the result dropped was not measured.")
    race = _race(receipt, kept=receipt.end_to_end, dropped=receipt.arms["result dropped"])
    way = _way(race, "kept", "dropped")
    words = {
        "same": "no difference seen between dropping the result and keeping it",
        "more": f"dropping the result costs {format_ns(race['dropped'].ns - race['kept'].ns)} more than keeping it",
        "less": f"dropping the result costs {format_ns(race['kept'].ns - race['dropped'].ns)} less than keeping it",
    }[way]
    both = f"({format_ns(race['dropped'])} against {format_ns(race['kept'])})"
    return DROPPED_ANSWERS[way][1], Sentence(f"{_place(receipt)} {words} {both}.")


# ------------------------------------------------------------------------------------------------ the printed tables


def adds_up_by_itself(claims: dict[str, dict], rows: Sequence[str], total: str, table: str) -> dict:
    """One row: what the printed rows of a source's table sum to, the total that it prints, and whether the two agree."""
    low, high = (sum(_bound(claims[i], end) for i in rows) for end in ("lo", "hi"))
    said = _bound(claims[total], "lo"), _bound(claims[total], "hi")
    gaps = [
        f"its {end} is {significant(abs(ours - theirs), 2)} µs {'above' if ours > theirs else 'below'}"
        for end, ours, theirs in (("low end", low, said[0]), ("high end", high, said[1]))
        if abs(ours - theirs) > 1e-9
    ]
    return {
        "table": table,
        "rows sum to": f"{significant(low, 3)}–{significant(high, 3)} µs",
        "total printed": f"{significant(said[0], 3)}–{significant(said[1], 3)} µs",
        "agrees": "yes" if not gaps else f"no: {', '.join(gaps)}",
    }


def _bound(claim: dict, end: str) -> float:
    """The low or high end of what a claim states, in its own unit."""
    value = claim.get(end, claim.get("around"))
    if value is None:
        raise ValueError(f"claim {claim.get('id')} states no {end}")
    return float(value)
