"""What a program does with memory, tensor by tensor: which one an op returned, on which storage, and when it was let go.

A TorchDispatchMode sees what an op returns; weak references say what has died since. Storages are numbered by their address, so
that memory that is handed out again has its old number again. What autograd keeps holds a storage after its last Python tensor
has gone: there the tensor is said to be dropped when the storage is. Memory that a kernel takes and gives back within one op is
not seen. What is live in bytes, without names, `live_storages` counts.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Event = tuple[str, int, int, int, str]  # what ("input" | "make" | "drop"), tensor, storage, bytes of the storage, op


@dataclass
class Recorder:
    """`events` so far. An input is told where an op meets it first: it was there before. Storage 0 is that of no bytes.

    `lives` says the same of storages, by torch's own references to them: [bytes, first event, event of its end or -1]; one for
    each tensor of no bytes.
    """

    events: list[Event] = field(default_factory=list)
    lives: list[list[int]] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)  # address → number
    _held: dict[int, list[tuple[int, Any, int]]] = field(default_factory=dict)  # storage → (tensor, weak reference, bytes)
    _alive: dict[int, tuple[Any, int]] = field(default_factory=dict)  # storage → weak reference to it, its place in lives
    _empty: list[tuple[int, Any, int]] = field(default_factory=list)
    _tensors: int = 0

    def sweep(self) -> None:
        """Tell what has died since the last look."""
        for number in list(self._held):
            handles, gone = self._held[number], self._alive[number][0].expired()
            stay = [] if gone else [h for h in handles if h[1]() is not None] or handles[-1:]
            kept = {tensor for tensor, _, _ in stay}
            self.events += [("drop", tensor, number, nbytes, "") for tensor, _, nbytes in handles if tensor not in kept]
            self._held[number] = stay
            if gone:
                self.lives[self._alive.pop(number)[1]][2] = len(self.events) - 1
                del self._held[number]
        for one in [one for one in self._empty if one[1]() is None]:
            self._empty.remove(one)
            self.lives[one[2]][2] = len(self.events)
            self.events.append(("drop", one[0], 0, 0, ""))

    def meet(self, tensors: list) -> None:
        """Arguments of an op: one on a storage that is not known was there before."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage.nbytes() and self._numbers.get(storage.data_ptr()) not in self._held:
                self._note("input", tensor, "")

    def make(self, op: str, tensors: list) -> None:
        """Results of an op: on storages of their own, or on one that is known (a view, an op in place)."""
        for tensor in tensors:
            self._note("make", tensor, op)

    def _note(self, what: str, tensor, op: str) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        storage = tensor.untyped_storage()
        nbytes, ref = storage.nbytes(), weakref.ref(tensor)
        number = self._numbers.setdefault(storage.data_ptr(), len(self._numbers) + 1) if nbytes else 0
        known = self._held.get(number, []) if nbytes else []
        if any(there() is tensor for _, there, _ in known):
            return  # an op in place gives back the very tensor
        self._tensors += 1
        if not known:
            self.lives.append([nbytes, 0 if what == "input" else len(self.events), -1])
        self.events.append((what, self._tensors, number, nbytes, op))
        if not nbytes:
            self._empty.append((self._tensors, ref, len(self.lives) - 1))
            return
        self._held.setdefault(number, []).append((self._tensors, ref, nbytes))
        if not known:
            self._alive[number] = StorageWeakRef(storage), len(self.lives) - 1


def watched(program: Callable[[], Any]) -> Recorder:
    """One run of `program`; what it returns is alive at the end. RuntimeError where torch has lost the mode."""
    from utils.measure.seams import tensors_in, watching_calls

    recorder = Recorder()

    def each(op, run, args, kwargs):
        recorder.sweep()
        recorder.meet(tensors_in((args, kwargs)))
        results = run()
        recorder.make(op.removeprefix("aten::"), tensors_in(results))
        return results

    with watching_calls(each):
        kept = program()
    recorder.sweep()
    del kept
    return recorder


# ------------------------------------------------------------------------------------------------ the programs of lab 9


def programs() -> dict[str, tuple[str, Callable[[], Any]]]:
    """Name → what it is in words, and the program, on the CPU in fp32; inputs and parameters are there before it runs."""
    import torch
    from torch import nn

    from utils.measure.spelled_layer import spelled

    gelu, dropout = nn.functional.gelu, nn.functional.dropout
    rows, side = 512, 256
    weights = [(torch.randn(side, side) / side**0.5).requires_grad_() for _ in range(6)]
    biases = [torch.randn(side, requires_grad=True) for _ in range(6)]
    x = torch.randn(rows, side)

    def blocks():
        y = x
        for w, b in zip(weights, biases):
            y = y + dropout(gelu(y @ w + b), 0.1, training=True)
        return y

    layer = spelled(128, 4, "cpu", torch.float32, positions=128)
    tokens = torch.randn(2, 96, 128)
    table = nn.Embedding(1000, 128)
    head = nn.Linear(128, 1000)
    words = torch.randint(0, 1000, (2, 96))

    def step():
        hidden = layer(table(words))
        loss = nn.functional.cross_entropy(head(hidden).flatten(0, 1), words.flatten())
        loss.backward()
        grads = [p.grad for module in (table, layer, head) for p in module.parameters()]
        for module in (table, layer, head):
            module.zero_grad(set_to_none=True)
        return loss.detach(), grads

    def both():
        return torch.autograd.grad(blocks().square().mean(), [*weights, *biases])

    return {
        "blocks forward": (
            f"six toy blocks x + dropout(gelu(x @ w + b)) on {rows} rows of {side}, no gradient",
            torch.no_grad()(blocks),
        ),
        "blocks forward and backward": (f"the same with the gradients of all weights and biases, {rows} rows of {side}", both),
        "layer forward": (
            "one transformer layer, width 128, 4 heads, every op written out, on 2 texts of 96 tokens, no gradient",
            torch.no_grad()(lambda: layer(tokens)),
        ),
        "training step": ("the same layer between an embedding and a head of 1,000 words: forward, loss, backward", step),
    }


def recorded() -> dict:
    """All programs run once to warm up and once watched: {"made", "torch", "traces": {name: {"what", "events", "lives"}}}."""
    import torch

    traces = {}
    for name, (what, program) in programs().items():
        program()
        seen = watched(program)
        traces[name] = {"what": what, "events": [list(event) for event in seen.events], "lives": seen.lives}
    return {
        "made": "python -m utils.measure.storage_events: one run each on a CPU, watched by a TorchDispatchMode",
        "torch": torch.__version__,
        "traces": traces,
    }


if __name__ == "__main__":
    from utils import paths
    from utils.model.files import to_json, write_atomically

    folder = paths.RECORDINGS / "storage_events"
    folder.mkdir(exist_ok=True)
    write_atomically(folder / "cpu-torch2.13.json", to_json(recorded(), compact=True))
