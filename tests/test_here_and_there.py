"""A part worded as measured here and as recorded there: what is said where one of them is missing."""

from __future__ import annotations

from utils.measure.launch_here import Found
from utils.measure.study_here import NOT_YET, Both
from utils.show.here_and_there import told

HERE, THERE = "live · here", "recorded · there"


def words(here: dict | None, there: dict | None) -> str:
    missing = Found(None, why=NOT_YET["cuda"])
    found = Both(Found(here, HERE) if here else Found(None, why="no GPU here"), Found(there, THERE) if there else missing)
    return str(told(found, "the price", lambda value: f"It takes {value['us']} µs."))


def test_both_are_told_with_their_labels():
    said = words({"us": 3, "device": "cpu"}, {"us": 2, "device": "cuda"})
    assert f"It takes 3 µs. ({HERE})" in said and f"It takes 2 µs. ({THERE})" in said and "Not measured" not in said


def test_what_is_missing_is_told_unless_a_gpu_has_just_measured_it():
    assert NOT_YET["cuda"] in words({"us": 3, "device": "cpu"}, None) and NOT_YET["cuda"] in words(None, None)
    assert words({"us": 3, "device": "cuda"}, None) == f"It takes 3 µs. ({HERE})"
    assert "Not measured: the price; no GPU here." in words(None, {"us": 2, "device": "cuda"})
