"""Where the course's labs are, and nbgrader pointed at them or at a temporary course of one lab."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from grading.overlay import replaced
from utils.labs import cells
from utils.paths import REPO

if TYPE_CHECKING:
    from traitlets.config import Config

SOLUTIONS = REPO / "solutions"
LABS = REPO / "labs"
WORK = REPO / "work"


def labs() -> list[str]:
    """The labs there are, by name: every folder of solutions/ with a notebook of its own name."""
    return sorted(path.stem for path in SOLUTIONS.glob("*/*.ipynb") if path.stem == path.parent.name)


def named(said: str) -> str | None:
    """The lab that is meant by its name, its number or "lab1"; None when there is none, or more than one."""
    if said in labs():
        return said
    number = re.fullmatch(r"(?:lab)?0*(\d+)", said.strip().lower())
    found = [lab for lab in labs() if number and re.match(rf"lab0*{number[1]}(?!\d)", lab)]
    return found[0] if len(found) == 1 else None


def source(lab: str) -> Path:
    """The notebook that is the source of `lab`."""
    return SOLUTIONS / lab / f"{lab}.ipynb"


def read_source(lab: str, overlay: Path | None = None) -> dict:
    """The source of `lab` as JSON data; with the hidden tests of the folder `overlay` (grading/overlay.py) in place of its."""
    nb = cells.read(source(lab))
    return nb if overlay is None else replaced(nb, overlay / lab)


def copy_source(lab: str, root: Path) -> None:
    """Put the source of `lab` into the course folder `root`, as nbgrader expects it there."""
    shutil.copytree(SOLUTIONS / lab, root / "solutions" / lab, ignore=shutil.ignore_patterns("wrong", ".ipynb_checkpoints"))


def nbgrader(root: Path, *, gradebook: bool = True, more: Config | None = None):
    """nbgrader's API on the course folder `root`, with the settings of nbgrader_config.py and nothing of the user's own.

    gradebook=False: generating notes nothing in a gradebook, so that none is needed. `more` are settings on top.
    """
    import nbgrader.api
    from nbgrader.apps import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import PyFileConfigLoader

    nbgrader.api.get_alembic_version = _newest_schema
    config = PyFileConfigLoader("nbgrader_config.py", path=str(REPO)).load_config()
    config.CourseDirectory.root = str(root)
    (root / "work").mkdir(parents=True, exist_ok=True)
    config.CourseDirectory.db_url = f"sqlite:///{root / 'work' / 'gradebook.db'}"
    config.SaveCells.enabled = gradebook
    config.GenerateAssignment.no_database = not gradebook
    config.merge(more or {})
    return NbGraderAPI(CourseDirectory(config=config), config=config)


def _newest_schema() -> str:
    """The version of nbgrader's database, for a new gradebook. nbgrader starts `alembic` to ask: five seconds, and only where
    that is on PATH, which it is not when this runs from a virtual environment that nobody activated."""
    import nbgrader
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    asked = Config()
    asked.set_main_option("script_location", str(Path(nbgrader.__file__).parent / "alembic"))
    return ScriptDirectory.from_config(asked).get_current_head()
