"""Finds the notebook of the running session: asked for by name, from Colab, VS Code or JupyterLab, or the one in this folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from utils.labs import cells
from utils.labs.cells import LabCell


@dataclass(frozen=True)
class Found:
    """A notebook's cells as JSON data and where they come from; `live` when they are the page's own, saved or not."""

    nb: dict
    where: str
    live: bool = False


def notebook(lab: list[LabCell], named: str | os.PathLike | None, namespace: dict) -> Found:
    """The notebook of this session that is one of `lab`. `named` is looked at instead of any other.

    Raises cells.NoNotebook in words: nothing found, several found, or the named file is no notebook of this lab.
    """
    if named is not None:
        nb = cells.read(Path(named))
        if not cells.belongs(nb, lab):
            raise cells.NoNotebook(f"{named} is no notebook of this lab")
        return Found(nb, str(named))
    page = _from_colab()
    if page is not None and cells.belongs(page, lab):
        return Found(page, "this page on Colab", live=True)
    for path in _from_session(namespace):
        nb = _readable(path, lab)
        if nb is not None:
            return Found(nb, path.name)
    here = [(path, nb) for path in sorted(Path.cwd().glob("*.ipynb")) if (nb := _readable(path, lab)) is not None]
    if len(here) == 1:
        return Found(here[0][1], here[0][0].name)
    if here:
        raise cells.NoNotebook(
            f"several notebooks of this lab are in this folder ({', '.join(path.name for path, _ in here)}): name yours"
        )
    raise cells.NoNotebook("this session does not tell where its notebook is, and none of this lab is in its folder")


def _readable(path: Path, lab: list[LabCell]) -> dict | None:
    """The notebook at `path` when it is one of this lab, else None: a session's hint may be stale or about something else."""
    try:
        nb = cells.read(path)
    except cells.NoNotebook:
        return None
    return nb if cells.belongs(nb, lab) else None


def _from_session(namespace: dict) -> list[Path]:
    """Where VS Code and Jupyter's server say that the session's notebook is."""
    told = [namespace.get("__vsc_ipynb_file__"), os.environ.get("JPY_SESSION_NAME")]
    return [Path(place) for place in told if isinstance(place, str) and place.endswith(".ipynb")]


def _from_colab() -> dict | None:
    """The notebook in the browser's page, as Colab hands it to its kernel; None elsewhere."""
    try:
        from google.colab import _message
    except ImportError:
        return None
    try:
        reply = _message.blocking_request("get_ipynb", request="", timeout_sec=20)
        return cells.checked(reply["ipynb"], "this page")
    except Exception:  # whatever Colab changes, the visible points can still be counted
        return None
