"""How many bytes of tensors are alive while code runs, now and at most: to the byte, without an allocator's help.

A CPU has no allocator statistics. So a TorchDispatchMode looks at the result of every op, keeps a weak reference to its memory
(a storage, which views share) and, after each op, adds up the bytes of those that still live. It sees what an op returns; memory
that a kernel takes and gives back within one op it does not see, nor what an allocator rounds up. Memory that was there before,
such as inputs and parameters and their views, does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Storages:
    """The bytes made since counting began: `live()` now, `peak` at most, `made` in all."""

    peak: int = 0
    made: int = 0
    _seen: dict[int, tuple] = field(default_factory=dict)

    def live(self) -> int:
        self._seen = {address: (ref, size) for address, (ref, size) in self._seen.items() if not ref.expired()}
        return sum(size for _, size in self._seen.values())

    def note(self, results: list, given: list) -> None:
        """Take in what one op returned; storages that one of `given` lies in were there before."""
        from torch.multiprocessing.reductions import StorageWeakRef

        self.live()  # first let go of what has died: its address may be in use again
        before = {t.untyped_storage().data_ptr() for t in given}
        for tensor in results:
            storage = tensor.untyped_storage()
            ref = StorageWeakRef(storage)
            if ref.cdata not in self._seen and (storage.data_ptr() not in before or not storage.nbytes()):
                self._seen[ref.cdata] = (ref, storage.nbytes())
                self.made += storage.nbytes()
        self.peak = max(self.peak, self.live())


@contextmanager
def storages() -> Iterator[Storages]:
    """Count inside the block; the counter can be asked afterwards too, what still lives then included."""
    from utils.measure.seams import watching_ops

    counted = Storages()
    with watching_ops(lambda op, given, results: counted.note(results, given)):
        yield counted
