"""Writes the site: every page, the one style sheet, the one script, the figures, and the notebooks to download."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.site import frame, layout, pages
from utils.paths import REPO

OUT = REPO / "build" / "site"
STATIC = Path(__file__).resolve().parent / "static"
MARK = "site.css"  # a folder without it was not made here


class NotEmpty(Exception):
    """The folder holds something that is no site of ours, so it is left alone."""


def build(out: Path) -> int:
    """Builds the site into `out`, in place of an older one; the number of pages. NotEmpty for any other folder with files."""
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise NotEmpty(f"{out} is not empty and holds no site; choose another folder")
    made = list(pages.everything())  # before anything is removed: a page that fails leaves the old site
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for file in sorted(STATIC.iterdir()):
        shutil.copy(file, out)
    for page in made:
        _put(out / page.path, frame.render(page))
    for source in [*(one.source for one in layout.notebooks()), *_figures()]:
        (out / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / source, out / source)
    return len(made)


def _figures() -> list[str]:
    return [path.relative_to(REPO).as_posix() for path in sorted((REPO / "figures").glob("*.svg"))]


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
