"""What is here and what it can show: the preflight table, and the abilities that lessons ask for.

`preflight()` tries what can be tried and says in words what each missing piece costs. Nothing here raises because
something is missing or unreadable, and importing this file does not import torch.

Overrides, each labelled in the table: ONE_ADD_CAPABILITY=7.5 (pretend this GPU capability), ONE_ADD_CORES=1 (pretend
this many cores), ONE_ADD_NO_COMPILER=1, ONE_ADD_NO_VALGRIND=1, ONE_ADD_NO_CUPTI=1.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from utils.measure import pieces, tools, versions
from utils.measure.fingerprints import Gpu, cores, device_class, fingerprint, gpu, minor, support_tier
from utils.measure.pieces import COLUMNS, Piece

__all__ = ["ABILITIES", "COLUMNS", "Machine", "Piece", "cores", "device_class", "fingerprint", "preflight", "support_tier"]
ABILITIES = ("compile", "cuda", "bf16", "triton", "cupti", "valgrind", "gdb")


@dataclass(frozen=True)
class Machine:
    """The answer of `preflight`. `where` is the fingerprint; `why` says in words why an ability is missing."""

    pieces: tuple[Piece, ...]
    where: dict
    abilities: dict[str, bool]
    why: dict[str, str] = field(default_factory=dict)
    tier: str = ""
    noisy: bool = False

    def rows(self) -> list[dict[str, str]]:
        """The table, one dict a line; keys as in COLUMNS."""
        return [p.row() for p in self.pieces]

    def can(self, what: str) -> bool:
        """Whether it can "compile", "cuda", "bf16", "triton", "cupti", "valgrind" or "gdb"; ValueError for other words."""
        if what not in self.abilities:
            raise ValueError(f"no ability is called {what!r}; there are {', '.join(ABILITIES)}")
        return self.abilities[what]

    @property
    def device_class(self) -> str:
        return device_class(self.where)

    def to_dict(self) -> dict:
        return {
            "rows": self.rows(),
            "where": dict(self.where),
            "class": self.device_class,
            "can": dict(self.abilities),
            "why_not": dict(self.why),
            "tier": self.tier,
            "noisy": self.noisy,
        }


def preflight() -> Machine:
    """Looks at everything once (about a second; with a GPU the first time some ten) and returns the table.

    Warns once per process when a package was changed under the running kernel.
    """
    where, card = fingerprint(), gpu()
    key = {"name": card.name, "torch": where["torch"], "driver": card.driver} if card.usable else None
    found = tools.check(("compiler", "nvcc", "valgrind", "gdb", "cupti"), key)
    capability = _capability(where, card)
    abilities, why = _abilities(found, card, capability)
    noisy: list[bool] = []
    lines = (
        ("CPU", lambda: pieces.cpu_line(where)),
        ("cores", pieces.cores_line),
        ("load", lambda: pieces.load_line(noisy)),
        ("memory", pieces.memory_line),
        ("GPU", lambda: pieces.gpu_line(where, card, capability)),
        ("datasheet peaks", lambda: pieces.peaks_line(card)),
        ("torch", lambda: pieces.torch_line(where)),
        ("Python", lambda: pieces.python_line(where)),
        ("driver and CUDA", lambda: pieces.cuda_line(where)),
        ("C++ compiler", lambda: pieces.compiler_line(found["compiler"])),
        ("nvcc", lambda: pieces.nvcc_line(found["nvcc"], where, card)),
        ("ninja", pieces.ninja_line),
        ("triton", lambda: pieces.triton_line(why.get("triton", ""))),
        ("CUPTI", lambda: pieces.cupti_line(found["cupti"])),
        ("valgrind", lambda: pieces.valgrind_line(found["valgrind"])),
        ("gdb", lambda: pieces.gdb_line(found["gdb"])),
        ("packages loaded", pieces.packages_line),
        ("your results", pieces.home_line),
    )
    table = tuple(p for name, make in lines if (p := pieces.guarded(name, make)) is not None)
    if note := versions.restart_note():
        warnings.warn(note, stacklevel=2)
    return Machine(table, where, abilities, why, support_tier(where), noisy == [True])


def _abilities(found: dict[str, tools.Tool], card: Gpu, capability: tuple[int, int] | None) -> tuple[dict, dict]:
    """({ability: yes or no}, {missing ability: why})."""
    why: dict[str, str] = {}
    if not found["compiler"].works:
        why["compile"] = found["compiler"].why
    if not card.usable:
        why["cuda"] = card.problem or "no GPU"
        why["bf16"] = why["triton"] = "it needs a GPU"
    elif capability is None or capability < (8, 0):
        why["bf16"] = f"capability {pieces.dotted(capability)} has no bf16 (8.0 and later have)"
        why["triton"] = f"Triton does not support capability {pieces.dotted(capability)} (8.0 and later)"
    if not pieces.has("triton"):
        why["triton"] = "triton is not installed"
    for ability in ("cupti", "valgrind", "gdb"):
        if not found[ability].works:
            why[ability] = found[ability].why
    return {a: a not in why for a in ABILITIES}, why


def _capability(where: dict, card: Gpu) -> tuple[int, int] | None:
    """The capability that gates go by: the override can close a gate that the real GPU opens, never the other way round."""
    known = [c for c in (minor(where.get("capability")), minor(card.capability)) if c]
    return min(known, default=None)
