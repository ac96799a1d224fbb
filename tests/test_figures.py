"""Figures: alt text, table twin, the right lengths, readable without colour, light, the same bytes each time."""

from __future__ import annotations

import base64
import random
import re
import xml.etree.ElementTree as ET

import pytest

from tests.factories import make_race, make_reading, make_receipt
from utils.show import catalogue, figures, theme
from utils.show.picture import Picture
from utils.show.tables import Table, format_ns

RNG = random.Random(31)
SVG = "{http://www.w3.org/2000/svg}"


def some_figures() -> dict[str, Picture]:
    """One of each kind, of random measurements."""
    seed = RNG.randrange(10**6)
    live, gpu = make_receipt(seed=seed), make_receipt("cuda", seed=seed, source="recorded")
    race = make_race(seed=seed)
    readings = {name: make_reading(name, RNG.uniform(100, 5000), rng=RNG) for name in ("one", "two")}
    return {
        "price_strip": figures.price_strip(["output", "kernel"], live),
        "price_strip not to scale": figures.price_strip(["dispatch"], to_scale=False),
        "stage_bars": figures.stage_bars(live),
        "stage_bars beside": figures.stage_bars(live, gpu),
        "stage_bars of a group": figures.stage_bars(make_receipt(compiler=False, seed=seed), group="output"),
        "bar of readings": figures.bar(readings, title="Two", error_ns=12.0),
        "bar of a receipt": figures.bar(live),
        "bar of numbers": figures.bar({"a": 3.5, "b": None}, unit="GB/s"),
        "compare": figures.compare(race, truth="a + b", title="Traps"),
        "compare close": figures.compare(make_race(seed=seed, prices={"x": 1000.0, "y": 1100.0})),
        "curve": figures.curve(live.in_program, gpu.in_program, recorded_source="recorded · H200"),
        "curve of two": figures.curve({"hot": live.in_program, "cold": live.in_program}),
        "ladder": figures.ladder(live),
        "timeline": figures.timeline([(0, 700, "add")], [(0, 500, "idle", "wait"), (500, 620, "kernel")], title="Lanes"),
    }


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    return some_figures()


def test_every_figure_has_alt_text_a_table_twin_and_is_light_and_harmless(pictures):
    for name, picture in pictures.items():
        assert len(picture.alt) > 20, name
        page = picture._repr_html_()
        alt = re.search(r'<img [^>]*alt="([^"]+)"', page)
        assert alt and alt[1].strip(), name
        assert "<table>" in page and picture.table.rows, name
        assert len(page) < 100_000, f"{name} weighs {len(page)}"
        root = ET.fromstring(picture.svg)
        assert root.tag == f"{SVG}svg"
        assert "<script" not in picture.svg and "@font-face" not in picture.svg and "@import" not in picture.svg
        links = [v for e in root.iter() for k, v in e.attrib.items() if k.endswith("href")]
        assert all(link.startswith("#") for link in links), name
        inline = base64.b64decode(re.search(r"base64,([^\"]+)", page)[1]).decode()
        assert inline == picture.svg


def test_the_same_figure_gives_the_same_bytes():
    receipt = make_receipt()
    one, two = figures.stage_bars(receipt).svg, figures.stage_bars(receipt).svg
    assert one == two and "dc:date" not in one


def test_a_figure_without_alt_text_or_table_is_refused():
    table = Table([{"a": 1}])
    with pytest.raises(ValueError, match="alt text"):
        Picture("<svg/>", "  ", table)
    with pytest.raises(ValueError, match="table"):
        Picture("<svg/>", "words", None)


def test_the_alt_text_and_table_hold_every_price(pictures):
    receipt = make_receipt()
    picture = figures.stage_bars(receipt)
    for stage in receipt.stages:
        words = f"{catalogue.title(stage.stage)} {format_ns(stage.isolate)}"
        assert words in picture.alt
        assert format_ns(stage.isolate) in picture.table.text()
    assert f"context {format_ns(receipt.context_ns)}" in picture.alt and "same code twice" in picture.alt


@pytest.fixture
def axes_of(monkeypatch):
    """Draws a picture and returns the matplotlib axes it was drawn on."""
    kept = {}
    real = figures._canvas

    def canvas(*args, **kwargs):
        kept["figure"], axes = real(*args, **kwargs)
        return kept["figure"], axes

    monkeypatch.setattr(figures, "_canvas", canvas)

    def draw(picture: Picture):
        assert picture.svg.startswith("<svg")
        return kept["figure"].axes

    return draw


def test_bars_are_as_long_as_their_prices_and_carry_band_and_aa(axes_of):
    receipt = make_receipt(seed=RNG.randrange(10**6), noise=0.1)
    (axes,) = axes_of(figures.stage_bars(receipt))
    widths = [bar.get_width() for bar in axes.patches]
    error = receipt.aa_error * receipt.total_ns
    assert widths == pytest.approx([s.ns for s in receipt.stages] + [receipt.context_ns, error])
    bands = [sorted(line.get_xdata()) for line in axes.lines if len(set(line.get_xdata())) == 2]
    assert [list(s.isolate.band) for s in receipt.stages] == [pytest.approx(b) for b in bands]


def test_it_reads_without_colour(axes_of):
    receipt = make_receipt()
    (axes,) = axes_of(figures.stage_bars(receipt))
    hatch = {catalogue.group_of(s.stage): bar.get_hatch() for s, bar in zip(receipt.stages, axes.patches, strict=False)}
    assert len(set(hatch.values())) == len(hatch) == 5
    assert len({theme.GROUP_COLOURS[g] for g in hatch}) == 5
    two = axes_of(figures.curve({"hot": receipt.in_program, "cold": receipt.in_program}))[0]
    lines = [line for line in two.lines if line.get_label()[0] != "_"]
    assert len({line.get_marker() for line in lines}) == len({line.get_linestyle() for line in lines}) == 2


def test_live_and_recorded_have_axes_and_labels_of_their_own(axes_of):
    live, gpu = make_receipt(), make_receipt("cuda", source="recorded")
    for picture in (
        figures.stage_bars(live, gpu),
        figures.curve(live.in_program, gpu.in_program, source="live · here", recorded_source="recorded · NVIDIA H200"),
    ):
        one, two = axes_of(picture)
        assert "live" in one.get_title(loc="left") and "recorded · NVIDIA H200" in two.get_title(loc="left").replace("\n", " ")
        assert "recorded · NVIDIA H200" in picture.alt


def test_what_was_not_measured_says_so_in_picture_and_table():
    picture = figures.stage_bars(make_receipt(compiler=False), group="output")
    assert picture.alt.count("not measured here") == 3 and picture.svg.count("not measured here") == 3
    assert "no C++ compiler was found" in picture.table.text()
    with pytest.raises(ValueError, match="no stage in the group"):
        figures.stage_bars(make_receipt(), group="moon")


def test_a_log_axis_says_that_it_is_one_and_a_tie_is_no_difference(axes_of):
    (axes,) = axes_of(figures.compare(make_race(prices={"a": 10_000.0, "b": 40.0})))
    assert axes.get_xscale() == "log" and "logarithmic" in axes.get_xlabel()
    close = figures.compare(make_race(prices={"a": 1000.0, "b": 1000.5}), truth="a")
    (axes,) = axes_of(close)
    assert axes.get_xscale() == "linear" and axes.get_xlim()[0] <= 0 and "no difference seen" in close.alt


def test_the_guess_is_marked_once_it_is_given(axes_of):
    class Guess:
        number, unit = None, "ns"

    parts = {"kernel": 400.0}
    assert "your guess" not in figures.bar(parts, guess=Guess()).svg
    given = Guess()
    picture = figures.bar(parts, guess=given)
    assert "your guess" not in picture.svg
    given.number = RNG.uniform(100, 800)
    assert "your guess" in picture.svg
    (axes,) = axes_of(figures.bar(parts, guess=given))
    assert any(list(line.get_xdata()) == pytest.approx([given.number] * 2) for line in axes.lines)
    given.unit = "%"
    assert "your guess" not in figures.bar(parts, guess=given).svg


def test_the_strip_lights_the_named_groups_and_can_hide_the_prices(axes_of):
    receipt = make_receipt()
    picture = figures.price_strip(["output"], receipt)
    (axes,) = axes_of(picture)
    lit = [bar for bar in axes.patches if bar.get_hatch()]
    assert sum(b.get_width() for b in lit) == pytest.approx(
        sum(receipt.stage(s).ns for s in ("allocator", "output_tensor", "wrap_free"))
    )
    assert sum(b.get_width() for b in axes.patches) == pytest.approx(receipt.total_ns)
    assert "the result lit" in picture.alt and "live" in picture.caption
    hidden = figures.price_strip(["output"], receipt, to_scale=False)
    (axes,) = axes_of(hidden)
    assert len({round(b.get_width(), 9) for b in axes.patches}) == 1
    assert not re.search(r"\d ns|\d µs", hidden.alt + hidden.table.text() + hidden.caption)
    with pytest.raises(ValueError, match="no such group"):
        figures.price_strip(["moon"], receipt)


def test_the_strip_without_a_receipt_is_recorded_and_says_so(monkeypatch):
    from utils.model import recordings

    made = make_receipt(source="recorded")
    monkeypatch.setattr(recordings, "best", lambda device: recordings.Recording("cpu", made.date, made.where, {"cpu": made}))
    assert "recorded · AMD EPYC" in figures.price_strip(["kernel"]).caption
    monkeypatch.setattr(recordings, "best", lambda device: None)
    with pytest.raises(LookupError, match="make record"):
        figures.price_strip(["kernel"])


def test_impossible_figures_are_refused_in_words():
    with pytest.raises(ValueError, match="no ladder"):
        figures.ladder(make_receipt(ladder=()))
    with pytest.raises(ValueError, match="no points"):
        figures.curve([])
    with pytest.raises(ValueError, match="at least one span"):
        figures.timeline([], [])
