"""The finished tail on a CPU, in a cache and from memory: the same arithmetic, and where it shows.

The C++ chain (one thread, vectors, stores past the caches) with GELU, with the draw, with both and with neither. In a cache bytes
are cheap and the arithmetic is what a pass takes; from memory it hides behind the bytes as far as the core does both at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, islice

from utils.kernels import cpu_door, data
from utils.kernels.cpu_door import Chain
from utils.kernels.forms import BLOCK_TAIL, Form
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import MIB, Progress, need, race, within
from utils.measure.fuse_arms import buffers

FORMS = {
    "the add alone": Form(residual=True),
    "with gelu": BLOCK_TAIL.with_(draw=""),
    "with the draw": Form(draw="eight", residual=True),
    "with both": BLOCK_TAIL,
}
CACHED = (32, 1024)  # rows, columns: 384 KiB in three buffers
SET = (512, 4096)  # of one pass from memory, 24 MiB in three buffers
ALL, ALL_QUICK = 1152 * MIB, 384 * MIB  # bytes of the sets that take turns
ALONE, BOTH = "the add alone", "with both"


def chain(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The four forms at both sizes, each size a race of its own:

    "rows": [{"where": "in a cache" | "from memory", "form", "ns" (an element), "gbps", "times" (the add's time)}], "races";
    "numbers": "cached_times", "memory_times" (the whole tail over the add), "cached_draw", "cached_gelu" (over the
    add), "gelu_hides", "draw_hides", "both_hides" (see `hidden`). About 3 s quick, the compiler aside. MeasurementError without a
    C++ compiler, or on a GPU.
    """
    need(device, "the C++ chain")
    if device != "cpu":
        raise MeasurementError("the C++ chain is a CPU's")
    if why := cpu_door.why_not():
        raise MeasurementError(why)
    rows, races, numbers = [], {}, {}
    for at, (where, make) in enumerate((("in a cache", _cached), ("from memory", _in_turn))):
        arms, elements, notes = make(quick)
        found = race(
            "cpu", {}, arms=arms, control=ALONE, blocks=20 if quick else 40, block_ms=4, at_most_s=1.5 if quick else 8,
            progress=within(progress, at / 2, 0.5),
        )  # fmt: skip
        races[where] = found
        add = found[ALONE].ns
        for name, form in FORMS.items():
            ns = found[name].ns
            moved = form.with_(bias="").nbytes(1, 1, "fp32") * elements
            rows.append(
                {"where": where, "form": name, "ns": ns / elements, "gbps": moved / ns, "times": ns / add, "elements": elements}
            )
    by = {(row["where"], row["form"]): row["times"] for row in rows}
    numbers = {
        "cached_times": by["in a cache", BOTH],
        "memory_times": by["from memory", BOTH],
        "cached_gelu": by["in a cache", "with gelu"],
        "cached_draw": by["in a cache", "with the draw"],
    }
    numbers |= hidden(rows)
    return {"device": device, "rows": rows, "races": races, "numbers": numbers, "notes": ["one thread, fp32", *notes]}


def hidden(rows: Iterable[Mapping]) -> dict[str, float]:
    """Of what a form adds to the add in a cache, the share that does not show from memory, by part; below 0 for more."""
    ns = {(row["where"], row["form"]): row["ns"] for row in rows}
    out = {}
    for part, form in (("gelu", "with gelu"), ("draw", "with the draw"), ("both", BOTH)):
        cached, memory = (ns[where, form] - ns[where, ALONE] for where in ("in a cache", "from memory"))
        out[f"{part}_hides"] = 1 - memory / cached if cached > 0 else 0.0
    return out


def _cached(quick: bool) -> tuple[dict[str, Callable], int, list[str]]:
    """Arms that pass over one small set of buffers again and again; elements of a pass."""
    small = data.random(*CACHED, "fp32")
    chains = {name: cpu_door.launch(form, small, streaming=False, threads=1) for name, form in FORMS.items()}
    return dict(chains), CACHED[0] * CACHED[1], []


def _in_turn(quick: bool) -> tuple[dict[str, Callable], int, list[str]]:
    """Arms that pass over many sets in turn, so that each has left the caches when it is met again; elements of a pass."""
    rows, cols = SET
    wanted = ALL_QUICK if quick else ALL
    many = wanted // (12 * rows * cols)
    sets = buffers("cpu", sets=many, rows=rows, cols=cols)
    arms = {name: in_turn([cpu_door.launch(form, one, threads=1) for one in sets]) for name, form in FORMS.items()}
    return arms, rows * cols, [f"{many} sets of buffers in turn, {wanted / MIB:,.0f} MiB"]


def in_turn(chains: Sequence[Chain]) -> Callable[[int], float]:
    """An arm of the chains by turns, by their own clock, which what starting their threads takes is not in."""
    turns = cycle(chains)
    return lambda n: sum(one(1) for one in islice(turns, n))
