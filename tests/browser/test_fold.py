"""Predictions, folds and panels in a real JupyterLab: nothing shows before an answer, and one figure stays however much moves."""

from __future__ import annotations

import nbformat
import pytest

from tests.browser import lab
from tests.conftest import require
from tools import canonical
from tools.execute import execute

SECRET = "4711.25"  # the measured number: on no page before an answer, and (with its point) in no hexadecimal id

CELLS = [
    """from utils.show.predict import predict, fold, review
from utils.show import figures
from utils.show.controls import panel, slider
from utils.show.explain import Sentence
from utils.show.tables import Table

secret = 4700 + 11.25""",
    'guess = predict("browser.number", "Which share is it?", unit="%", low=0, high=100)\nguess',
    """fold(
    guess,
    Table([{"part": "kernel", "price": f"{secret} ns"}], caption=f"prices of {secret}"),
    figures.bar({"kernel": float(secret), "rest": 9000.0}, title=f"kernel {secret}"),
    Sentence(f"It took {secret} ns.", guess=guess),
)""",
    'choice = predict("browser.choice", "What is dearest?", options=[(None, "the tensor"), (None, "the addition")])\nchoice',
    'fold(choice, f"The dearest: {secret}.", right="the tensor")',
    'review([(guess, f"{secret} ns", "because"), (choice, f"{secret}", "so")])',
    """def draw(n):
    return figures.bar({"chosen": float(n), "fixed": 50.0}, title=f"n = {n}")

panel(draw, n=slider(1, 100, 10, label="ops"))""",
    'print("✔ browser.fold: holds")',
]


def write(path, prefix: str = "browser"):
    """The notebook of CELLS at `path`; `prefix` keeps the predictions of two notebooks of one home apart."""
    nb = nbformat.v4.new_notebook()
    nb.metadata.kernelspec = canonical.KERNELSPEC
    nb.cells = [nbformat.v4.new_code_cell(source.replace('predict("browser.', f'predict("{prefix}.')) for source in CELLS]
    nbformat.write(nb, path)
    return nb


@pytest.fixture(scope="module")
def chromium():
    with lab.browse(require("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def server(folder):
    with lab.serve(folder) as running:
        yield running


@pytest.fixture()
def notebook(chromium, server, folder, request):
    name = request.node.name
    write(folder / f"{name}.ipynb", prefix=name)
    with server.open(chromium, f"{name}.ipynb") as opened:
        opened.run_all()
        yield opened


@pytest.fixture(scope="module")
def committed(folder):
    """The notebook as it would be committed: run on a fresh kernel without anybody to answer, widget views stripped."""
    nb = write(folder / "committed.ipynb", prefix="committed")
    out = canonical.canonical(execute(nb, folder, env=lab.own_environment(folder / "own")))
    nbformat.write(out, folder / "committed.ipynb")
    return out


def test_a_reader_answers_by_keyboard_and_moves_a_slider(notebook):
    page = notebook.page
    assert notebook.problems() == []
    assert all(prompt.strip("[]: ").isdigit() for prompt in notebook.prompts())

    # After Run All: everything computed, nothing given away.
    assert SECRET not in notebook.visible_text()
    for words in ("✔ browser.fold: holds", "Which share is it?", "What was measured"):
        assert words in notebook.visible_text()
    assert notebook.visible("img", notebook.outputs(1)) == notebook.visible("img", notebook.outputs(2)) == 0
    assert notebook.outputs(2).locator("details img").count() == 1
    assert SECRET not in notebook.outputs(1).inner_html()

    # A wrong input is refused in words and loses nothing.
    field = notebook.outputs(1).locator("input[type=text]")
    field.focus()
    page.keyboard.type("eighty")
    page.keyboard.press("Enter")
    notebook.outputs(1).get_by_text("is not a number").wait_for()
    assert field.input_value() == "eighty"
    assert SECRET not in notebook.visible_text()

    # The answer by keyboard opens the copy above; the fold below stays closed; a second answer changes nothing.
    page.keyboard.press("Control+a")
    page.keyboard.type("80 %")
    page.keyboard.press("Enter")
    copy = notebook.outputs(1).locator("details[open] img")
    copy.wait_for(state="visible")
    assert copy.get_attribute("alt").strip()
    assert notebook.visible("table", notebook.outputs(1)) >= 1
    assert "You said 80 %." in notebook.visible_text()
    assert SECRET in notebook.visible_text()
    assert notebook.visible("img", notebook.outputs(2)) == 0
    field.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    notebook.outputs(1).get_by_text("Your first answer stays your prediction: 80 %").wait_for()

    # The choice: its boxes by keyboard, the second by Tab and Space, which leaves one ticked; then Tab to Answer and Enter.
    boxes = notebook.outputs(3).locator("input[type=checkbox]")
    assert boxes.evaluate_all("all => all.filter(one => one.checked).length") == 0
    boxes.nth(1).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    notebook.page.wait_for_function(
        "boxes => boxes.filter(one => one.checked).length == 1 && boxes[0].checked", arg=boxes.element_handles()
    )
    notebook.outputs(3).get_by_role("button", name="Answer").focus()
    page.keyboard.press("Enter")
    notebook.outputs(3).get_by_text("That is what was measured here.").wait_for()

    # Twenty moves of the slider leave one figure, the last.
    handle = notebook.outputs(6).get_by_role("slider")
    handle.focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    notebook.outputs(6).locator("img[alt*='chosen 30.0']").wait_for(state="visible")
    assert notebook.outputs(6).locator("img").count() == 1

    # The cells can be run again: the answer is still there, and nothing is broken.
    notebook.run_all()
    assert notebook.problems() == []
    assert "You said 80 %." in notebook.visible_text()


def test_a_click_right_after_typing_takes_all_that_was_typed(notebook):
    notebook.outputs(1).locator("input[type=text]").focus()
    notebook.page.keyboard.type("67.25")
    notebook.outputs(1).get_by_role("button", name="Answer").click()
    notebook.outputs(1).get_by_text("Kept. You said 67.25 %.").wait_for()


def test_skip_opens_the_copy_without_a_prediction(notebook):
    notebook.outputs(1).get_by_role("button", name="Skip").focus()
    notebook.page.keyboard.press("Enter")
    notebook.outputs(1).locator("details[open] img").wait_for(state="visible")
    assert "You said" not in notebook.visible_text()
    assert notebook.problems() == []


def test_the_committed_form_stays_folded_where_nothing_is_trusted(chromium, server, committed):
    assert not [o for c in committed.cells for o in c.outputs if canonical.WIDGET_VIEW in o.get("data", {})]
    with server.open(chromium, "committed.ipynb") as notebook:
        assert notebook.problems() == []
        assert SECRET not in notebook.visible_text()
        assert "Answer by running this cell" in notebook.outputs(1).inner_text()
        fold = notebook.outputs(2).locator("details").first
        fold.locator("summary").first.click()
        picture = fold.locator("img")
        picture.wait_for(state="visible")
        assert picture.evaluate("one => one.naturalWidth") > 100
        assert SECRET in picture.get_attribute("alt")
        assert fold.locator("th[scope=col]").count() >= 2
        assert notebook.visible("img", notebook.outputs(6)) == 1


def test_exported_html_stays_folded(chromium, folder, committed):
    from nbconvert import HTMLExporter

    body, _ = HTMLExporter(exclude_input=True, mathjax_url="", require_js_url="").from_notebook_node(committed)
    (folder / "committed.html").write_text(body, encoding="utf-8")
    page = chromium.new_page()
    page.route("http*://**", lambda route: route.abort())  # an export must not need the network to stay folded
    page.goto((folder / "committed.html").as_uri())
    notebook = lab.Notebook(page)
    assert SECRET not in notebook.visible_text()
    page.locator("details summary").first.click()
    assert SECRET in notebook.visible_text()
    page.close()
