"""What a replay costs by its number of nodes, T(n) = F + n·c, over chains of 1 to 5,000 dependent one-element adds.

On CUDA a graph: the device's time of a replay, the host's for issuing one, and the same adds op by op until the device is idle.
On a CPU the list of baked kernels that stands in for one, where the host is the device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from utils.measure import op_record, op_replay
from utils.measure.chains_of_adds import chain
from utils.measure.either_clock import Progress, need, one_thread, race, within
from utils.measure.graph_by_hand import Captured, captured
from utils.measure.stopwatch import interleave, time_device, time_host
from utils.measure.wall_arms import until_idle
from utils.model.line import Line, through
from utils.model.readings import Race, Reading

LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
QUICK = (1, 10, 100, 1000, 5000)
SHOWN_EAGER = (1, 10, 100, 1000)  # longer ones would only wait
FITTED = {"cpu": 1000, "cuda": 5000}  # longer lists of baked kernels outgrow a CPU's cache, and no line goes through that
EAGER = "{} op by op"


def nodes(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """ "rows": [{"nodes", "device_us" (a replay, back to back), "fit_us", "host_us" (issuing one replay; a CPU's is its whole
    price), "eager_us" (the adds op by op, until the device is idle; None for most), "counted" (the nodes that the graph tells)}],
    "race" (ns a replay), "hosts" (CUDA: ns to issue one), "numbers": "fixed", "fixed_lo", "fixed_hi", "node", "node_lo",
    "node_hi" (ns, 95 %), "worst_fit" (of the sizes that the line goes through), "longest", "longest_over_fit" (there, measured
    over the line), "host_1", "host_100", "host_1000", "eager_node" (ns an add, of 100), "gain_100", "wrong" (chains whose replay
    gave another sum), "aa_error", "error". About 3 s quick. MeasurementError without the device, or without a compiler on a CPU.
    """
    need(device, "replays")
    import torch

    lengths = QUICK if quick else LENGTHS
    with one_thread(device) as alone, torch.no_grad():
        x, b = (torch.randn(1, device=device) for _ in range(2))
        made, wrong = _made(device, lengths, x, b, within(progress, 0, 0.3))
        replays = {str(n): replay for n, (replay, _) in made.items()}
        eager = {n: partial(chain(n), x, b) for n in SHOWN_EAGER if n in lengths}
        budget = {"blocks": 15 if quick else 40, "at_most_s": 2.0 if quick else 15.0}
        if device == "cuda":
            found = time_device(replays, device=device, progress=within(progress, 0.3, 0.3), control="100", **budget)
            hosts = time_host(replays, device=device, progress=within(progress, 0.6, 0.2), control="100", **budget)
            by_op = interleave(
                {str(n): until_idle(f, device, lead=True) for n, f in eager.items()},
                blocks=15,
                calls={str(n): max(1, 200 // n) for n in eager},
                stretches=1,
                at_most_s=2.0 if quick else 5.0,
                progress=within(progress, 0.8, 0.2),
            )
        else:
            ops = {EAGER.format(n): f for n, f in eager.items()}
            hosts = found = race(device, replays | ops, control="100", progress=within(progress, 0.3, 0.7), **budget)
            by_op = {str(n): found[EAGER.format(n)] for n in eager}
    line = through({n: found[str(n)].samples for n in lengths if n <= FITTED[device]})
    rows = [_row(n, found, hosts, by_op, line, made[n][1]) for n in lengths]
    notes = [alone, *found.notes, *(f"{n} nodes: another sum than eager's" for n in wrong)]
    return {
        "device": device,
        "rows": rows,
        "race": found,
        **({"hosts": hosts} if device == "cuda" else {}),
        "numbers": _numbers(line, found, hosts, by_op)
        | {
            "wrong": float(len(wrong)),
            "longest": float(lengths[-1]),
            "longest_over_fit": found[str(lengths[-1])].ns / line.at(lengths[-1]),
        },
        "notes": notes,
    }


def _made(device: str, lengths: tuple[int, ...], x, b, progress: Progress | None) -> tuple[dict, list[int]]:
    """({n: (what replays n adds, the nodes it tells)}, the n whose replay gave another result than the same adds op by op)."""
    import torch

    made, wrong = {}, []
    if device == "cuda":
        for at, n in enumerate(lengths):
            if progress:
                progress(at / len(lengths), f"capturing {n:,} adds")
            graph: Captured = captured(chain(n), x, b)
            if not torch.allclose(graph(x, b), chain(n)(x, b), rtol=1e-4, atol=1e-4):
                wrong.append(n)
            made[n] = graph.replay, graph.graph.nodes
        return made, wrong
    if progress:
        progress(0, f"recording {lengths[-1]:,} adds")
    with op_record.recording() as record:
        chain(lengths[-1])(x, b)
    for n in lengths:
        calls = record.calls[:n]
        replay = op_replay.Replay(calls, op_replay.BAKED)
        replay()
        if not torch.allclose(calls[-1].results[0], chain(n)(x, b), rtol=1e-4, atol=1e-4):
            wrong.append(n)
        made[n] = _once(replay), len(calls)
    return made, wrong


def _once(replay: op_replay.Replay) -> Callable[[], None]:
    return lambda: replay()


def _row(n: int, found: Race, hosts: Race, by_op: dict[str, Reading], line: Line, counted: int | None) -> dict:
    return {
        "nodes": n,
        "device_us": found[str(n)].ns * 1e-3,
        "fit_us": line.at(n) * 1e-3,
        "host_us": hosts[str(n)].ns * 1e-3,
        "eager_us": by_op[str(n)].ns * 1e-3 if str(n) in by_op else None,
        "counted": counted,
    }


def _numbers(line: Line, found: Race, hosts: Race, by_op: dict[str, Reading]) -> dict[str, float]:
    out = {
        "fixed": line.fixed,
        "fixed_lo": line.fixed_band[0],
        "fixed_hi": line.fixed_band[1],
        "node": line.each,
        "node_lo": line.each_band[0],
        "node_hi": line.each_band[1],
        "worst_fit": line.worst,
        "eager_node": by_op["100"].ns / 100,
        "gain_100": by_op["100"].ns / found["100"].ns,
        "aa_error": found.aa_error,
        "error": found.error,
    }
    return out | {f"host_{n}": hosts[str(n)].ns for n in (1, 100, 1000)}
