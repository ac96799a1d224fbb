"""The rows of the receipt figure: what one add costs in each setting, taken from receipts, without any drawing.

`rows_of(receipt)` gives the rows that one receipt can fill, `recorded_rows()` those of the best recordings, with a sentence
for each row that nobody has recorded yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from utils.model.readings import Receipt
from utils.model.recordings import receipt_label
from utils.show import catalogue
from utils.show.tables import format_ns, format_share


@dataclass(frozen=True)
class Segment:
    """A piece of a lane: `ns` long, starting at `start` (ns from the row's zero). `part` is a stage id or a word like "wait"."""

    part: str
    group: str
    title: str
    start: float
    ns: float


@dataclass(frozen=True)
class Lane:
    name: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Row:
    """One row of the receipt: a heading, lanes, one sentence, where its numbers come from."""

    id: str
    heading: str
    lanes: tuple[Lane, ...]
    total_ns: float
    sentence: str
    label: str
    recording: str = ""
    magnify: bool = False
    missing: tuple[str, ...] = field(default=())


def rows_of(receipt: Receipt, *, recording: str = "", who: str = "") -> list[Row]:
    """The rows that a receipt can fill: hot and in a program for a CPU; host and device lanes, and captured, for a GPU."""
    prefix = f"{who} · " if who else ""
    make = _gpu_rows if receipt.device == "cuda" else _cpu_rows
    return make(receipt, recording, prefix)


def _stage_segments(receipt: Receipt) -> tuple[Segment, ...]:
    """The stages one after the other, then what no stage explains; the addition (or its launch) before the context."""
    out, at = [], 0.0
    for stage in receipt.stages:
        if stage.ns is None:
            continue
        group, title = catalogue.group_of(stage.stage), catalogue.title(stage.stage, receipt.device)
        if stage.stage == "kernel":  # on a GPU the host only launches it; the addition runs in the other lane
            group, title = ("launch", title) if receipt.device == "cuda" else (group, "the addition itself")
        out.append(Segment(stage.stage, group, title, at, stage.ns))
        at += stage.ns
    if receipt.context_ns > 0:
        rest = "context" if receipt.complete else "stages not measured, and context"
        out.append(Segment("context", "context", rest if out else "the whole add, not cut into stages", at, receipt.context_ns))
    return tuple(out)


def _missing(receipt: Receipt) -> tuple[str, ...]:
    return tuple(catalogue.title(s.stage, receipt.device) for s in receipt.stages if s.ns is None)


def _cpu_rows(receipt: Receipt, recording: str, prefix: str) -> list[Row]:
    label, total = receipt_label(receipt), receipt.total_ns
    kernel = next((s.ns for s in receipt.stages if s.stage == "kernel"), None)
    share = "" if kernel is None else f"The kernel, with the addition in it, is {format_share(kernel, total)} of it."
    over = receipt.stage_sum_ns - total
    if over > 0:
        share += f" The stages add up to {format_ns(over)} more than the whole."
    rows = [
        Row(
            "cpu_hot",
            f"{prefix}on the CPU, hot: {format_ns(total)}",
            (Lane("host", _stage_segments(receipt)),),
            max(total, total + over),
            share.strip(),
            label,
            recording,
            magnify=any(s.ns is not None for s in receipt.stages),
            missing=_missing(receipt),
        )
    ]
    if receipt.in_program:
        n, reading = receipt.in_program[-1]
        segments = [Segment("hot", "hot", "as much as hot", 0.0, min(total, reading.ns))]
        if reading.ns > total:
            segments.append(Segment("cold", "cold", "more, after other ops", total, reading.ns - total))
        rows.append(
            Row(
                "cpu_in_program",
                f"{prefix}the same add after {n} other ops: {format_ns(reading)}",
                (Lane("host", tuple(segments)),),
                reading.ns,
                f"{reading.ns / total:.1f} times the hot price: a price has a context.",
                label,
                recording,
            )
        )
    return rows


def _gpu_rows(receipt: Receipt, recording: str, prefix: str) -> list[Row]:
    label, total = receipt_label(receipt), receipt.total_ns
    times = receipt.device_time
    kernel, captured, replay = (times.get(name) for name in ("kernel", "captured per node", "replay host"))
    period = times["period"].ns if "period" in times else total
    host = Lane("host", _stage_segments(receipt))
    lanes, sentence = [host], "The kernel's own time was not recorded."
    if kernel is not None:
        wait = max(0.0, period - kernel.ns)
        lanes.append(
            Lane(
                "GPU",
                (Segment("wait", "wait", "the GPU waits", 0.0, wait), Segment("gpu_kernel", "kernel", "kernel", wait, kernel.ns)),
            )
        )
        sentence = (
            f"The kernel and the step to the next one take the GPU {format_ns(kernel)} of each {format_ns(period)}; it waits for "
            f"{format_share(wait, period)} of it."
        )
    rows = [
        Row(
            "gpu",
            f"{prefix}on a GPU, one add after the other: {format_ns(total)}",
            tuple(lanes),
            max(total, receipt.stage_sum_ns, period),
            sentence,
            label,
            recording,
            missing=_missing(receipt),
        )
    ]
    if captured is not None:
        count = max(1, int(total // captured.ns))
        nodes = tuple(Segment("captured", "kernel", "add", i * captured.ns, captured.ns) for i in range(count))
        many = f"{count} adds fit in the time of one" if count > 1 else "no more than one add fits in that time"
        host_part = f" The host pays {format_ns(replay)} for a replay of 100." if replay is not None else ""
        rows.append(
            Row(
                "gpu_captured",
                f"{prefix}captured in a CUDA graph: {format_ns(captured)} an add",
                (Lane("GPU", nodes),),
                captured.ns,
                f"Replayed from a graph, {many}.{host_part}",
                label,
                recording,
            )
        )
    return rows


WANTED = {
    "cpu_hot": "the CPU, hot",
    "cpu_in_program": "the CPU in a program",
    "gpu": "a GPU with its host",
    "gpu_captured": "the GPU with the add captured in a graph",
}


def recorded_rows() -> tuple[list[Row], list[str]]:
    """(rows from the best recordings of a CPU and of a GPU, one sentence for each row that is missing)."""
    from utils.model import recordings

    rows = []
    for kind in ("cpu", "cuda"):
        recording = recordings.best(kind)
        if recording is not None and kind in recording.receipts:
            rows += rows_of(recording.receipts[kind], recording=recording.stem)
    have = {row.id for row in rows}
    return rows, [
        f"The row for {words} is left out: it has not been recorded yet." for id, words in WANTED.items() if id not in have
    ]
