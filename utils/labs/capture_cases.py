"""The rules of a capture broken on purpose, on either device: each break seen and repaired, and is the process sound after it?

A break that draws random numbers on a GPU runs in a child process: on torch 2.11 a capture that has drawn and then fails leaves
the generator capturing for good, and everything random fails in that process from then on, reset() or not.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional

from utils.labs.capture import CaptureError, capture, captured_once, elsewhere, new_graph, warm_up
from utils.measure import children

SHOWN = 110  # characters of a message
CHILD_LIMIT_S = 120  # importing torch and a first capture on a slow machine


@dataclass(frozen=True)
class Case:
    """One rule. `broken(device)` breaks it and returns "silent: …", what came out, or raises CaptureError; `repaired(device)`
    returns whether the repair gives what the step does. `draws`: it draws random numbers."""

    name: str
    rule: str
    did: str
    broken: Callable[[str], str]
    repair: str
    repaired: Callable[[str], bool]
    draws: bool = False


def broken_rules(device: str = "") -> list[dict]:
    """A row for each rule: what was done, what came of it, how it is repaired, and whether a fresh capture and a draw work
    afterwards. `device` is "cpu" or "cuda"; left out, cuda where there is one."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return [_row(case, device) for case in CASES]


def tried(name: str, device: str) -> dict[str, str]:
    """One case in this process: {"seen", "repaired", "after"}, in words. A failure of the case itself is words as well.

    What draws is repaired first: on a GPU the process may be good for nothing after the break."""
    case = next(one for one in CASES if one.name == name)
    _first_calls(device)
    told = {"repaired": _repaired(case, device)} if case.draws else {}
    try:
        told["seen"] = case.broken(device)
    except CaptureError as error:
        told["seen"] = f"refused: {str(error)[:SHOWN]}"
    except Exception as error:
        told["seen"] = f"failed otherwise: {_words(error)}"
    told["after"] = _after(device)
    return told if case.draws else {**told, "repaired": _repaired(case, device)}


def on_the_gpu(diagnose: Callable, captured: Callable) -> str:
    """What a learner's two functions of part one do on real CUDA graphs, in words; that there is no GPU where there is none."""
    if not torch.cuda.is_available():
        return "There is no GPU here: the same functions would capture real CUDA graphs on one."
    x, new = (_random("cuda", 4, 3) for _ in range(2))
    told = [diagnose(step, x, new) for step in (lambda x: x.relu() * 2, lambda x: x / x.norm().item())]
    same = torch.equal(captured(lambda x: x.relu() * 2, x)(new), new.relu() * 2)
    return f"On real CUDA graphs: relu is {told[0]}, item() is {told[1]}, and a captured step is {'right' if same else 'WRONG'}."


def _repaired(case: Case, device: str) -> str:
    try:
        return "right" if case.repaired(device) else "NOT right"
    except Exception as error:
        return f"failed: {_words(error)}"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:SHOWN]}"


def _first_calls(device: str) -> None:
    """On a GPU, the kernels of the cases once: a first call loads code, and that has no place in a capture."""
    if device == "cuda":
        x = _random(device, 4, 3)
        (x * 2 + x * x.sum() + x / x.norm() + torch.mul(x, 2, out=torch.empty_like(x))).clone()
        torch.where(x.sum() > 0, x, -x), torch.where(x > 0, x, 0.0).sum(), x[x > 0].sum()
        torch.rand(3, device=device), functional.dropout(x, 0.5).sum()
        torch.cuda.synchronize()


def _row(case: Case, device: str) -> dict:
    alone = device == "cuda" and case.draws
    try:
        told = (
            children.in_child("utils.labs.capture_cases", (case.name, device), _ignore, CHILD_LIMIT_S)
            if alone
            else tried(case.name, device)
        )
    except RuntimeError as error:
        told = {"seen": f"its process failed: {error}", "repaired": "not tried", "after": "not tried"}
    return {
        "rule": case.rule,
        "broken by": case.did,
        "what came of it": told["seen"],
        "repaired by": f"{case.repair}: {told['repaired']}",
        "afterwards": told["after"] + (" (in a child process)" if alone else ""),
    }


def _in_child(name: str, device: str) -> dict[str, str]:
    return children.in_child("utils.labs.capture_cases", (name, device), _ignore, CHILD_LIMIT_S)


def _ignore(_done: float, _words: str) -> None:
    """No progress to show: a child takes seconds."""


def _after(device: str) -> str:
    """Whether a fresh capture and a random number work in this process now."""
    try:
        new = torch.full((3,), 2.0, device=device)
        sound = torch.equal(captured_once(lambda x: x * 2, torch.ones(3, device=device))(new), new * 2)
        torch.rand(1, device=device).item()
    except Exception as error:
        return f"broken: {_words(error)}"
    return "sound" if sound else "broken: a fresh capture is not right"


# ------------------------------------------------------------------------------------------------ small parts


def _random(device: str, *shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cpu").to(device)  # drawn on the CPU: the GPU's generator stays out of it


def _refused(step: Callable) -> Callable[[str], str]:
    """A break: capture `step` on new numbers, and say what a replay gives when it was not refused."""

    def broken(device: str) -> str:
        x, new = _random(device, 4, 3), _random(device, 4, 3)
        same = torch.equal(captured_once(step, x)(new), step(new))
        return f"silent: captured, and {'right' if same else 'wrong'} on other numbers"

    return broken


def _right(step: Callable, eager: Callable) -> Callable[[str], bool]:
    """A repair: `step`, captured once, gives on other numbers what `eager` gives."""

    def repaired(device: str) -> bool:
        run = captured_once(step, _random(device, 4, 3))
        news = [_random(device, 4, 3), -_random(device, 4, 3).abs()]
        return all(torch.allclose(run(new), eager(new), rtol=1e-4, atol=1e-5) for new in news)

    return repaired


@contextlib.contextmanager
def _side(device: str, *, joined: bool) -> Iterator[None]:
    """A second stream; joined, it begins after the first one and is waited for, which takes it into a capture."""
    side = torch.cuda.Stream()
    if joined:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        yield
    if joined:
        torch.cuda.current_stream().wait_stream(side)


def _doubled_elsewhere(device: str, *, joined: bool) -> Callable:
    """x + 2 x, the 2 x computed on another stream, or without a GPU in another thread (joined: in this one)."""
    room = torch.zeros(4, 3, device=device)

    def on_the_gpu(x):
        with _side(device, joined=joined):
            torch.mul(x, 2, out=room)
        return x + room

    def here(x):
        double = lambda: torch.mul(x, 2, out=room)  # noqa: E731
        return x + (double() if joined else elsewhere(double))

    return on_the_gpu if device == "cuda" else here


# ------------------------------------------------------------------------------------------------ what is broken


def _new_tensor(device: str) -> str:
    static, graph = _random(device, 4, 3), new_graph(device)
    warm_up(lambda x: x * 2, static)
    with capture(graph):
        out = static * 2
    first = static.clone()
    static = _random(device, 4, 3)  # the name is another tensor's now; the graph knows addresses
    graph.replay()
    return "silent: the old numbers again" if torch.equal(out, first * 2) else "silent: other numbers"


def _kept_output(device: str) -> str:
    static, graph = _random(device, 4, 3), new_graph(device)
    with capture(graph):
        out = static * 2
    graph.replay()
    first, wanted = out, static * 2
    static.copy_(_random(device, 4, 3))
    graph.replay()
    return "silent: the second result is in both" if not torch.equal(first, wanted) else "silent: nothing"


def _both_kept(device: str) -> bool:
    run, one, two = captured_once(lambda x: x * 2, _random(device, 4, 3)), _random(device, 4, 3), _random(device, 4, 3)
    kept = [run(x) for x in (one, two)]  # captured_once clones what it returns
    return torch.equal(kept[0], one * 2) and torch.equal(kept[1], two * 2)


def _counted_in_python(device: str) -> str:
    rates = iter([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    static, graph = _random(device, 4, 3), new_graph(device)
    with capture(graph):
        out = static * next(rates)
    graph.replay()
    frozen = torch.allclose(out, static * 0.1)
    graph.replay()
    return "silent: the first rate in every replay" if frozen and torch.allclose(out, static * 0.1) else "silent: other numbers"


def _rate_on_the_device(device: str) -> bool:
    rate = torch.zeros((), device=device)
    run, x = captured_once(lambda x: x * rate, _random(device, 4, 3)), _random(device, 4, 3)
    told = []
    for value in (0.2, 0.3):
        rate.fill_(value)
        told.append(torch.allclose(run(x), x * value))
    return all(told)


def _fewer_rows(device: str) -> str:
    run, row = captured_once(lambda x: x * 2, _random(device, 4, 3)), _random(device, 1, 3)
    return f"silent: one row went in, {len(run(row))} came out"


def _graph_for_each(device: str) -> bool:
    runs = {rows: captured_once(lambda x: x * 2, _random(device, rows, 3)) for rows in (4, 1)}
    return all(torch.equal(runs[len(x)](x), x * 2) for x in (_random(device, 4, 3), _random(device, 1, 3)))


def _other_stream(device: str) -> str:
    x, new, step = _random(device, 4, 3), _random(device, 4, 3), _doubled_elsewhere(device, joined=False)
    static, graph = x.clone(), new_graph(device)
    with capture(graph):
        out = step(static)
    if device == "cuda":
        torch.cuda.synchronize()
    static.copy_(new)
    graph.replay()
    return "silent: 2 x is that of the capture" if not torch.allclose(out, new * 3) else "silent: right by chance"


def _joined_stream(device: str) -> bool:
    run, new = captured_once(_doubled_elsewhere(device, joined=True), _random(device, 4, 3)), _random(device, 4, 3)
    return torch.allclose(run(new), new * 3)


def _other_device(device: str) -> str:
    other = "cpu" if device == "cuda" else "meta"
    return _refused(lambda x: x + x.to(other).to(device))(device)


def _own_generator(device: str) -> str:
    generator = torch.Generator(device).manual_seed(1)
    with capture(new_graph(device)):
        torch.rand(3, generator=generator, device=device)
    return "silent: it was captured"


def _registered(device: str) -> bool:
    generator, graph = torch.Generator(device).manual_seed(1), new_graph(device)
    graph.register_generator_state(generator)
    with capture(graph):
        out = torch.rand(100, generator=generator, device=device)
    graph.replay()
    first = out.clone()
    graph.replay()
    return not torch.equal(first, out)


def _draws_and_fails(device: str) -> str:
    x = torch.ones(4, 3, device=device)
    with capture(new_graph(device)):
        functional.dropout(x, 0.5).sum().item()
    return "silent: it was captured"


def _dropout(device: str) -> bool:
    x, graph = torch.ones(400, device=device), new_graph(device)
    warm_up(lambda x: functional.dropout(x, 0.5), x)
    with capture(graph):
        out = functional.dropout(x, 0.5)
    graph.replay()
    first = out.clone()
    graph.replay()
    return not torch.equal(first, out)


def _same(function: Callable) -> Callable[[str], bool]:
    """A repair that is the function itself."""
    return _right(function, function)


CASES = (
    Case(
        "item", "no value goes to Python", "x / x.norm().item()",
        _refused(lambda x: x / x.norm().item()), "x / x.norm()", _same(lambda x: x / x.norm()),
    ),
    Case(
        "decision", "Python decides nothing by numbers", "x if x.sum() > 0 else -x",
        _refused(lambda x: x if x.sum() > 0 else -x), "torch.where(x.sum() > 0, x, -x)",
        _right(lambda x: torch.where(x.sum() > 0, x, -x), lambda x: x if x.sum() > 0 else -x),
    ),
    Case(
        "size", "no size depends on numbers", "x[x > 0].sum()",
        _refused(lambda x: x[x > 0].sum()), "torch.where(x > 0, x, 0).sum()",
        _right(lambda x: torch.where(x > 0, x, 0.0).sum(), lambda x: x[x > 0].sum()),
    ),
    Case("input", "numbers go in by copy_", "static = new", _new_tensor, "static.copy_(new)", _same(lambda x: x * 2)),
    Case("output", "a replay overwrites its output", "first = out", _kept_output, "first = out.clone()", _both_kept),
    Case(
        "python", "Python runs once", "x * next(rates)",
        _counted_in_python, "a rate on the device, filled in before each replay", _rate_on_the_device,
    ),
    Case("shape", "one graph, one shape", "static.copy_(one_row)", _fewer_rows, "a graph for each shape", _graph_for_each),
    Case(
        "stream", "one stream, or joined ones", "2 x on another stream (a thread, on the CPU)",
        _other_stream, "wait_stream both ways (one thread, on the CPU)", _joined_stream,
    ),
    Case("device", "one device", "x.to(another device)", _other_device, "no such trip", _same(lambda x: x + x)),
    Case(
        "generator", "the graph knows its generators", "torch.rand(3, generator=my_own)",
        _own_generator, "graph.register_generator_state(my_own)", _registered, draws=True,
    ),
    Case(
        "draws", "what draws must not fail", "dropout(x).sum().item()",
        _draws_and_fails, "dropout without the item()", _dropout, draws=True,
    ),
)  # fmt: skip


if __name__ == "__main__":
    children.serve(lambda _progress: tried(sys.argv[1], sys.argv[2]))
