"""One lab and its class: what was handed in, what of it has to be graded, and where the results go.

Made by grading/klass.py, the command; grading/report.py tells what came of it.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import datetime

from tqdm import tqdm

from grading import apart, box, intake, lms, preflight, status, turns, witness
from grading.rebuild import rebuilt
from grading.store import Store
from utils.labs import cells

LIMITS = box.Limits(whole_s=240.0)  # a sound run takes ten seconds


@dataclass
class Klass:
    """One lab, what was handed in, who is on the roster, and where the results are."""

    lab: str
    source: dict
    store: Store
    handed: dict[str, intake.Handed] = field(default_factory=dict)
    roster: lms.Roster | None = None
    due: datetime | None = None
    extensions: dict[str, datetime] = field(default_factory=dict)
    limits: box.Limits = LIMITS
    unsafe: bool = False
    again: bool = False
    chosen: dict[str, tuple[intake.File, dict]] = field(default_factory=dict)

    def known(self) -> list[cells.LabCell]:
        return cells.known(self.source)

    # -------------------------------------------------------------------------------------------- before anything runs

    def plan(self) -> list[tuple[str, str]]:
        """(student, key) of those that have to be graded. Every other student's record is brought up to date here."""
        lab, todo = self.known(), []
        for student, handed in sorted(self.handed.items()):
            about = {"name": self._name(student, handed), "platform": handed.platform}
            try:
                file, nb = preflight.notebook(handed.files, lab)
                seen = self._seen(nb, lab)
            except preflight.Unreadable as error:
                content = b"".join(file.path.encode() + (file.content or file.refused.encode()) for file in handed.files)
                about["file"] = handed.files[0].path
                self._close(student, self._key(content), status.UNREADABLE, str(error), about)
                continue
            self.chosen[student] = (file, nb)
            key = self._key(file.content)
            before = self.store.get(student)
            late = self._late(student, handed, file)
            if before and before["key"] == key and before["status"] != status.PENDING and not self.again:
                if before["status"] in status.SCORED and (before["status"] == status.LATE) != late:
                    self.store.change(student, status=status.LATE if late else status.GRADED)
                continue
            self.store.begin(student, key, {**about, "file": file.path, "late": late, **seen})
            todo.append((student, key))
        for student, name in (self.roster.names if self.roster else {}).items():
            before = self.store.get(student)
            if student not in self.handed and (before is None or not before["key"]):
                self._close(student, "", status.MISSING, "", {"name": name, "platform": self.roster.platform, "file": ""})
        return todo

    def _key(self, content: bytes) -> str:
        """What a result is for: the file, the lab with its hidden tests, and the limits."""
        digest = hashlib.sha256(content)
        for part in (json.dumps(self.source, sort_keys=True), json.dumps(asdict(self.limits))):
            digest.update(b"\0" + part.encode())
        return digest.hexdigest()

    def _name(self, student: str, handed: intake.Handed) -> str:
        return (self.roster.names.get(student) if self.roster else None) or handed.name

    def _late(self, student: str, handed: intake.Handed, file: intake.File) -> bool:
        due = self.extensions.get(student, self.due)
        if handed.platform == "canvas":  # its archives carry the time of the download; it says itself who was late
            return handed.late and student not in self.extensions
        when = (self.roster.when.get(student) if self.roster else None) or file.when
        return bool(due and when and when > due)

    def _seen(self, nb: dict, lab: list[cells.LabCell]) -> dict:
        """What can be told without running it. Raises preflight.Unreadable for data so odd that it cannot be rebuilt."""
        by_hand = {cell.id for cell in lab if cell.by_hand}
        try:
            rebuilt(nb, self.source)
            return {
                "put_right": list(cells.damage(lab, cells.known(nb)).sentences()),
                "looks": list(witness.looks(nb, {cell.id for cell in lab if cell.fixed})),
                "drawn_for": drawn_for(nb),
                "answers": {cell.id: cell.source for cell in cells.known(nb) if cell.id in by_hand},
            }
        except Exception as error:  # whatever is in one file, the others are graded
            raise preflight.Unreadable(f"its cells cannot be read ({type(error).__name__}: {error})") from error

    def _close(self, student: str, key: str, status_: str, reason: str, about: dict) -> None:
        before = self.store.get(student)
        if before is None or (before["key"], before["status"]) != (key, status_):
            self.store.begin(student, key, {**about, "late": False})
            self.store.finish(student, key, {"status": status_, "reason": reason})

    # -------------------------------------------------------------------------------------------- running

    def work(self, todo: list[tuple[str, str]]) -> turns.Work:
        for student, _ in todo:
            yield (
                student,
                lambda nb=self.chosen[student][1]: apart.task(
                    self.lab, self.source, rebuilt(nb, self.source), self.limits, unsafe=self.unsafe
                ),
            )

    def note(self, student: str, key: str, outcome: dict) -> dict | None:
        """Keep an outcome; None when this student's was kept already (a cluster may give the same one twice)."""
        graded = outcome.pop("graded", None)
        if outcome["status"] == status.GRADED and self.store.get(student)["late"]:
            outcome["status"] = status.LATE
        return self.store.finish(student, key, outcome, graded)

    def records(self) -> list[dict]:
        return list(self.store.all())


def run(klass: Klass, *, jobs: int, cluster: str | None = None, quiet: bool = False) -> int:
    """Grade what has to be; how many were. Raises box.NoBox before anything runs."""
    if not klass.unsafe and cluster is None:
        box.needed()
    todo = klass.plan()
    keys = dict(todo)
    work = klass.work(todo)
    done = 0
    with tqdm(total=len(todo), unit="student", disable=quiet or not todo) as bar:
        counts: Counter[str] = Counter()
        for student, outcome in turns.cluster(work, cluster) if cluster else turns.here(work, jobs):
            record = klass.note(student, keys[student], outcome)
            if record is not None:
                done += 1
                counts[record["status"]] += 1
                bar.set_postfix_str(" ".join(f"{word} {count}" for word, count in counts.items()), refresh=False)
                bar.update()
    return done


def drawn_for(nb: dict) -> str:
    """The name that a lab's numbers were drawn from, as it stands in the cell `my_name`; "" where there is none."""
    source = next((cell.source for cell in cells.known(nb) if cell.id == "my_name"), "")
    try:
        returned = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Return)]
    except (SyntaxError, ValueError, RecursionError):
        return ""
    said = [node.value for node in returned if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return " ".join(said[-1].split()).lower() if said else ""
