"""Prices as text, tables as HTML and text, computed sentences: units, the A/A rule, nothing unescaped."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from tests.factories import make_race, make_receipt
from utils.model.readings import Difference, Reading, StagePrice
from utils.show import explain, tables
from utils.show.tables import Table, format_band, format_difference, format_ns, format_share, significant

RNG = random.Random(5)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0.5, "0.500 ns"),
        (43.21, "43.2 ns"),
        (938.4, "938 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (1000, "1.00 µs"),
        (1180, "1.18 µs"),
        (16_840, "16.8 µs"),
        (2_634_123, "2,630 µs"),
        (-55.25, "-55.2 ns"),
        (0, "0 ns"),
        (None, "not measured"),
    ],
)
def test_a_price_is_ns_below_a_thousand_and_us_above_with_three_digits(ns, text):
    assert format_ns(ns) == text


def test_a_price_that_is_no_number_is_refused():
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not a measurement"):
            format_ns(bad)


@pytest.mark.parametrize("exponent", range(-3, 9))
def test_three_digits_say_the_value_to_half_a_percent(exponent):
    for _ in range(50):
        value = RNG.uniform(1, 10) * 10**exponent
        assert float(significant(value).replace(",", "")) == pytest.approx(value, rel=5.01e-3)


def test_a_difference_inside_the_error_is_never_a_number():
    for _ in range(200):
        error = RNG.uniform(1, 50)
        hidden = Difference("a", "b", RNG.uniform(-error, error), error)
        seen = Difference("a", "b", RNG.choice([-1, 1]) * error * RNG.uniform(1.01, 5), error)
        assert format_difference(hidden).startswith("no difference seen")
        assert format_difference(seen)[0] in "+−" and "no difference" not in format_difference(seen)


def test_bands_and_shares():
    reading = Reading("r", tuple(RNG.uniform(950, 1010) for _ in range(80)))
    low, high, unit = re.fullmatch(r"([\d.,]+)–([\d.,]+) (ns|µs)", format_band(reading)).groups()
    factor = 1.0 if unit == "ns" else 1000.0
    assert float(low) * factor == pytest.approx(reading.ns, rel=6e-3) and float(high) * factor == pytest.approx(
        reading.p75, rel=6e-3
    )
    assert format_share(99, 206) == "48 %" and format_share(None, 206) == tables.NOTHING


def random_table() -> Table:
    rows = [{"name": f"row <{i}>", "n": RNG.randint(1, 10**6), "price": RNG.uniform(1, 1e4), "missing": None} for i in range(5)]
    return Table(
        rows, {"name": "a & b", "n": "how many", "price": "ns", "missing": "gone"}, "Caption <with> & signs", ["a note <1>"]
    )


def test_html_and_text_hold_the_same_cells_and_html_is_accessible():
    table = random_table()
    root = ET.fromstring(f"<div>{table._repr_html_().replace('<br>', '<br/>')}</div>")  # well-formed, so everything was escaped
    assert root.find("table/caption").text == table.caption
    columns = root.findall("table/thead/tr/th")
    assert [c.text for c in columns] == list(table.columns.values()) and all(c.get("scope") == "col" for c in columns)
    body = [[cell.text for cell in row] for row in root.findall("table/tbody/tr")]
    assert body == table.cells()
    assert all(row[0].tag == "th" and row[0].get("scope") == "row" for row in root.findall("table/tbody/tr"))
    text = table.text()
    assert table.caption in text and "a note <1>" in text
    for cells in table.cells():
        assert all(cell in text for cell in cells)
    assert all(cells[3] == tables.NOTHING for cells in table.cells())


def test_markdown_is_a_github_table():
    lines = random_table().text("github").splitlines()
    assert lines[0].startswith("**Caption") and lines[2].count("|") == lines[4].count("|") == 5


def test_a_table_without_rows_is_refused():
    with pytest.raises(ValueError, match="no rows"):
        Table([], caption="empty")


@pytest.mark.parametrize(("device", "grad"), [("cpu", False), ("cpu", True), ("cuda", False)])
def test_the_receipt_table_has_every_stage_and_adds_up(device, grad):
    receipt = make_receipt(device, grad, seed=RNG.randrange(10**6))
    table = tables.receipt_table(receipt)
    rows = {row["stage"]: row for row in table.rows}
    assert len(rows) == len(receipt.stages) + 3
    assert rows["sum of the stages"]["price"] == format_ns(receipt.stage_sum_ns)
    assert rows["context (what no stage explains)"]["price"] == format_ns(receipt.context_ns)
    assert rows["a + b, end to end"]["price"] == format_ns(receipt.total_ns)
    assert ("kernel launch" in rows) == (device == "cuda")
    assert any("same code twice" in note for note in table.notes)


def test_what_was_not_measured_says_so_and_why_once():
    table = tables.receipt_table(make_receipt(compiler=False))
    text = table.text()
    assert text.count("no C++ compiler was found") == 1 and text.count("not measured") >= 5
    assert any(row["stage"] == "stages not measured, and context" for row in table.rows)


def test_a_group_shows_its_stages_only_and_a_second_receipt_is_labelled():
    live, recorded = make_receipt(), make_receipt("cuda", source="recorded")
    table = tables.receipt_table(live, recorded, "output")
    assert [row["stage"] for row in table.rows] == ["allocator", "output tensor", "wrap and free"]
    assert table.columns["beside"] == "recorded" and any("NVIDIA H200" in note for note in table.notes)
    assert table.rows[0]["beside"] == format_ns(recorded.stage("allocator").isolate)


def test_groups_and_context_sum_to_the_whole():
    receipt = make_receipt(seed=RNG.randrange(10**6))
    assert sum(tables.group_prices(receipt).values()) == pytest.approx(receipt.total_ns)
    assert len(tables.group_table(receipt, make_receipt("cuda", source="recorded")).rows) == 6


def test_the_race_table_claims_only_what_is_seen():
    race = make_race(prices={"a": 1000.0, "same as a": 1000.5, "dearer": 1400.0})
    rows = {row["variant"]: row for row in tables.race_table(race, against="a").rows}
    assert format_difference(rows["same as a"]["difference"]).startswith("no difference seen")
    assert format_difference(rows["dearer"]["difference"]).startswith("+4")
    assert "difference" not in rows["a (again)"]


# ------------------------------------------------------------------------------------------------ sentences


def test_the_winner_is_computed_and_a_tie_is_no_win():
    for _ in range(20):
        prices = {name: RNG.uniform(500, 5000) for name in ("x", "y", "z")}
        ranked = sorted(prices, key=prices.get)
        if prices[ranked[1]] < 1.1 * prices[ranked[0]]:
            continue
        said = explain.winner(make_race(prices=prices)).text()
        assert said.startswith(f"{ranked[0]} is the cheapest")
    tie = explain.winner(make_race(prices={"x": 1000.0, "y": 1000.5, "z": 3000.0})).text()
    assert tie.startswith("No difference seen between") and "The dearest is z" in tie


def test_a_difference_sentence_keeps_the_aa_rule():
    race = make_race(prices={"x": 1000.0, "y": 1000.5, "z": 1500.0})
    assert "No difference seen" in explain.difference(race, "x", "y").text()
    assert re.fullmatch(r"z costs .* more than x \(.*\)\.", explain.difference(race, "x", "z").text())
    assert re.fullmatch(r"x costs .* less than z \(.*\)\.", explain.difference(race, "z", "x").text())


def test_a_share_is_of_the_whole_or_of_a_part_and_names_where():
    receipt, other = make_receipt(), make_receipt("cuda", source="recorded")
    said = explain.share(receipt, "allocator", of=["allocator", "output_tensor"], beside=other).text()
    part, whole = receipt.stage("allocator").ns, receipt.stage("allocator").ns + receipt.stage("output_tensor").ns
    assert f"allocator took {format_ns(part)} of allocator and output tensor, which takes {format_ns(whole)}" in said
    assert format_share(part, whole) in said and "In the recording (NVIDIA H200" in said
    assert format_share(receipt.stage("kernel").ns, receipt.total_ns) in explain.share(receipt, ["kernel"]).text()
    assert "could not be measured" in explain.share(make_receipt(compiler=False), ["kernel"]).text()


def test_adding_up_tells_the_rest_the_excess_and_the_missing():
    receipt = make_receipt()
    assert format_ns(receipt.context_ns) in explain.adds_up(receipt).text()
    over = receipt.scaled_stage("tensor_iterator", 3.0)
    assert f"{format_ns(-over.context_ns)} more than the whole" in explain.adds_up(over).text()
    for excess in (1.003, 0.997):  # seen: 3.9 ns too many of 1,160 are no sign that anything is counted twice
        even = replace(receipt, end_to_end=receipt.end_to_end.scaled(receipt.stage_sum_ns / receipt.total_ns / excess))
        assert "No difference from the whole is seen" in explain.adds_up(even).text()
    lost = StagePrice("kernel", None, why_missing="no compiler")
    part = make_receipt(stages=(*receipt.without("kernel").stages, lost))
    assert "could not be measured here: kernel." in explain.adds_up(part).text()
    assert "no stage could be measured" in explain.adds_up(make_receipt(stages=(lost,))).text()


def test_in_a_program_compares_the_ends_of_the_curve():
    receipt = make_receipt()
    (few, hot), (many, cold) = receipt.in_program[0], receipt.in_program[-1]
    said = explain.in_program(receipt).text()
    assert f"{format_ns(hot)} after {few}" in said and f"{format_ns(cold)} after {many}" in said
    assert "no difference seen" in explain.in_program(make_receipt(in_program=((0, hot), (79, hot)))).text()


def test_a_sentence_takes_up_an_answer_given_after_it_was_made():
    class Answered:
        said = ""

    guess = Answered()
    sentence = explain.Sentence("It took 3 ns.", lambda: "Later.", guess=guess)
    assert sentence.text() == "It took 3 ns. Later."
    guess.said = "You said 80 %."
    assert sentence.text().endswith("You said 80 %.") and "<p>" in sentence._repr_html_()
