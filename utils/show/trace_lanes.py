"""One step of a profiler's trace as lanes to scale: the host's ops, its calls of the runtime, the device's work; and its tables.

Drawn as SVG by hand: a trace has thousands of spans, and spans narrower than a pixel are drawn as one. The picture names kinds of
work and no illness: to find that is the reader's part.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from utils.model import traces
from utils.model.diagnosis import Diagnosis
from utils.model.sick_traces import Recorded
from utils.model.trace_features import COMPILES, LOADER, TRACES, Features, kind_of, kind_of_kernel, step_marks
from utils.show import theme
from utils.show.lanes_figure import ticks
from utils.show.picture import Picture
from utils.show.tables import Table, significant

WIDTH, LEFT, RIGHT, TOP, LANE, GAP = 760, 92, 12, 46, 36, 14
NARROW = 0.7  # px: what lies closer together, and is of one kind, is drawn as one span
LETTER = 6.2  # px
ROUNDING = 2e-3  # µs: steps touch, and files round
KINDS = {  # what a span is: (words, colour, hatch)
    "product": ("product", theme.VERMILION, "waves"),
    "elementwise": ("elementwise or reduction", theme.BLUE, ""),
    "copy": ("copy", theme.ORANGE, "rising"),
    "fill": ("fill", theme.YELLOW, "falling"),
    "read_out": ("read-out", theme.PURPLE, "upright"),
    "loader": ("data loader", theme.GREEN, "flat"),
    "compile": ("compilation", theme.SKY, "cross"),
    "launch": ("launch or other call", theme.SKY, ""),
    "capture": ("recording of a graph", theme.GREEN, "cross"),
    "memory": ("memory from the driver", theme.YELLOW, "dots"),
    "wait": ("host waits", theme.GREY, "falling"),
    "other": ("views, wrappers, frames", "#D8DCE3", ""),
    "idle": ("device idle", "#F3F4F6", "dots"),
}


WHOLE = ("loader", "compile", "capture")  # what happens inside one of these is its own


@dataclass(frozen=True)
class Span:
    """One stretch of a lane, in µs from the step's begin; `kind` is one of KINDS, `n` how many events are drawn in it."""

    start: float
    end: float
    kind: str
    name: str
    n: int = 1


@dataclass(frozen=True)
class Lanes:
    """The lanes of one step ("host", and with a GPU "calls" and "device"), its length in µs, and which step of how many it is."""

    lanes: dict[str, tuple[Span, ...]]
    us: float
    step: int
    steps: int

    def total(self, lane: str, kind: str) -> float:
        """µs that spans of this kind cover in a lane."""
        return traces.covered((s.start, s.end) for s in self.lanes[lane] if s.kind == kind)


def lanes(events: Iterable[dict], step: int | None = None) -> Lanes:
    """The lanes of a marked step (default: the one of median length; all of the trace where none is marked).

    Raises IndexError for a step that there is not, ValueError without an event.
    """
    events = [e for e in events if isinstance(e.get("name"), str) and e.get("cat") != "Trace"]
    if not events:
        raise ValueError("a trace without an event")
    marks = step_marks(events)
    if marks:
        chosen = step if step is not None else sorted(range(len(marks)), key=lambda i: marks[i][1] - marks[i][0])[len(marks) // 2]
        begin, end = marks[chosen]
    else:
        if step not in (None, 0):
            raise IndexError(f"no step is marked in this trace, so there is no step {step}")
        chosen, begin = 0, min(float(e["ts"]) for e in events)
        end = max(float(e["ts"]) + float(e["dur"]) for e in events)
    calls = {(e.get("args") or {}).get("correlation"): e for e in events if e.get("cat") in traces.RUNTIME}
    mine = {n for n, e in calls.items() if n is not None and begin <= float(e["ts"]) < end}
    work = [e for e in events if e.get("cat") in traces.DEVICE]
    # The device's work is that which the step's calls started, wherever the queue put it.
    work = [e for e in work if (e.get("args") or {}).get("correlation") in mine or (not calls and begin <= float(e["ts"]) < end)]
    # What the host does after its step is not the step's, however long the device works on.
    inside = [e for e in events if begin <= float(e["ts"]) < end - ROUNDING or begin == end]
    end = max([end, *(float(e["ts"]) + float(e["dur"]) for e in work)])
    out = {"host": _painted(_host(inside, begin))}
    if work:
        out["calls"] = tuple(
            _merged([_span(e, begin, _call_kind(e)) for e in inside if e.get("cat") in traces.RUNTIME], end - begin)
        )
        spans = [_span(e, begin, kind_of_kernel(e)) for e in work]
        out["device"] = tuple(_merged(spans, end - begin))
    return Lanes(out, max(end - begin, 1e-9), chosen, max(1, len(marks)))


def figure(trace: Recorded | Iterable[dict], title: str = "", label: str = "", step: int | None = None) -> Picture:
    """The lanes of one step, to scale. A recording brings its label along; `title` should not give the answer away."""
    if isinstance(trace, Recorded):
        label, trace = label or trace.label(), trace.events
    found = lanes(trace, step)
    which = f"step {found.step + 1} of {found.steps}" if found.steps > 1 else "the whole trace"
    return Picture(
        _svg(found, title, f"{label} · {which}" if label else which),
        _alt(found, title, label, which),
        _table(found, title, label),
    )


def features_table(
    features: Features | Mapping[str, Features], caption: str = "What the trace shows of a step", notes: Sequence[str] = ()
):
    """The features as a table: a row each; one column a trace where several are given by name."""
    several = {"value": features} if isinstance(features, Features) else dict(features)
    columns = {name: _feature_rows(f) for name, f in several.items()}
    names = list(dict.fromkeys(row for rows in columns.values() for row in rows))
    rows = [{"feature": name, **{column: found.get(name) for column, found in columns.items()}} for name in names]
    return Table(rows, {"feature": "a step", **{name: name for name in columns}}, caption, notes)


def diagnosis_table(diagnosis: Diagnosis, caption: str = "Diagnosis", notes: Sequence[str] = ()) -> Table:
    """What it is, why, what helps, how one can be sure, and what misleads; then what else was found."""
    entry = diagnosis.entry
    share = f" ({diagnosis.finding.share:.0%} of the step)" if diagnosis.finding else ""
    rows = [("diagnosis", entry.name + share), ("reason", diagnosis.reason), ("cure", entry.cure), ("to be sure", entry.confirm)]
    rows.append(("what misleads", entry.misleading))
    if diagnosis.features.device == "cpu":
        rows.append(("on a CPU", entry.on_a_cpu))
    from utils.model.diagnosis import key

    rows += [("beside it", f"{key()[f.id].name}: {f.reason}") for f in diagnosis.also]
    return Table([{"what": what, "said": said} for what, said in rows], {"what": "", "said": "said"}, caption, notes)


# ------------------------------------------------------------------------------------------------ spans


def _host(events: list[dict], begin: float) -> list[Span]:
    """Outermost ops, the ops inside them that have a kind of their own, loaders and compilations; the outer ones first."""
    out, open_until = [], {}
    for e in sorted(events, key=lambda e: (float(e["ts"]), -float(e["dur"]))):
        cat, name = e.get("cat"), e["name"]
        if cat in ("cpu_op", "user_annotation") and (LOADER.search(name) or COMPILES.search(name)):
            kind = "loader" if LOADER.search(name) else "compile"
        elif cat == "cpu_op":
            kind = "capture" if TRACES.search(name) else kind_of(name)
            lane = e.get("pid"), e.get("tid")
            if kind == "other" and float(e["ts"]) < open_until.get(lane, float("-inf")):
                continue
            open_until[lane] = max(open_until.get(lane, float("-inf")), float(e["ts"]) + float(e["dur"]))
        else:
            continue
        out.append(_span(e, begin, kind))
    return out


def _span(event: dict, begin: float, kind: str) -> Span:
    start = float(event["ts"]) - begin
    return Span(start, start + float(event["dur"]), kind, event["name"])


def _call_kind(event: dict) -> str:
    name = event["name"]
    if traces.WAITS.search(name):
        return "wait"
    if "Capture" in name or "GraphInstantiate" in name:
        return "capture"
    return "memory" if "Malloc" in name or "Free" in name else "launch"


def _painted(spans: list[Span]) -> tuple[Span, ...]:
    """What is seen where spans lie on each other: the innermost; what a loader or a compilation does inside is its own."""
    edges = sorted({s.start for s in spans} | {s.end for s in spans})
    if not edges:
        return ()
    order = sorted(range(len(spans)), key=lambda i: spans[i].start)
    out: list[Span] = []
    open_spans: list[int] = []
    at = 0
    for start, end in zip(edges, edges[1:], strict=False):
        while at < len(order) and spans[order[at]].start <= start:
            open_spans.append(order[at])
            at += 1
        open_spans = [i for i in open_spans if spans[i].end > start]
        if not open_spans:
            continue
        over = [i for i in open_spans if spans[i].kind in WHOLE]
        top = spans[over[0] if over else max(open_spans)]
        if out and out[-1].end == start and out[-1].kind == top.kind and out[-1].name == top.name:
            out[-1] = Span(out[-1].start, end, top.kind, top.name, out[-1].n)
        else:
            out.append(Span(start, end, top.kind, top.name))
    far = max(s.end for s in spans)
    return tuple(_merged(out, far))


def _merged(spans: list[Span], us: float) -> list[Span]:
    """Spans of one kind that lie closer than the eye can see become one."""
    near = NARROW * us / (WIDTH - LEFT - RIGHT)
    out: list[Span] = []
    for span in sorted(spans, key=lambda s: s.start):
        last = out[-1] if out else None
        if last and last.kind == span.kind and span.start - last.end < near and (span.end - span.start < 4 * near or last.n > 1):
            out[-1] = Span(
                last.start, max(last.end, span.end), last.kind, last.name if last.name == span.name else "", last.n + span.n
            )
        else:
            out.append(span)
    return out


# ------------------------------------------------------------------------------------------------ words


def _alt(found: Lanes, title: str, label: str, which: str) -> str:
    said = []
    for lane in found.lanes:
        shares = {kind: found.total(lane, kind) / found.us for kind in KINDS}
        shown = [f"{KINDS[k][0]} {s:.0%}" for k, s in sorted(shares.items(), key=lambda i: -i[1]) if s >= 0.005]
        said.append(f"{lane}: {', '.join(shown) or 'nothing'}")
    return f"Lanes of {title or 'a program'}, {which}, {_time(found.us)} long. {'. '.join(said)}. {label}"


def _table(found: Lanes, title: str, label: str) -> Table:
    rows = []
    for lane, spans in found.lanes.items():
        by: dict[str, list[Span]] = defaultdict(list)
        for span in spans:
            by[span.kind].append(span)
        for kind, some in sorted(by.items(), key=lambda i: -found.total(lane, i[0])):
            longest = max(some, key=lambda s: s.end - s.start)
            rows.append(
                {
                    "lane": lane,
                    "what": KINDS[kind][0],
                    "n": sum(s.n for s in some),
                    "us": significant(found.total(lane, kind)),
                    "share": f"{found.total(lane, kind) / found.us:.0%}",
                    "longest": f"{longest.name or f'{longest.n} together'}: {_time(longest.end - longest.start)}"[:70],
                }
            )
        empty = found.us - traces.covered((s.start, s.end) for s in spans)
        words = "device idle" if lane == "device" else "nothing named"
        if empty > 0.005 * found.us:
            rows.append({"lane": lane, "what": words, "us": significant(empty), "share": f"{empty / found.us:.0%}"})
    columns = {"lane": "lane", "what": "what", "n": "spans", "us": "together, µs", "share": "of the step", "longest": "longest"}
    return Table(rows or [{"lane": "host", "what": "nothing"}], columns, title or "One step", [label] if label else [])


def _feature_rows(f: Features) -> dict[str, str]:
    """Feature in words → its value as text; what the trace cannot tell is left out."""
    rows = {
        "length": _time(f.step_ns * 1e-3),
        "steps in the trace": f"{f.steps}" if f.marked else "none is marked",
        "ops that compute": _count(f.ops),
        "median op": _time(f.median_op_ns * 1e-3) if f.ops else None,
        "its bytes": _bytes(f.op_bytes),
        "top op": f"{f.top_op[:48]} ({f.top_share:.0%})" if f.top_op else None,
        "device busy" if f.device == "cuda" else "in ops": f"{f.busy:.0%}",
        "nothing named on the host": f"{f.outside:.0%}",
        "longest gap": _time(f.longest_gap_ns * 1e-3) if f.outside >= 0.01 else None,
        "dtype": f.dtype,
        "rows of a product": _count(f.rows) if f.rows is not None else None,
        "read-outs": _count(f.read_outs) if f.read_outs else None,
        "loader": f"{f.loader:.0%}" if f.loader else None,
        "compilations": f"{_count(f.compiles)} ({f.compile:.0%})" if f.compiles else None,
        "captures": f"{_count(f.captures)} ({f.capture:.0%})" if f.captures else None,
        "the same shapes in every step": {True: "yes", False: "no", None: None}[f.same_shapes],
    }
    if f.device == "cuda":
        rows |= {
            "kernels": f"{_count(f.kernels)}, {_time(f.kernel_ns * 1e-3)} each",
            "launches, replays": f"{_count(f.launches)}, {_count(f.replays)}",
            "waits": f"{_count(sum(f.waits.values()))} ({f.wait:.0%})" if f.waits else "none",
            "copies to or from the host": f"{_count(f.bus_copies)}, {_bytes(f.bus_bytes)} ({f.bus:.0%})"
            if f.bus_copies
            else "none",
            "memory from the driver": f"{_count(f.mallocs)} calls ({f.malloc:.0%})" if f.mallocs else "none",
        }
    shares = {f"of the busy time: {KINDS[k][0]}": f"{s:.0%}" for k, s in f.kinds.items() if s >= 0.05}
    return {name: value for name, value in (rows | shares).items() if value is not None}


def _time(us: float) -> str:
    """A length in the unit that fits it."""
    if us >= 1e6:
        return f"{significant(us * 1e-6)} s"
    return f"{significant(us * 1e-3)} ms" if us >= 1e3 else f"{significant(us)} µs"


def _bytes(n: float | None) -> str | None:
    if n is None:
        return None
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{significant(n / size)} {unit}"
    return f"{n:.0f} bytes"


def _count(n: float) -> str:
    return f"{n:,.0f}" if abs(n - round(n)) < 0.05 else f"{n:,.1f}"


# ------------------------------------------------------------------------------------------------ drawing


def _svg(found: Lanes, title: str, label: str) -> str:
    scale = (WIDTH - LEFT - RIGHT) / found.us
    kinds = [k for k in KINDS if any(s.kind == k for spans in found.lanes.values() for s in spans)]
    idle = "device" in found.lanes
    legend = _legend([*kinds, *(["idle"] if idle else [])])
    bottom = TOP + len(found.lanes) * (LANE + GAP)
    height = bottom + 34 + legend[1]
    factor, unit = (1e-3, "ms") if found.us >= 2e3 else (1.0, "µs")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">{_PATTERNS}',
        f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>",
        f'<rect x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" fill="{theme.CARD}"/>',
        _text(8, 17, title, "font-size:13px;font-weight:bold"),
        _text(8, 34, label, f"fill:{theme.MUTED}"),
    ]
    for tick in ticks(found.us * factor):
        x = LEFT + tick / factor * scale
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{bottom - 6}" stroke="{theme.GRID}" stroke-width="0.7"/>'
        )
        parts.append(_text(x, bottom + 8, significant(tick) if tick else "0", f"fill:{theme.MUTED}", "middle"))
    parts.append(_text(WIDTH - RIGHT, bottom + 22, unit, f"fill:{theme.MUTED}", "end"))
    for row, (lane, spans) in enumerate(found.lanes.items()):
        top = TOP + row * (LANE + GAP)
        parts.append(_text(LEFT - 8, top + LANE / 2 + 4, lane, "", "end"))
        edges = f'x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{LANE}"'
        parts.append(f'<rect {edges} fill="{KINDS["idle"][1]}"/>')
        parts.append(f'<rect {edges} fill="url(#dots)"/>' if lane == "device" else "")
        parts += [_block(s, top, scale) for s in spans]
    return "".join([*parts, f'<g transform="translate(0 {bottom + 42})">{legend[0]}</g></svg>'])


def _block(span: Span, top: float, scale: float) -> str:
    """A span, with its hatch, and with its name where that fits."""
    _, colour, hatch = KINDS[span.kind]
    width = max((span.end - span.start) * scale, 0.4)
    at = f'x="{LEFT + span.start * scale:.2f}" y="{top}" width="{width:.2f}" height="{LANE}"'
    out = f'<rect {at} fill="{colour}"' + (f' stroke="{theme.CARD}" stroke-width="0.5"/>' if width > 3 else "/>")
    out += f'<rect {at} fill="url(#{hatch})"/>' if hatch and width > 2 else ""
    words = span.name.removeprefix("aten::") if span.n == 1 else ""
    if words and width > 34:
        words = words if LETTER * len(words) < width - 8 else words[: max(3, int((width - 14) / LETTER))] + "…"
        x = LEFT + span.start * scale + 4
        paper = f'x="{x - 2:.1f}" y="{top + LANE / 2 - 8:.1f}" width="{LETTER * len(words) + 5:.1f}" height="15" rx="2"'
        out += f'<rect {paper} fill="{theme.CARD}" fill-opacity="0.86"/>' + _text(x, top + LANE / 2 + 4, words, "font-size:10px")
    return out


def _legend(kinds: Sequence[str]) -> tuple[str, int]:
    """(the boxes and their words, their height): in as many lines as they need."""
    out, x, y = [], float(LEFT), 10
    for kind in kinds:
        words, colour, hatch = KINDS[kind]
        wide = 40 + 6.2 * len(words)
        if x + wide > WIDTH:
            x, y = float(LEFT), y + 18
        box = f'x="{x:.0f}" y="{y - 10}" width="18" height="12"'
        out.append(f'<rect {box} fill="{colour}" stroke="{theme.MUTED}" stroke-width="0.5"/>')
        out.append(f'<rect {box} fill="url(#{hatch})"/>' if hatch else "")
        out.append(_text(x + 23, y, words))
        x += wide
    return "".join(out), y + 12


def _text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}">{html.escape(words)}</text>' if words else ""


def _hatch(name: str, path: str, size: int = 6) -> str:
    lines = f'<path d="{path}" stroke="{theme.INK}" stroke-width="0.8" fill="none"/>'
    return f'<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">{lines}</pattern>'


_DOTS = (
    '<pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse">'
    f'<circle cx="2" cy="2" r="0.8" fill="{theme.MUTED}"/></pattern>'
)
_HATCHES = {
    "rising": "M0 6L6 0",
    "falling": "M0 0L6 6",
    "upright": "M3 0L3 6",
    "flat": "M0 3L6 3",
    "cross": "M0 3L6 3M3 0L3 6",
    "waves": "M0 4L3 1L6 4",
}
_PATTERNS = f"<defs>{''.join(_hatch(name, path) for name, path in _HATCHES.items())}{_DOTS}</defs>"
