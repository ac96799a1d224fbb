"""Which machines were recorded and which are wanted: by the stems of the committed files and the classes of devices.yml."""

from __future__ import annotations

from utils import paths
from utils.model import devices, recordings, studies

FIRST_WANTED = "t4"  # what free Colab sessions have, and the oldest GPU that the course runs on


def stems() -> set[str]:
    """Every machine of which something is committed: "h200-torch2.11", "cpu-2core-torch2.13"."""
    kept = (paths.RECORDINGS / studies.IN_FOLDER).glob("*/*.json")
    return {*recordings.available(), *(path.stem for path in kept)}


def has(device_class: str, among: set[str] | None = None) -> bool:
    """Whether a machine of this class was recorded."""
    return any(stem.startswith(f"{device_class}-") for stem in (stems() if among is None else among))


def missing(among: set[str] | None = None) -> list[str]:
    """The classes of GPUs that the course knows and nobody has recorded; the first wanted one first."""
    known = dict.fromkeys(device.device_class for device in devices.load())
    return sorted((one for one in known if not has(one, among)), key=lambda one: one != FIRST_WANTED)
