"""The claims page: committed as generated, every claim once, a reader's column; and what `verify` says has changed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.conftest import REPO
from utils import __main__ as cli
from utils import paths
from utils.measure import children, machine, remeasure
from utils.measure.record import Instrument
from utils.model import drift, ledger, recordings, schemas, studies
from utils.model.drift import Judged, Measured
from utils.show import drift_tables, ledger_page

PAGE = REPO / "figures" / ledger_page.FILE


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "home", lambda: tmp_path)
    return tmp_path


# ------------------------------------------------------------------------------------------------ the page


def test_the_committed_page_is_the_generated_one():
    assert PAGE.read_text(encoding="utf-8") == ledger_page.page(), "python -m utils ledger"


def test_every_claim_is_there_once_under_its_lesson_with_its_verdict():
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {}
    for section in sections:
        number = int(section.lstrip("[")[:2])
        for row in re.findall(r"^\| ([ABC]\d\d) \|(.*)\|$", section, flags=re.MULTILINE):
            found[row[0]] = (schemas.LESSONS[number], row[1])
    claims = {c.id: c for c in ledger.claims()}
    assert found.keys() == claims.keys()
    for name, (lesson, row) in found.items():
        assert lesson == claims[name].lesson and f" {ledger.WORDS[claims[name].verdict]} |" in row


def test_every_link_of_the_page_leads_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert links and all((PAGE.parent / link).resolve().is_file() for link in links)


def test_a_figure_is_the_one_that_judges_the_claim():
    gpu = drift.nearest("cuda")
    claim = next(c for c in ledger.claims() if c.id == "A01")
    value = ledger.measure(claim, gpu.recording)
    assert ledger_page.figure(claim, gpu) == f"{float(f'{value:.3g}'):,.12g} µs"
    only_gpu = next(c for c in ledger.claims() if c.metric and c.metric.get("device") == "cuda")
    assert ledger_page.figure(only_gpu, drift.nearest("cpu")) == "–"
    assert ledger_page.figure(claim, Measured(None, {})) == "not measured"


def test_a_reader_who_recorded_has_a_column_and_others_have_none(home):
    assert ledger_page.of_reader() is None
    best = recordings.best("cpu")
    (home / f"{best.stem}.json").write_bytes((paths.RECORDINGS / f"{best.stem}.json").read_bytes())
    study = studies.best("two_ceilings", "cpu")
    (home / "two_ceilings-mine.json").write_bytes((studies.folder_of("two_ceilings") / f"{study.stem}.json").read_bytes())
    (home / "damaged.json").write_text("{", encoding="utf-8")
    (home / "results.json").write_text('{"format": "something else"}', encoding="utf-8")
    mine = ledger_page.of_reader()
    assert mine.recording.date == best.date and mine.studies.keys() == {"two_ceilings"}
    with_yours = ledger_page.page(mine)
    assert "| CPU | H200 | yours |" in with_yours and with_yours.count("\n") >= ledger_page.page().count("\n")


def test_the_command_writes_and_refuses(home, tmp_path, capsys):
    out = tmp_path / "deep" / "ledger.md"
    assert cli.main(["ledger", "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == ledger_page.page()
    assert cli.main(["ledger", "--yours"]) == 2 and "--out" in capsys.readouterr().err
    assert cli.main(["ledger", "--yours", "--out", str(out)]) == 2 and "record" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ what changed


def test_a_verdict_changes_only_between_two_that_are_settled():
    claim = ledger.find("A01")
    assert Judged(claim, "holds", 1.0, "does_not_hold", 0.1).changed
    assert not Judged(claim, "holds", 1.0, "holds", 1.1).changed
    assert not Judged(claim, "not_measurable_here", None, "holds", 1.1).changed


def test_the_recordings_held_against_themselves_have_not_changed():
    for device in ("cpu", "cuda"):
        measured = drift.nearest(device)
        rows = drift.judged(measured, measured)
        assert len(rows) > 10 and not any(row.changed for row in rows)
        assert all(d.ratio == pytest.approx(1.0) for d in drift.stages(measured.recording, measured.recording))


def test_drift_is_told_stage_by_stage():
    before = drift.nearest("cpu").recording
    now = replace(before, receipts={"cpu": before.receipts["cpu"].scaled_stage("allocator", 2.0)})
    ratios = {(d.receipt, d.stage): d.ratio for d in drift.stages(before, now)}
    assert ratios[("cpu", "allocator")] == pytest.approx(2.0) and ratios[("cpu", "arg_parser")] == pytest.approx(1.0)
    assert not any(key == "cpu_grad" for key, _ in ratios)
    assert drift.stages(before, None) == [] == drift.stages(None, now)
    said = drift_tables.stages(drift.stages(before, now))
    assert re.search(r"allocator.* 2\.0×", said)


def test_what_is_measured_again_is_what_some_claim_needs():
    plan = remeasure.todo("cpu")
    assert {one.name for one in plan[""]} == {"cpu", "cpu_grad", "traps"}
    needed = {
        c.metric["study"] for c in ledger.claims() if c.metric and c.metric.get("device", "cpu") == "cpu" and "study" in c.metric
    }
    assert plan.keys() - {""} <= needed and plan["two_ceilings"]
    assert "" not in remeasure.todo("cpu", "two_ceilings") and remeasure.todo("cpu", "one_add") == {}


def again(monkeypatch, capsys, factor: float, *words: str):
    """`verify` without a file where the receipts come out as recorded, but the allocator `factor` times as dear."""
    best = recordings.best("cpu")

    def receipt(key: str):
        return lambda progress: best.receipts[key].scaled_stage("allocator", factor).to_dict()

    def broken(progress):
        raise RuntimeError("no compiler here")

    run = {"": [Instrument("cpu", "receipts", receipt("cpu")), Instrument("cpu_grad", "receipts", broken)]}
    monkeypatch.setattr(remeasure, "todo", lambda device, lesson=None: run)
    monkeypatch.setattr(children, "in_child", lambda *a: pytest.fail("nothing is measured in this test"))
    code = cli.main(["verify", "--device", "cpu", *words])
    return code, capsys.readouterr().out


def test_verify_without_a_file_says_what_changed_and_what_drifted(monkeypatch, capsys):
    code, out = again(monkeypatch, capsys, 1.0)
    assert code == 0 and "no verdict changed" in out and "here / recorded" in out
    assert "not measured: cpu_grad: no compiler here" in out
    claim = next(c for c in ledger.claims() if c.metric and c.metric["measure"] == "stages.allocator")
    for factor in (0.01, 3.0, 10.0, 40.0):
        code, out = again(monkeypatch, capsys, factor)
        if code == 1:
            assert "CHANGED" in out and claim.id in out.splitlines()[-1]
            break
    else:
        pytest.fail("no price of the allocator changed a verdict")


@pytest.mark.parametrize(("words", "said"), [(("--lesson", "zero"), "there is no lesson"), (("--lesson", "one_add"), "no claim")])
def test_verify_refuses_in_one_line(words, said, capsys):
    assert cli.main(["verify", "--device", "cpu", *words]) == 2
    assert said in capsys.readouterr().err


def test_where_nothing_could_be_measured_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(remeasure, "todo", lambda device, lesson=None: {"": []})
    monkeypatch.setattr(machine, "fingerprint", lambda: recordings.best("cpu").where)
    assert cli.main(["verify", "--device", "cpu"]) == 1
    assert "no claim could be measured" in capsys.readouterr().err
