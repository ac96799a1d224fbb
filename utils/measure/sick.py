"""Sick programs: small real ones with one thing wrong, each beside its healthy twin, to be profiled and diagnosed.

`PROGRAMS[name].sick(device)` gives a callable that runs one step; `healthy` the same work done well. `size` scales the data,
`seed` draws other numbers. Nothing here profiles: `sick_recorder` does, in a process of its own.
"""

from __future__ import annotations

import queue
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, cycle

Step = Callable[[], object]
Build = Callable[..., Step]
BOTH = ("cpu", "cuda")


@dataclass(frozen=True)
class Program:
    """A program of which something is to be found out.

    `diagnosis` is the id (`utils/data/diagnoses.yml`) that its trace should be given. `sick` and `healthy` are called as
    `(device, size=1.0, seed=0)` and give one step; `healthy` is None where nothing is wrong. `twin` says what the healthy
    one does differently, `on_a_cpu` what a CPU changes ("" for nothing). `steps`: how many of them are recorded. `pinned`: on a
    CPU with malloc pinned; its results would now and then come fresh from the kernel, which doubles the step and is another's
    illness.
    """

    id: str
    title: str
    diagnosis: str
    sick: Build
    healthy: Build | None
    twin: str
    devices: tuple[str, ...] = BOTH
    on_a_cpu: str = ""
    steps: int = 3
    pinned: bool = False


def _seeded(device: str, seed: int):
    """A source of random numbers on the host, the same for the same seed; the tensors go to the device afterwards."""
    import torch

    return torch.Generator().manual_seed(seed)


def _rand(shape, device: str, seed: int, dtype=None):
    import torch

    return torch.rand(*shape, generator=_seeded(device, seed), dtype=torch.float32).to(
        device=device, dtype=dtype or torch.float32
    )


def _of(device: str, cpu: int, cuda: int, size: float) -> int:
    """A length that fits the device, scaled; at least 1."""
    return max(1, round((cuda if device == "cuda" else cpu) * size))


def _half(device: str):
    """The 16-bit dtype of a device that has one worth using; float32 on a CPU and on a GPU without bf16."""
    import torch

    if device == "cuda":
        return torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float16
    return torch.float32


# ------------------------------------------------------------------------------------------------ small ops


def _mlp(device: str, seed: int, width: int, layers: int):
    """(weights, biases) of a small perceptron."""
    weights = [_rand((width, width), device, seed + i) / width for i in range(layers)]
    biases = [_rand((width,), device, seed + 100 + i) for i in range(layers)]
    return weights, biases


def _forward(x, weights, biases):
    import torch

    for w, b in zip(weights, biases, strict=True):
        x = torch.tanh(x @ w + b)
    return x


def one_by_one(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """A batch, one sample at a time."""
    n, width = _of(device, 16, 24, size), 16
    samples = list(_rand((n, width), device, seed).split(1))
    layers = _mlp(device, seed, width, 4)
    return lambda: [_forward(x, *layers) for x in samples]


def all_at_once(device: str, size: float = 1.0, seed: int = 0) -> Step:
    n, width = _of(device, 16, 24, size), 16
    batch = _rand((n, width), device, seed)
    layers = _mlp(device, seed, width, 4)
    return lambda: _forward(batch, *layers)


def element_by_element(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """A running maximum, written into the result one number at a time."""
    import torch

    n = _of(device, 48, 96, size)
    x, out = _rand((n,), device, seed), torch.empty(n, device=device)

    def step():
        out[0] = x[0]
        for i in range(1, n):
            out[i] = torch.maximum(out[i - 1], x[i])
        return out

    return step


def whole_vector(device: str, size: float = 1.0, seed: int = 0) -> Step:
    import torch

    x = _rand((_of(device, 48, 96, size),), device, seed)
    return lambda: torch.cummax(x, 0).values


def _parameters(device: str, size: float, seed: int):
    import torch

    n = _of(device, 40, 80, size)
    out = [torch.nn.Parameter(_rand((32,), device, seed + i)) for i in range(n)]
    for p in out:
        p.grad = torch.rand_like(p)
    return out


def loop_optimizer(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """SGD over many small parameters, one after the other."""
    import torch

    return torch.optim.SGD(_parameters(device, size, seed), lr=1e-3, momentum=0.9, foreach=False).step


def foreach_optimizer(device: str, size: float = 1.0, seed: int = 0) -> Step:
    import torch

    return torch.optim.SGD(_parameters(device, size, seed), lr=1e-3, momentum=0.9, fused=True).step


# ------------------------------------------------------------------------------------------------ read-outs and waits


def read_outs(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """A loss of each sample, summed in Python."""
    x = _rand((_of(device, 96, 64, size), 64), device, seed)

    def step():
        total = 0.0
        for loss in x.square().mean(1):
            total += loss.item()
        return total

    return step


def no_read_out(device: str, size: float = 1.0, seed: int = 0) -> Step:
    x = _rand((_of(device, 96, 64, size), 64), device, seed)
    return lambda: x.square().mean(1).sum()


def sync_each_op(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """A synchronisation after every op, as in code that was once debugged."""
    import torch

    x, n = _rand((_of(device, 1024, 1024, size), 1024), device, seed), 40

    def step():
        y = x
        for _ in range(n):
            y = y * 1.01
            torch.cuda.synchronize()
        return y

    return step


def no_sync(device: str, size: float = 1.0, seed: int = 0) -> Step:
    x, n = _rand((_of(device, 1024, 1024, size), 1024), device, seed), 40

    def step():
        y = x
        for _ in range(n):
            y = y * 1.01
        return y

    return step


# ------------------------------------------------------------------------------------------------ data that comes late


class _Decoded:
    """A data set whose samples are unpacked when asked for, in Python: a stand-in for decoding pictures or parsing lines."""

    def __init__(self, n: int, seed: int):
        import torch

        numbers = torch.randint(0, 255, (n, 4096), generator=_seeded("cpu", seed), dtype=torch.uint8)
        self.packed = [zlib.compress(row.numpy().tobytes(), 6) for row in numbers]

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, at: int):
        import torch

        raw = bytearray(zlib.decompress(self.packed[at]))
        total = 0
        for byte in raw:  # a checksum in plain Python
            total = (total + byte) & 0xFFFF
        return torch.frombuffer(raw, dtype=torch.uint8).float().div_(255.0), total


def slow_loader(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """Each batch is decoded when the step asks for it."""
    import torch

    batch = _of(device, 16, 16, size)
    loader = torch.utils.data.DataLoader(_Decoded(batch, seed), batch_size=batch)  # an epoch of one batch: a step
    weights = _rand((4096, 64), device, seed)

    def step():
        for x, _ in loader:
            loss = (x.to(device, non_blocking=True) @ weights).tanh().mean()
        return loss

    return step


def ready_batches(device: str, size: float = 1.0, seed: int = 0) -> Step:
    import torch

    batch = _of(device, 16, 16, size)
    decoded = _Decoded(batch, seed)
    x = torch.stack([decoded[i][0] for i in range(batch)]).to(device)
    weights = _rand((4096, 64), device, seed)
    return lambda: (x @ weights).tanh().mean()


def python_between(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """Text is cut into words and counted between two ops."""
    n = _of(device, 4000, 4000, size)
    text = " ".join(f"word{(7 * i + seed) % 97}" for i in range(n))
    x, w = _rand((64, 256), device, seed), _rand((256, 256), device, seed + 1)

    def step():
        counts: dict[str, int] = {}
        for word in text.split():
            counts[word.lower()] = counts.get(word.lower(), 0) + 1
        return (x @ w).mul_(len(counts)).relu_()

    return step


def python_ahead(device: str, size: float = 1.0, seed: int = 0) -> Step:
    x, w = _rand((64, 256), device, seed), _rand((256, 256), device, seed + 1)
    return lambda: (x @ w).mul_(97).relu_()


def waits_for_thread(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """Each step asks a thread for its input and waits for the answer."""
    asked: queue.Queue = queue.Queue()
    given: queue.Queue = queue.Queue()
    pause = 2e-3 * size
    x, w = _rand((64, 256), "cpu", seed), _rand((256, 256), device, seed + 1)

    def produce() -> None:
        while asked.get() is not None:
            time.sleep(pause)  # a stand-in for a disk or a network
            given.put(x)

    threading.Thread(target=produce, daemon=True).start()

    def step():
        asked.put(1)
        return (given.get().to(device) @ w).relu_()

    return step


def thread_ahead(device: str, size: float = 1.0, seed: int = 0) -> Step:
    x, w = _rand((64, 256), device, seed), _rand((256, 256), device, seed + 1)
    return lambda: (x @ w).relu_()


def across_the_bus(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """The result of each op goes to the host and comes back."""
    x = _rand((_of(device, 1, 4 << 20, size),), device, seed)

    def step():
        y = x
        for _ in range(4):
            y = (y * 1.01).cpu().to(device)
        return y

    return step


def stays_there(device: str, size: float = 1.0, seed: int = 0) -> Step:
    x = _rand((_of(device, 1, 4 << 20, size),), device, seed)

    def step():
        y = x
        for _ in range(4):
            y = y * 1.01
        return y

    return step


# ------------------------------------------------------------------------------------------------ large tensors


def giant_product(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """One large product, in the dtype that the device is made for: nothing is wrong."""
    n = _of(device, 768, 8192, size)
    a, b = (_rand((n, n), device, seed + i, _half(device)) for i in range(2))
    return lambda: a @ b


def wide_numbers(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """Weights that came from numpy, so everything is float64; on a GPU float32 without TF32 is wide enough."""
    import torch

    n = _of(device, 512, 4096, size)
    dtype = torch.float32 if device == "cuda" else torch.float64
    a, b = (_rand((n, n), device, seed + i, dtype) for i in range(2))
    return lambda: torch.relu(a @ b) @ b


def narrow_numbers(device: str, size: float = 1.0, seed: int = 0) -> Step:
    import torch

    n = _of(device, 512, 4096, size)
    a, b = (_rand((n, n), device, seed + i, _half(device)) for i in range(2))
    return lambda: torch.relu(a @ b) @ b


def batch_of_one(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """One sample through large weights."""
    return _rows(1, device, size, seed)


def batch_of_many(device: str, size: float = 1.0, seed: int = 0) -> Step:
    return _rows(256 if device == "cuda" else 64, device, size, seed)


def _rows(rows: int, device: str, size: float, seed: int) -> Step:
    width = _of(device, 1536, 8192, size)
    x = _rand((rows, width), device, seed, _half(device))
    weights = [_rand((width, width), device, seed + i, _half(device)) / width for i in range(4)]

    def step():
        y = x
        for w in weights:
            y = y @ w
        return y

    return step


def _chain(x):
    """Eight elementwise ops, one after the other."""
    y = x * 1.5 + 0.25
    y = y.relu() * 0.5
    y = (y - 0.125).sigmoid()
    return y * x + y


def captured_chain(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """A chain of elementwise ops on large tensors, recorded once and replayed: the same ops over the same bytes."""
    import torch

    x = _rand((_of(device, 1 << 22, 1 << 26, size),), device, seed)
    if device == "cuda":
        return _graph_of(lambda: _chain(x))
    from torch.fx.experimental.proxy_tensor import make_fx

    recorded = make_fx(_chain)(torch.rand(8))

    def step():
        return recorded(x)

    return step


def blocked_chain(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """The same chain: compiled into one kernel on a GPU; on a CPU in blocks that stay near the core."""
    import torch

    x = _rand((_of(device, 1 << 22, 1 << 26, size),), device, seed)
    if device == "cuda":
        compiled = torch.compile(_chain)
        return lambda: compiled(x)
    out = torch.empty_like(x)
    blocks = list(zip(x.split(1 << 16), out.split(1 << 16), strict=True))

    def step():
        for block, y in blocks:
            torch.mul(block, 1.5, out=y)
            y.add_(0.25).relu_().mul_(0.5).sub_(0.125).sigmoid_().addcmul_(y, block)
        return out

    return step


def copies(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """A layout is changed and changed back, and every result is cloned "to be safe"."""
    n = _of(device, 1024, 8192, size)
    x = _rand((n, n), device, seed)

    def step():
        y = x.t().contiguous()
        y = y.clone().add_(1.0)
        return y.t().contiguous().sum()

    return step


def views(device: str, size: float = 1.0, seed: int = 0) -> Step:
    n = _of(device, 1024, 8192, size)
    x = _rand((n, n), device, seed)
    return lambda: x.add(1.0).sum()


def growing_cat(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """A cache that grows by `cat`: all that is there is copied for each row that comes."""
    import torch

    width, rows = _of(device, 1024, 8192, size), _of(device, 512, 2048, size)
    kept, row = _rand((rows, width), device, seed), _rand((1, width), device, seed + 1)

    def step():
        cache = kept
        for _ in range(8):
            cache = torch.cat([cache, row])
        return cache[-1].sum()

    return step


def place_ready(device: str, size: float = 1.0, seed: int = 0) -> Step:
    import torch

    width, rows = _of(device, 1024, 8192, size), _of(device, 512, 2048, size)
    cache, row = torch.empty(rows + 8, width, device=device), _rand((1, width), device, seed + 1)
    cache[:rows] = _rand((rows, width), device, seed)

    def step():
        for i in range(8):
            cache[rows + i] = row[0]
        return cache[-1].sum()

    return step


def fresh_buffers(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """Scratch memory made anew in every step; on a GPU the cache is emptied as well."""
    import torch

    n = _of(device, 4 << 20, 64 << 20, size)
    x = _rand((1024,), device, seed)

    def step():
        for _ in range(3):
            scratch = torch.zeros(n, device=device)
            scratch[:1024] += x
            del scratch
            if device == "cuda":
                torch.cuda.empty_cache()
        return x

    return step


def kept_buffer(device: str, size: float = 1.0, seed: int = 0) -> Step:
    import torch

    n = _of(device, 4 << 20, 64 << 20, size)
    x, scratch = _rand((1024,), device, seed), torch.zeros(n, device=device)

    def step():
        for _ in range(3):
            scratch[:1024].zero_().add_(x)  # only the part that is used
        return x

    return step


# ------------------------------------------------------------------------------------------------ compiled and captured


def new_shapes(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """A compiled function that is given another length in every step."""
    import torch

    # "aot_eager" needs no compiler of C++, and what comes before it is what takes the time of a small function.
    compiled = torch.compile(_chain, backend="aot_eager", dynamic=False)
    shortest = _of(device, 64, 64, size) + seed
    lengths = count(shortest)

    def step():
        n = next(lengths)
        if (n - shortest) % 6 == 5:
            torch.compiler.reset()  # after eight compilations of one function torch gives up, and runs it eager
        return compiled(torch.rand(n, device=device))

    return step


def one_shape(device: str, size: float = 1.0, seed: int = 0) -> Step:
    import torch

    compiled = torch.compile(_chain, backend="aot_eager", dynamic=False)
    shortest = _of(device, 64, 64, size) + seed
    lengths = cycle(range(shortest, shortest + 64))

    def step():
        n = next(lengths)
        return compiled(torch.nn.functional.pad(torch.rand(n, device=device), (0, 2 * shortest + 64 - n)))[:n]

    return step


def captured_again(device: str, size: float = 1.0, seed: int = 0) -> Step:
    """The graph is recorded in every step, and replayed once."""
    x = _rand((_of(device, 4096, 4096, size),), device, seed)
    if device == "cuda":
        return lambda: _graph_of(lambda: _chain(x), warm=False)()
    from torch.fx.experimental.proxy_tensor import make_fx

    return lambda: make_fx(_chain)(x)(x)


def captured_once(device: str, size: float = 1.0, seed: int = 0) -> Step:
    x = _rand((_of(device, 4096, 4096, size),), device, seed)
    if device == "cuda":
        return _graph_of(lambda: _chain(x))
    from torch.fx.experimental.proxy_tensor import make_fx

    recorded = make_fx(_chain)(x)
    return lambda: recorded(x)


def _graph_of(work: Callable[[], object], warm: bool = True):
    """A replay of the work from a CUDA graph; its result stays in the graph's memory, and the work, with what it reads, alive."""
    import torch

    if warm:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work()
        torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()

    def replay() -> None:
        graph.replay()

    replay.work = work
    return replay


_SAME = "the same work, "
_LIST = (
    Program(
        "one_by_one",
        "A batch, one sample at a time",
        "launch_bound",
        one_by_one,
        all_at_once,
        _SAME + "all samples in one batch",
        on_a_cpu="there is no idle device to see: the ops follow each other, each as long as its issue",
    ),
    Program(
        "read_outs",
        "A loss summed in Python",
        "reads_out",
        read_outs,
        no_read_out,
        _SAME + "summed where it is, to be read out after the loop",
        on_a_cpu="nothing is waited for: a read-out costs a call; on a GPU each waits for the device",
    ),
    Program(
        "slow_loader", "Batches decoded on demand", "waits_for_data", slow_loader, ready_batches, "the batch is there already"
    ),
    Program("giant_product", "One large product", "compute_bound", giant_product, None, ""),
    Program(
        "captured_chain",
        "A recorded chain of elementwise ops",
        "bandwidth_bound",
        captured_chain,
        blocked_chain,
        _SAME + "fused on a GPU, in blocks that fit the cache on a CPU",
        on_a_cpu="recorded by make_fx, since there is no CUDA graph: the replay runs the same ops from Python",
        steps=2,
        pinned=True,
    ),
    Program(
        "new_shapes",
        "Another length in every step, compiled",
        "recompiles",
        new_shapes,
        one_shape,
        _SAME + "padded to one length",
        steps=2,
    ),
    Program(
        "captured_again",
        "A graph for every step",
        "recaptures",
        captured_again,
        captured_once,
        "recorded once, before the loop",
        on_a_cpu="recorded by make_fx: every op runs once more through Python, which the trace calls PythonDispatchMode",
    ),
    Program(
        "wide_numbers",
        "Weights that came from numpy",
        "wide_dtype",
        wide_numbers,
        narrow_numbers,
        _SAME + "in the dtype that the device is made for",
        on_a_cpu="float64 against float32; on a GPU it is float32 against bf16",
    ),
    Program("copies", "Transposed and cloned to be safe", "needless_copies", copies, views, _SAME + "on views"),
    Program(
        "fresh_buffers",
        "Scratch memory made anew",
        "allocates_anew",
        fresh_buffers,
        kept_buffer,
        "one buffer, of which the used part is cleared",
        on_a_cpu="fresh pages are faulted in by the first write; there is no cache to empty",
    ),
    Program(
        "batch_of_one",
        "One sample through large weights",
        "small_batch",
        batch_of_one,
        batch_of_many,
        "many rows for the same weights",
    ),
    Program(
        "python_between",
        "Words counted between two ops",
        "outside_torch",
        python_between,
        python_ahead,
        "counted before the loop",
    ),
    Program(
        "element_by_element",
        "A running maximum, number by number",
        "launch_bound",
        element_by_element,
        whole_vector,
        "one op for the whole vector",
    ),
    Program(
        "loop_optimizer",
        "SGD, parameter by parameter",
        "launch_bound",
        loop_optimizer,
        foreach_optimizer,
        "one fused op for all parameters",
    ),
    Program(
        "growing_cat",
        "A cache that grows by cat",
        "needless_copies",
        growing_cat,
        place_ready,
        "rows written into a buffer that is large enough",
    ),
    Program(
        "waits_for_thread",
        "An input that a thread brings",
        "outside_torch",
        waits_for_thread,
        thread_ahead,
        "the input is there already",
    ),
    Program(
        "across_the_bus",
        "To the host and back",
        "crosses_the_bus",
        across_the_bus,
        stays_there,
        "the tensor stays on the device",
        devices=("cuda",),
    ),
    Program(
        "sync_each_op",
        "A synchronisation after every op",
        "reads_out",
        sync_each_op,
        no_sync,
        "no synchronisation in the step",
        devices=("cuda",),
    ),
)
PROGRAMS: dict[str, Program] = {p.id: p for p in _LIST}
