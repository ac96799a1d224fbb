"""What a refreshed lesson is rewritten for and what not, and the sizes that a notebook and its pictures keep."""

from __future__ import annotations

import base64

import pytest

from tests.notebook_factory import cell, lesson, page
from tools import canonical, lint_notebooks, refresh, substance
from tools.notebooks import REPO


def said(html: str):
    """A sound lesson whose cell `measure` shows this."""
    nb = lesson()
    cell(nb, "measure").outputs = [page(html)]
    return canonical.canonical(nb)


ROW = "<table><tr><th>a + b</th><td>{ns}</td><td>{count}</td></tr></table>"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<p>It took 938 ns, 37 % of it.</p>", "<p>It took 1.02 µs, 41 % of it.</p>"),
        ("<p>band 938–951 ns, 1.18 times</p>", "<p>band 0.9–1.1 µs, 12 times</p>"),
        ("<p>+3.1 ns</p>", "<p>no difference seen (A/A error 4 ns)</p>"),
        ("<p>with it 12 ns more</p>", "<p>with it no difference seen</p>"),
        ("<p>4,390 GB/s and 53.2 TFLOP/s</p>", "<p>36 GB/s and 0.1 TFLOP/s</p>"),
        ("<p>a</p><p>b</p>", "<p>b</p><p>a</p>"),
        ('<img src="data:,x" alt="a bar of 3 ns">', '<img src="data:,other ink" alt="a bar of 4 ns">'),
    ],
)
def test_timings_order_and_ink_are_no_reason(old, new):
    assert substance.changed(said(old), said(new)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<p>It holds.</p>", "<p>It does not hold.</p>"),
        ("<p>13 ops</p>", "<p>14 ops</p>"),
        ("<p>torch 2.13.0</p>", "<p>torch 2.14.0</p>"),
        ("<p>recorded · 2026-11-29</p>", "<p>recorded · 2026-12-01</p>"),
        (ROW.format(ns="3 ns", count=13), ROW.format(ns="3 ns", count=14)),
        ('<img src="data:,x" alt="a bar">', '<img src="data:,x" alt="a curve">'),
        ("<p>one</p>", "<p>one</p><p>one</p>"),
    ],
)
def test_words_counts_versions_and_dates_are_a_reason(old, new):
    lines = substance.changed(said(old), said(new))
    assert lines and all(line.startswith("measure: ") for line in lines)


def test_sources_tags_and_kinds_of_output_count():
    other = said("<p>x</p>")
    cell(other, "measure").source += "\nprint(3)"
    assert any("source: print(3)" in line for line in substance.changed(said("<p>x</p>"), other))
    bare = said("<p>x</p>")
    cell(bare, "measure").outputs = []
    assert substance.changed(said("<p>x</p>"), bare)


def test_what_two_fresh_runs_do_not_agree_on_is_no_reason():
    old, new, again = (said(f"<p>{n} pages, 13 ops</p><p>It holds.</p>") for n in (193, 201, 197))
    assert substance.changed(old, new) and substance.changed(old, new, again) == []
    new, again = (said(f"<p>{n} pages, 13 ops</p><p>It does not hold.</p>") for n in (201, 197))
    assert substance.changed(old, new, again) == ["measure: − It holds.", "measure: + It does not hold."]


class Runs:
    """Stands for running: gives these notebooks, one after the other."""

    def __init__(self, *results):
        self.left = list(results)

    def __call__(self, path):
        return self.left.pop(0)


@pytest.fixture
def committed(tmp_path):
    path = tmp_path / "lesson.ipynb"
    path.write_text(canonical.dumps(said("<p>3 ns, 13 ops</p>")), encoding="utf-8")
    return path


def test_a_lesson_that_says_the_same_keeps_its_bytes(committed):
    before = committed.read_bytes()
    assert refresh.refresh(committed, Runs(said("<p>4 ns, 13 ops</p>")), check=False) == "unchanged"
    assert committed.read_bytes() == before


def test_one_that_says_something_else_is_rewritten_whole_and_with_check_not(committed, capsys):
    new = said("<p>5 ns, 14 ops</p>")
    before = committed.read_bytes()
    assert refresh.refresh(committed, Runs(new, new), check=True) == "differs" and committed.read_bytes() == before
    assert refresh.refresh(committed, Runs(new, said("<p>6 ns, 14 ops</p>")), check=False) == "rewritten"
    assert committed.read_text(encoding="utf-8") == canonical.dumps(new)
    assert "+ ⏱, 14 ops" in capsys.readouterr().out


def test_noise_costs_a_second_run_and_no_change(committed):
    before = committed.read_bytes()
    runs = Runs(said("<p>3 ns, 14 ops</p>"), said("<p>3 ns, 15 ops</p>"))
    assert refresh.refresh(committed, runs, check=False) == "unchanged" and runs.left == []
    assert committed.read_bytes() == before


def test_a_run_that_fails_changes_nothing(committed):
    before = committed.read_bytes()
    assert refresh.refresh(committed, Runs(None), check=False) == "failed"
    assert refresh.refresh(committed, Runs(said("<p>14 ops</p>"), None), check=False) == "failed"
    assert committed.read_bytes() == before


def test_all_rewrites_after_one_run(committed):
    new = said("<p>4 ns, 13 ops</p>")
    assert refresh.refresh(committed, Runs(new), check=False, always=True) == "rewritten"
    assert committed.read_text(encoding="utf-8") == canonical.dumps(new)


def test_a_notebook_that_became_too_large_is_not_written(committed, capsys):
    before = committed.read_bytes()
    new = said(f"<p>14 ops {'x' * 1_000_000}</p>")
    assert refresh.refresh(committed, Runs(new, new), check=False) == "failed"
    assert "at most 1,000,000" in capsys.readouterr().out and committed.read_bytes() == before


def test_a_wrong_file_is_said_in_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        refresh.main(["no_such.ipynb"])
    assert ended.value.code == 2 and "no_such.ipynb" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ sizes


def rules(nb) -> list[str]:
    return [rule for rule, _, _ in lint_notebooks.sizes(nb, len(canonical.dumps(nb).encode()))]


@pytest.mark.parametrize("kind", ["in html", "png", "svg"])
def test_a_picture_over_150_kilobytes_is_seen(kind):
    def showing(n: int):
        ink = "x" * n
        data = {
            "in html": {"text/html": f'<img alt="a" src="data:image/png;base64,{base64.b64encode(ink.encode()).decode()}">'},
            "png": {"image/png": base64.b64encode(ink.encode()).decode()},
            "svg": {"image/svg+xml": ink},
        }[kind]
        nb = said("<p>x</p>")
        cell(nb, "measure").outputs[0].data = data
        return nb

    assert rules(showing(150_000)) == [] and rules(showing(150_003)) == ["picture-size"]


def test_a_notebook_over_a_megabyte_is_seen(tmp_path):
    nb = said(f"<p>{'x' * 1_000_000}</p>")
    assert rules(nb) == ["size"]
    (tmp_path / "large.ipynb").write_text(canonical.dumps(nb), encoding="utf-8")
    assert "size" in [rule for rule, _, _ in lint_notebooks.lint_file(tmp_path / "large.ipynb")]


def test_the_committed_notebooks_keep_to_both():
    for path in [*(REPO / "notebooks").glob("*.ipynb"), *(REPO / "solutions").glob("*/*.ipynb")]:
        text = path.read_text(encoding="utf-8")
        assert list(lint_notebooks.sizes(canonical.loads(text), len(text.encode()))) == [], path
