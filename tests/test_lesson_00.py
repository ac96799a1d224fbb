"""Lesson 00: what it says follows from what was measured, recorded and simulated parts are labelled, its parts fit together."""

from __future__ import annotations

import json
import random
import re
from types import SimpleNamespace

import pytest

from tests.conftest import REPO
from utils.measure import traps
from utils.model import schemas
from utils.model.readings import Race, Reading
from utils.show import lesson00
from utils.show.predict import Guess, fold
from utils.show.quiz import items

NOTEBOOK = json.loads((REPO / "notebooks/00_start_here.ipynb").read_text(encoding="utf-8"))
CELLS = {cell["id"]: cell for cell in NOTEBOOK["cells"]}
LABEL = "recorded · NVIDIA H200 · driver 570.1 · torch 2.11.0 · 2026-11-29"


def source(cell_id: str) -> str:
    return "".join(CELLS[cell_id]["source"])


def reading(name: str, ns: float, rng: random.Random, spread: float = 0.02) -> Reading:
    return Reading(name, tuple(ns * rng.uniform(1, 1 + spread) for _ in range(40)), 100)


def trap(wrong: float, honest: float, device: str = "cpu", seed: int = 1, spread: float = 0.02, **more) -> dict:
    rng = random.Random(seed)
    arms = {"the wrong way": wrong, "the honest way": honest, "the honest way (again)": honest}
    readings = {name: reading(name, ns, rng, spread) for name, ns in arms.items()}
    race = Race(readings, ("the honest way", "the honest way (again)"), device=device)
    names = {"wrong": "the wrong way", "honest": "the honest way"}
    return {"device": device, "wrong": wrong, "honest": honest, "aa_error": race.error, "race": race, "names": names, **more}


@pytest.fixture
def no_recording(monkeypatch):
    monkeypatch.setattr("utils.model.recordings.best", lambda kind="cuda": None)


@pytest.fixture
def recorded(monkeypatch):
    """A recording of a GPU that holds every trap, with prices that this machine's traps do not have."""
    kept = {
        "no_sync": trap(7_000, 200_000, "cuda", by_calls=[[1, 7e3]]),
        "no_warmup": trap(90e6, 31_000, "cuda", calls_ns=[90e6] + [31e3] * 19),
        "cache_resident": trap(2_000, 4_000, "cuda", bytes=30_000_000),
        "item_in_loop": trap(95_000, 50_000, "cuda", every_launch=250_000.0, by_balance=[[1.0, 1.9]]),
        "profiler_cost": trap(17_000, 7_000, "cuda", shown_ns=5_000.0),
    }
    best = SimpleNamespace(
        extras={"traps": {name: traps.plain(t) for name, t in kept.items()}}, label=lambda device=None: LABEL, stem="h200"
    )
    monkeypatch.setattr("utils.model.recordings.best", lambda kind="cuda": best if kind == "cuda" else None)
    return kept


# ---------------------------------------------------------------- the sentences


def test_the_share_that_was_seen_is_computed_and_the_simulated_device_is_named(no_recording):
    said = str(lesson00.no_sync(trap(20_000, 400_000, "simulated")))
    assert "5.0 %" in said and "20.0 µs" in said and "400 µs" in said
    assert said.count("simulated device") == 1
    assert "this GPU" in str(lesson00.no_sync(trap(20_000, 400_000, "cuda")))


def test_a_difference_inside_the_error_is_said_to_be_none(no_recording):
    loud = trap(1_010, 1_000, spread=0.9, shown_ns=900.0)
    assert "too noisy" in str(lesson00.profiler_cost(loud)[1])
    assert "too noisy" not in str(lesson00.profiler_cost(trap(1_500, 1_000, shown_ns=900.0))[1])


@pytest.mark.parametrize("shown, way", [(1_000, "same"), (1_060, "same"), (700, "less"), (1_600, "more")])
def test_what_the_profile_shows_is_judged_by_this_run(shown, way, no_recording):
    assert lesson00.profiler_cost(trap(1_700, 1_000, shown_ns=float(shown)))[0] == way


def test_the_reused_buffers_rate_is_bytes_over_time(no_recording):
    said = str(lesson00.cache_resident(trap(10_000, 40_000, bytes=400_000)))
    assert "40.0 GB/s" in said and "10.0 GB/s" in said and "4.0 times" in said


def test_how_many_calls_were_not_yet_warm_is_counted(no_recording):
    slow = [5e6, 60e3, 45e3] + [20e3] * 17
    assert "3 calls took" in str(lesson00.no_warmup(trap(5e6, 20e3, calls_ns=slow)))
    assert "the second call was warm" in str(lesson00.no_warmup(trap(5e6, 20e3, calls_ns=[5e6] + [20e3] * 19)))


def test_reading_in_every_step_and_after_every_launch_are_both_told(no_recording):
    said = str(lesson00.item_in_loop(trap(450.0, 250.0, "simulated", every_launch=800.0)))
    assert "1.8 times" in said and "3.2 times" in said and "twice" in said


def test_the_stopwatchs_sentence_has_both_runs_of_the_same_code_and_names_a_noisy_machine():
    rng = random.Random(5)
    calm = Race({n: reading(n, 1200.0, rng) for n in ("a + b", "a + b (again)")}, ("a + b", "a + b (again)"), timer_ns=71.0)
    alone = Reading("call by call", tuple(rng.uniform(1300, 1400) for _ in range(100)) + (9e4,))
    said = str(lesson00.stopwatch(calm, alone))
    assert "1.2" in said and "71.0 ns" in said and "90.0 µs" in said and "noisy" not in said
    wild = Race({n: reading(n, 1200.0, rng, 1.5) for n in ("a + b", "a + b (again)")}, ("a + b", "a + b (again)"))
    assert "noisy machine" in str(lesson00.stopwatch(wild, alone))
    picture = lesson00.stopwatch_figure(calm, alone)
    assert "call by call, mean" in picture.alt and "2.2" in picture.table.text()  # (100 × 1.35 + 90) / 101 µs


def test_what_the_reader_said_is_taken_up(no_recording):
    guess = Guess("test.lesson00", "How much?", "%")
    assert guess.give("12 %")
    assert "You said 12 %" in str(lesson00.no_sync(trap(20_000, 400_000, "simulated"), guess=guess))


# ---------------------------------------------------------------- what was recorded


@pytest.mark.parametrize("name", traps.NAMES)
def test_a_recorded_gpu_stands_beside_with_its_label_in_sentence_and_figure(name, recorded, monkeypatch):
    live = {**recorded[name], "device": "cpu"}
    said = getattr(lesson00, name)(live)
    said = str(said[1] if isinstance(said, tuple) else said)
    assert said.count(LABEL) == 1
    pictures = lesson00.trap_figures(live, name, "title")
    assert len(pictures) == 2
    assert LABEL in pictures[1].svg and "measured on this CPU" in pictures[0].svg and LABEL not in pictures[0].svg
    assert all(p.alt and p.table.rows for p in pictures)


def test_on_a_gpu_nothing_recorded_stands_beside(recorded):
    assert LABEL not in str(lesson00.no_sync(recorded["no_sync"]))
    assert len(lesson00.trap_figures(recorded["no_sync"], "no_sync", "title")) == 1


def test_verdicts_are_the_ledgers_and_yours_is_this_run(recorded):
    found = {
        "no_sync": trap(20_000, 400_000, "simulated"),
        "no_warmup": trap(5e6, 1e4),
        "item_in_loop": trap(450.0, 250.0, "simulated"),
    }
    table = lesson00.verdicts(found)
    rows = {row["id"]: row for row in table.rows}
    assert set(rows) == {"B33", "B34"}
    assert rows["B33"]["yours"] == "1.80 ×" and rows["B34"]["yours"] == "0.0500 ×"
    assert rows["B33"]["recorded"].startswith("1.9") and LABEL in table.text()
    assert "simulated device" in table.text()


def test_without_any_recording_the_lesson_says_so(no_recording):
    assert "the addition itself" in lesson00.strip().alt
    found = {"no_sync": trap(1, 10, "simulated"), "no_warmup": trap(10, 1), "item_in_loop": trap(2, 1, "simulated")}
    assert "no recording of a GPU yet" in lesson00.verdicts(found).text()


# ---------------------------------------------------------------- tables and the slider


def test_the_longer_loops_are_told_as_they_were_measured(no_recording):
    rising = trap(1, 10, "simulated", by_calls=[[1, 20_000.0], [64, 21_000.0], [256, 75_000.0]])
    text = lesson00.queue_table(rising).text()
    assert "rose by a factor of 3.8" in text and "75.0 µs" in text and "the two ends" not in text
    bumpy = [[1, 25_000.0], [64, 24_500.0], [128, 89_600.0], [256, 75_200.0], [1024, 60_000.0]]
    text = lesson00.queue_table(trap(1, 10, "simulated", by_calls=bumpy[:-1])).text()
    assert "rose by a factor of 3.0. That compares the two ends only: from 128 to 256 calls it fell." in text
    text = lesson00.queue_table(trap(1, 10, "simulated", by_calls=bumpy)).text()
    assert "from 128 to 256 and from 256 to 1,024 calls it fell." in text
    flat = trap(1, 10, "simulated", by_calls=[[1, 20_000.0], [64, 21_000.0]])
    assert "rose" not in lesson00.queue_table(flat).text()
    balance = lesson00.balance_table(trap(1, 10, "simulated", by_balance=[[0.1, 1.05], [1.0, 1.95]])).text()
    assert "1.95 ×" in balance and "simulated" in balance


@pytest.mark.parametrize("kernel_us", [20, 200, 600])
def test_reading_never_makes_the_simulated_steps_cheaper_and_at_most_doubles_their_overlap(kernel_us):
    read, free = (lesson00._steps(kernel_us, way)[2] for way in (True, False))
    assert free < read <= 2 * free + 3 * 20_000
    picture, said = lesson00.two_lanes(kernel_us, True)
    assert "simulated" in picture.svg or "simulated" in picture.alt
    assert said.endswith("without.") and lesson00.two_lanes(kernel_us, False)[1] == said


# ---------------------------------------------------------------- the notebook itself


def test_the_opening_lists_four_objectives_and_every_one_has_a_question():
    listed = set(re.findall(r"\*\*(start_here\.[a-z_]+)\*\*", source("title")))
    asked = {q["objective"] for q in schemas.load("questions")["questions"] if q["lesson"] == "start_here"}
    assert len(listed) == 4
    assert listed == {o for o in asked if o.startswith("start_here.")}


def test_five_know_items_a_pre_test_of_twelve_and_one_way_out():
    assert [len(items(lesson="start_here", use=use)) for use in ("do_you_know", "pre_test", "exit")] == [5, 12, 1]
    assert items(lesson="start_here", use="exit")[0] in source("exit")


def test_every_trap_is_predicted_measured_folded_and_judged():
    code = "\n".join("".join(c["source"]) for c in NOTEBOOK["cells"] if c["cell_type"] == "code")
    for name in traps.NAMES:
        assert len(re.findall(rf"traps\.{name}\(device\)", code)) == 1
        assert f'expect("traps.{name}"' in code
    guesses = re.findall(r"^(\w+_guess) = predict\(", code, re.MULTILINE)
    assert len(guesses) == 6
    for guess in guesses:
        assert re.search(rf"fold\({guess}\b", code) and re.search(rf"\({guess}, str\(said", code)


def test_no_prose_states_a_number_that_the_run_decides():
    """Numbers with a unit stand in prose only where a text is quoted (50 to 200 ms)."""
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "markdown":
            text = "".join(cell["source"]).replace("50 to 200 ms", "")
            assert not re.search(r"\d[\d.,]*\s*(ns|µs|us|ms|GB/s|%|×|times)\b", text), cell["id"]


def test_nothing_measured_is_visible_before_a_fold_is_opened():
    """Outputs of measuring cells are closed folds; only the machine, the questions and the simulated panel are open."""
    for cell_id in ("stopwatch", "sync", "queue", "warmup", "cache", "item", "profiler", "claims", "review"):
        page = "".join("".join(o.get("data", {}).get("text/html", "")) for o in CELLS[cell_id]["outputs"])
        assert "<details>" in page and "<details open" not in page
        outside = re.sub(r"<details>.*</details>", "", page, flags=re.DOTALL)
        assert not re.search(r"\d\s*(ns|µs|ms)\b", outside), cell_id


def test_the_transfer_op_is_priced_only_when_it_is_right():
    race = Race({n: reading(n, 900.0, random.Random(3)) for n in ("a + b", "mine", "a + b (again)")}, ("a + b", "a + b (again)"))
    assert "Nothing priced yet" in str(lesson00.transfer(None, False))
    assert "something else" in str(lesson00.transfer(race, False))
    assert [row["variant"] for row in lesson00.transfer(race, True).rows] == ["a + b", "mine", "a + b (again)"]


def test_the_profilers_options_name_one_misconception_and_all_ways():
    assert set(lesson00.SHOWN_ANSWERS) == {"same", "more", "less"}
    known = {m["id"] for m in schemas.load("misconceptions")["misconceptions"]}
    named = [m for m, _ in lesson00.SHOWN_ANSWERS.values() if m]
    assert named and set(named) <= known
    guess = Guess("test.shown", "The profile shows …", options=tuple(lesson00.SHOWN_ANSWERS.values()))
    for _, text in lesson00.SHOWN_ANSWERS.values():
        assert fold(guess, "the answer", right=text).text()
