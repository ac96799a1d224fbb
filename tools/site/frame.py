"""The frame around every page: head, menu, the page's own contents, what comes before and after, foot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from tools.site import layout

TEMPLATES = Path(__file__).resolve().parent / "templates"
MENU = {
    "Lessons": f"{layout.HOME}#lessons",
    "Labs": f"{layout.HOME}#labs",
    "Ledger": layout.LEDGER,
    "Numbers to know": layout.NUMBERS,
    "Glossary": layout.GLOSSARY,
    "Self-check": layout.SELF_CHECK,
    "Machines": layout.MACHINES,
}
FOOT = (
    "One add, priced: what a PyTorch operation costs. Every number on these pages was measured, and carries its device, versions "
    "and date, or is cited."
)


@dataclass(frozen=True)
class Page:
    """A page: its path in the site, its title, its body as HTML, (id, words) of its headings, its neighbours (title, path)."""

    path: str
    title: str
    body: str
    contents: list[tuple[str, str]]
    before: tuple[str, str] | None = None
    after: tuple[str, str] | None = None


@cache
def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(TEMPLATES)
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined).get_template("frame.html.j2")


def render(page: Page) -> str:
    """The whole HTML of one page."""

    def link(to: str) -> str:
        path, _, fragment = to.partition("#")
        return layout.relative(path, page.path) + (f"#{fragment}" if fragment else "")

    def neighbour(one: tuple[str, str] | None) -> tuple[str, str] | None:
        return None if one is None else (one[0], link(one[1]))

    return _template().render(
        title=page.title,
        home=page.path == layout.HOME,
        root="../" * page.path.count("/"),
        menu=[(name, link(to), to == page.path) for name, to in MENU.items()],
        contents=page.contents if len(page.contents) > 2 else [],
        body=Markup(page.body),
        before=neighbour(page.before),
        after=neighbour(page.after),
        foot=FOOT,
    )
