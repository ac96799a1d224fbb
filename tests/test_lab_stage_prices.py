"""Lab 2's readings: the same for the same name, honest about where they are from, each part to be had in one way; its tests."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace

import pytest

from grading import course, fast, wrong
from grading.rebuild import rebuilt
from grading.score import lost
from tests.factories import make_receipt
from tests.lab_answers import LIAR
from utils.labs import cells, stage_prices
from utils.labs.stage_prices import FAULTS, NOBODY, Raw, name_of, own, report, sheet
from utils.model import recordings, results
from utils.model.readings import quantile

LAB = "lab02_stage_prices"
NAMES = [f"reader {i}" for i in range(40)]


@pytest.fixture
def other_machines(monkeypatch):
    """The lab on receipts that are not the committed ones: noisier, and of another speed."""
    pairs = [
        tuple(make_receipt(d, g, seed=n, noise=0.04, preempted=0.3) for g in (False, True)) for n, d in ((1, "cpu"), (2, "cuda"))
    ]
    monkeypatch.setattr(stage_prices, "_machines", lambda: pairs)


def ns_of(raw: Raw) -> float:
    return quantile([block / raw.calls for block in raw.blocks], 0.25)


# ------------------------------------------------------------------------------------------------ sheets


def test_the_same_name_gives_the_same_sheet_and_another_name_another():
    assert sheet("Ada") == sheet("Ada") == sheet("  ada ")
    assert sheet("Ada") != sheet("Grace") and sheet("Ada") != sheet("Ada", grad=True)
    assert len({sheet(name).label for name in NAMES}) > 1, "not everybody prices the same machine"
    assert len({frozenset(sheet(name).pieces) for name in NAMES}) > 5, "which parts overlap is not the same for everybody"


@pytest.mark.parametrize("grad", [False, True])
def test_every_part_can_be_had_in_one_way_and_one_only_in_two_steps(grad):
    for name in NAMES:
        here = sheet(name, grad=grad)
        known = {inside[0] for inside in here.pieces.values() if len(inside) == 1}
        steps = 0
        while found := [g for g in here.pieces.values() if len(set(g) - known) == 1]:
            behind = [(set(g) - known).pop() for g in found]
            assert len(set(behind)) == len(behind), "a part can be had in two ways"
            known |= set(behind)
            steps += 1
        assert known == set(here.parts) == set(here.groups) and steps >= 2
        assert ("autograd_node" in here.parts) is grad


def test_a_sheet_holds_the_recorded_prices_give_or_take_the_perturbation():
    """Undone as the lab asks, each piece is the recorded price times one speed and a factor of the part, within 8 %."""
    for name in NAMES[:8]:
        here = sheet(name)
        (receipt,) = [r for r, _ in stage_prices._machines() if here.label.startswith(recordings.receipt_label(r))]
        loop_ns = ns_of(here.readings["empty loop"])
        whole, twin = (ns_of(here.readings[n]) - loop_ns for n in ("c = a + b", "c = a + b (again)"))
        speed = whole / receipt.total_ns
        assert 0.8 < speed < 1.3 and abs(twin / whole - 1) < 0.04
        for piece, inside in here.pieces.items():
            recorded = sum(receipt.stage(part).ns for part in inside) * speed
            assert abs(ns_of(here.readings[piece]) - recorded) < 0.2 * abs(recorded) + 15.0, (name, piece)


def test_only_what_python_looped_holds_the_loop():
    here = sheet("Ada")
    assert {r.name for r in here.readings.values() if r.looped_by == "Python"} == {"empty loop", "c = a + b", "c = a + b (again)"}
    assert here.ladder[0] == "c = a + b" and set(here.ladder) | set(here.pieces) <= set(here.readings)
    assert 0 in here.curve and list(here.curve) != sorted(here.curve)
    assert here.about("c = a + b (again)") != here.about("c = a + b") != here.about(here.ladder[1])


def test_a_name_is_a_text_that_is_not_empty():
    def unwritten():
        raise NotImplementedError

    def lost():
        return not_there_any_more()  # noqa: F821

    assert name_of(lambda: "Ada") == "Ada"
    assert {name_of(said) for said in (unwritten, lost, lambda: None, lambda: "  ", lambda: 7)} == {NOBODY}


def test_without_a_whole_recording_the_lab_says_so(monkeypatch):
    monkeypatch.setattr(recordings, "available", lambda: [])
    stage_prices._machines.cache_clear()
    with pytest.raises(recordings.RecordingError, match="lab 2"):
        sheet("Ada")
    stage_prices._machines.cache_clear()


# ------------------------------------------------------------------------------------------------ this machine


def test_own_readings_are_those_of_the_receipt_that_was_kept(monkeypatch):
    kept = make_receipt("cpu", seed=11)
    monkeypatch.setattr(results, "latest_receipt", lambda device, **_: kept if device == "cpu" else None)
    here = own()
    assert here.label.startswith("live") and "perturbed" not in here.label
    for piece, inside in here.pieces.items():
        wanted = quantile([sum(at) for at in zip(*(kept.stage(part).isolate.samples for part in inside))], 0.25)
        assert ns_of(here.readings[piece]) == pytest.approx(wanted, abs=0.01)
    whole = ns_of(here.readings["c = a + b"])
    assert whole == pytest.approx(kept.control[0].ns + kept.loop.ns, rel=0.01), "the loop is back in what Python looped"


@pytest.mark.parametrize("live", [None, make_receipt("cpu", compiler=False)], ids=["nothing kept", "no compiler"])
def test_without_readings_of_its_own_a_machine_shows_recorded_ones(live, monkeypatch):
    monkeypatch.setattr(results, "latest_receipt", lambda device, **_: None)
    monkeypatch.setattr(stage_prices, "_live", lambda: live)
    assert own().label.startswith("recorded")


def test_a_short_race_where_the_pieces_are_compiled(monkeypatch):
    from utils.measure import stages

    class Status:
        cached = False

    asked = []
    monkeypatch.setattr(stages, "probe_status", lambda device: Status)
    monkeypatch.setattr(stages, "price_stages", lambda *a, **options: asked.append(options) or make_receipt("cpu"))
    assert stage_prices._live() is None and not asked, "nothing is compiled behind the learner's back"
    Status.cached = True
    assert stage_prices._live() == make_receipt("cpu") and not asked[0]["in_program"] and asked[0]["blocks"] <= 30


# ------------------------------------------------------------------------------------------------ a colleague's receipts


def faults_of(one) -> set[str]:
    """What is wrong with a report by the words of the lab, each fault looked for on its own."""
    found, counted = set(), Counter(part for line in one.lines for part in line.parts)
    if max(counted.values()) > 1:
        found.add("twice")
    if set(counted) != set(one.parts):
        found.add("missing")
    for line in (*one.lines, one.whole):
        loop_ns = one.loop_ns if line is one.whole else 0.0
        low, median = quantile(list(line.blocks), 0.25), quantile(list(line.blocks), 0.5)
        says = {"unit": (low - loop_ns) / 1e3, "median": median - loop_ns, **({"loop": low} if loop_ns else {})}
        found |= {fault for fault, ns in says.items() if abs(line.printed - ns) < (0.0002 if fault == "unit" else 0.11)}
        assert (abs(line.printed - (low - loop_ns)) < 0.11) is not bool(found & {"unit", "median", "loop"}) or found
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_exactly_one_fault_is_planted(fault):
    for seed in range(60):
        for loaded in (False, True):
            assert faults_of(report(seed, fault, loaded=loaded)) == ({fault} - {"sound"}), (seed, loaded)


@pytest.mark.parametrize("fault", FAULTS)
def test_exactly_one_fault_whatever_was_recorded(fault, other_machines):
    for seed in range(40):
        assert faults_of(report(seed, fault)) == ({fault} - {"sound"}), seed


def test_sound_receipts_look_suspicious_in_every_way_that_is_none():
    sound = [report(seed, loaded=seed % 3 == 0) for seed in range(40)]
    coverages = [sum(line.printed for line in one.lines) / one.whole.printed for one in sound]
    assert min(coverages) < 0.9 and max(coverages) > 1.0
    assert any(len({line.printed for line in one.lines}) < len(one.lines) for one in sound)
    assert any(len(line.parts) > 1 for one in sound for line in one.lines)
    twice = [report(seed, "twice") for seed in range(40)]
    assert any(sum(line.printed for line in one.lines) < one.whole.printed for one in twice), "the sum alone cannot see it"
    assert any(len({line.name for line in one.lines}) == len(one.lines) == len(one.parts) for one in twice)
    assert report(3) == report(3) != report(4)
    with pytest.raises(ValueError, match="there is no fault"):
        report(1, "typo")


def test_a_receipt_does_not_say_what_is_wrong_with_it():
    shape = {fault: set(vars(report(5, fault))) for fault in FAULTS}
    assert len(set(map(frozenset, shape.values()))) == 1 and not any("fault" in name for name in shape["sound"])


# ------------------------------------------------------------------------------------------------ the lab's tests


def test_full_marks_and_every_wrong_answer_on_other_recordings(other_machines):
    """The recordings will be made again: no verdict may hang on the numbers in them."""
    source = cells.read(course.source(LAB))
    assert lost(fast.grade(rebuilt(source, source))) == set()
    judged = [a for a in wrong.catalogue(LAB) if a.changes[0]["cell"] == "judge"]
    drifted = {a.id for a in judged if lost(fast.grade(rebuilt(a.notebook(), source))) != set(a.loses)}
    assert drifted == set()


OTHER = {
    "my_name": "def my_name():\n    return 'Straße 7'",
    "price": """
import numpy as np

def price(reading, loop_ns):
    off = loop_ns * reading.calls if reading.looped_by == 'Python' else 0
    return float(np.percentile(np.array(reading.blocks) - off, 25) / reading.calls)
""",
    "step": """
def step(upper, lower, first, again):
    share = abs(again - first) / first
    error = (share if share > 0.005 else 0.005) * (upper if upper > lower else lower)
    return upper - lower, error, not (-error <= upper - lower <= error)
""",
    "price_list": """
def price_list(parts, prices, pieces):
    found, left = dict.fromkeys(parts), dict(pieces)
    for name in sorted(pieces, key=lambda name: len(pieces[name])):
        for other in sorted(left, key=lambda name: sum(found[p] is None for p in left[name])):
            missing = [p for p in left[other] if found[p] is None]
            if not missing:
                del left[other]
            elif len(missing) == 1:
                found[missing[0]] = prices[other] - sum(found[p] for p in left[other] if found[p] is not None)
                del left[other]
            else:
                break
    return found
""",
    "judge": """
def judge(report):
    seen = []
    for line in report.lines:
        for part in line.parts:
            if part in seen:
                return 'twice'
            seen.append(part)
    if len(seen) < len(report.parts):
        return 'missing'
    right = {line: round(quantile(line.blocks, 0.25), 1) for line in report.lines}
    right[report.whole] = round(quantile(report.whole.blocks, 0.25) - report.loop_ns, 1)
    for line, ns in right.items():
        if line.printed < ns / 100:
            return 'unit'
    wrong = [line for line, ns in right.items() if abs(line.printed - ns) > 0.1]
    return 'sound' if not wrong else 'loop' if wrong == [report.whole] else 'median'
""",
}


def test_right_answers_that_are_written_differently_have_full_marks():
    nb = copy.deepcopy(cells.read(course.source(LAB)))
    for cell in nb["cells"]:
        known = cells.known({"cells": [cell]})
        if known and known[0].solution and known[0].id in OTHER:
            cell["source"] = OTHER[known[0].id]
    scores = fast.grade(rebuilt(nb, cells.read(course.source(LAB))))
    assert lost(scores) == set(), [score for score in scores if score.said]


def test_no_point_hangs_on_the_name():
    nb = copy.deepcopy(cells.read(course.source(LAB)))
    nb["cells"] = [cell for cell in nb["cells"] if not (k := cells.known({"cells": [cell]})) or k[0].id != "my_name"]
    assert lost(fast.grade(rebuilt(nb, cells.read(course.source(LAB))))) == set()


def test_an_answer_that_says_yes_to_everything_earns_nothing():
    """An object that equals all, is above and below all and holds all: no test may take its word."""
    liar = LIAR + "price = step = price_list = bill = by_group = compare = factors = judge = Liar()\n"
    nb = copy.deepcopy(cells.read(course.source(LAB)))
    answers = [
        cell
        for cell in nb["cells"]
        if (known := cells.known({"cells": [cell]})) and known[0].solution and known[0].kind == "code"
    ]
    for cell in answers:
        cell["source"] = liar if cell is answers[0] else "pass"
    scores = fast.grade(rebuilt(nb, cells.read(course.source(LAB))))
    assert all(not score.points for score in scores), [score.id for score in scores if score.points]


def test_a_sheet_cannot_be_spoilt_for_the_next_test():
    here = sheet("Ada")
    here.pieces.clear()
    here.readings["c = a + b"] = replace(here.readings["c = a + b"], calls=1)
    assert sheet("Ada").pieces and sheet("Ada").readings["c = a + b"].calls > 1
