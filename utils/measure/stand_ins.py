"""What stands in for a CUDA graph on a CPU: n dependent small adds in a dozen ways, timed, and tried against a graph's rules.

Every way computes the same program from the same two tensors and is checked on fresh random ones. Ways differ in what they still
do at every step: Python, arguments, dispatch, memory, the iterator's set-up; the kernel is the same in all but the compilers'.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from utils.measure import op_record, op_replay, seams
from utils.measure.chains_of_adds import chain, own_code
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, one_thread, within
from utils.measure.record import in_words
from utils.measure.stopwatch import AGAIN, Arm, calibrate, interleave, timer_overhead_ns
from utils.model.readings import Race

EAGER = "eager"
CASES = ((1, 1), (10, 1), (100, 1), (10, 4096), (100, 4096))  # (adds, elements)
QUICK_CASES = ((10, 1), (100, 1), (100, 4096))
TRIES = 3  # of random inputs, before the race


@dataclass(frozen=True)
class Way:
    """One way to run the chain. `run()` works on the static inputs and gives the result; `take(x, b)` works on other tensors,
    None where the way cannot; `inside` makes the context that it runs in."""

    key: str
    words: str
    kind: str  # "Python", "C++" or "compiler"
    run: Callable[[], object]
    take: Callable | None = None
    inside: Callable[[], AbstractContextManager] = nullcontext


def stand_ins(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """n dependent adds (1, 10, 100; of 1 and of 4,096 elements) in every way there is:

    "rows": [{"ops", "elements", "way", "key", "kind", "ns" (the whole chain), "ns_an_op", "gain" (eager over this), "seen" (the
    difference from eager exceeds the error), "wrong" (words, or "")}], "rules": {way: {"stale", "overwritten", "static"}} (what
    was found by trying, see `rules`), "races": {"100x1": …} (ns), "missing": {way: why}, "numbers": gains as "baked_100x1" (key,
    adds, elements), "eager_100x1" (ns an op), "wrong", "worst_aa". About 4 s quick, and what compiling takes.
    """
    if device != "cpu":
        raise MeasurementError("these stand in for a graph on a CPU: on a GPU there are graphs")
    need(device, "replays")
    report = progress or (lambda done, text: None)
    cases = QUICK_CASES if quick else CASES
    missing: dict[str, str] = {}
    rows, races, numbers, tried, wrongs = [], {}, {}, {}, []
    with one_thread(device) as alone:
        for at, (n, elements) in enumerate(cases):
            report(at / len(cases), f"{n} adds of {elements:,}")
            with tempfile.TemporaryDirectory(prefix="one-add-aoti-") as folder:
                x, b, ways = ways_of(n, elements, missing, compilers=n > 1, ahead=folder if n == 100 and not quick else "")
                if (n, elements) == (100, 1):
                    tried = {way.words: rules(way, x, b, n) for way in ways}
                said = {way.key: _wrong(way, x, b, n) for way in ways}
                found = _race(ways, within(progress, (at + 0.5) / len(cases), 0.5 / len(cases)), quick)
                said = {way.key: said[way.key] or _wrong(way, x, b, n) for way in ways}
            case = f"{n}x{elements}"
            races[case] = found
            for way in ways:
                ns = found[way.words].ns
                rows.append(
                    {
                        "ops": n,
                        "elements": elements,
                        "way": way.words,
                        "key": way.key,
                        "kind": way.kind,
                        "ns": ns,
                        "ns_an_op": ns / n,
                        "gain": found[EAGER].ns / ns,
                        "seen": way.words != EAGER and found.difference(EAGER, way.words).seen,
                        "wrong": said[way.key],
                    }
                )
                numbers[f"{way.key}_{case}"] = found[EAGER].ns / ns
            numbers[f"eager_{case}"] = found[EAGER].ns / n
            wrongs += [f"{case}, {way.words}: {said[way.key]}" for way in ways if said[way.key]]
    numbers |= {"wrong": float(len(wrongs)), "worst_aa": max(r.aa_error for r in races.values())}
    return {"device": device, "rows": rows, "rules": tried, "races": races, "missing": missing, "numbers": numbers,
            "notes": [alone, *wrongs, *(f"{way}: {why}" for way, why in missing.items())]}  # fmt: skip


def ways_of(n: int, elements: int, missing: dict[str, str], *, compilers: bool = True, ahead: str = "") -> tuple:
    """(x, b, the ways): static inputs and every way to run n adds on them. A way that cannot be had is told in `missing`.

    compilers: torch.compile too; ahead: a folder for what AOTInductor compiles, "" leaves it out.
    """
    import torch

    program = chain(n)
    x, b = torch.randn(elements), torch.randn(elements)
    outs = [torch.empty(elements) for _ in range(n)]
    with op_record.recording() as record:
        program(x, b)
    ways = [
        Way("eager", EAGER, "Python", partial(program, x, b), program, torch.no_grad),
        Way("inference", "inference mode", "Python", partial(program, x, b), program, torch.inference_mode),
        Way("out", "a program with out=", "Python", partial(_with_outs, x, b, outs), None, torch.no_grad),
        Way("list", "a list of torch.add(out=)", "Python", _listed(x, b, outs), None, torch.no_grad),
        Way("ops_list", "a list of torch.ops calls", "Python", _replayed(op_replay.PythonReplay(record.calls), record)),
    ]
    given: list[tuple[str, str, str, Callable[[], Way]]] = [
        ("fx_python", "an fx graph, traced", "Python", lambda: _fx(program, x, b, "fx_python", "an fx graph, traced")),
        ("fx", "an fx graph of aten ops", "Python", lambda: _fx_aten(program, x, b)),
    ]
    for key, words, way in (
        ("boxed", "C++ list, boxed calls", op_replay.BOXED),
        ("add_out", "C++ list, at::add_out", "at::add_out"),
        ("cpu_add_out", "C++ list, at::cpu::add_out", "at::cpu::add_out"),
        ("baked", "C++ list, baked kernels", op_replay.BAKED),
    ):
        given.append((key, words, "C++", partial(_in_cpp, key, words, way, record)))
    if compilers:
        given.append(("compiled", "torch.compile", "compiler", lambda: _compiled(program, x, b)))
    if ahead:
        given.append(("aoti", "AOTInductor", "compiler", lambda: _ahead(program, x, b, ahead)))
    for _, words, _, make in given:
        try:
            ways.append(make())
        except MeasurementError as error:
            missing[words] = str(error)
        except Exception as error:  # a compiler that is not there, a tracer that moved: each in its own way
            missing[words] = f"{type(error).__name__}: {in_words(error)}"
    return x, b, ways


def _with_outs(x, b, outs):
    import torch

    add = torch.add
    for out in outs:
        x = add(x, b, out=out)
    return x


def _listed(x, b, outs) -> Callable:
    import torch

    steps = [(torch.add, (before, b), {"out": out}) for before, out in zip([x, *outs], outs, strict=False)]

    def replay():
        for f, args, kwargs in steps:
            out = f(*args, **kwargs)
        return out

    return replay


def _replayed(replay: Callable, record: op_record.Record) -> Callable:
    result = record.calls[-1].results[0]

    def run():
        replay()
        return result

    return run


def _in_cpp(key: str, words: str, way: str, record: op_record.Record) -> Way:
    return Way(key, words, "C++", _replayed(op_replay.Replay(record.calls, way), record))


def _fx(program: Callable, x, b, key: str, words: str) -> Way:
    import torch

    graph = torch.fx.symbolic_trace(program)
    return Way(key, words, "Python", partial(graph, x, b), graph, torch.no_grad)


def _fx_aten(program: Callable, x, b) -> Way:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(program)(x, b)
    return Way("fx", "an fx graph of aten ops", "Python", partial(graph, x, b), graph, torch.no_grad)


def _compiled(program: Callable, x, b) -> Way:
    import torch

    made = torch.compile(own_code(program), dynamic=False)
    with torch.no_grad():
        made(x, b)
    return Way("compiled", "torch.compile", "compiler", partial(made, x, b), made, torch.no_grad)


def _ahead(program: Callable, x, b, folder: str) -> Way:
    import torch

    class Module(torch.nn.Module):
        def forward(self, x, b):
            return program(x, b)

    with torch.no_grad():
        exported = torch.export.export(Module(), (x, b))
        made = seams.compiled_ahead(exported, str(Path(folder) / "adds.pt2"))
    return Way("aoti", "AOTInductor", "compiler", partial(made, x, b), made, torch.no_grad)


def _wrong(way: Way, x, b, n: int) -> str:
    """What is wrong with a way on fresh random inputs that were copied into the static ones; "" when nothing is."""
    import torch

    for _ in range(TRIES):
        x.copy_(torch.randn_like(x)), b.copy_(torch.randn_like(b))
        with way.inside():
            got = way.run()
        if not torch.allclose(got, chain(n)(x, b), rtol=1e-5, atol=1e-5):
            return "another result than eager's"
    return ""


def rules(way: Way, x, b, n: int) -> dict[str, bool]:
    """What a graph's rules are for one way, by trying:

    "stale": new tensors are not seen, their values must be copied into the static ones; "overwritten": a result that was kept
    changes with the next call; "static": the result lies where the one before lay, though that one is kept.
    """
    import torch

    new_x, new_b = torch.randn_like(x), torch.randn_like(b)
    with way.inside():
        first = way.run()
        held = first.clone()
        taken = way.take(new_x, new_b) if way.take else first
        stale = not torch.allclose(taken, chain(n)(new_x, new_b), rtol=1e-5, atol=1e-5)
        x.copy_(new_x), b.copy_(new_b)
        second = way.run()
    return {
        "stale": stale,
        "overwritten": not torch.equal(first, held),
        "static": first.data_ptr() == second.data_ptr(),
    }


def _race(ways: list[Way], progress: Progress | None, quick: bool) -> Race:
    arms: dict[str, Arm] = {way.words: _arm(way) for way in ways}
    arms[EAGER + AGAIN] = arms[EAGER]
    calls = {name: calibrate(name, arm, 2e-3) for name, arm in arms.items()}
    calls[EAGER + AGAIN] = calls[EAGER]
    found = interleave(
        arms,
        blocks=15 if quick else 40,
        calls=calls,
        at_most_s=1.5 if quick else 4.0,
        pair=(EAGER, EAGER + AGAIN),
        progress=progress,
    )
    return Race(found, (EAGER, EAGER + AGAIN), "host", "cpu", timer_ns=timer_overhead_ns())


def _arm(way: Way) -> Arm:
    def arm(n: int) -> float:
        run, kept = way.run, None
        with way.inside():
            start = time.perf_counter_ns()
            for _ in range(n):
                kept = run()
            took = time.perf_counter_ns() - start
        del kept
        return took * 1e-9

    return arm
