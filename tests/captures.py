"""Plausible parts of the study "capture", as a CPU or a GPU would give them, with every order that may turn round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.factories import make_race
from tests.ridges import HERE, THERE, both
from utils.model import payback

__all__ = ["HERE", "THERE", "both"]

NODES = (1, 10, 100, 1000, 5000)
# ns an op of one hundred adds of one element, by way: (title, who walks, ns)
WAYS = {
    "eager": ("eager", "Python", 1000.0),
    "out": ("a program with out=", "Python", 890.0),
    "list": ("a list of torch.add(out=)", "Python", 900.0),
    "ops_list": ("a list of torch.ops calls", "Python", 1800.0),
    "fx_python": ("an fx graph, traced", "Python", 1100.0),
    "fx": ("an fx graph of aten ops", "Python", 3000.0),
    "boxed": ("C++ list, boxed calls", "C++", 560.0),
    "add_out": ("C++ list, at::add_out", "C++", 490.0),
    "cpu_add_out": ("C++ list, at::cpu::add_out", "C++", 340.0),
    "baked": ("C++ list, baked kernels", "C++", 40.0),
    "compiled": ("torch.compile", "compiler", 800.0),
}
BLOCKS = {
    "eager": ("eager", 1.0),
    "captured": ("captured", 3.0),
    "fused": ("fused", 2.0),
    "both": ("fused and captured", 7.0),
    "compiled": ("torch.compile", 1.5),
}
PROGRAMS = {"100 adds": "100 adds", "small block": "small block"}


def nodes(device: str = "cpu", *, fixed: float = 300.0, node: float = 50.0, eager: float = 1000.0, host: float = 20.0,
          low: float | None = None, miss: float = 0.04, bend: float = 1.0) -> dict:  # fmt: skip
    """F + n·c in ns, the ops one by one, on CUDA the host's ns a node on top of 3 µs; `low`: the lower end of F."""
    rows = []
    for n in NODES:
        replay = fixed + n * node
        rows.append({"nodes": n, "device_us": 1e-3 * replay, "fit_us": 1e-3 * replay, "host_us": 1e-3 * replay,
                     "eager_us": 1e-3 * n * eager if n <= 1000 else None})  # fmt: skip
        if device == "cuda":
            rows[-1]["host_us"] = 1e-3 * (3000.0 + n * host)
    by = {row["nodes"]: row for row in rows}
    numbers = {"fixed": fixed, "fixed_lo": 0.9 * fixed if low is None else low, "fixed_hi": 1.1 * fixed + 1.0, "node": node}
    numbers |= {"node_lo": 0.98 * node, "node_hi": 1.02 * node, "worst_fit": miss, "eager_node": eager, "aa_error": 0.01}
    numbers |= {"host_100": 1e3 * by[100]["host_us"], "host_1000": 1e3 * by[1000]["host_us"]}
    numbers |= {"gain_100": by[100]["eager_us"] / by[100]["device_us"], "error": 0.02, "longest": float(NODES[-1])}
    numbers |= {"longest_over_fit": bend}
    return {"device": device, "rows": rows, "numbers": numbers, "notes": ["made up"]}


def ways(device: str = "cpu", *, without: tuple[str, ...] = (), wrong: float = 0.0, error: float = 0.01, **ns: float) -> dict:
    """Every way to run the adds; `ns` replaces some of one hundred adds of one element, `without` takes ways away."""
    rows, numbers, races = [], {"wrong": wrong, "worst_aa": error}, {}
    for ops, elements, times in ((10, 1, 1.2), (100, 1, 1.0), (100, 4096, 1.6)):
        for key, (title, kind, _) in WAYS.items():
            if key in without:
                continue
            price, eager = (times * ns.get(name, WAYS[name][2]) for name in (key, "eager"))
            rows.append({"ops": ops, "elements": elements, "key": key, "way": title, "kind": kind, "ns": ops * price,
                         "ns_an_op": price, "gain": eager / price, "seen": key != "eager", "wrong": ""})  # fmt: skip
            numbers[f"{key}_{ops}x{elements}"] = eager / price
        race = make_race(prices={row["way"]: row["ns"] for row in rows if (row["ops"], row["elements"]) == (ops, elements)})
        again = race.readings["eager (again)"].scaled(1 + error)
        races[f"{ops}x{elements}"] = replace(race, readings=race.readings | {"eager (again)": again})
    fixed = {"stale": True, "overwritten": True, "static": True}
    rules = {WAYS[key][0]: dict(fixed) for key in ("list", "baked") if key not in without}
    rules[WAYS["fx"][0]] = dict.fromkeys(fixed, False)
    missing = {WAYS[key][0]: "no C++ compiler was found" for key in without}
    return {"device": device, "rows": rows, "rules": rules, "races": races, "missing": missing,
            "numbers": numbers, "notes": ["one thread"]}  # fmt: skip


def block(device: str = "cpu", *, small: Mapping[str, float] | None = None, wide: Mapping[str, float] | None = None,
          without: tuple[str, ...] = (), wrong: float = 0.0) -> dict:  # fmt: skip
    """Both blocks; `small` and `wide` replace gains by way. A step op by op takes 50 µs, and 20 ms."""
    rows, numbers = [], {"wrong": wrong, "aa_error": 0.01, "small_copy": 900.0}
    usual = {name: gain for name, (_, gain) in BLOCKS.items()}
    flat = dict.fromkeys(usual, 1.0) | {"fused": 2.5, "both": 2.5, "compiled": 2.4}
    for size, step, found in (("small", 50.0, usual | dict(small or {})), ("wide", 20e3, flat | dict(wide or {}))):
        for key, gain in found.items():
            if key in without:
                continue
            once = 0.0 if key == "eager" else 0.02 if key == "captured" else 8.0
            rows.append({"size": size, "key": key, "way": BLOCKS[key][0], "host_us": step / gain / 2, "device_us": step / gain,
                         "step_us": step / gain, "gain": gain, "once_s": once, "wrong": ""})  # fmt: skip
            if key != "eager":
                numbers[f"{size}_{key}"] = gain
    return {"device": device, "rows": rows, "numbers": numbers, "notes": ["one thread"]}


def same_bytes(device: str = "cpu", *, times: float = 1.0) -> dict:
    """What a replay moves over what the ops one by one move: `times` as much."""
    numbers = {"eager_calls": 5.0, "captured_calls": 5.0 * times, "same": float(times == 1.0)}
    if device == "cpu":
        numbers |= {"eager_bytes": 12_000.0, "captured_bytes": 12_000.0 * times}
    rows = [{"op": "aten::add.out", "times": 5, "bytes": 2400, "eager": 5, "captured": 5 * times}]
    return {"device": device, "rows": rows, "numbers": numbers, "notes": []}


def pays(device: str = "cpu", *, compiled_s: float = 12.0, saving: float = 15.0) -> dict:
    """100 adds captured (5 ms, saving 90 µs), the small block compiled (`compiled_s`, saving `saving` µs a step)."""
    rows, numbers = [], {}
    cases = (("100 adds", "captured", "captured", 0.005, 10.0, 90.0),
             ("small block", "compiled", "torch.compile (nothing cached)", compiled_s, 35.0, saving))  # fmt: skip
    for program, key, way, once, step, gained in cases:
        steps = payback.steps(once, 1e3 * (step + gained), 1e3 * step)
        rows.append({"program": program, "key": key, "way": way, "once_s": once, "step_us": step, "saving_us": gained,
                     "steps": steps})  # fmt: skip
        numbers |= {f"{key}_s": once} | ({} if steps is None else {f"{key}_steps": float(steps)})
    return {"device": device, "rows": rows, "numbers": numbers, "notes": ["made up"]}


def guards(device: str = "cpu", *, per: float = 600.0, fixed: float = 15e3, checked: float = 300.0, bare: float | None = 200.0,
           compiled: bool = True, error: float = 0.05) -> dict:  # fmt: skip
    """Calls of 2 to 50 inputs: a compiled sum at `per` ns an input, an empty graph at `checked`, at `bare` without guards."""
    rows = [
        {"inputs": n, "us": 1e-3 * (fixed + n * per) if compiled and n in (2, 50) else None,
         "nothing_us": 1e-3 * (5e3 + n * checked), "unguarded_us": None if bare is None else 1e-3 * (5e3 + n * bare)}
        for n in (2, 10, 25, 50)
    ]  # fmt: skip
    numbers = {"nothing_per_input": checked, "aa_error": 0.01, "error": error, "guards_an_input": 1.0, "guards_least": 9.0}
    if compiled:
        numbers |= {"per_input": per, "per_input_lo": 0.9 * per, "per_input_hi": 1.1 * per, "fixed": fixed}
    if bare is not None:
        numbers |= {"unguarded_per_input": bare, "guard_per_input": checked - bare}
    return {"device": device, "rows": rows, "numbers": numbers, "notes": ["made up"]}


def joint(device: str = "cpu", *, compiled: int = 1, cut: int = 0) -> dict:
    """A joint graph of 9 ops, 4 and 5 when cut (`cut` more forward); `compiled` nodes on the compiled call's tape."""
    numbers = {"eager_nodes": 4.0, "compiled_nodes": float(compiled), "joint_ops": 9.0, "forward_ops": 4.0 + cut}
    numbers |= {"backward_ops": 5.0, "saved": 3.0, "same": 1.0}
    return {"device": device, "expression": "relu(x @ w + b)", "joint": ["mm"] * 9, "forward": ["mm"] * 4, "backward": ["mm"] * 5,
            "saved": 3, "code": "def forward(self, primals, tangents):\n    mm = torch.ops.aten.mm.default(primals_1, primals_2)",
            "eager_tape": ["ReluBackward0", "AddBackward0", "MmBackward0", "AccumulateGrad"],
            "compiled_tape": ["CompiledFunctionBackward"] * compiled, "numbers": numbers, "rows": [], "notes": []}  # fmt: skip


def pdl(device: str = "cuda", *, programmatic: float | None = 800.0) -> dict:
    numbers = {"plain": 1000.0, "wrong": 0.0}
    if programmatic is not None:
        numbers |= {"programmatic": programmatic, "early": 0.9 * programmatic, "gain": 1000.0 / programmatic}
    rows = [{"way": "plain edges", "per_node_ns": 1000.0, "right": True}]
    return {"device": device, "rows": rows, "numbers": numbers, "notes": []}


def study() -> dict:
    """Every part that the lesson judges, as a sound CPU gives it."""
    made = {"nodes": nodes(), "stand_ins": ways(), "block": block(), "same_bytes": same_bytes(), "pays_back": pays()}
    return {name: both(part) for name, part in (made | {"guards": guards(), "joint": joint()}).items()}
