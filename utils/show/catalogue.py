"""The names that are shown: stages and groups of one add (`stages.yml`), misconceptions (`misconceptions.yml`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from utils.model import schemas

LAUNCH = "kernel launch"


@dataclass(frozen=True)
class Stage:
    id: str
    group: str
    title: str
    what: str


def groups(device: str = "cpu") -> dict[str, str]:
    """Group id → title, in the order in which the groups run. On "cuda" the last group is the launch, and is called so."""
    return {g["id"]: LAUNCH if (g["id"], device) == ("kernel", "cuda") else g["title"] for g in schemas.load("stages")["groups"]}


@lru_cache(maxsize=1)
def stages() -> dict[str, Stage]:
    """Stage id → Stage, in the order in which the stages run."""
    return {s["id"]: Stage(s["id"], s["group"], s["title"], s["what"]) for s in schemas.load("stages")["stages"]}


def title(stage_id: str, device: str = "cpu") -> str:
    """The title of a stage; an id that the catalogue does not know (a recording from another version) is its own title.

    On "cuda" the host only launches the kernel, and the title says so.
    """
    if stage_id == "kernel" and device == "cuda":
        return LAUNCH
    known = stages().get(stage_id)
    return known.title if known else stage_id


def group_of(stage_id: str) -> str:
    """The group id of a stage, or "" where the catalogue does not know the stage."""
    known = stages().get(stage_id)
    return known.group if known else ""


def misconception(misconception_id: str) -> dict:
    """The row of a misconception: name, belief, truth. Raises LookupError for an id that the file does not have."""
    for row in schemas.load("misconceptions")["misconceptions"]:
        if row["id"] == misconception_id:
            return row
    raise LookupError(f"no such misconception: {misconception_id!r}")
