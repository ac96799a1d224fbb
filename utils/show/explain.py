"""Sentences that are computed from measurements: who wins, by how much, and what the reader said.

No prose of a lesson states a number that the run decides; it calls one of these. A difference inside the A/A error is
always "no difference seen". A `Sentence` is worded when it is shown, so that it can take up an answer given later.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from utils.model.readings import Race, Receipt
from utils.model.recordings import receipt_label
from utils.show import catalogue
from utils.show.tables import format_ns, format_share, significant

Part = str | Callable[[], str]


class Sentence:
    """Computed sentences; parts that are functions are called each time it is shown. `guess` adds what the reader said.

    `apart`: each part is shown as a paragraph of its own, as where each has its own source. As a string it is one line.
    """

    def __init__(self, *parts: Part, guess=None, apart: bool = False):
        self.parts = parts
        self.guess = guess
        self.apart = apart

    def _words(self) -> list[str]:
        return [word for part in self.parts if (word := part() if callable(part) else part)]

    def _paragraphs(self) -> list[str]:
        said = self.guess.said if self.guess is not None else ""
        words = [*self._words(), *([said] if said else [])]
        return words if self.apart else [" ".join(words)]

    def then(self, *parts: Part) -> Sentence:
        """These sentences with more after them."""
        return Sentence(*self.parts, *parts, guess=self.guess, apart=self.apart)

    def measured(self) -> str:
        """The sentences without what the reader said."""
        return " ".join(self._words())

    def text(self) -> str:
        return "\n".join(self._paragraphs())

    def __str__(self) -> str:
        return " ".join(self._paragraphs())

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(words)}</p>" for words in self._paragraphs())

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text(), "text/html": self._repr_html_()}


def _names(ids: Sequence[str], device: str) -> str:
    titles = [catalogue.groups(device).get(i) or catalogue.title(i, device) for i in ids]
    return titles[0] if len(titles) == 1 else f"{', '.join(titles[:-1])} and {titles[-1]}"


def _sum(receipt: Receipt, ids: Sequence[str]) -> float | None:
    """ns of the stages (or of all stages of the groups) in `ids`; None when one of them was not measured."""
    wanted = [s for s in receipt.stages if s.stage in ids or catalogue.group_of(s.stage) in ids]
    if not wanted or any(s.ns is None for s in wanted):
        return None
    return sum(s.ns for s in wanted)


def _place(receipt: Receipt) -> str:
    return (
        "On this machine"
        if receipt.source == "live"
        else f"In the recording ({receipt_label(receipt).removeprefix('recorded · ')})"
    )


def share(
    receipt: Receipt, ids: Sequence[str], *, of: Sequence[str] | None = None, beside: Receipt | None = None, guess=None
) -> Sentence:
    """What stages or groups `ids` took of the whole add (or of the stages or groups `of`); the same for a receipt `beside`."""
    ids = [ids] if isinstance(ids, str) else list(ids)
    of = [of] if isinstance(of, str) else of
    parts = []
    for one in [receipt, *([beside] if beside else [])]:
        part = _sum(one, ids)
        whole = one.total_ns if of is None else _sum(one, of)
        if part is None or not whole:
            parts.append(f"{_place(one)} {_names(ids, one.device)} could not be measured.")
        else:
            of_what = f"of one {one.op}" if of is None else f"of {_names(of, one.device)}"
            price = f"{format_ns(part)} {of_what}, which takes {format_ns(whole)}"
            parts.append(f"{_place(one)} {_names(ids, one.device)} took {price}: {format_share(part, whole)}.")
    return Sentence(*parts, guess=guess)


def winner(race: Race, names: Sequence[str] | None = None, *, guess=None) -> Sentence:
    """Which of `names` (default: all variants but the A/A twin) is cheapest, as far as the race's error lets it be seen."""
    names = list(names or (n for n in race.readings if n != race.control[1]))
    if len(names) < 2:
        raise ValueError("a winner needs at least two variants")
    ranked = sorted(names, key=lambda n: race[n].ns)
    first = ranked[0]
    level = [n for n in ranked[1:] if not race.difference(first, n).seen]
    if level:
        words = f"No difference seen between {' and '.join([first, *level])}: the same code run twice differs by as much."
        rest = [n for n in ranked if n not in (first, *level)]
        if rest:
            words += f" The dearest is {rest[-1]} with {format_ns(race[rest[-1]])}, against {format_ns(race[first])}."
        return Sentence(words, guess=guess)
    second = ranked[1]
    more = _times(race.ratio(first, second))
    words = f"{first} is the cheapest with {format_ns(race[first])}; {second} takes {format_ns(race[second])}, {more}."
    return Sentence(words, guess=guess)


def _times(ratio: float) -> str:
    if ratio < 2:
        return f"{significant(100 * (ratio - 1), 2)} % more"
    return f"{significant(ratio, 2)} times as much"


def difference(race: Race, a: str, b: str, *, guess=None) -> Sentence:
    """What b costs more or less than a, in ns and in percent, or that no difference was seen."""
    found = race.difference(a, b)
    if not found.seen:
        return Sentence(
            f"No difference seen between {a} ({format_ns(race[a])}) and {b} ({format_ns(race[b])}): it is inside the A/A error.",
            guess=guess,
        )
    more = "more" if found.ns > 0 else "less"
    percent = f", {significant(100 * abs(found.ns) / race[a].ns, 2)} %" if race[a].ns > 0 else ""
    return Sentence(
        f"{b} costs {format_ns(abs(found.ns))} {more} than {a} ({format_ns(race[b])} against {format_ns(race[a])}{percent}).",
        guess=guess,
    )


def adds_up(receipt: Receipt, *, guess=None) -> Sentence:
    """How much of the whole price the stages explain, and what is left as context."""
    if all(s.ns is None for s in receipt.stages):
        return Sentence(
            f"{_place(receipt)} no stage could be measured: the whole add takes {format_ns(receipt.end_to_end)}.", guess=guess
        )
    missing = [catalogue.title(s.stage, receipt.device) for s in receipt.stages if s.ns is None]
    words = (
        f"{_place(receipt)} the stages add up to {format_ns(receipt.stage_sum_ns)} of {format_ns(receipt.end_to_end)}: "
        f"{format_share(receipt.stage_sum_ns, receipt.total_ns)}. "
    )
    left = receipt.context_ns
    if missing:
        words += f"Not in that sum, because they could not be measured here: {', '.join(missing)}."
    elif abs(left) <= max(receipt.aa_error, 0.005) * receipt.total_ns:
        words += "No difference from the whole is seen: nothing is left over as context."
    elif left >= 0:
        words += f"The other {format_ns(left)} is context: what no stage explains."
    else:
        words += f"That is {format_ns(-left)} more than the whole: the stages do not add up here."
    return Sentence(words, guess=guess)


def in_program(receipt: Receipt, *, guess=None) -> Sentence:
    """What the same add costs after other ops against hot, as the receipt's `in_program` curve has it."""
    if len(receipt.in_program) < 2:
        return Sentence(f"{_place(receipt)} the add was only priced hot.", guess=guess)
    (few, hot), (many, cold) = receipt.in_program[0], receipt.in_program[-1]
    error = max(receipt.aa_error, 0.005) * max(hot.ns, cold.ns)
    if abs(cold.ns - hot.ns) <= error:
        return Sentence(
            f"{_place(receipt)} no difference seen between an add after {few} other ops and one after {many}.", guess=guess
        )
    return Sentence(
        f"{_place(receipt)} one add takes {format_ns(hot)} after {few} other ops and {format_ns(cold)} after {many}: "
        f"{significant(cold.ns / hot.ns, 2)} times as much.",
        guess=guess,
    )
