"""The gallery: every machine that was recorded, with its versions, dates, key figures and receipt; and which are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from utils import paths
from utils.model import gallery as known
from utils.model import recordings, studies
from utils.model.recordings import Recording
from utils.model.studies import Study
from utils.show import receipt
from utils.show.receipt_rows import rows_of
from utils.show.tables import Table, format_ns, format_share, significant

COLAB = 'from utils.__main__ import main\nmain(["add-machine"])'
FACTS = {
    "gpu": "GPU",
    "driver": "driver",
    "cuda": "CUDA",
    "cpu": "CPU",
    "cores": "cores given to the run",
    "torch": "torch",
    "python": "Python",
    "os": "system",
}
# Numbers of a study's parts that say what a machine is: (study, part, number, words, unit).
FIGURES = (
    ("launch", "floor", "empty launch", "an empty kernel's launch", "ns"),
    ("ridge_point", "peaks", "gbps", "memory, measured", "GB/s"),
    ("ridge_point", "peaks", "gemm_fp32", "products in fp32, measured", "TFLOP/s"),
    ("ridge_point", "peaks", "gemm_bf16", "products in bf16, measured", "TFLOP/s"),
)


def gallery() -> str:
    """The page's body."""
    found = {stem: _of(stem) for stem in sorted(known.stems(), key=_order)}
    parts = [f"<p>{_intro(len(found))}</p>", *wanted(set(found))]
    parts += [_section(stem, recording, held) for stem, (recording, held) in found.items()]
    return "".join(parts)


def _intro(n: int) -> str:
    return (
        f"{n} machines. What the course shows from a recording is from one of them. The files (<code>utils/recordings</code>) "
        "are sealed: samples, versions, date and the command that made them. <code>make verify</code> checks them."
    )


def wanted(stems: set[str]) -> Iterator[str]:
    """What stands on the page for machines that nobody has recorded, the first wanted one first; nothing when there are none."""
    missing = known.missing(stems)
    yield '<h2 id="add-yours">Add your machine</h2>'
    if known.FIRST_WANTED in missing:
        yield (
            f'<p class="wanted"><strong>Wanted: the first {known.FIRST_WANTED.upper()}.</strong> Nobody has recorded one yet, '
            "so all that the course knows of it is its datasheet. Free Colab sessions usually have one.</p>"
        )
    others = f" Not recorded yet: {', '.join(c.upper() for c in missing)}, and most CPUs." if missing else ""
    yield (
        "<p><code>python -m utils add-machine</code> measures (it says how many minutes), validates, leaves out what is "
        f"personal, and says how to send the result.{others}</p>"
    )
    yield (f"<p>On Colab: run the first cell of any lesson, then, in a new cell:</p><pre>{COLAB}</pre>")


def _order(stem: str) -> tuple[bool, str]:
    return stem.startswith("cpu-"), stem


def _of(stem: str) -> tuple[Recording | None, list[Study]]:
    """The recording of receipts, and the studies, of one machine."""
    folder = paths.RECORDINGS / studies.IN_FOLDER
    held = [studies.load(one.name, stem) for one in sorted(folder.iterdir()) if (one / f"{stem}.json").is_file()]
    return recordings.load(stem) if stem in recordings.available() else None, held


def _section(stem: str, recording: Recording | None, held: list[Study]) -> str:
    where = recording.where if recording else held[0].where
    device = recording.device if recording else held[0].device
    name = where["gpu"] if device == "cuda" else f"{where['cpu']}, {where['cores']:g} cores"
    parts = [f'<h2 id="{stem}">{escape(name)}, torch {escape(str(where["torch"]))}</h2>']
    facts = [{"what": words, "is": where[key]} for key, words in FACTS.items() if where.get(key) is not None]
    parts.append(
        Table([*facts, {"what": "file", "is": f"{stem}.json"}], {"what": "what", "is": "is"}, "The machine")._repr_html_()
    )
    if figures := list(_figures(recording, held)):
        parts.append(Table(figures, {"what": "what", "is": "measured", "date": "date"}, "Key figures")._repr_html_())
    if recording:
        rows = [row for one in _receipts(recording) for row in rows_of(one)]
        picture = receipt.Picture(receipt.svg(rows), receipt.alt(rows), receipt.table(rows), width=receipt.WIDTH)
        parts.append(picture._repr_html_())
    if held:
        parts.append(_studies(held)._repr_html_())
    return f'<section class="machine">{"".join(parts)}</section>'


def _receipts(recording: Recording) -> list:
    """The receipts that are drawn: the CPU's where there is no GPU's."""
    return [one for one in [recording.receipt()] if one is not None]


def _figures(recording: Recording | None, held: list[Study]) -> Iterator[dict]:
    if recording:
        for key, one in recording.receipts.items():
            side = "the GPU: its host" if one.device == "cuda" else "the CPU"
            words = f"one a + b on {side}{', with grad' if one.grad else ''}, hot"
            yield {"what": words, "is": format_ns(one.total_ns), "date": recording.date[:10]}
            if key == recording.device and one.in_program:
                n, reading = one.in_program[-1]
                yield {"what": f"the same after {n} other ops", "is": format_ns(reading), "date": recording.date[:10]}
            if key == recording.device:
                yield {"what": "of it in stages", "is": format_share(one.stage_sum_ns, one.total_ns), "date": recording.date[:10]}
    by_name = {study.name: study for study in held}
    for study, part, number, words, unit in FIGURES:
        value = _number(by_name.get(study), part, number)
        if value is not None:
            said = format_ns(value) if unit == "ns" else f"{significant(value)} {unit}"
            yield {"what": words, "is": said, "date": by_name[study].date[:10]}


def _number(study: Study | None, part: str, number: str) -> float | None:
    """A reading of a race, or a number of a part; None where it was not measured."""
    found = study.parts.get(part) if study else None
    if found is None:
        return None
    if hasattr(found, "readings"):
        return found.readings[number].ns if number in found.readings else None
    return found.get("numbers", {}).get(number)


def _studies(held: list[Study]) -> Table:
    rows = [
        {
            "study": study.name.replace("_", " "),
            "parts": ", ".join(part.replace("_", " ") for part in study.parts),
            "missing": "; ".join(f"{part.replace('_', ' ')}: {why}" for part, why in study.failures.items()) or "nothing",
            "date": study.date[:10],
        }
        for study in held
    ]
    columns = {"study": "lesson's study", "parts": "what was measured", "missing": "not measured", "date": "date"}
    return Table(rows, columns, "Studies")
