"""How a part of a study is worded: as measured here, as recorded there, each with its label; and where it is not there, why."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from utils.measure.launch_here import Found
from utils.measure.study_here import Both
from utils.show.explain import Sentence
from utils.show.tables import Table, significant


def not_measured(found: Found, what: str) -> str:
    """The words that stand where there is no number: what was not measured, and why."""
    return f"Not measured: {what}; {found.why or 'nobody has measured it yet'}."


def told(found: Both, what: str, say: Callable[[Mapping], str], where: str = "on a GPU") -> Sentence:
    """`say` of what was measured here and of the recording (made `where`), each with its label, or why it is not there; apart.

    That no GPU is recorded is not said beside one that has just measured it."""
    here, there = found.here, found.there
    out = [f"{say(here.value)} ({here.label})" if here.value is not None else not_measured(here, what)]
    if there.value is not None:
        out.append(f"{say(there.value)} ({there.label})")
    elif here.value is None or here.value.get("device") != "cuda":
        out.append(not_measured(there, f"{what}, {where}"))
    return Sentence(*out, apart=True)


def each(found: Both) -> list[Found]:
    """What there is: the part measured here, the recorded one, or both."""
    return [one for one in (found.here, found.there) if one.value is not None]


def tables(found: Both, columns: Mapping[str, str], title: str, line: Callable[[Mapping], dict], *notes: str) -> list[Table]:
    """The part's "rows", each as `line` words it, here and as recorded; its label, `notes` and its own notes under each table."""
    return [
        Table([line(row) for row in one.value["rows"]], columns, title, [one.label, *notes, *one.value["notes"]])
        for one in each(found)
    ]


def option(found: Both, kind: Callable[[Mapping], str | None], answers: Mapping[str, tuple]) -> str | None:
    """The option's text by what was measured here, else by the recording; None where neither is there or neither tells."""
    key = None if found.first.value is None else kind(found.first.value)
    return None if key is None else answers[key][1]


def per_cent(share: float) -> str:
    return f"{significant(100 * share, 2)} %"


def times(ratio: float) -> str:
    return f"{significant(ratio, 2)} times"
