"""From a learning platform and back: names of downloads, rosters, each grade at its student, feedback under the original names.

tests/downloads/ holds what Canvas and Moodle give, made after their documented formats and their own importers' source; how those
importers read a file back is written here once more, as they do it. Nothing is run: outcomes are made up.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import zipfile
from datetime import datetime
from pathlib import Path

import pytest

from grading import feedback, give_back, lms, status
from grading.classroom import Klass
from grading.intake import CannotTake, File, handed_in
from grading.preflight import Unreadable, notebook
from grading.store import Store
from tests import tiny_lab
from utils.labs import cells

DOWNLOADS = Path(__file__).parent / "downloads"
EARNED = {"101": 3.0, "102": 8.0, "103": 5.5, "104": 0.0, "20001": 3.0, "20002": 8.0, "20003": 5.5, "20004": 0.0}


def archive(tmp_path, names: list[str]) -> Path:
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "submissions.zip"
    with zipfile.ZipFile(path, "w") as made:
        for number, name in enumerate(names):
            made.writestr(name, tiny_lab.file(tiny_lab.answered(why=f"answer {number}")))
    return path


def graded(tmp_path, platform: str, file: str, **more) -> Klass:
    """A class whose submissions came from the platform, with the points EARNED."""
    names = (DOWNLOADS / f"{platform}_names.txt").read_text(encoding="utf-8").splitlines()
    roster = lms.roster(DOWNLOADS / file)
    handed = handed_in(archive(tmp_path, names), tiny_lab.LAB, platform)
    klass = Klass(tiny_lab.LAB, tiny_lab.source(), Store(tmp_path / "grades"), handed, roster, **more)
    for student, key in klass.plan():
        scores = [{"id": "double_small", "points": EARNED[student], "most": 8.0, "said": ""}]
        klass.note(student, key, {"status": status.GRADED, "reason": "", "scores": scores})
    return klass


def rows(text: str) -> list[dict]:
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))


# ------------------------------------------------------------------------------------------------ Canvas


def test_canvas_gets_its_gradebook_back_with_one_column_filled(tmp_path):
    klass = graded(tmp_path, "canvas", "canvas_gradebook.csv")
    path, careful = give_back.platform_file(klass, None)
    text = path.read_bytes().decode("utf-8")
    before = rows((DOWNLOADS / "canvas_gradebook.csv").read_bytes().decode("utf-8"))
    after = rows(text)
    assert careful == "" and text.startswith("\ufeff")
    assert list(after[0]) == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Lab 99 (4712)"]
    assert [{k: row[k] for k in after[0] if k != "Lab 99 (4712)"} for row in after] == [
        {k: row[k] for k in after[0] if k != "Lab 99 (4712)"} for row in before
    ]
    given = {row["ID"]: row["Lab 99 (4712)"] for row in after}
    assert given == {"": "11", "101": "3", "102": "8", "103": "5.5", "104": "0", "105": "7", "199": ""}


def test_canvas_says_who_was_late_and_who_is_missing(tmp_path):
    klass = graded(tmp_path, "canvas", "canvas_gradebook.csv")
    assert {r["student"]: r["status"] for r in klass.records()} == {
        **dict.fromkeys(("101", "102", "103"), status.GRADED),
        "104": status.LATE,
        **dict.fromkeys(("105", "199"), status.MISSING),
    }
    extended = graded(tmp_path / "again", "canvas", "canvas_gradebook.csv", extensions={"104": datetime(2026, 4, 1)})
    assert extended.store.get("104")["status"] == status.GRADED


def test_canvas_finds_each_feedback_by_its_name(tmp_path):
    klass = graded(tmp_path, "canvas", "canvas_gradebook.csv")
    with zipfile.ZipFile(give_back.archive_of_feedback(klass)) as made:
        names = made.namelist()
        assert sorted(names) == sorted((DOWNLOADS / "canvas_names.txt").read_text(encoding="utf-8").splitlines())
        for name in names:
            user = re.search(r"_(\d+)_(\d+)_", name)[1]  # how Canvas infers whose an uploaded file is
            assert f"{EARNED[user]:g} of 8 points" in made.read(name).decode()


# ------------------------------------------------------------------------------------------------ Moodle


def test_moodle_gets_its_worksheet_back_with_grades_and_comments(tmp_path):
    klass = graded(tmp_path, "moodle", "moodle_worksheet.csv")
    path, careful = give_back.platform_file(klass, None)
    before = rows((DOWNLOADS / "moodle_worksheet.csv").read_text(encoding="utf-8"))
    after = rows(path.read_bytes().decode("utf-8"))
    assert careful == ""
    kept = [name for name in before[0] if name not in ("Grade", "Feedback comments")]
    assert list(after[0]) == list(before[0])
    assert [{k: row[k] for k in kept} for row in after] == [{k: row[k] for k in kept} for row in before]
    assert [row["Grade"] for row in after] == ["3", "8", "5.5", "0", ""]
    assert [row["Feedback comments"] for row in after] == [f"{EARNED[n]:g} of 8 points" for n in list(EARNED)[4:]] + [""]


def test_moodle_finds_each_feedback_in_its_folder(tmp_path):
    klass = graded(tmp_path, "moodle", "moodle_worksheet.csv")
    participants = {str(n) for n in range(20001, 20006)}
    with zipfile.ZipFile(give_back.archive_of_feedback(klass)) as made:
        assert sorted(made.namelist()) == sorted((DOWNLOADS / "moodle_names.txt").read_text(encoding="utf-8").splitlines())
        for name in made.namelist():
            folder = name.split("/")[0].split("_", 4)
            if folder[1] not in participants:
                continue  # a name with an underscore in it, which Moodle itself then cannot place
            assert folder[2:4] == ["assignsubmission", "file"]
            assert f"{EARNED[folder[1]]:g} of 8 points" in made.read(name).decode()


def test_moodles_own_times_say_who_was_late(tmp_path):
    due = datetime(2026, 3, 1, 23, 59)
    klass = graded(tmp_path, "moodle", "moodle_worksheet.csv", due=due)
    assert {r["student"] for r in klass.records() if r["status"] == status.LATE} == {"20004"}
    more = {"20004": datetime(2026, 3, 3)}
    again = graded(tmp_path / "again", "moodle", "moodle_worksheet.csv", due=due, extensions=more)
    assert not [r for r in again.records() if r["status"] == status.LATE]


def test_other_points_on_the_platform_are_told(tmp_path):
    klass = graded(tmp_path, "moodle", "moodle_worksheet.csv")
    klass.source["cells"] = [c for c in klass.source["cells"] if c["id"] != "why"]
    assert "11 points for this lab, which has 8" in give_back.platform_file(klass, None)[1]


# ------------------------------------------------------------------------------------------------ names, files, archives


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("jdoe/lab99_tiny.ipynb", "jdoe"),
        ("jdoe/deep/er/lab99 (1).ipynb", "jdoe"),
        ("jdoe.ipynb", "jdoe"),
        ("jdoe_lab99.ipynb", "jdoe"),
        ("lab99_tiny_jdoe (2).ipynb", "jdoe"),
        ("Copy of lab99-jdoe.ipynb", "jdoe"),
        ("lab99_tiny jdoe.ipynb.txt", "jdoe"),
        ("../../jdoe/lab99_tiny.ipynb", "jdoe"),
        ("doejane_LATE_17_23_lab99_tiny.ipynb", "17"),
        ("doe_anon_Ab3dE_23_lab99_tiny.ipynb", "anon_Ab3dE"),
        ("Jane Doe_17_assignsubmission_file_lab99_tiny.ipynb", "17"),
        ("download/Jane Doe_17_assignsubmission_file_/lab99_tiny.ipynb", "17"),
    ],
)
def test_names_are_mapped_to_students(tmp_path, path, student):
    assert list(handed_in(archive(tmp_path, [path]), tiny_lab.LAB)) == [student]


def test_a_roster_decides_between_words_of_a_name(tmp_path):
    handed = handed_in(archive(tmp_path, ["final jdoe version 2.ipynb"]), tiny_lab.LAB, None, frozenset({"jdoe", "asmith"}))
    assert list(handed) == ["jdoe"]


def test_nothing_of_an_archive_is_written_anywhere(tmp_path):
    """A path that leads out, an absolute one, a link: names are only words, and a student's own."""
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("../../../outside/lab.ipynb", tiny_lab.file(tiny_lab.answered()))
        made.writestr("/etc/lab.ipynb", tiny_lab.file(tiny_lab.answered()))
        link = zipfile.ZipInfo("eve/lab.ipynb")
        link.external_attr = 0o120777 << 16
        made.writestr(link, "/etc/passwd")
    before = sorted(tmp_path.rglob("*"))
    handed = handed_in(path, tiny_lab.LAB)
    assert sorted(tmp_path.rglob("*")) == before and sorted(handed) == ["etc", "eve", "outside"]
    with pytest.raises(Unreadable, match="damaged"):
        notebook(handed["eve"].files, cells.known(tiny_lab.source()))
    klass = Klass(tiny_lab.LAB, tiny_lab.source(), Store(tmp_path / "grades"), handed)
    klass.plan()
    with zipfile.ZipFile(give_back.archive_of_feedback(klass)) as made:
        assert not [name for name in made.namelist() if name.startswith("/") or ".." in name]


def test_a_bomb_is_refused_and_the_others_are_read(tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("bomb/lab.ipynb", b" " * (30 << 20))
        made.writestr("honest/lab.ipynb", tiny_lab.file(tiny_lab.answered()))
    content = bytearray(path.read_bytes())  # and one whose directory says it is small
    for at in [m.start() for m in re.finditer(re.escape((30 << 20).to_bytes(4, "little")), bytes(content))]:
        content[at : at + 4] = (1000).to_bytes(4, "little")
    lying = tmp_path / "lying.zip"
    lying.write_bytes(content)
    for one in (path, lying):
        handed = handed_in(one, tiny_lab.LAB)
        assert handed["bomb"].files[0].content is None and handed["bomb"].files[0].refused
        assert notebook(handed["honest"].files, cells.known(tiny_lab.source()))


def test_what_is_no_folder_and_no_archive_is_said(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"no zip")
    for path, said in ((tmp_path / "x.zip", "neither a folder nor a .zip"), (tmp_path / "y", "nothing of this name")):
        with pytest.raises(CannotTake, match=said):
            handed_in(path, tiny_lab.LAB)


def test_a_link_in_a_folder_is_not_followed(tmp_path):
    (tmp_path / "eve").mkdir()
    (tmp_path / "secret.ipynb").write_bytes(tiny_lab.file(tiny_lab.answered()))
    os.symlink(tmp_path / "secret.ipynb", tmp_path / "eve" / "lab.ipynb")
    assert handed_in(tmp_path, tiny_lab.LAB)["eve"].files[0].content is None


def test_other_files_beside_the_notebook_do_not_matter():
    files = [File("a.pdf", b"%PDF"), File("other.ipynb", b'{"cells": [], "nbformat": 4}'), File("lab.ipynb.json", _lab())]
    assert notebook(files, cells.known(tiny_lab.source()))[0].path == "lab.ipynb.json"


def _lab() -> bytes:
    return tiny_lab.file(tiny_lab.answered())


@pytest.mark.parametrize("text", ["", "only one line\n"])
def test_a_roster_that_is_none_is_said(tmp_path, text):
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(lms.BadRoster):
        lms.roster(tmp_path / "r.csv")


def test_which_canvas_column_is_asked_when_unclear():
    roster = lms.roster(DOWNLOADS / "canvas_gradebook.csv")
    with pytest.raises(lms.BadRoster, match="COLUMN"):
        lms.canvas_column(roster, 3)
    assert lms.canvas_column(roster, 3, "Lab 1") == "Lab 1 (4711)"


# ------------------------------------------------------------------------------------------------ what students read


def test_feedback_explains_and_shows_no_hidden_test(tmp_path):
    source = tiny_lab.source()
    hidden = next(t[1] for k, t in tiny_lab.TESTS.items() if k == "double_small")
    leak = f"ValueError: {hidden}"
    says = {
        "double_small": "AssertionError: Doubling is adding a number to itself.",
        "double_zero": "AssertionError: Twice nothing is nothing, you say 2.",
        "greet_says": leak,
    }
    scores = [{"id": name, "points": 0.0, "most": float(tiny_lab.TESTS[name][0]), "said": said} for name, said in says.items()]
    store = Store(tmp_path)
    store.begin("jdoe", "key", {"file": "x.ipynb", "late": False})
    record = store.finish("jdoe", "key", {"status": status.GRADED, "scores": scores})
    text = feedback.text(record, source, tiny_lab.answered())
    shown = "\n".join(cells.source(c) for c in json.loads(text)["cells"] if c["metadata"].get("tags") == ["feedback"])
    assert "Doubling is adding a number to itself." in shown
    assert "Twice nothing is nothing, you say …." in shown
    assert "a ValueError is raised where the test calls your code" in shown
    assert str(tiny_lab.SECRET) not in text and "HIDDEN" not in text and leak not in text
