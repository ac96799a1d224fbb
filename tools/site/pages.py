"""The pages of the site: README and its kin, lessons, labs, glossary, numbers, self-check, machines; all from what is there."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import PurePosixPath

from bs4 import BeautifulSoup

from tools.site import layout, machines, notebook, recorded
from tools.site.frame import Page
from tools.site.tidy import contents, tidy
from utils.model import schemas
from utils.paths import REPO
from utils.show import numbers_to_know, print_out, widgets

# Pages that are Markdown in the repository; "receipt" is the table twin of the first figure.
MARKDOWN = ("README.md", "figures/ledger.md", "figures/receipt.md", "CONTRIBUTING.md", "INSTRUCTOR.md")
PLAIN = {"LICENSE": "Licence", "CITATION.cff": "How to cite the course"}
NOTHING_RUNS = (
    "Nothing runs on this page. Answer each question in your head before you open its fold; to measure on your own machine, "
    "open the notebook."
)


def everything() -> Iterator[Page]:
    """Every page, one after the other."""
    for source in MARKDOWN:
        yield _markdown(source)
    for source, title in PLAIN.items():
        yield _as_written(source, title)
    lessons = [one for one in layout.notebooks() if one.lesson]
    labs = [one for one in layout.notebooks() if not one.lesson]
    for row in (lessons, labs):
        for at, one in enumerate(row):
            yield _notebook(one, row[at - 1] if at else None, row[at + 1] if at + 1 < len(row) else None)
    yield _glossary()
    yield _plain(layout.NUMBERS, "Numbers to know", numbers_to_know.table(yours=False)._repr_html_())
    yield _plain(layout.SELF_CHECK, "The self-check on paper", f"<p>{PAPER}</p>{print_out.by_topic()}")
    yield _plain(layout.MACHINES, "Recorded machines", machines.gallery())


PAPER = (
    "All questions by topic, then their answers. Printed, each topic begins a page. A number's key is from the recorded "
    "machines; in the notebook it is worked out from what you measured."
)


def _markdown(source: str) -> Page:
    page = layout.FILES[source]
    soup = tidy(notebook.markdown((REPO / source).read_text(encoding="utf-8")), source, page)
    heading = soup.find("h1")
    if heading is None:  # the receipt's table stands alone
        title = "The receipt as a table"
        soup.insert(0, BeautifulSoup(f"<h1>{title}</h1>", "html.parser"))
        heading = soup.find("h1")
    return Page(page, heading.get_text(" ", strip=True), str(soup), contents(soup))


def _as_written(source: str, title: str) -> Page:
    """A plain text of the repository, line by line."""
    text = (REPO / source).read_text(encoding="utf-8")
    return _plain(layout.FILES[source], title, f'<pre class="words">{escape(text)}</pre>')


def _plain(page: str, title: str, body: str) -> Page:
    """A page made here; its body's links are the site's own."""
    soup = tidy(f"<h1>{escape(title)}</h1>{body}", "", page)
    return Page(page, title, str(soup), contents(soup))


def _notebook(one: layout.Notebook, before: layout.Notebook | None, after: layout.Notebook | None) -> Page:
    """A lesson, with the recorded CPU and H200 under it, or the student's edition of a lab."""
    nb = notebook.read(REPO / one.source)
    soup = tidy(notebook.body(nb), one.source, one.page)
    soup.find("h1").insert_after(BeautifulSoup(_about(one, notebook.run_on(nb)), "html.parser"))
    if one.lesson:
        soup.append(tidy(recorded.panel(one.study), one.source, one.page))
    near = [None if other is None else (other.title, other.page) for other in (before, after)]
    return Page(one.page, one.title, str(soup), contents(soup), *near)


def _about(one: layout.Notebook, machine: str) -> str:
    """What stands under a notebook's title: whose numbers these are, and the notebook itself."""
    name = PurePosixPath(one.source).name
    file = f'<a download href="{escape(layout.relative(one.source, one.page))}">{escape(name)}</a>'
    if not one.lesson:
        return f'<p class="about">The student\'s edition: {file}. Nothing runs on this page.</p>'
    where = f"Outputs as committed, from a machine without a GPU{f' ({escape(machine)})' if machine else ''}; "
    there = f'what is from a recorded GPU says so, and <a href="#{recorded.ID}">both stand side by side</a> at the end. '
    return f'<p class="about">{where}{there}{NOTHING_RUNS} Notebook: {file}.</p>'


def _glossary() -> Page:
    rows = sorted(schemas.load("glossary")["terms"], key=lambda row: row["term"].lower())
    names = {row["id"]: row["term"] for row in rows}
    pages = {one.study: one for one in layout.notebooks() if one.lesson}
    body = "".join(_term(row, names, pages) for row in rows)
    words = f"{len(rows)} terms, each with the lesson that introduces it."
    return _plain(layout.GLOSSARY, "Glossary", f"<p>{words}</p><dl>{body}</dl>")


def _term(row: dict, names: dict[str, str], pages: dict[str, layout.Notebook]) -> str:
    see = ", ".join(f'<a href="#term-{other}">{escape(names[other])}</a>' for other in row["see"])
    lesson = pages.get(row["lesson"])
    where = (
        f'<a href="{lesson.source}">lesson {escape(lesson.title)}</a>'
        if lesson
        else f"lesson {row['lesson'].replace('_', ' ')}, planned"
    )
    more = f"<br><small>{where}{f'; see {see}' if see else ''}</small>"
    return f'<dt id="term-{row["id"]}">{escape(row["term"])}</dt><dd>{widgets.prose(row["definition"])}{more}</dd>'
