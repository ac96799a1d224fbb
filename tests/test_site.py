"""The static site, built once and read by a browser that is offline: links, contrast, alt texts, twins, headings, keyboard."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.browser import lab, look
from tests.conftest import REPO, require
from tools.site import layout, machines, tidy
from utils.address import Address

# Building must not need a network: any connection to another machine is an error.
OFFLINE = """
import socket, sys
def refused(*a, **k):
    raise OSError("the site asked for the network")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refused
from tools.site.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    out, home = folder / "site", folder / "home"
    home.mkdir()
    (home / "results.json").write_text("{")
    ran = subprocess.run(
        [sys.executable, "-c", OFFLINE, "--out", str(out)], cwd=REPO, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return out


@pytest.fixture(scope="module")
def texts(site) -> dict[str, str]:
    """The HTML of every page by its path in the site."""
    return {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}


@pytest.fixture(scope="module")
def read(site, texts) -> dict[str, look.Found]:
    """What one browser found on each page."""
    with lab.browse(require("browser")) as browser, look.reader(browser) as page:
        return {name: look.look(page, (site / name).as_uri()) for name in texts}


# ------------------------------------------------------------------------------------------------ without a browser


def test_every_lesson_and_lab_and_each_other_page_is_there(texts):
    wanted = {one.page for one in layout.notebooks()} | set(layout.FILES.values())
    assert wanted | {layout.NUMBERS, layout.SELF_CHECK} == set(texts)
    assert len([one for one in layout.notebooks() if one.lesson]) == len(list((REPO / "notebooks").glob("*.ipynb")))
    labs = [texts[one.page] for one in layout.notebooks() if not one.lesson]
    assert labs and not any("BEGIN SOLUTION" in text or "HIDDEN TESTS" in text for text in labs), "the student's edition"


def test_every_link_leads_somewhere(site, texts):
    ids = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in texts.items()}
    dead = []
    for name, text in texts.items():
        for target in map(html.unescape, re.findall(r'<(?:a|link|script|img)\b[^>]*?\b(?:href|src)="([^"]*)"', text)):
            if target.startswith(("data:", "https://", "mailto:")):
                continue
            path, _, fragment = target.partition("#")
            file = (site / name).parent / unquote(path) if path else site / name
            page = file.resolve().relative_to(site.resolve()).as_posix()
            if not file.is_file() or (fragment and unquote(fragment) not in ids.get(page, ())):
                dead.append(f"{name}: {target}")
    assert dead == []


def test_nothing_is_fetched_from_elsewhere_and_nothing_of_jupyters_own_is_in(texts):
    for name, text in texts.items():
        assert not re.search(r'<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href|srcset)="(?:https?:)?//', text), name
        assert "require.js" not in text and "mathjax" not in text.lower() and "<style" not in text, name
        assert text.count('<link rel="stylesheet"') == 1 and text.count("<script") == 1, name


def test_a_lesson_shows_the_h200_beside_the_cpu_or_says_that_nobody_measured_it(texts):
    from utils.model import studies

    for one in layout.notebooks():
        if not one.lesson:
            continue
        panel = texts[one.page].split('id="cpu-and-h200"')[1]
        recorded = studies.best(one.study, "cuda")
        if recorded is not None:
            assert html.escape(recorded.label()) in panel, one.page
            assert "Timed: " in panel, one.page
        elif studies.best(one.study, "cpu") is not None:
            assert "H200: not measured." in panel and f"--study {one.study}" in panel, one.page


def test_the_page_of_machines_has_every_recording_and_asks_for_the_first_t4(texts):
    page = texts[layout.MACHINES]
    stems = {path.stem for path in (REPO / "utils/recordings").glob("*.json")}
    assert stems and all(f'id="{stem}"' in page and f"{stem}.json" in page for stem in stems)
    assert ("Wanted: the first T4" in page) is not any(stem.startswith("t4-") for stem in stems)
    assert "Wanted" not in "".join(machines.wanted({*stems, "t4-torch2.11"}))


def test_the_builders_own_results_are_not_read(site, texts):
    """A results file that is damaged would be set aside by whoever reads it."""
    home = site.parent / "home"
    assert [path.name for path in home.iterdir()] == ["results.json"] and (home / "results.json").read_text() == "{"
    assert "<th" in texts[layout.NUMBERS] and ">yours<" not in texts[layout.NUMBERS]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    from tools.site import build

    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(build.NotEmpty):
        build.build(tmp_path)
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_what_renders_it_is_pinned_and_is_what_runs():
    import tomllib

    import nbconvert

    extras = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["site"] == [f"nbconvert=={nbconvert.__version__}"]


def test_links_are_led_to_pages_terms_and_plain_words():
    link = layout.link
    assert link("../utils/data/glossary.yml", "notebooks/04_launch.ipynb", "lessons/04_launch.html", "Queue") == (
        "../glossary.html#term-queue"
    )
    assert link("../README.md#labs", "notebooks/x.ipynb", "lessons/x.html") == "../index.html#labs"
    assert link("utils/paths.py", "README.md", "index.html", published=Address()) is None
    published = Address("someone/course", "v1")
    assert link("utils/paths.py", "README.md", "index.html", published=published) == published.page("utils/paths.py")
    assert link("#here", "README.md", "index.html") == "#here"
    assert link("https://example.org/x", "README.md", "index.html") == "https://example.org/x"


def test_a_badge_becomes_its_words_and_a_second_title_is_a_heading():
    soup = tidy.tidy(
        '<h1>A</h1><h2>b</h2><h1>Part</h1><h2>c</h2><a href="https://x.org"><img alt="Open" src="https://x.org/b.svg"></a>'
        '<a href="utils/paths.py">paths</a><table><tr><th>x</th></tr></table>',
        "README.md",
        "index.html",
    )
    assert [(h.name, h["id"]) for h in soup.find_all(tidy.HEADINGS)] == [("h1", "a"), ("h2", "b"), ("h2", "part"), ("h2", "c")]
    assert soup.img is None and soup.find("a", href="https://x.org").get_text() == "Open"
    assert soup.find("a", href="utils/paths.py") is None and soup.table.find_parent(class_="scroll") is not None


# ------------------------------------------------------------------------------------------------ in a browser


def test_no_page_complains_or_leaves_the_machine(read):
    assert {name: found.console for name, found in read.items() if found.console} == {}
    assert {name: found.outside for name, found in read.items() if found.outside} == {}


@pytest.mark.parametrize("tone", ["light", "dark"])
def test_every_text_can_be_read_on_what_it_stands_on(read, tone):
    assert {name: found.contrast[tone][:5] for name, found in read.items() if found.contrast[tone]} == {}
    assert sum(found.texts for found in read.values()) > 10_000


def test_every_image_has_alt_text_and_a_text_twin(read):
    assert {name: found.structure["mute"] for name, found in read.items() if found.structure["mute"]} == {}
    assert {name: found.structure["alone"] for name, found in read.items() if found.structure["alone"]} == {}
    assert sum(found.structure["images"] for found in read.values()) > 100


def test_headings_are_in_order_and_ids_are_used_once(read):
    assert {name: found.headings for name, found in read.items() if found.headings} == {}
    assert {name: found.structure["twice"] for name, found in read.items() if found.structure["twice"]} == {}
    assert all(found.structure["language"] == "en" and found.structure["title"] for found in read.values())
    assert {name: n for name, found in read.items() if (n := found.structure["unlabelled"])} == {}


def test_no_page_is_wider_than_a_phone(read):
    assert {name: found.wide for name, found in read.items() if found.wide > 0} == {}


def test_the_keyboard_reaches_the_text_a_fold_and_the_tone(site):
    with lab.browse(require("browser")) as browser, look.reader(browser) as page:
        page.emulate_media(color_scheme="light")
        page.goto((site / "lessons/04_launch.html").as_uri())
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null"), "the skip link leads behind the menu"
        fold = page.locator("main details").first
        fold.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert fold.evaluate("fold => fold.open")
        page.set_viewport_size(look.PHONE)
        wide = "[...document.querySelectorAll('.scroll')].filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)"
        page.wait_for_function(f"{wide}.length > 0 && {wide}.every(e => e.tabIndex === 0 && e.getAttribute('aria-label'))")
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#tone").focus()
        page.keyboard.press("Space")
        after = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.goto((site / "index.html").as_uri())
        assert before != after == page.evaluate("getComputedStyle(document.body).backgroundColor"), "the tone is kept"
        assert page.locator("img.in-dark").is_visible() and not page.locator("img.in-light").is_visible()


def test_a_bad_page_is_seen_to_be_bad(tmp_path):
    """Each of the looks above, on a page with its fault."""
    (tmp_path / "bad.html").write_text(
        "<!doctype html><html lang=en><title>x</title><h1>x</h1><h3>skipped</h3><p style='color:#999;background:#fff'>pale</p>"
        "<div style='opacity:.3'><p>faint</p></div>"
        "<details><summary>fold</summary><p style='color:#222;background:#111'>in a fold</p></details>"
        "<div class=output><img src='data:,' ></div><i id=a></i><i id=a></i><div style='width:900px'>wide</div>"
        "<script src='https://example.invalid/x.js'></script><script>nothing.there()</script>",
        encoding="utf-8",
    )
    with lab.browse(require("browser")) as browser, look.reader(browser) as page:
        found = look.look(page, (tmp_path / "bad.html").as_uri())
    assert [line.split(": ")[1] for line in found.contrast["light"]] == ["P pale", "P faint", "P in a fold"]
    assert found.structure["mute"] == 1 and found.structure["alone"] == [""] and found.structure["twice"] == ["a"]
    assert found.headings == ["h1 → h3"] and found.wide > 400
    assert found.outside == ["https://example.invalid/x.js"] and any("nothing" in line for line in found.console)
