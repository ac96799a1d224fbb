"""Tables that read the same as HTML in a notebook and as text in a terminal, and how a price is written down.

`Table(rows, columns, caption)` is the twin of every figure. `format_ns` and `format_difference` are the only places that
turn a price into text, so that units and the A/A rule (no difference inside the error is ever printed) hold everywhere.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from utils.model.readings import Difference, Race, Reading, Receipt
from utils.model.recordings import receipt_label
from utils.show import catalogue

NOTHING = "–"
PAD = "padding:2px 8px"  # outside JupyterLab's own styles (in a widget, in exported HTML) cells would touch


# ------------------------------------------------------------------------------------------------ numbers as text


def significant(value: float, digits: int = 3) -> str:
    """`value` with that many significant digits and thousands separators: 1.18, 43.2, 938, 2,630. Never an exponent.

    Raises ValueError for a value that is not finite: nothing that was measured is infinite or NaN.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a measurement")
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def format_ns(ns: float | Reading | None, digits: int = 3) -> str:
    """A price as text: ns below 1,000, µs from there on, three significant digits. None is "not measured"."""
    if ns is None:
        return "not measured"
    if isinstance(ns, Reading):
        ns = ns.ns
    if abs(float(f"{ns:.{digits - 1}e}")) < 1000:
        return f"{significant(ns, digits)} ns"
    return f"{significant(ns / 1000, digits)} µs"


def format_time(ns: float, digits: int = 3) -> str:
    """A time that may be long, as text: like `format_ns`, but in ms and s from there on."""
    for factor, unit in ((1e9, "s"), (1e6, "ms")):
        if abs(ns) >= factor:
            return f"{significant(ns / factor, digits)} {unit}"
    return format_ns(ns, digits)


def format_band(reading: Reading | None) -> str:
    """The p25–p75 of the blocks in one unit: "938–951 ns"."""
    if reading is None:
        return NOTHING
    low, high = reading.band
    unit, factor = ("ns", 1.0) if abs(float(f"{high:.2e}")) < 1000 else ("µs", 1e-3)
    return f"{significant(low * factor)}–{significant(high * factor)} {unit}"


def format_share(part: float | None, whole: float) -> str:
    """`part` of `whole` in percent, two significant digits: "48 %", "3.6 %"."""
    return NOTHING if part is None else f"{significant(100.0 * part / whole, 2)} %"


def _percent(ratio: float) -> str:
    return f"{significant(100.0 * ratio, 2)} %"


def format_difference(difference: Difference) -> str:
    """A signed difference, or "no difference seen" with the error that hides it."""
    if not difference.seen:
        return f"no difference seen (A/A error {format_ns(difference.error_ns, 2)})"
    return f"{'+' if difference.ns > 0 else '−'}{format_ns(abs(difference.ns))}"


def _cell(value) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Reading):
        return format_ns(value)
    if isinstance(value, Difference):
        return format_difference(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return significant(value)
    return str(value)


def _numeric(value) -> bool:
    return isinstance(value, (int, float, Reading)) or (isinstance(value, str) and value[:1].lstrip("+−-")[:1].isdigit())


# ------------------------------------------------------------------------------------------------ the table


class Table:
    """Rows of named values as an accessible HTML table and as text.

    `rows` are dicts; `columns` names and orders the keys shown: a list of keys, or a dict key → heading (default: the keys of
    all rows in order of appearance). The first column is the row's heading. Readings are written as prices, None as "–".
    `notes` are lines under the table (where the numbers come from, what is missing). Raises ValueError without rows.
    """

    def __init__(
        self,
        rows: Sequence[Mapping],
        columns: Sequence[str] | Mapping[str, str] | None = None,
        caption: str = "",
        notes: Sequence[str] = (),
    ):
        self.rows = [dict(row) for row in rows]
        if not self.rows:
            raise ValueError(f"the table {caption!r} has no rows")
        if columns is None:
            columns = list(dict.fromkeys(key for row in self.rows for key in row))
        self.columns: dict[str, str] = dict(columns) if isinstance(columns, Mapping) else {c: c for c in columns}
        self.caption = caption
        self.notes = tuple(notes)

    def cells(self) -> list[list[str]]:
        """The table as text cells, without the headings."""
        return [[_cell(row.get(key)) for key in self.columns] for row in self.rows]

    def _right(self) -> list[bool]:
        """Which columns are numbers: every value that is there starts as one."""
        flags = []
        for key in self.columns:
            values = [row.get(key) for row in self.rows if row.get(key) not in (None, "", NOTHING)]
            flags.append(bool(values) and all(_numeric(v) for v in values))
        return flags

    def text(self, style: str = "simple") -> str:
        """The table for a terminal (tabulate's `style`; "github" gives Markdown)."""
        from tabulate import tabulate

        align = ["right" if right else "left" for right in self._right()]
        body = tabulate(self.cells(), headers=list(self.columns.values()), tablefmt=style, colalign=align, disable_numparse=True)
        parts = [self.caption, body, *self.notes] if style != "github" else [f"**{self.caption}**", "", body, "", *self.notes]
        return "\n".join(part for part in parts if part or style == "github")

    __str__ = text

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        right = self._right()
        head = "".join(
            f'<th scope="col" style="text-align:{"right" if r else "left"};{PAD}">{html.escape(title)}</th>'
            for title, r in zip(self.columns.values(), right, strict=True)
        )
        body = []
        for cells in self.cells():
            line = [f'<th scope="row" style="text-align:left;font-weight:normal;{PAD}">{html.escape(cells[0])}</th>']
            for cell, r in zip(cells[1:], right[1:], strict=True):
                line.append(f'<td style="text-align:{"right" if r else "left"};{PAD}">{html.escape(cell)}</td>')
            body.append(f"<tr>{''.join(line)}</tr>")
        caption = f'<caption style="text-align:left">{html.escape(self.caption)}</caption>' if self.caption else ""
        notes = f"<p><small>{'<br>'.join(map(html.escape, self.notes))}</small></p>" if self.notes else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{notes}"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text(), "text/html": self._repr_html_()}


# ------------------------------------------------------------------------------------------------ the tables of a receipt


def _notes(receipt: Receipt) -> list[str]:
    return [
        f"{receipt_label(receipt)} · same code twice differs by {_percent(receipt.aa_error)}",
        f"State: {'; '.join(receipt.state)}." if receipt.state else "",
        *receipt.notes,
    ]


def receipt_table(receipt: Receipt, beside: Receipt | None = None, group: str | None = None, *, reasons: bool = True) -> Table:
    """The receipt: one row a stage, then the sum, *context* and the whole price; `group` shows the stages of one group only.

    `beside` adds the prices of a second receipt, labelled in its heading and a note. `reasons` adds, once each, why a stage
    was not measured.
    """
    rows, why = [], {}
    for stage in receipt.stages:
        if group and catalogue.group_of(stage.stage) != group:
            continue
        title = catalogue.title(stage.stage, receipt.device)
        if stage.isolate is None:
            why.setdefault(stage.why_missing or "no reason was given", []).append(title)
        rows.append(
            {
                "stage": title,
                "group": catalogue.groups(receipt.device).get(catalogue.group_of(stage.stage), ""),
                "price": format_ns(stage.isolate),
                "band": format_band(stage.isolate),
                "share": format_share(stage.ns, receipt.total_ns),
                "difference": None if stage.difference_ns is None else format_ns(stage.difference_ns),
                "tight": None if stage.alone_ns is None else format_ns(stage.alone_ns),
                "beside": _beside(beside, stage.stage),
            }
        )
    if not group:
        rows += _ends(receipt, beside)
    columns = {"stage": "stage", "group": "group", "price": "price", "band": "p25–p75", "share": "share"}
    if group:
        del columns["group"]
    for key, heading in (("difference", "by difference"), ("tight", "in a tight loop")):
        if any(row.get(key) for row in rows):
            columns[key] = heading
    notes = [note for note in _notes(receipt) if note]
    if reasons:
        notes += [f"Not measured: {', '.join(titles)}: {reason}." for reason, titles in why.items()]
    if beside is not None:
        columns["beside"] = "recorded" if beside.source != "live" else "live"
        notes.append(f"Last column: {receipt_label(beside)}{_called(receipt, beside)}")
    name = "with grad" if receipt.grad else "without grad"
    return Table(rows, columns, f"What each stage of {receipt.op} costs ({receipt.device}, {name})", notes)


def _ends(receipt: Receipt, beside: Receipt | None) -> list[dict]:
    """The last three rows of the receipt: sum, context, the whole."""
    rest = "context (what no stage explains)" if receipt.complete else "stages not measured, and context"
    ends = [
        ("sum of the stages", receipt.stage_sum_ns, None, beside and beside.stage_sum_ns),
        (rest, receipt.context_ns, None, beside and beside.context_ns),
        (f"{receipt.op}, end to end", receipt.total_ns, format_band(receipt.end_to_end), beside and beside.total_ns),
    ]
    return [
        {
            "stage": name,
            "price": format_ns(ns),
            "band": band,
            "share": format_share(ns, receipt.total_ns),
            "beside": None if beside is None else format_ns(other),
        }
        for name, ns, band, other in ends
    ]


def _called(receipt: Receipt, beside: Receipt) -> str:
    """Where the last stage of the second receipt is another thing than its row says: a loop on a CPU, a launch on a GPU."""
    here, there = (catalogue.groups(one.device)["kernel"] for one in (receipt, beside))
    return "" if here == there else f"; there the row of {here} is {there}"


def _beside(receipt: Receipt | None, stage_id: str) -> str | None:
    if receipt is None:
        return None
    try:
        return format_ns(receipt.stage(stage_id).isolate)
    except KeyError:
        return None


def group_prices(receipt: Receipt) -> dict[str, float]:
    """Group id → ns (sum of the isolates that exist) in running order, then "context"."""
    out = {group: 0.0 for group in catalogue.groups()}
    for stage in receipt.stages:
        if stage.ns is not None:
            group = catalogue.group_of(stage.stage)
            out[group] = out.get(group, 0.0) + stage.ns
    return {**{g: ns for g, ns in out.items() if ns}, "context": receipt.context_ns}


def group_table(receipt: Receipt, beside: Receipt | None = None) -> Table:
    """The receipt in five groups and the context, each with its share of the whole."""
    other = group_prices(beside) if beside else {}
    rest = "context (what no stage explains)" if receipt.complete else "stages not measured, and context"
    titles = {**catalogue.groups(receipt.device), "context": rest}
    rows = []
    for group, ns in group_prices(receipt).items():
        row = {"group": titles.get(group, group), "price": format_ns(ns), "share": format_share(ns, receipt.total_ns)}
        if beside:
            row["beside"] = format_ns(other.get(group))
            row["beside_share"] = format_share(other.get(group), beside.total_ns)
        rows.append(row)
    columns = {"group": "group", "price": "price", "share": "share"}
    notes = [note for note in _notes(receipt) if note]
    if beside:
        columns |= {"beside": "recorded" if beside.source != "live" else "live", "beside_share": "its share"}
        notes.append(f"Last columns: {receipt_label(beside)}{_called(receipt, beside)}")
    return Table(rows, columns, f"{receipt.op} in five groups ({receipt.device})", notes)


def race_table(race: Race, against: str | None = None, caption: str = "") -> Table:
    """The variants of a race; `against` adds each variant's difference from that one, as far as the A/A error lets it be seen."""
    rows = []
    for name, reading in race.readings.items():
        row = {"variant": name, "price": reading, "band": format_band(reading)}
        if against and name not in (against, *race.control):
            row["difference"] = race.difference(against, name)
        rows.append(row)
    columns = {"variant": "variant", "price": "price", "band": "p25–p75"}
    if against:
        columns["difference"] = f"against {against}"
    notes = [
        f"{race.clock} clock on {race.device} · same code twice ({race.control[1]}): differs by {_percent(race.aa_error)}; "
        f"differences below {_percent(race.error)} are not claimed"
    ]
    if race.noisy:
        notes.append("Noisy machine: the same code disagrees with itself, so small differences mean nothing here.")
    return Table(rows, columns, caption, [*notes, *race.notes])
