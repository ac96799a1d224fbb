"""Lessons as a reader meets them: `make lab`, a real browser, Run All, an answer typed, a slider moved twenty times."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable

import pytest

from tests.browser import lab
from tests.conftest import REPO, require
from tools import canonical
from tools.gates import copy_tree

FIRST, TRACE = "notebooks/00_start_here.ipynb", "notebooks/01_one_add.ipynb"
KEYS, QUEUE, RIDGES = "notebooks/02_dispatcher.ipynb", "notebooks/04_launch.ipynb", "notebooks/06_ridge_point.ipynb"
BATCHES = "notebooks/08_batch_and_scale.ipynb"
CEILINGS = "notebooks/07_two_ceilings.ipynb"
ROOF = "notebooks/10_reach_the_roof.ipynb"
CAPTURED = "notebooks/11_capture.ipynb"
MEMORY = "notebooks/12_memory_plan.ipynb"
BOARD = "notebooks/13_scoreboard.ipynb"
SELF_CHECK = "notebooks/14_self_check.ipynb"
WITH_FIGURE = {FIRST: 0, TRACE: 3}  # which of a lesson's predictions opens a figure
LAB = "labs/lab01_stopwatch/lab01_stopwatch.ipynb"


def command(root, port: int) -> list[str]:
    """`make lab` on a copy of the repository (a browser must not save over the committed lesson).

    Where the tests do not run in .venv, making it is not their business: then what `make lab` starts, in this environment.
    """
    if shutil.which("make") and sys.prefix == str(REPO / ".venv"):
        return ["make", "lab", f"PORT={port}", f"ARGS=--ServerApp.root_dir={root}"]
    return [sys.executable, "-m", "tools.lab", str(port), f"--ServerApp.root_dir={root}"]


@pytest.fixture(scope="module")
def jupyterlab(tmp_path_factory):
    """(the running server, the browser, the folder it serves)."""
    chromium = require("browser")
    root = copy_tree(tmp_path_factory.mktemp("lab") / "course")
    plain = {name: "" for name in os.environ if name.startswith(("MAKE", "MFLAGS", "DISPLAY", "WAYLAND"))}
    with lab.serve(command=command(root, lab.free_port()), env=plain) as server, lab.browse(chromium) as browser:
        yield server, browser, root


@pytest.fixture(scope="module", params=[FIRST, TRACE], ids=lambda path: path.split("/")[-1][:2])
def notebook(request, jupyterlab):
    server, browser, _ = jupyterlab
    with server.open(browser, request.param) as opened:
        opened.run_all()
        yield opened


def only(root, lesson: str, name: str, *ids: str, last: Callable[[str], str] = str) -> str:
    """Writes a notebook of the lesson's cells with these ids alone, and gives its name; `last` gives the last one's source from
    what it was."""
    cells = canonical.loads((root / lesson).read_text(encoding="utf-8"))
    cells.cells = [cell for cell in cells.cells if cell.id in ids]
    assert [cell.id for cell in cells.cells] == list(ids)
    cells.cells[-1].source = last(cells.cells[-1].source)
    (root / name).write_text(canonical.dumps(cells), encoding="utf-8")
    return name


def predictions(notebook):
    """The output areas that ask for a prediction, in the order of the lesson."""
    answer = notebook.page.get_by_role("button", name="Answer")
    return notebook.page.locator(f"{notebook.CODE} .jp-Cell-outputArea").filter(has=answer)


def test_run_all_shows_no_error_and_no_answer(notebook):
    assert notebook.problems() == []
    assert all(prompt.strip("[]: ").isdigit() for prompt in notebook.prompts())
    assert predictions(notebook).count() >= 1
    folds = notebook.page.locator(f"{notebook.CODE} .jp-Cell-outputArea details")
    assert folds.count() >= 1
    assert notebook.page.locator(f"{notebook.CODE} .jp-Cell-outputArea details[open]").count() == 0


def test_a_prediction_is_answered_by_keyboard_and_its_figure_opens(notebook, request):
    asked = predictions(notebook).nth(WITH_FIGURE[request.node.callspec.params["notebook"]])
    asked.scroll_into_view_if_needed()
    assert notebook.visible("details[open]", asked) == 0
    field = asked.locator("input[type=text]")
    if field.count():
        field.first.focus()
        notebook.page.keyboard.type("20")
        notebook.page.keyboard.press("Enter")
    else:
        boxes = asked.locator("input[type=checkbox]")
        boxes.first.focus()
        for _ in range(boxes.count() - 1):  # the last of them, by the keyboard alone
            notebook.page.keyboard.press("Tab")
        notebook.page.keyboard.press("Space")
        notebook.page.keyboard.press("Tab")
        notebook.page.keyboard.press("Enter")
    figure = asked.locator("details[open] img").first
    figure.wait_for(state="visible", timeout=20_000)
    assert figure.get_attribute("alt").strip()
    assert asked.locator("details[open] table").count() >= 1, "the figure has no table twin"
    assert "You said" in notebook.visible_text()
    assert notebook.problems() == []


@pytest.mark.parametrize("notebook", [FIRST], indirect=True, ids=["00"])
def test_twenty_moves_of_a_slider_leave_one_figure(notebook):
    handle = notebook.page.locator(f"{notebook.CODE} .jp-Cell-outputArea").get_by_role("slider").first
    area = notebook.page.locator(f"{notebook.CODE} .jp-Cell-outputArea").filter(has=notebook.page.get_by_role("slider")).first
    handle.scroll_into_view_if_needed()
    before = area.locator("img").first.get_attribute("alt")
    handle.focus()
    for _ in range(20):
        notebook.page.keyboard.press("ArrowRight")
    notebook.page.wait_for_function(
        "([area, before]) => area.querySelector('img') && area.querySelector('img').alt !== before",
        arg=[area.element_handle(), before],
        timeout=20_000,
    )
    notebook.wait_done()
    assert area.locator("img").count() == 1
    assert notebook.problems() == []


def test_the_steps_to_the_first_key_redraw_one_figure(jupyterlab):
    """Lesson 02's explorer: the slider by keyboard, then each list; one figure stays, and it says what was chosen."""
    server, browser, root = jupyterlab
    name = only(root, KEYS, "notebooks/steps.ipynb", "setup", "imports", "explore", last='device = "cpu"\n'.__add__)
    with server.open(browser, name) as opened:
        opened.run_all()
        area = opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea").filter(has=opened.page.get_by_role("slider")).first
        handle = area.get_by_role("slider").first
        handle.scroll_into_view_if_needed()
        handle.focus()
        for words in ("includes", "excludes", "falls through"):
            opened.page.keyboard.press("ArrowRight")
            area.locator(f"img[alt*='{words}']").wait_for(timeout=20_000)
            assert area.locator("img").count() == 1
        for at, chosen in enumerate(("x @ w", "inference_mode", "made in inference_mode")):
            area.locator("select").nth(at).select_option(label=chosen)
            area.locator(f"img[alt*='{chosen}']").wait_for(timeout=20_000)
            assert area.locator("img").count() == 1
        opened.wait_done()
        assert opened.problems() == []


def test_the_simulated_queues_sliders_redraw_one_labelled_figure(jupyterlab):
    """Lesson 04's sliders, by keyboard: each of the five changes the one figure, which says that it is simulated.

    Of the lesson's cells only those that the sliders need: they measure nothing, and the others would take half a minute.
    """
    server, browser, root = jupyterlab
    name = only(root, QUEUE, "notebooks/sliders.ipynb", "setup", "imports", "explorer")
    with server.open(browser, name) as opened:
        opened.run_all()
        area = opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea").filter(has=opened.page.get_by_role("slider")).first
        handles = area.get_by_role("slider")
        assert handles.count() == 5
        handles.first.scroll_into_view_if_needed()
        # a kernel longer than its launch comes first: without one, gap and places show nothing
        for at, key, times in ((1, "ArrowRight", 20), (2, "End", 1), (3, "Home", 1), (4, "End", 1), (0, "End", 1)):
            before = area.locator("img").first.get_attribute("alt")
            handles.nth(at).focus()
            for _ in range(times):
                opened.page.keyboard.press(key)
            opened.page.wait_for_function(
                "([area, before]) => area.querySelector('img') && area.querySelector('img').alt !== before",
                arg=[area.element_handle(), before],
                timeout=20_000,
            )
            opened.wait_done()
            assert area.locator("img").count() == 1 and area.locator("table").count() == 1
            assert "simulated queue" in area.locator("img").first.get_attribute("alt")
        assert opened.problems() == []


def test_the_rooflines_controls_redraw_one_figure(jupyterlab):
    """Lesson 06's controls: the slider by keyboard, then each list; one figure stays, with one table, and says what was chosen.

    Of the lesson's cells only those that they need, over datasheets alone: measuring the machine would take half a minute.
    """
    server, browser, root = jupyterlab

    def without_own(source: str) -> str:
        return source.replace("lesson06.own_line(peaks)", "")

    name = only(root, RIDGES, "notebooks/rooflines.ipynb", "setup", "imports", "explorer", last=without_own)
    with server.open(browser, name) as opened:
        opened.run_all()
        area = opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea").filter(has=opened.page.get_by_role("slider")).first
        handle = area.get_by_role("slider").first
        handle.scroll_into_view_if_needed()
        handle.focus()
        opened.page.keyboard.press("Home")
        area.locator("img[alt*='1,024 elements']").wait_for(timeout=20_000)
        for at, chosen in enumerate(("fp16", "gelu(x)", "NVIDIA L40S")):
            area.locator("select").nth(at).select_option(label=chosen)
            area.locator(f"img[alt*='{chosen}']").wait_for(timeout=20_000)
            assert area.locator("img").count() == 1 and area.locator("table").count() == 1
        opened.wait_done()
        assert opened.problems() == []


def test_the_panels_over_blocks_and_prices_redraw_one_figure_each(jupyterlab):
    """Lesson 08's two panels: blocks by keyboard and a device; then two devices, a price and a batch by keyboard.

    Of the lesson's cells only those that they need; the prices go over datasheets, with made-up work in place of the counted one.
    """
    server, browser, root = jupyterlab
    last = (
        "from utils.show import worth_explorer\n"
        "known = worth_explorer.speeds([], lambda batch: (2e8 * batch, 14e6 + 2e5 * batch), ops=60, host_us=8.0)\n"
        "worth_explorer.explorer(known)"
    )
    name = only(root, BATCHES, "notebooks/panels.ipynb", "setup", "imports", "waves", "prices", last=lambda source: last)
    with server.open(browser, name) as opened:
        opened.run_all()
        areas = opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea").filter(has=opened.page.get_by_role("slider"))
        blocks, prices = areas.nth(0), areas.nth(1)
        blocks.get_by_role("slider").first.scroll_into_view_if_needed()
        blocks.get_by_role("slider").first.focus()
        opened.page.keyboard.press("Home")
        blocks.locator("img[alt*='1 blocks on the 132 SMs']").wait_for(timeout=20_000)
        blocks.locator("select").select_option(label="Tesla T4")
        blocks.locator("img[alt*='1 blocks on the 40 SMs of Tesla T4']").wait_for(timeout=20_000)
        assert blocks.locator("img").count() == 1
        prices.locator("select").nth(0).scroll_into_view_if_needed()
        prices.locator("select").nth(0).select_option(label="Tesla T4")
        prices.locator("img[alt*='Tesla T4 gives more']").wait_for(timeout=20_000)
        prices.get_by_role("slider").nth(2).focus()
        opened.page.keyboard.press("End")
        prices.locator("img[alt*='NVIDIA H100 SXM gives more']").wait_for(timeout=20_000)
        prices.get_by_role("slider").nth(1).focus()
        opened.page.keyboard.press("End")
        prices.locator("img[alt*='At batch 1,024'][alt*='20 an hour']").wait_for(timeout=20_000)
        assert prices.locator("img").count() == 1
        opened.wait_done()
        assert opened.problems() == []


def test_the_arena_and_the_sliders_over_recompute_redraw_one_figure_each(jupyterlab):
    """Lesson 12's panels: a planner and a moment of an arena whose buffers are made up; layers between two stored inputs."""
    server, browser, root = jupyterlab
    lesson = canonical.loads((root / MEMORY).read_text(encoding="utf-8"))
    lesson.cells = [cell for cell in lesson.cells if cell.id in ("setup", "imports", "explore", "trade")]
    assert len(lesson.cells) == 4
    lesson.cells[2].source = (
        "from utils.model import memory_plan\n"
        "from utils.show import arena_explorer\n"
        "made = [memory_plan.Buffer(n, 4 << 20, n, n + 3) for n in range(6)]\n"
        "plans = {name: plan(made) for name, plan in memory_plan.PLANNERS.items()}\n"
        "plans = {name: {'offsets': [p.offsets[n] for n in range(6)], 'size': p.size} for name, p in plans.items()}\n"
        "buffers = [[b.size, b.start, b.end] for b in made]\n"
        "arena_explorer.explorer({'a chain': {'buffers': buffers, 'ops': ['add'] * 6, 'plans': plans}}, 'made up')"
    )
    name = "notebooks/arenas.ipynb"
    (root / name).write_text(canonical.dumps(lesson), encoding="utf-8")
    with server.open(browser, name) as opened:
        opened.run_all()
        areas = opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea").filter(has=opened.page.get_by_role("slider"))
        arena, trade = areas.nth(0), areas.nth(1)
        arena.locator("select").nth(1).scroll_into_view_if_needed()
        arena.locator("select").nth(1).select_option(label="by size")
        arena.locator("img[alt*='by size']").wait_for(timeout=20_000)
        arena.get_by_role("slider").first.focus()
        opened.page.keyboard.press("ArrowRight")
        arena.get_by_text("At moment 1: 2 of 6 buffers").first.wait_for(timeout=20_000)
        assert arena.locator("img").count() == 1
        trade.get_by_role("slider").nth(1).scroll_into_view_if_needed()
        trade.get_by_role("slider").nth(1).focus()
        opened.page.keyboard.press("ArrowRight")
        trade.locator("img[alt*='One input stored in 2']").wait_for(timeout=20_000)
        trade.get_by_role("slider").nth(0).focus()
        opened.page.keyboard.press("End")
        trade.locator("img[alt*='96 layers']").wait_for(timeout=20_000)
        assert trade.locator("img").count() == 1
        opened.wait_done()
        assert opened.problems() == []


def test_the_panel_of_cures_turns_its_verdict_and_shows_one_figure(jupyterlab):
    """Lesson 13's panel over its made-up program: a larger batch and read-outs, by keyboard."""
    server, browser, root = jupyterlab
    alone = "from utils.show import cure_explorer\npanel = cure_explorer.explorer()\npanel"
    name = only(root, BOARD, "notebooks/cures.ipynb", "setup", "imports", "cures", last=lambda source: alone)
    with server.open(browser, name) as opened:
        opened.run_all()
        area = opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea").filter(has=opened.page.get_by_role("slider")).first
        area.locator("img[alt*='batch × 1: launch bound']").wait_for(timeout=20_000)
        handles = area.get_by_role("slider")
        assert handles.count() == 3
        handles.first.scroll_into_view_if_needed()
        moves = (
            (0, "ArrowRight", "batch × 2: launch bound"),
            (2, "End", "synchronising"),
            (2, "Home", "batch × 2: launch bound"),
        )
        for at, key, words in (*moves, (0, "End", "batch × 1,024")):
            handles.nth(at).focus()
            opened.page.keyboard.press(key)
            area.locator(f"img[alt*='{words}']").wait_for(timeout=20_000)
            assert area.locator("img").count() == 1 and area.locator("table").count() == 1
        opened.wait_done()
        assert opened.problems() == []


def test_the_cost_profilers_controls_redraw_one_figure_and_one_click_seeds_them(jupyterlab):
    """Lesson 07's profiler: a slider by keyboard, each switch, and one click on a recorded machine, which moves three sliders.

    Of the lesson's cells only those that it needs: measuring this machine's prices would take half a minute.
    """
    server, browser, root = jupyterlab
    alone = "from utils.show import cost_profiler, price_seeds\nsliders = cost_profiler.profiler(price_seeds.seeds())\nsliders"
    name = only(root, CEILINGS, "notebooks/profiler.ipynb", "setup", "imports", "profiler", last=lambda source: alone)
    with server.open(browser, name) as opened:
        opened.run_all()
        area = opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea").filter(has=opened.page.get_by_role("slider")).first
        area.locator("img[alt*='Launch bar 50.0 for 5 launches, memory bar 107']").wait_for(timeout=20_000)
        handles = area.get_by_role("slider")
        assert handles.count() == 5
        handles.first.scroll_into_view_if_needed()
        for at, key, words in ((0, "End", "on 256,000,000 elements"), (1, "End", "64 elementwise ops")):
            handles.nth(at).focus()
            opened.page.keyboard.press(key)
            area.locator(f"img[alt*='{words}']").wait_for(timeout=20_000)
            assert area.locator("img").count() == 1 and area.locator("table").count() == 1
        for at, words in enumerate(("256,000 elements", "captured", "captured and fused")):
            area.locator("input[type=checkbox]").nth(at).click()
            area.locator(f"img[alt*='{words}']").wait_for(timeout=20_000)
            assert area.locator("img").count() == 1
        machines = area.locator("input[type=radio]")
        assert machines.count() >= 2, "a recorded machine to choose"
        before = handles.nth(4).get_attribute("aria-valuenow")
        machines.nth(1).click()
        area.locator("img[alt*='recorded']").wait_for(timeout=20_000)
        opened.wait_done()
        assert handles.nth(4).get_attribute("aria-valuenow") != before, "the click moves the sliders, too"
        assert area.locator("img").count() == 1 and "set by hand" not in area.locator("img").first.get_attribute("alt")
        assert opened.problems() == []


def test_the_self_check_is_taken_by_the_tab_key_alone(jupyterlab):
    """Lesson 14: a topic chosen, begun and answered by Tab, Space, Enter and arrows; free recall as well; the proof opens.

    Of the lesson's cells only those that it needs. The second topic's first question is a choice.
    """
    server, browser, root = jupyterlab
    lesson = canonical.loads((root / SELF_CHECK).read_text(encoding="utf-8"))
    lesson.cells = [cell for cell in lesson.cells if cell.id in ("setup", "imports", "free", "topics")]
    assert len(lesson.cells) == 4
    # A home of its own for each try: what the first try answered is not asked first in a second one.
    lesson.cells[0].source = f'import os, tempfile\n\nos.environ["ONE_ADD_HOME"] = tempfile.mkdtemp()\n{lesson.cells[0].source}'
    name = "notebooks/self_check_alone.ipynb"
    (root / name).write_text(canonical.dumps(lesson), encoding="utf-8")
    with server.open(browser, name) as opened:
        opened.run_all()
        page, areas = opened.page, opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea")

        def press(*keys: str) -> None:
            for key in keys:
                page.keyboard.press(key)

        def focused() -> str:
            return page.evaluate("() => document.activeElement.innerText || document.activeElement.type || ''")

        def until(words: str) -> None:
            page.wait_for_function("words => document.activeElement.innerText === words", arg=words, timeout=20_000)

        practice = areas.filter(has=page.get_by_role("button", name="Start"))
        area = practice.element_handle()
        practice.locator("input[type=checkbox]").first.focus()
        press("Tab", "Space", *["Tab"] * 7)  # the second of eight topics, then on to the button
        assert focused() == "Start"
        press("Enter")
        page.wait_for_function("area => area.innerText.includes('Question 1 of 10')", arg=area, timeout=20_000)
        assert "Right:" not in opened.visible_text(), "a key before the answer"
        until("Leave out")  # the button keeps the focus
        press("Tab", "Tab", "Space")  # the second answer
        ready = "area => [...area.querySelectorAll('button')].some(b => b.innerText === 'Check' && !b.disabled)"
        page.wait_for_function(ready, arg=area, timeout=20_000)
        for _ in range(6):
            if focused() == "checkbox":
                press("Tab")
        assert focused() == "Check"
        press("Enter")
        page.wait_for_function("area => area.querySelector('a[href*=cell-id]')", arg=area, timeout=20_000)
        assert re.search("✔|✘", area.inner_text())
        press("Tab")
        assert "lesson 0" in focused(), "the proof is reached by the Tab key"
        page.wait_for_function("area => area.innerText.includes('Next question')", arg=area, timeout=20_000)
        for _ in range(8):
            if focused() != "Next question":
                press("Shift+Tab")
        press("Enter")
        page.wait_for_function("area => area.innerText.includes('Question 2 of 10')", arg=area, timeout=20_000)
        assert area.query_selector("a[href*=cell-id]") is None

        aloud = areas.filter(has=page.locator("textarea")).first
        aloud.locator("textarea").focus()
        page.keyboard.type("slot, parser, dispatcher")
        press("Tab")
        assert focused() == "Show the key points"
        press("Enter")
        aloud.locator("input[type=checkbox]").first.wait_for(timeout=20_000)
        ticks = aloud.locator("input[type=checkbox]").count()
        press("Tab", "Space", *["Tab"] * ticks)
        assert focused() == "Done"
        press("Enter")
        aloud.get_by_text(f"1 of {ticks} key points").wait_for(timeout=20_000)
        assert aloud.locator("details").count() == 2
        opened.wait_done()
        aloud.locator("a[href*='cell-id']").click()
        page.locator(".lm-TabBar-tabLabel", has_text="01_one_add.ipynb").wait_for(timeout=20_000)
        assert opened.problems() == []


def test_the_two_floors_sliders_redraw_one_figure(jupyterlab):
    """Lesson 10's sliders, by keyboard; of its cells only those that they need: the others would take half a minute."""
    server, browser, root = jupyterlab
    name = only(root, ROOF, "notebooks/floors.ipynb", "setup", "imports", "floors")
    with server.open(browser, name) as opened:
        opened.run_all()
        area = opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea").filter(has=opened.page.get_by_role("slider")).first
        area.locator("img[alt*='The longer floor: bytes']").wait_for(timeout=20_000)
        handles = area.get_by_role("slider")
        assert handles.count() == 4
        handles.first.scroll_into_view_if_needed()
        moves = (
            (0, "End", "instructions 200"),
            (1, "End", "bytes 24"),
            (2, "Home", "The GPU: 200 GB/s"),
            (3, "Home", "issue 2 ×"),
        )
        for at, key, words in moves:
            handles.nth(at).focus()
            opened.page.keyboard.press(key)
            area.locator(f"img[alt*='{words}']").wait_for(timeout=20_000)
            assert area.locator("img").count() == 1 and area.locator("table").count() == 1
        assert "The longer floor: bytes" in area.locator("img").first.get_attribute("alt")
        opened.wait_done()
        assert opened.problems() == []


def test_the_controls_over_payback_redraw_one_figure(jupyterlab):
    """Lesson 11's panel: a cure by a click, each slider by keyboard; its cures are made here, since measuring takes seconds."""
    server, browser, root = jupyterlab
    lesson = canonical.loads((root / CAPTURED).read_text(encoding="utf-8"))
    lesson.cells = [cell for cell in lesson.cells if cell.id in ("setup", "imports", "payback")]
    assert len(lesson.cells) == 3
    lesson.cells[-1].source = (
        "from utils.show import payback_explorer\n"
        'cure = payback_explorer.Cure("captured, here", 0.002, 90e3, 5e3, "live")\n'
        "panel = payback_explorer.explorer([cure])\npanel"
    )
    name = "notebooks/payback.ipynb"
    (root / name).write_text(canonical.dumps(lesson), encoding="utf-8")
    with server.open(browser, name) as opened:
        opened.run_all()
        area = opened.page.locator(f"{opened.CODE} .jp-Cell-outputArea").filter(has=opened.page.get_by_role("slider")).first
        area.locator("img[alt*='It has paid after 33,000 steps']").wait_for(timeout=20_000)
        handles = area.get_by_role("slider")
        assert handles.count() == 3
        handles.first.scroll_into_view_if_needed()
        area.locator("input[type=radio]").nth(1).click()
        area.locator("img[alt*='paid for 1 shape; copies a step, in µs: 0. It has paid after 24 steps']").wait_for(timeout=20_000)
        moves = ((0, "End", "paid for 64 shapes"), (1, "End", "It never pays"), (2, "Home", "1 step takes"))
        for at, key, words in moves:
            handles.nth(at).focus()
            opened.page.keyboard.press(key)
            area.locator(f"img[alt*='{words}']").wait_for(timeout=20_000)
            assert area.locator("img").count() == 1 and area.locator("table").count() == 1
        opened.wait_done()
        assert opened.problems() == []


def test_a_solved_lab_counts_its_points_and_names_its_file(jupyterlab):
    """The student edition with the solution's answers in it, under the name that a learner gave it, among other notebooks."""
    server, browser, root = jupyterlab
    name = "my lab 1.ipynb"
    shutil.copy(root / LAB.replace("labs/", "solutions/"), root / LAB.replace("lab01_stopwatch.ipynb", name))
    with server.open(browser, LAB.replace("lab01_stopwatch.ipynb", name)) as opened:
        opened.run_all()
        text = opened.visible_text()
        assert opened.problems() == []
    assert name in text and re.search(r"\b27 of 27\b", text), text[-2000:]
