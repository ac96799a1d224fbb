"""Does planning move fewer bytes, or only need fewer? A chain of adds with three homes for its results, counted and raced.

"apart": each result in a place of its own; "arena": two places that take turns, as a plan gives them; "eager": fresh results.
What the ops read and write is counted from their shapes. What a cache then saves of it no count shows: the race over sizes
does."""

from __future__ import annotations

from collections.abc import Callable

from utils.measure import intensity
from utils.measure.either_clock import MIB, Progress, caches, filled, free_bytes, need, race, settled, within
from utils.measure.gemm_peak import torch_dtype
from utils.measure.placed_ops import usual_dtype

ADDS = 12
APART, ARENA, EAGER = "apart", "arena", "eager"
# bytes of one activation. From far inside the caches to where neither three nor fourteen of them fit.
SIZES = {
    "cpu": tuple(n * 1024 for n in (64, 256, 1024, 4096, 16_384)),
    "cuda": tuple(n * MIB for n in (1, 4, 8, 16, 64, 256)),
}
SIZES_QUICK = {"cpu": tuple(n * 1024 for n in (64, 4096, 16_384)), "cuda": tuple(n * MIB for n in (1, 8, 64, 256))}


class Adds:
    """The chain on one size of activation: `ways` are its three homes, `placed` the bytes that each one's results lie in."""

    def __init__(self, device: str, nbytes: int):
        dtype = torch_dtype(usual_dtype(device))
        n = nbytes // dtype.itemsize
        self.x, self.y = filled(n, device, dtype), filled(n, device, dtype)
        apart = filled(ADDS * n, device, dtype).view(ADDS, n)
        arena = filled(2 * n, device, dtype).view(2, n)
        self.ways: dict[str, Callable] = {
            APART: self._given([apart[i] for i in range(ADDS)]),
            ARENA: self._given([arena[i % 2] for i in range(ADDS)]),
            EAGER: self._eager,
        }
        self.placed = {APART: apart.nbytes, ARENA: arena.nbytes, EAGER: None}

    def _given(self, places: list) -> Callable:
        import torch

        add, x, y = torch.add, self.x, self.y

        def run():
            t = x
            for place in places:
                t = add(t, y, out=place)
            return t

        return run

    def _eager(self):
        t = self.x
        for _ in range(ADDS):
            t = t + self.y
        return t


def traffic(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The chain by size and by home:

    "rows": [{"activation" (bytes of one), "way", "ops", "moved" (bytes, by count), "placed" (bytes that its results lie in;
    None: the allocator decides), "us", "over" (its time over the arena's), "seen" (that differs by more than the error of the
    race)}], "caches" (bytes by level), "numbers": "moved_ratio" and "moved_eager" (apart and eager over arena, bytes by
    count), "placed_ratio" (apart over arena), "most" (time apart over in the arena, at the size where it is largest),
    "most_at" (bytes), "largest" (the same at the largest size), "smallest", "wrong" (ways whose result differs), "aa_error"
    (largest). About 6 s. MeasurementError without the device or the memory.
    """
    need(device, "the chain's traffic")
    import torch

    rows, numbers, errors, wrong, ratios = [], {}, [], 0, {}
    sizes = (SIZES_QUICK if quick else SIZES)[device]
    sizes = [size for size in sizes if (ADDS + 6) * size < free_bytes(device) / 2]
    with settled(device) as notes, torch.no_grad():
        for at, size in enumerate(sizes):
            chain = Adds(device, size)
            results = {way: f().clone() for way, f in chain.ways.items()}
            wrong += sum(not torch.equal(results[APART], result) for result in results.values())
            del results
            moved = {way: intensity.count(f).bytes for way, f in chain.ways.items()}
            found = race(
                device, chain.ways, blocks=12 if quick else 25, block_ms=3, at_most_s=1.2 if quick else 4,
                progress=within(progress, at / len(sizes), 1 / len(sizes)),
            )  # fmt: skip
            errors.append(found.aa_error)
            for way in chain.ways:
                rows.append(
                    {
                        "activation": size,
                        "way": way,
                        "ops": ADDS,
                        "moved": moved[way],
                        "placed": chain.placed[way],
                        "us": found[way].ns * 1e-3,
                        "over": found[way].ns / found[ARENA].ns,
                        "seen": way != ARENA and found.difference(way, ARENA).seen,
                    }
                )
            ratios[size] = found[APART].ns / found[ARENA].ns
            numbers |= {"moved_ratio": moved[APART] / moved[ARENA], "placed_ratio": chain.placed[APART] / chain.placed[ARENA]}
            numbers["moved_eager"] = moved[EAGER] / moved[ARENA]
            del chain
    best = max(ratios, key=ratios.get)
    numbers |= {
        "most": ratios[best],
        "most_at": best,
        "largest": ratios[sizes[-1]],
        "smallest": ratios[sizes[0]],
        "wrong": float(wrong),
        "aa_error": max(errors),
    }
    clock = "the device's clock" if device == "cuda" else "the host's clock"
    notes = [*notes, f"{ADDS} adds in a row, {usual_dtype(device)}; bytes by count, times by {clock}"]
    return {"device": device, "rows": rows, "caches": caches(device), "numbers": numbers, "notes": notes}
