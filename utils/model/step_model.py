"""A step's time from its description: what each op moves and from how far away, what it charges host and device. No torch here.

A `Program` says what is run: a chain of ops on one tensor. `Layout` is what follows from descriptions alone: for each op the
bytes that it moves and how many other bytes were touched since they were last (that decides which cache still holds them).
`Model` puts prices on it: on a CPU host and kernels are one thread and add up; on a GPU host, queue and device are played
through by the rules of `costmodel.queue`. Every price has a unit and a meaning (`meaning`); none belongs to one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from utils.model import costmodel

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
# kind → tensors of the result's size that it reads; each kind with a kernel writes one. "mm" reads a square weight as well.
READS = {"add": 2, "mul": 2, "scale": 1, "relu": 1, "sigmoid": 1, "gelu": 1, "mm": 1, "view": 0}
# What a tape keeps of an op on (h, w) where h needs a gradient and w does not: its result, its input, or neither.
KEEPS = {"relu": "result", "sigmoid": "result", "gelu": "input"}
GRAIN = 32_768  # elements from which on torch shares an elementwise op out among its threads (at::internal::GRAIN_SIZE)
ARITHMETIC = ("add", "mul", "scale", "relu", "sigmoid", "gelu")
# Bytes touched since: where a CPU's caches and memory are told apart, and a GPU's.
DISTANCES = {
    "cpu": (1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30),
    "cuda": (1 << 20, 1 << 23, 1 << 25, 1 << 26, 1 << 27, 1 << 29),
}


@dataclass(frozen=True)
class Program:
    """One step: `kinds` in a row, each on the result of the one before; all tensors have `elements` numbers of `dtype`.

    grad: a tape is written, and torn down at the end. side: of the square weight of each "mm", whose input is then a matrix of
    elements / side rows. threads: that a CPU's kernels may use; each has its share of the bytes and of the arithmetic.
    """

    kinds: tuple[str, ...]
    elements: int
    dtype: str = "fp32"
    grad: bool = False
    side: int = 0
    threads: int = 1

    def __post_init__(self):
        if unknown := set(self.kinds) - set(READS):
            raise ValueError(f"no such kinds of op: {', '.join(sorted(unknown))}; there are {', '.join(READS)}")
        if not self.kinds or self.elements < 1 or self.dtype not in BYTES:
            raise ValueError(f"a program has ops, elements, and a dtype of {', '.join(BYTES)}: {self}")
        if "mm" in self.kinds and (self.side < 1 or self.elements % self.side):
            raise ValueError(f"a product needs a side that divides the elements: {self}")

    @property
    def name(self) -> str:
        """In words that no other program has."""
        runs: list[list] = []
        for kind in self.kinds:
            if runs and runs[-1][0] == kind:
                runs[-1][1] += 1
            else:
                runs.append([kind, 1])
        chain = " ".join(kind if n == 1 else f"{n}x{kind}" for kind, n in runs)
        side = f" by {self.side}²" if self.side else ""
        return f"{chain} on {self.elements:,}{side} {self.dtype}{' grad' if self.grad else ''}"

    def team(self, kind: str) -> int:
        """How many threads an op of this kind is shared out to."""
        enough = kind == "mm" or self.elements > GRAIN
        return self.threads if enough and kind != "view" else 1

    @property
    def tensor_bytes(self) -> int:
        return self.elements * BYTES[self.dtype]

    @property
    def nbytes(self) -> int:
        """What all kernels move, each tensor counted at each reading and writing (a weight at each product)."""
        return sum(_moved(self, kind) for kind in self.kinds)

    @property
    def flops(self) -> int:
        """Of the products, and one an element of every other op with arithmetic."""
        return sum(2 * self.elements * self.side if kind == "mm" else self.elements * (kind in ARITHMETIC) for kind in self.kinds)


def _moved(program: Program, kind: str) -> int:
    if kind == "view":
        return 0
    weight = program.side**2 * BYTES[program.dtype] if kind == "mm" else 0
    return (READS[kind] + 1) * program.tensor_bytes + weight


# ------------------------------------------------------------------------------------------------ from how far away


def touched(program: Program) -> list[list[tuple[str, int]]]:
    """The buffers (name, bytes) that each op touches, in order, in one run of the program from its input on.

    A result that nothing holds any more gives its place to the next one (as glibc's malloc and torch's allocator do): without a
    tape two places take turns. A tape holds on to what it keeps until the end.
    """
    size = program.tensor_bytes
    free: list[str] = []
    made = 0
    held: set[str] = set()
    here, out = "input", []
    for kind in program.kinds:
        if kind == "view":
            out.append([])
            continue
        if free:
            place = free.pop()
        else:
            place, made = f"result {made}", made + 1
        buffers = [(here, size)]
        if READS[kind] == 2:
            buffers.append(("other", size))
        if kind == "mm":
            buffers.append(("weight", program.side**2 * BYTES[program.dtype]))
        out.append([*buffers, (place, size)])
        if program.grad and KEEPS.get(kind) == "result":
            held.add(place)
        if program.grad and KEEPS.get(kind) == "input":
            held.add(here)
        if here != "input" and here not in held:
            free.append(here)
        here = place
    return out


def distances(program: Program) -> list[list[tuple[int, int]]]:
    """(bytes moved, bytes touched since they were last) for each buffer of each op, where the program is run again and again.

    A buffer that both the op that touched it last and this one work on is met again after about one pass of all that the two
    stream through: what only one of them touches counts half, what stood between them counts whole.
    """
    once = touched(program)
    runs = [*once, *once]
    last: dict[str, int] = {}
    out: list[list[tuple[int, int]]] = []
    for i, buffers in enumerate(runs):
        row = []
        for name, size in buffers:
            if name in last:
                row.append((size, _between(runs, last[name], i)))
            else:
                row.append((size, sum(dict(b for r in once for b in r).values())))
        for name, _ in buffers:
            last[name] = i
        out.append(row)
    return out[len(once) :]


def _between(runs: Sequence[Sequence[tuple[str, int]]], first: int, now: int) -> int:
    whole = dict(b for row in runs[first + 1 : now] for b in row)
    ends = [dict(runs[first]), dict(runs[now])]
    total = sum(whole.values())
    for name in ends[0].keys() | ends[1].keys():
        if name not in whole:
            total += sum(end.get(name, 0) for end in ends) // 2
    return total


# ------------------------------------------------------------------------------------------------ prices


class Layout:
    """Programs as arrays, a row a program and a column an op, padded with ops that cost nothing."""

    def __init__(self, programs: Sequence[Program], device: str):
        self.programs, self.device = tuple(programs), device
        self.names = parameter_names(programs, device)
        at = {name: i for i, name in enumerate(self.names)}
        self.at = at
        rows, columns = len(programs), max(len(p.kinds) for p in programs)
        knots = np.log2(DISTANCES[device])
        shape = (rows, columns)
        self.there = np.zeros(shape, bool)  # an op
        self.kernel = np.zeros(shape, bool)  # with a kernel
        self.host = np.zeros(shape, int)
        self.grad = np.zeros(shape, bool)
        self.switch = np.zeros(shape, bool)
        self.read = np.zeros((*shape, len(knots)))  # bytes, shared out among the knots
        self.written = np.zeros((*shape, len(knots)))
        self.work = np.zeros(shape)  # elements of arithmetic, or FLOPs of a product
        self.rows = np.full(shape, np.inf)  # of a product's left side
        self.rate = np.zeros(shape, int)  # the price of one of them
        self.start = np.zeros(shape, int)
        self.team = np.zeros(shape, bool)
        for r, program in enumerate(programs):
            far = distances(program)
            for c, kind in enumerate(program.kinds):
                self.there[r, c] = True
                self.host[r, c] = at[_host(kind, program, device)]
                self.grad[r, c] = program.grad
                self.switch[r, c] = kind != program.kinds[c - 1]
                if kind == "view":
                    continue
                self.kernel[r, c] = True
                self.start[r, c] = at[f"start mm {program.dtype}" if kind == "mm" else "start"]
                many = program.team(kind)
                self.team[r, c] = many > 1
                self.work[r, c] = (2 * program.elements * program.side if kind == "mm" else program.elements) / many
                self.rows[r, c] = program.elements / program.side if kind == "mm" else np.inf
                self.rate[r, c] = at[_rate(kind, program)]
                for last, (size, distance) in enumerate(far[c], start=1 - len(far[c])):
                    bytes_at = self.read if last else self.written  # the result is the last buffer of an op
                    size, distance = size / many, max(distance / many, 1)
                    place = float(np.interp(np.log2(distance), knots, np.arange(len(knots))))
                    low = min(int(place), len(knots) - 2)
                    bytes_at[r, c, low] += size * (1 - (place - low))
                    bytes_at[r, c, low + 1] += size * (place - low)
        self.knots = np.array([at[f"memory {d}"] for d in DISTANCES[device]])


def _host(kind: str, program: Program, device: str) -> str:
    """One price a kind: the host does the same for each dtype. On a CPU fp32's gelu alone goes to another library (oneDNN)."""
    return f"host {kind}{' by oneDNN' if (kind, program.dtype, device) == ('gelu', 'fp32', 'cpu') else ''}"


def _rate(kind: str, program: Program) -> str:
    return f"flop {program.dtype} {program.side}" if kind == "mm" else f"element {kind} {program.dtype}"


def parameter_names(programs: Sequence[Program], device: str) -> list[str]:
    """The prices that these programs need, in a fixed order."""
    found = {"step", "grad op", "leaf", "teardown", "switch", "start", "overlap", "written"}
    if device == "cuda":
        found.add("gap")
    if any(program.threads > 1 for program in programs):
        found.add("team")
    for program in programs:
        for kind in program.kinds:
            if kind == "view":
                found.add("host view")
                continue
            found |= {_host(kind, program, device), _rate(kind, program)}
            if kind == "mm":
                found |= {f"start mm {program.dtype}", "rows"}
    return sorted(found | {f"memory {d}" for d in DISTANCES[device]})


def meaning(name: str) -> str:
    """A price in words, with its unit."""
    first, _, rest = name.partition(" ")
    words = {
        "step": "once a step: the call, the loop, on a GPU the wait at its end, µs",
        "grad": "what one op more costs the host with a tape, µs",
        "teardown": "what tearing its node down costs the host at the step's end, µs",
        "leaf": "what a tape costs the host once: the node of its leaf, µs",
        "switch": "what an op costs the host more when it follows one of another kind, µs",
        "start": f"what a kernel takes beyond its bytes and arithmetic{' (product, ' + rest[3:] + ')' if rest else ''}, µs",
        "overlap": "how far arithmetic hides behind memory: 1 adds them up, large takes the longer one",
        "written": "how many times as much as a byte that is read one costs that is written",
        "team": "calling the other threads and waiting for them, µs",
        "gap": "the device's time between two kernels of a full queue, µs",
        "rows": "rows of a product's left side at which it runs at half of its rate",
        "host": f"the host's time for one {rest}, µs",
        "memory": f"moving a byte that was last met {rest} bytes of others ago, ns",
        "element": f"the arithmetic of one element of {rest}, ns",
        "flop": f"a FLOP of a product ({rest} side), ns",
    }
    return words[first]


def usual(name: str, device: str) -> float:
    """Where a fit begins: the order of magnitude of each price, from no measurement of any program."""
    first, _, rest = name.partition(" ")
    if first == "memory":
        distance = int(rest)
        if device == "cuda":
            return 1 / 6000 if distance < 1 << 26 else 1 / 3300
        return 1 / 60 if distance < 1 << 20 else 1 / 25 if distance < 1 << 24 else 1 / 8
    if first == "element":
        return 0.2 if device == "cpu" else 2e-4
    if first == "flop":
        return (1 / 50 if rest.startswith("fp32") else 1.0) if device == "cpu" else (1 / 30_000 if "32" in rest else 1 / 400_000)
    return _FIRST_GUESS[first][device == "cuda"]


_FIRST_GUESS = {  # on a CPU, on a GPU
    "step": (1.0, 12.0),
    "grad": (0.8, 1.5),
    "leaf": (0.5, 1.0),
    "teardown": (0.3, 0.5),
    "switch": (0.2, 0.3),
    "start": (0.2, 1.2),
    "overlap": (2.0, 2.0),
    "written": (1.0, 1.0),
    "gap": (1.0, 0.8),
    "team": (3.0, 3.0),
    "host": (1.5, 6.0),
    "rows": (4.0, 64.0),
}


def host_and_device(layout: Layout, prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(host's µs, kernel's µs) of every op of every program, tear-down left out; prices in the order of `layout.names`."""
    at = layout.at
    host = prices[layout.host] + layout.grad * prices[at["grad op"]] + layout.switch * prices[at["switch"]]
    memory = (layout.read + prices[at["written"]] * layout.written) @ prices[layout.knots] * 1e-3
    arithmetic = layout.work * prices[layout.rate] * 1e-3
    if "rows" in at:
        arithmetic = arithmetic * (1 + prices[at["rows"]] / layout.rows)
    p = 1 + prices[at["overlap"]]
    longest = np.maximum(np.maximum(memory, arithmetic), 1e-12)
    both = longest * ((memory / longest) ** p + (arithmetic / longest) ** p) ** (1 / p)
    start = prices[layout.start] + (layout.team * prices[at["team"]] if "team" in at else 0.0)
    return host * layout.there, (start + both) * layout.kernel


def once_a_tape(layout: Layout, prices: np.ndarray) -> np.ndarray:
    """What a tape costs the host beside its ops, µs: its leaf's node, and tearing all nodes down behind the last op."""
    torn = (layout.grad * layout.there).sum(axis=1) * prices[layout.at["teardown"]]
    return torn + layout.grad[:, 0] * prices[layout.at["leaf"]]


def step_us(layout: Layout, prices: np.ndarray) -> np.ndarray:
    """The step of every program, µs, by this model."""
    at = layout.at
    host, device = host_and_device(layout, prices)
    torn = once_a_tape(layout, prices)
    if layout.device == "cpu":  # one thread: what the host does and what the kernels do add up
        return prices[at["step"]] + torn + host.sum(axis=1) + device.sum(axis=1)
    now, busy = np.zeros(len(host)), np.zeros(len(host))
    for c in range(host.shape[1]):  # costmodel.queue for all programs at once; a test holds the two equal
        now = now + host[:, c]
        started = np.where(busy > now, busy + prices[at["gap"]], now)
        busy = np.where(layout.kernel[:, c], started + device[:, c], busy)
    return prices[at["step"]] + np.maximum(now + torn, busy)


def three(programs: Sequence[Program], device: str, priced: dict[str, float]) -> list[dict[str, float]]:
    """{"queue", "sum", "max"} of each program, µs, by the same prices: as `step_us`, as if nothing overlapped, as if the shorter
    side hid behind the longer one. What is paid once a step is in all of them. On a CPU nothing overlaps: "queue" is "sum"."""
    layout = Layout(programs, device)
    prices = np.array([priced[name] for name in layout.names])
    host, kernels = host_and_device(layout, prices)
    torn = once_a_tape(layout, prices)
    once = prices[layout.at["step"]]
    issued, drained = host.sum(axis=1) + torn, kernels.sum(axis=1)
    by = {"queue": step_us(layout, prices), "sum": once + issued + drained, "max": once + np.maximum(issued, drained)}
    return [{name: float(values[i]) for name, values in by.items()} for i in range(len(programs))]


def ops(program: Program, device: str, priced: dict[str, float]) -> list[costmodel.Op]:
    """The program as ops of `costmodel`, by the same prices (by name): for its three models and its timelines."""
    layout = Layout([program], device)
    host, kernel = host_and_device(layout, np.array([priced[name] for name in layout.names]))
    return [
        costmodel.Op(float(h), 0.0, float(k) if there else None, name=kind)
        for kind, h, k, there in zip(program.kinds, host[0], kernel[0], layout.kernel[0], strict=True)
    ]
