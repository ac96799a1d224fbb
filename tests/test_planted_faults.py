"""The course broken on purpose, fault by fault: for each a named check goes red, and is green without it.

Three layers, each with what a reader would run: the lessons' own judging cells on measurements with a fault; the traps and the
stopwatch with a fault in their code; a lesson's file with a fault, before lint. The rooms' own tests plant more of their kind
(test_expected, test_stopwatch, test_recordings, test_stages).
"""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from tests import batches, boards, captures, ceilings, fuses, grads, launches, lookups, memories, ridges, tails
from tests import traces as made_up
from tests.conftest import REPO
from tests.factories import WHERE, make_race, make_reading, make_receipt
from tools import canonical, lint_notebooks
from tools.lint_notebooks import COMPARED
from utils.measure import grad_prices, stopwatch, trace, traps
from utils.measure.fold_tree import distribution
from utils.measure.queue_lanes import simulated_lanes
from utils.measure.simulated import SimulatedDevice, VirtualClock
from utils.model import bank, keys, recordings, schemas, spacing
from utils.model.expected import ExpectationError, expect
from utils.model.readings import Reading, Receipt
from utils.show import (
    instructions,
    lesson01,
    lesson03,
    lesson04,
    lesson06,
    lesson07,
    lesson08,
    lesson09,
    lesson10,
    lesson11,
    lesson12,
    lesson13,
    lesson14,
)

RNG = random.Random(3)

# ------------------------------------------------------------------------------------------------ the lessons' own checks


def lesson(stem: str):
    path = REPO / "notebooks" / f"{stem}.ipynb"
    return canonical.loads(path.read_text(encoding="utf-8"))


def judged(stem: str, values: dict) -> tuple[list[str], list[str]]:
    """(metrics that hold, metrics that are red) when the lesson's judging cells run as they stand on measured `values`.

    `values` are the names that the lesson gives its measurements; a cell that judges another name fails here, loudly.
    """
    holds, red = [], []

    def note(metric, thing, **how):
        try:
            expect(metric, thing, **how)
            holds.append(metric)
        except ExpectationError as error:
            assert "Likely causes" in str(error)
            red.append(metric)

    for cell in lesson(stem).cells:
        if cell.cell_type == "code" and cell.source.startswith(COMPARED):
            exec(compile(cell.source, f"{stem}:{cell.id}", "exec"), {"expect": note, **values})  # noqa: S102  (our own cells)
    return holds, red


def receipts() -> dict:
    """What lesson 05 has measured when its checks run, on a sound machine."""
    return {"device": "cpu", "receipt": make_receipt(), "grad": make_receipt(grad=True)}


def every_reading(receipt: Receipt, change) -> Receipt:
    """The receipt with `change` applied to each reading in it."""

    def through(value):
        if isinstance(value, dict) and "samples_ns" in value:
            return change(Reading.from_dict(value)).to_dict()
        if isinstance(value, dict):
            return {key: through(inner) for key, inner in value.items()}
        return [through(inner) for inner in value] if isinstance(value, list) else value

    return Receipt.from_dict(through(json.loads(json.dumps(receipt.to_dict()))))


def on_receipt(change, name: str = "receipt"):
    return lambda values: values.update({name: change(values[name])})


def one_and_a_half_times(receipt: Receipt) -> Receipt:
    return every_reading(replace(receipt, source="recorded"), lambda reading: reading.scaled(1.5))


def dearest(receipt: Receipt, place: int) -> str:
    return sorted(receipt.stages, key=lambda s: -s.ns)[place].stage


RECEIPT_FAULTS = {
    "the dearest stage left out": on_receipt(lambda r: r.without(dearest(r, 0))),
    "the second dearest left out": on_receipt(lambda r: r.without(dearest(r, 1))),
    "the third dearest left out": on_receipt(lambda r: r.without(dearest(r, 2))),
    "a stage counted twice": on_receipt(lambda r: replace(r, stages=(*r.stages, r.stage("allocator")))),
    "a stage scaled by two": on_receipt(lambda r: r.scaled_stage("tensor_iterator", 2.0)),
    "a stage halved": on_receipt(lambda r: r.scaled_stage("output_tensor", 0.5)),
    "microseconds for nanoseconds": on_receipt(lambda r: every_reading(r, lambda reading: reading.scaled(1e-3))),
    "nanoseconds for microseconds": on_receipt(lambda r: every_reading(r, lambda reading: reading.scaled(1e3))),
    "a result that was cached": on_receipt(lambda r: replace(r, end_to_end=Reading("a + b", (r.total_ns,) * 80, 1700))),
    "the A/A pair copied": on_receipt(lambda r: replace(r, control=(r.control[0],) * 2)),
    "a mode active throughout": on_receipt(lambda r: replace(r, end_to_end=make_reading("a + b", r.total_ns + 2000, rng=RNG))),
    "the empty loop taken off twice": on_receipt(lambda r: replace(r, end_to_end=r.end_to_end.minus(0.2 * r.total_ns))),
    "the GPU's prices on a machine without one": on_receipt(lambda r: make_receipt("cuda", where=WHERE["cpu"])),
    "a recording scaled by one and a half": on_receipt(one_and_a_half_times),
    "a recording that is none of ours": on_receipt(lambda r: replace(r, source="recorded")),
    "the views dropped before the view is priced": on_receipt(
        lambda r: replace(r, arms={**r.arms, "view alive": make_reading("view alive", 1.05 * r.total_ns, rng=RNG)})
    ),
    "nothing run between the adds": on_receipt(
        lambda r: replace(r, in_program=tuple((n, make_reading(str(n), r.total_ns, rng=RNG)) for n in (0, 5, 79)))
    ),
    "a first call that was not the first": on_receipt(lambda r: replace(r, first_call=(("first", 1150.0), ("last", 1140.0)))),
    "the result kept where it should be dropped": on_receipt(
        lambda r: replace(r, arms={**r.arms, "result dropped": make_reading("dropped", r.total_ns, rng=RNG)}), "grad"
    ),
    "grad priced on tensors that need none": on_receipt(lambda r: make_receipt(grad=False), "grad"),
}


def trap(device: str, wrong: float, honest: float = 40_000.0) -> dict:
    return {"device": device, "wrong": wrong, "honest": honest, "aa_error": 0.02}


def stopwatch_and_traps() -> dict:
    """What lesson 00 has measured when its checks run, on a sound machine without a GPU."""
    return {
        "device": "cpu",
        "race": make_race(prices={"a + b": 1150.0}),
        "no_sync": trap("simulated", 2_000.0),
        "no_warmup": trap("cpu", 4e6),
        "cache_resident": trap("cpu", 20_000.0),
        "item": trap("simulated", 70_000.0),
        "profiler": trap("cpu", 70_000.0),
    }


def set_trap(name: str, device: str, wrong: float):
    return lambda values: values.update({name: trap(device, wrong)})


def copied_pair(values: dict) -> None:
    race = values["race"]
    first, again = race.control
    values["race"] = replace(race, readings={**race.readings, again: race.readings[first]})


STOPWATCH_FAULTS = {
    "the A/A pair copied": copied_pair,
    "the A/A pair dropped": lambda values: values.update(race=replace(values["race"], control=("a + b", "a + b"))),
    "a wait where there should be none": set_trap("no_sync", "simulated", 40_000.0),
    "the simulated device's answer for a CPU": set_trap("no_sync", "cpu", 2_000.0),
    "a first call that was not the first": set_trap("no_warmup", "cpu", 40_500.0),
    "rotation lost, both arms in the cache": set_trap("cache_resident", "cpu", 40_000.0),
    "a read that does not wait": set_trap("item", "simulated", 40_000.0),
    "the profiler off": set_trap("profiler", "cpu", 40_000.0),
}


def one_add() -> dict:
    """What lesson 01 has traced when its checks run: committed trees, and traces of the ops as torch 2.11 and 2.13 run them."""
    trees = {name: (tree, trace.fold(tree)) for name, tree in trace.recorded_trees().items()}
    (tree, add), (_, product) = trees["a + b"], trees["x @ w"]
    lines = {line: made_up.traced(line) for line in ("a + b", "a + 1.0", "1.0 + a")}
    states, mixed = made_up.looked(), made_up.traced("i + b", dtypes=("int64", "float32"))
    return {
        "device": "cpu",
        "counted": lesson01.counted(add, tree),
        "ran": lesson01.ran(lines, mixed, states),
        "traced": lesson01.traced_product(made_up.product(), made_up.batch(), add, product),
        "first": trap("cpu", 4e5, 1e4),
        "parts": (trees, lines, mixed, states),  # what the faults below plant theirs in; the lesson's cells read no such name
    }


def in_tree(change):
    """The add's numbers from a tree, or rules, that `change(tree, rules)` has spoilt."""

    def plant(values: dict) -> None:
        tree = values["parts"][0]["a + b"][0]
        spoilt, rules = change(tree, trace.load_rules(tree.where["torch"]))
        values["counted"] = lesson01.counted(trace.fold(spoilt, rules), spoilt)

    return plant


def in_trace(line: str = "", state: str = "", **changes):
    """What was looked up, with one line or one state of the thread traced wrongly."""

    def plant(values: dict) -> None:
        _, lines, mixed, states = values["parts"]
        if line == "i + b":
            mixed = replace(mixed, **changes)
        elif line:
            lines = {**lines, line: replace(lines[line], **changes)}
        else:
            states = {**states, state: replace(states[state], **changes)}
        values["ran"] = lesson01.ran(lines, mixed, states)

    return plant


def long_loop(tree):
    """The tree of an add of many elements: the innermost function takes what a large tensor would make it take."""
    loop = instructions.path_to_loop(tree, trace.load_rules(tree.where["torch"]))[-1]
    return replace(tree, self_cost={**tree.self_cost, loop: 50_000.0})


def out_given(tree, rules):
    """The tree of an add that writes into a tensor that is there: nothing of the result is made or freed."""
    result = {row.id for row in rules.rows if row.stage in lesson01.RESULT_STAGES}
    spread = distribution(tree, rules)
    own = {f: cost * (1 - sum(part for row, part in spread[f].items() if row in result)) for f, cost in tree.self_cost.items()}
    return replace(tree, self_cost=own)


def nobody_explains(tree, rules):
    """Rules that know nothing at or above the interpreter: what no other row claims is left over."""
    return tree, replace(rules, rows=tuple(r for r in rules.rows if r.stage != "python_boundary"))


def product_with(**changes):
    return lambda values: values["traced"].update(changes)


ONE_ADD_FAULTS = {
    "rules that miss the interpreter": in_tree(nobody_explains),
    "a row counted twice": lambda values: values["counted"].update(explained=1.2 * values["counted"]["explained"]),
    "the tree of a large tensor": in_tree(lambda tree, rules: (long_loop(tree), rules)),
    "the kernel's row taken away": in_tree(lambda tree, rules: (tree, rules.without("kernel"))),
    "the result written into a tensor that is there": in_tree(lambda tree, rules: (out_given(tree, rules), rules)),
    "a number sent to an overload of its own": in_trace("a + 1.0", op="aten::add.Scalar"),
    "another op traced beside the add": in_trace("1.0 + a", op="aten::sub.Tensor"),
    "a key for the dtype": in_trace("i + b", hops=made_up.hops("MixedCPU", "AutogradCPU", "CPU")),
    "no_grad traced in an inference-mode block": in_trace(state="no_grad", hops=made_up.hops("CPU")),
    "inference_mode not on": in_trace(state="inference_mode", hops=made_up.hops("AutogradCPU", "CPU")),
    "only the outermost op observed": product_with(**{"ops": 1, "ops in three dimensions": 1}),
    "a batch that has two dimensions": product_with(**{"ops in three dimensions": 2}),
    "the library counted as tax": product_with(**{"product tax": 20_000.0}),
    "a product that ran before its first time": lambda values: values.update(first=trap("cpu", 10_100.0, 1e4)),
}


def dispatched() -> dict:
    """What lesson 02 has found when its checks run: made up as torch 2.11 and 2.13 give it."""
    found = lookups.measured()
    return {"found": found, **lookups.judged(found)}


def in_lookups(change):
    """Lesson 02's findings after `change(found)` has spoilt them, and the numbers judged of them."""

    def plant(values: dict) -> None:
        change(values["found"])
        values.update(lookups.judged(values["found"]))

    return plant


def given(**changes):
    return in_lookups(lambda found: found["given"].update(changes))


def prices(**changes):
    return in_lookups(lambda found: found.update(race=lookups.race(**changes)))


def counts(**changes):
    return in_lookups(lambda found: found.update(counts=lookups.counts(**changes)))


def compiled_with(**changes):
    return in_lookups(lambda found: found.update(compiled=lookups.compiled(**changes)))


def stacks(add=None, product=None, other=None):
    """The lesson's three runs below the layers, one of them exchanged."""
    return in_lookups(
        lambda found: found.update(stacks=[b or a for a, b in zip(found["stacks"], (add, product, other), strict=True)])
    )


BOTH_WAYS = {"call": 75.0, "redispatch": 64.0}
DISPATCHER_FAULTS = {
    "a key for the dtype": given(held=lookups.samples(int64=("CPU",))),
    "samples that differ in nothing": given(held=dict.fromkeys(lookups.samples(), lookups.BOTH)),
    "a dtype sent elsewhere": given(hits={"float32": 1, "bfloat16": 1, "int64": 0, "transposed": 1}),
    "a context that leaves something behind": given(around={"leaky": lookups.moments(after=())}),
    "a chain that did not run": given(lookups=[*lookups.looked().values(), lookups.looked_up(ran=("CPU",))]),
    "only states in which the mask decides nothing": given(lookups=[lookups.looked_up(), lookups.looked_up("no_grad")]),
    "autocast on in both runs": given(autocast_hits={"plain": 1, "autocast": 1}),
    "layers in the order of the with lines": stacks(other=lookups.stack("logging mode", "AutogradCPU", "CPU")),
    "a product without autocast": stacks(product=lookups.stack("AutogradCPU", "logging mode", "tensor subclass", "CPU")),
    "a layer that changes the value": stacks(
        add=lookups.stack("AutogradCPU", "logging mode", "tensor subclass", "CPU", same=False)
    ),
    "a function that was not compiled": compiled_with(node="AddBackward0"),
    "a subclass met in each compiled call": compiled_with(per_call=2),
    "a mode that was left before the blocks": prices(**{"dispatch mode": 1000.0}),
    "meta tensors that were real ones": prices(meta=1000.0),
    "inference_mode dearer than without": prices(inference_mode=1300.0),
    "one number of tensors for all ops": counts(**{"torch.lerp(a, b, d)": {"call": 67.0, "redispatch": 0.0}}),
    "what the hops lead to counted with them": counts(plain={"call": 4000.0, "redispatch": 64.0}),
    "inference_mode not on while counting": counts(inference_mode=BOTH_WAYS),
    "inference_mode for no_grad while counting": counts(no_grad={"call": 75.0, "redispatch": 0.0}),
    "no mode while counting": in_lookups(lambda found: found["counts"]["total"].update({"dispatch mode": 9600.0})),
}


def autograd_study() -> dict:
    """What lesson 03 has measured when its checks run: the parts of its study, made up as torch 2.11 and 2.13 give them."""
    values = {"steps": grads.steps(), "chains": grads.chains(), "parts": grads.parts()}
    return {**values, **autograd_numbers(values["parts"])}


def autograd_numbers(parts: dict) -> dict:
    seen = lesson03.seen("cpu", parts["kept"], parts["memory"], parts["rules"], 16, 64)
    ran = lesson03.passes("cpu", parts["memory"], parts["ops"], parts["rules"], parts["compiled"], 64)
    return {"seen": seen, "ran": ran}


def part_with(name: str, *path: str, to):
    """One value of one part measured wrongly."""

    def plant(values: dict) -> None:
        parts = values["parts"]
        values.update(autograd_numbers({**parts, name: grads.changed(parts[name], *path, to=to)}))

    return plant


def parts_replaced(**parts):
    """Whole parts measured wrongly."""
    return lambda values: values.update(autograd_numbers({**values["parts"], **parts}))


def with_parameters(values: dict) -> None:
    """Parameters counted as activations, at every batch."""
    memory = grads.memory()
    for one in memory["activations"]["transformer block"]["batches"].values():
        one["held"] += 200_000
    values.update(autograd_numbers({**values["parts"], "memory": memory}))


PRODUCT, LIVES, BLOCK = ("cases", "x @ w, only the first", "bytes"), "accumulator_lives", "transformer block"
AUTOGRAD_FAULTS = {
    "hooks left on over another op": part_with("kept", "cases", "x + y, both", "bytes", to=8192),
    "w needed a gradient too": part_with("kept", *PRODUCT, to=12_288),
    "the input kept that needs the gradient": part_with("kept", *PRODUCT, to=8192),
    "relu that keeps its input as well": part_with("kept", "cases", "relu(x), only the first", "bytes", to=16_384),
    "parameters counted as activations": with_parameters,
    "a batch that did not reach the model": part_with("memory", "activations", BLOCK, "batches", "16", "held", to=66_048 * 64),
    "the counter of a view read": part_with("rules", "bumps", "t[:2].add_(1)", to=0),
    "uses counted as writes": part_with("rules", "bumps", "t + 1", to=1),
    "a change before the op": part_with("rules", "changed", grads.EXP, to=""),
    "the counter of the wrong tensor compared": part_with("rules", "changed", grads.SIN, to=grads.CHANGED),
    "a tensor made outside inference_mode": part_with("rules", "inference", "t * g", to=""),
    "every use of an inference tensor refused": part_with("rules", "inference", "t + g", to=grads.REFUSED),
    "no_grad not on": parts_replaced(memory=grads.memory(without=3072)),
    "an add whose result is counted twice": part_with("memory", "peaks", "peaks", "a + b", "grad", "tensors", to=8192),
    "a gradient for one input of the product": parts_replaced(ops=grads.ops(product=1)),
    "views counted as ops": parts_replaced(ops=grads.ops(mlp=32)),
    "adding into .grad counted": parts_replaced(ops=grads.ops(add=4)),
    "an accumulator held by another cell": part_with("rules", LIVES, grad_prices.DROPPED, to=True),
    "the mark looked for on another tensor": part_with("rules", LIVES, grad_prices.KEPT, to=False),
    "a function broken into three regions": parts_replaced(compiled=grads.compiled(3)),
    "other data for the compiled function": part_with("compiled", "same", to=False),
    "a mode entered for the wrong arm": lambda values: values.update(steps=grads.steps(small=-0.4)),
    "a graph built anew and timed with its backward": lambda values: values.update(chains=grads.chains(2000.0, 12_000.0)),
}


def launch_study() -> dict:
    """What lesson 04 has measured when its checks run, on a sound GPU: its parts made up, each as if it had run here."""
    live = {"live": True}
    return {
        "lesson04": lesson04,
        "lanes": launches.found(launches.lanes(), **live),
        "judged": judged_lanes(launches.lanes()),
        "floor": launches.found(launches.floor(), **live),
        "traced": {line: ran_ops("item", "_local_scalar_dense") for line in lesson04.ASKING}
        | {line: ran_ops("sum") for line in lesson04.QUIET},
        "gil": launches.found(launches.gil_threads(), **live),
        "omp": launches.found(launches.openmp(), **live),
        "first": launches.found({"steps": [["first a + b", 5e5], ["third a + b", 4e3]], "numbers": {}}, **live),
    }


def ran_ops(*names: str):
    return made_up.traced(ops=tuple(made_up.op_run(name) for name in names))


def judged_lanes(measured: dict) -> dict:
    simulated = [simulated_lanes(), simulated_lanes(5.0, 20.0), simulated_lanes(kernel_us=20.0, n=300, sync_every=1)]
    return lesson04.judged(launches.found(measured, live=True), *simulated)


def lanes_with(**cases):
    """The lanes with some of their cases measured wrongly."""
    return lambda values: values.update(judged=judged_lanes({**launches.lanes(), **cases}))


def early() -> dict:
    """Kernels whose clock runs ahead of the host's by a millisecond."""
    case = launches.lanes_case(2.1, 20.0)
    case["points"] = {**case["points"], "start_ns": [ns - 1_000_000 for ns in case["points"]["start_ns"]]}
    return case


LAUNCH_FAULTS = {
    "each launch of the long kernel waited for": lanes_with(slow=launches.lanes_case(22.0, 20.0)),
    "the short kernels were long": lanes_with(fast=launches.lanes_case(2.1, 20.0)),
    "nobody waited where each launch is waited for": lanes_with(synchronised=launches.lanes_case(2.1, 20.0, 300)),
    "clocks that were not set against each other": lanes_with(slow=early()),
    "half the pace of a full queue": lambda values: values["judged"].update(full=0.5 * values["judged"]["kernel"]),
    "no line seen to ask for a value": lambda values: values.update(traced=dict.fromkeys(values["traced"], ran_ops("sum"))),
    "every line seen to ask for a value": lambda values: values.update(
        traced=dict.fromkeys(values["traced"], ran_ops("nonzero"))
    ),
    "a launch loop in Python": lambda values: values.update(
        floor=launches.found(launches.floor(**{"empty launch": 6800.0}), live=True)
    ),
    "two threads that never met": lambda values: values.update(gil=launches.found(launches.gil_threads(1.0), live=True)),
    "small adds shared between threads": lambda values: values["omp"].value["numbers"].update(below_2_us=60.0),
    "an add that ran before its first time": lambda values: values["first"].value.update(
        steps=[["first a + b", 4.1e3], ["third a + b", 4e3]]
    ),
}


def ridge_study(**wrong: dict) -> dict:
    """What lesson 06 has measured when its checks run, on a sound machine; `wrong` replaces parts of its study."""
    parts = ridges.study() | {name: ridges.both(value) for name, value in wrong.items()}
    return {"judged": lesson06.judged("cpu", **parts)}


def ridges_with(**wrong: dict):
    """Whole parts measured wrongly."""
    return lambda values: values.update(ridge_study(**wrong))


def counted_wrongly(**numbers: float):
    return lambda values: values["judged"]["ops"].update(numbers)


RIDGE_FAULTS = {
    "the result left out of the bytes of an add": counted_wrongly(intensity_add=1 / 8),
    "a product counted as n squared operations": counted_wrongly(intensity_gemm=2.0),
    "a peak in GFLOP/s": ridges_with(peaks=ridges.peaks(gemm_fp32=170.0)),
    "sets that all fit the cache": ridges_with(warm_cold=ridges.warm_cold(1.0)),
    "pieces larger than the cache": ridges_with(intermediate=ridges.intermediate(reused=2e7)),
    "the transposed operand made contiguous before the clock": ridges_with(layout=ridges.layout(1.0)),
    "the result not transposed with the operands": ridges_with(layout=ridges.layout(both_=7.5)),
    "a result that the process already had": ridges_with(allocation=ridges.allocation(1.0, faults=0.0)),
    "one cache shared by all sequences": ridges_with(decode=ridges.decode(many=2.0)),
    "the time of the products not counted": ridges_with(census=ridges.census(product_time=0.05)),
    "elementwise ops held against a ridge of integer work": ridges_with(census=ridges.census(below=0.2)),
    "a step that was not waited for": ridges_with(mfu=ridges.mfu(1.0)),
}


def ceiling_study(**wrong: dict) -> dict:
    """What lesson 07 has measured and worked out when its checks run, on a sound machine; `wrong` replaces parts of its study."""
    parts = ceilings.study() | {name: ceilings.both(value) for name, value in wrong.items()}
    return {"judged": lesson07.judged("cpu", **parts), "on_paper": lesson07.judged_paper()}


def ceilings_with(**wrong: dict):
    """Whole parts measured wrongly."""
    return lambda values: values.update(ceiling_study(**wrong))


def paper_with(**wrong: float):
    """A sum on paper done wrongly."""
    return lambda values: values["on_paper"].update(wrong)


CEILING_FAULTS = {
    "a product that reads one tensor": paper_with(megabytes=320.0, memory_us=97.0),
    "terabytes taken for gigabytes": paper_with(memory_us=0.1067),
    "a launch without its dispatch": paper_with(small_launch_us=30.0),
    "a graph that saves bytes": paper_with(captured_bytes=0.45),
    "fused ops that still write what stands between them": paper_with(fused_bytes=1.0),
    "an add after other ops priced in an empty loop": ceilings_with(calibration=ceilings.calibration(in_program=100.0)),
    "the small step with an op less": ceilings_with(flip=ceilings.flip(ops=(4, 5))),
    "the large step's host timed until the kernels' end": lambda values: values["judged"]["flip"].update(host_share_large=0.8),
    "two sizes that are one": ceilings_with(flip=ceilings.flip(sizes=1.0)),
    "a peak of one thread against a step of all": ceilings_with(flop_only=ceilings.flop_only((0.2, 40.0, 900.0))),
    "an add priced at its first call": ceilings_with(sweep=ceilings.sweep(break_even=20.0)),
    "only the product's launch counted": ceilings_with(toy_block=ceilings.toy_block(1.0)),
}


def batch_study(**wrong: dict) -> dict:
    """What lesson 08 has measured when its checks run, on a sound machine; `wrong` replaces parts of its study."""
    parts = batches.study() | {name: batches.both(value) for name, value in wrong.items()}
    return {"judged": lesson08.judged("cpu", **parts)}


def batches_with(**wrong: dict):
    """Whole parts measured wrongly."""
    return lambda values: values.update(batch_study(**wrong))


BATCH_FAULTS = {
    "a batch run sample by sample": batches_with(null_experiment=batches.null(ops_ratio=32.0)),
    "a wide step that was not waited for": batches_with(null_experiment=batches.null(wide=1.0)),
    "adds put beside the step instead of into it": batches_with(null_experiment=batches.null(extra=(0.0, 0.0))),
    "a layer counted above its fused path": batches_with(layer_ops=batches.layer(calls=1, views=0)),
    "a step without its backward": lambda values: values["judged"]["step32"].update(fake_shipped_forward_ops=3000.0),
    "another model counted on fake tensors": batches_with(step32=batches.step(apart=-12)),
    "each small kernel waited for": batches_with(two_kernels=batches.kernels("cpu", half=0.6)),
    "a host slower than the long kernel": batches_with(two_kernels=batches.kernels("cpu", long=1.0)),
    "the places of an SM counted wrong": batches_with(waves=batches.waves(1.0)),
    "other ops slowed than those that were counted": batches_with(host=batches.host(small=0.1)),
    "steps taken for samples": batches_with(cost=batches.cost(first=1.0, slope=1e6)),
}


def fuse_study(**wrong: dict) -> dict:
    """What lesson 09 has measured when its checks run, on a sound machine; `wrong` replaces parts of its study."""
    parts = fuses.study() | {name: fuses.both(value) for name, value in wrong.items()}
    return {"judged": lesson09.judged("cpu", **parts), "on_paper": lesson09.judged_paper()}


def fused_with(**wrong: dict):
    """Whole parts measured wrongly."""
    return lambda values: values.update(fuse_study(**wrong))


FUSE_FAULTS = {
    "an intermediate that the fused kernel writes": paper_with(two=1.25),
    "FLOPs that go away with the bytes": paper_with(intensity=1.0),
    "a kernel that leaves an op out": fused_with(steps=fuses.steps(wrong="an element is off")),
    "buffers that stay in a cache": fused_with(steps=fuses.steps(off=0.2)),
    "a bias in full size, read again for each op": fused_with(steps=fuses.steps(bias=2.5)),
    "a chain fused two ops at a time": fused_with(chain=fuses.chain(free=1)),
    "a kernel compiled inside the clock": fused_with(sizes=fuses.sizes(small=0.01)),
    "eager handed the compiled function's guards": fused_with(sizes=fuses.sizes(compiled=(1.4, 1.2, 1.0))),
    "a graph that broke": fused_with(peer=fuses.peer(kernels=3)),
    "a mask that is missing": fused_with(interpreter=fuses.interpreter("13 x 100: not written")),
    "a malloc that keeps what is freed": fused_with(fresh_output=fuses.fresh_output(faults=0.0)),
}


def roof_study(**wrong: dict) -> dict:
    """What lesson 10 has measured when its checks run, on a sound GPU; `wrong` replaces parts of its study."""
    parts = tails.study() | {"tails": ridges.both(tails.tails())} | {name: ridges.both(value) for name, value in wrong.items()}
    return {"judged": lesson10.judged("cuda", **parts)}


def roof_with(**wrong: dict):
    """Whole parts measured wrongly."""
    return lambda values: values.update(roof_study(**wrong))


def honest_wrongly(**numbers: float):
    return lambda values: values["judged"]["honest"].update(numbers)


ROOF_FAULTS = {
    "a draw that the compiler left out": roof_with(tails=tails.tails(first_try=230e3)),
    "a last rung that is the first try": roof_with(tails=tails.tails(**{tails.LAST_RUNG: 580e3})),
    "a disassembly that was cut off": roof_with(instructions=tails.counts(times=0.2)),
    "integer instructions counted as FLOPs": roof_with(instructions=tails.counts(flops=90.0)),
    "neighbours that share a word": honest_wrongly(worst_sigma=700.0),
    "a test of masks that sees nothing": roof_with(honest=tails.honest(missed=("every eight rows alike",))),
    "halves of a word exchanged": roof_with(honest=tails.honest(agrees=False)),
    "a scale for the probability that was asked for": honest_wrongly(scale_off_ppm=6.8),
    "a coefficient rounded too early": roof_with(honest=tails.honest(ulps={"cheap, degree 4": 3})),
    "a tail that is clamped": honest_wrongly(absolute=3e-6),
    "buffers that fit no cache": roof_with(chain=tails.chain(cached=1.0, memory=1.0)),
    "a fused step that fell back to the loop": lambda values: values["judged"]["sideways"].update(ops_fused=1000.0),
}


def capture_study(**wrong: dict) -> dict:
    """What lesson 11 has measured when its checks run, on a sound machine; `wrong` replaces parts of its study."""
    parts = captures.study() | {name: captures.both(value) for name, value in wrong.items()}
    by_hand = {"device": "cpu", "stale": 1.0, "overwritten": 1.0}
    return {"judged": lesson11.judged("cpu", **parts) | {"by_hand": by_hand}}


def captures_with(**wrong: dict):
    """Whole parts measured wrongly."""
    return lambda values: values.update(capture_study(**wrong))


CAPTURE_FAULTS = {
    "the function called in place of a replay": lambda values: values["judged"]["by_hand"].update(stale=0.0),
    "a new output in every replay": lambda values: values["judged"]["by_hand"].update(overwritten=0.0),
    "a replay that calls each op again": captures_with(nodes=captures.nodes(node=950.0)),
    "a device that was not waited for": captures_with(nodes=captures.nodes(fixed=2e4, node=0.1)),
    "an fx graph that was compiled": captures_with(stand_ins=captures.ways(fx=30.0)),
    "a list whose ops were baked": captures_with(stand_ins=captures.ways(list=60.0)),
    "a set-up in every replay": captures_with(stand_ins=captures.ways(baked=390.0)),
    "a captured block that was fused as well": captures_with(block=captures.block(wide={"captured": 2.5})),
    "a fused kernel entered through Python": captures_with(block=captures.block(small={"both": 1.1})),
    "the warm-up's calls counted with the replay's": captures_with(same_bytes=captures.same_bytes(times=2.0)),
    "inputs that were constants": captures_with(guards=captures.guards(per=1.0)),
    "a graph break": captures_with(joint=captures.joint(compiled=2)),
}


def memory_study(**wrong: dict) -> dict:
    """What lesson 12 has measured when its checks run, on a sound machine; `wrong` replaces parts of its study."""
    return {"judged": lesson12.judged("cpu", **memories.study(**wrong))}


def memory_with(**wrong: dict):
    """Whole parts measured wrongly."""
    return lambda values: values.update(memory_study(**wrong))


MEMORY_FAULTS = {
    "results held by the caller until the end": memory_with(liveness=memories.liveness(forward=6)),
    "blocks taken by another thread": memory_with(liveness=memories.liveness(off=4 << 20)),
    "a step whose graph is kept": memory_with(liveness=memories.liveness(training=memories.chain(tuple(range(6))))),
    "lifetimes up to the end of the program": memory_with(arena=memories.arena(offline=2.7)),
    "two live buffers at one place": memory_with(arena=memories.arena(same=False)),
    "a wrong plan that changes nothing": memory_with(arena=memories.arena(overlapped=False)),
    "ops that allocate beside the arena": memory_with(arena=memories.arena(asked=6.0)),
    "the buffers of forward alone planned": lambda values: values["judged"]["arena"].update(training_sum=1.0),
    "a compiled block that was not fused": memory_with(compiled=memories.compiled(peak=12)),
    "two chains of different length": memory_with(traffic=memories.traffic(moved=1.09)),
    "an arena with a place for each": memory_with(traffic=memories.traffic(placed=1.0)),
    "checkpoints that store everything": memory_with(recompute=memories.recompute(peak=0.98)),
    "a backward that does not recompute": memory_with(recompute=memories.recompute(ops=1.0)),
    "other draws in the second forward": memory_with(recompute=memories.recompute(same=False)),
    "a limit that does not bind": memory_with(out_of_memory=memories.out_of_memory(failed=False)),
    "a limit below what recomputing needs": memory_with(out_of_memory=memories.out_of_memory(again=True)),
    "gaps that joined": memory_with(fragmentation=memories.gaps(larger=0.1)),
    "a plan in the order of time": memory_with(fragmentation=memories.gaps(offline=1.48)),
    "a reader that was in time": memory_with(reuse=memories.reuse(untold_right=True)),
}


def board_study(**wrong: dict) -> dict:
    """What lesson 13 has measured when its checks run, on a sound machine; `wrong` replaces parts of its study."""
    mine = {"device": "cpu", "launches_twice": 1.0, "read_right": 1.0}
    return {"judged": lesson13.judged("cpu", **boards.study(**wrong)) | {"mine": mine}}


def board_with(**wrong: dict):
    """Whole parts measured wrongly."""
    return lambda values: values.update(board_study(**wrong))


def of_mine(**numbers: float):
    return lambda values: values["judged"]["mine"].update(numbers)


BOARD_FAULTS = {
    "views counted as launches": board_with(board=boards.board(eager={"kernels": 12})),
    "compiled code that was watched, and so ran op by op": board_with(board=boards.board(compiled={"kernels": 7})),
    "a tail of four kernels": board_with(board=boards.board(fused={"kernels": 5})),
    "a replay that issues every op": board_with(board=boards.board(captured={"launches": 7})),
    "the copy into a static input counted with the block": board_with(board=boards.board(captured={"moved": 17.0})),
    "bytes of an intermediate counted once": board_with(board=boards.board(eager={"moved": 7.0})),
    "a planned op that makes a result": board_with(board=boards.board(planned={"requests": 6})),
    "another product in the generated code": board_with(board=boards.board(products=2.0)),
    "integer work counted as FLOPs": board_with(board=boards.board(rest=60.0)),
    "a replay that goes through Python": board_with(losses=boards.losses(both=58e3)),
    "a kernel that reads the last step's input": board_with(losses=boards.losses(wrong=2.0)),
    "an op counted with the ops that it calls": of_mine(launches_twice=1.6),
    "a profile of two calls": of_mine(launches_twice=0.5),
    "one launch too many": of_mine(launches_twice=48 / 47),
    "a rule that no longer knows a loader": of_mine(read_right=0.75),
}


def self_check() -> dict:
    """What lesson 14 has when its checks run, on a sound bank."""
    return {"race": make_race(), "judged": lesson14.judged()}


def pair_copied(values: dict) -> None:
    race = values["race"]
    first, again = race.control
    values["race"] = replace(race, readings={**race.readings, again: race.readings[first]})


def bank_with(owner, name: str, change):
    """The lesson's checks with one function exchanged for `change(the real one)`."""

    def plant(values: dict) -> None:
        with pytest.MonkeyPatch.context() as m:
            m.setattr(owner, name, change(getattr(owner, name)))
            values["judged"] = lesson14.judged()

    return plant


def doubling(last, target, wanted):
    return [last + (target - last) * (2**k - 1) / 2**wanted for k in range(1, wanted + 1)]


SELF_CHECK_FAULTS = {
    "the A/A pair copied": pair_copied,
    "half of the bank lost": bank_with(bank, "practice", lambda real: lambda topic=None: real(topic)[::3]),
    "a topic for each lesson": bank_with(
        bank, "topics", lambda real: lambda: tuple(bank.Topic(n, n, (n,)) for n in schemas.LESSONS)
    ),
    "a cell that was renamed": bank_with(
        bank, "proof", lambda real: lambda q: replace(real(q), cell="gone") if real(q).cell == "sync" else real(q)
    ),
    "every answer near enough": bank_with(keys.Key, "accepts", lambda real: lambda key, given: True),
    "no answer near enough": bank_with(keys.Key, "accepts", lambda real: lambda key, given: False),
    "the right option off by one": bank_with(
        bank, "post_test", lambda real: lambda: [{**real()[0], "answer": real()[0]["answer"] ^ 1}, *real()[1:]]
    ),
    "a question drawn twice": bank_with(bank, "interview", lambda real: lambda seed: [*real(seed)[:9], real(seed)[0]]),
    "an interview on one topic": bank_with(bank, "interview", lambda real: lambda seed: list(bank.by_topic().values())[0][:10]),
    "gaps that double": bank_with(spacing, "due_days", lambda real: doubling),
}

LESSONS = {
    "00_start_here": (stopwatch_and_traps, STOPWATCH_FAULTS),
    "01_one_add": (one_add, ONE_ADD_FAULTS),
    "02_dispatcher": (dispatched, DISPATCHER_FAULTS),
    "03_autograd": (autograd_study, AUTOGRAD_FAULTS),
    "04_launch": (launch_study, LAUNCH_FAULTS),
    "05_price_each_stage": (receipts, RECEIPT_FAULTS),
    "06_ridge_point": (ridge_study, RIDGE_FAULTS),
    "07_two_ceilings": (ceiling_study, CEILING_FAULTS),
    "08_batch_and_scale": (batch_study, BATCH_FAULTS),
    "09_fuse": (fuse_study, FUSE_FAULTS),
    "10_reach_the_roof": (roof_study, ROOF_FAULTS),
    "11_capture": (capture_study, CAPTURE_FAULTS),
    "12_memory_plan": (memory_study, MEMORY_FAULTS),
    "13_scoreboard": (board_study, BOARD_FAULTS),
    "14_self_check": (self_check, SELF_CHECK_FAULTS),
}


@pytest.mark.parametrize("stem", LESSONS)
def test_a_lesson_is_green_on_a_sound_machine(stem):
    holds, red = judged(stem, LESSONS[stem][0]())
    assert len(holds) >= 5 and red == []


@pytest.mark.parametrize(("stem", "fault"), [(stem, fault) for stem, (_, faults) in LESSONS.items() for fault in faults])
def test_a_lesson_goes_red_on(stem, fault):
    sound, faults = LESSONS[stem]
    values = sound()
    faults[fault](values)
    assert judged(stem, values)[1], "every check of the lesson holds in spite of it"


@pytest.mark.parametrize("stem", LESSONS)
def test_every_check_of_a_lesson_goes_red_on_some_fault(stem):
    """A check that no fault can turn red is no check."""
    sound, faults = LESSONS[stem]
    red = set()
    for plant in faults.values():
        values = sound()
        plant(values)
        red |= set(judged(stem, values)[1])
    assert set(judged(stem, sound())[0]) <= red


def test_every_lesson_is_broken_here():
    assert {path.stem for path in (REPO / "notebooks").glob("*.ipynb")} == set(LESSONS)


def test_a_recording_is_never_taken_for_a_live_measurement(tmp_path, monkeypatch):
    receipt = make_receipt()
    kept = {"date": receipt.date, "where": receipt.where, "receipts": {"cpu": receipt}, "command": "python -m utils record"}
    stem = recordings.write(kept, folder=tmp_path).stem
    monkeypatch.setattr(recordings.paths, "RECORDINGS", tmp_path)
    recorded = recordings.load(stem).receipts["cpu"]
    expect("price.end_to_end", recorded)
    with pytest.raises(ExpectationError, match="given as a live measurement"):
        expect("price.end_to_end", recorded, live=True)


# ------------------------------------------------------------------------------------------------ faults in the code


class Virtual(traps._Simulated):
    """The traps' simulated device in virtual time: the same numbers however busy this machine is."""

    def __init__(self):
        SimulatedDevice.__init__(self, launch_us=20.0, depth=64, sync_us=10.0, copy_us=10.0, clock=VirtualClock(reading_ns=50))


def simulated(trap: str) -> dict:
    with pytest.MonkeyPatch.context() as m:
        m.setattr(traps, "_Simulated", Virtual)
        return getattr(traps, trap)("simulated")


def no_sync():
    expect("traps.no_sync", simulated("no_sync"))


def item_in_loop():
    expect("traps.item_in_loop", simulated("item_in_loop"))


def no_warmup():
    expect("traps.no_warmup", traps.no_warmup("cpu"))


class Drifting(SimulatedDevice):
    """A machine that becomes slower while it is timed: what a neighbour, or heat, does to a long measurement."""

    def launch(self, kernel_us: float, value: float | None = None) -> None:
        self.launch_us = 5.0 * (1 + self.wall.now() / 1e7)
        super().launch(kernel_us, value)


def aa_pair():
    """The stopwatch's own control, on a machine that drifts; time is virtual, so the numbers are the same every time."""
    machine = Drifting(clock=VirtualClock(reading_ns=50))
    race = stopwatch.time_host({"launch": lambda: machine.launch(0.1)}, device=machine, blocks=20, seed=4)
    expect("stopwatch.aa", race)


class Steady(SimulatedDevice):
    """A machine whose launches differ by a percent, in virtual time."""

    def launch(self, kernel_us: float, value: float | None = None) -> None:
        self.launch_us = 5.0 * RNG.uniform(1.0, 1.01)
        super().launch(kernel_us, value)


def units():
    machine = Steady(clock=VirtualClock(reading_ns=50))
    expect("stopwatch.aa", stopwatch.time_host({"launch": lambda: machine.launch(0.1)}, device=machine, blocks=12, seed=4))


def neighbour():
    """A price under a neighbour that disturbs the blocks of one arm more than those of its twin."""
    calm = Reading("a", tuple(1000.0 + i for i in range(80)), 2000)
    hit = Reading("a (again)", tuple((1000.0 + i) * (3.0 if i % 5 < 3 else 1.0) for i in range(80)), 2000)
    from utils.model.readings import Race

    expect("stopwatch.aa", Race({"a": calm, "a (again)": hit}, ("a", "a (again)")))


def break_sync(m):
    m.setattr(SimulatedDevice, "synchronize", lambda self: None)


def break_item(m):
    m.setattr(SimulatedDevice, "item", lambda self: 0.0)


def break_warm_up(m):
    m.setattr(traps, "FIRST_CALLS", traps.FIRST_CALLS.replace("dumps(took)", "dumps([took[0]] * 81)"))


def break_interleaving(m):
    real = stopwatch.interleave

    def one_after_the_other(arms, *, pair=None, **how):
        return {name: real({name: arm}, **how)[name] for name, arm in arms.items()}

    m.setattr(stopwatch, "interleave", one_after_the_other)


def break_pair_dropped(m):
    real = stopwatch.Race
    m.setattr(stopwatch, "Race", lambda **fields: real(**{**fields, "control": (fields["control"][0],) * 2}))


def break_pair_copied(m):
    real = stopwatch.interleave

    def copied(arms, **how):
        got = real(arms, **how)
        return {name: got[name.removesuffix(stopwatch.AGAIN)] for name in got}

    m.setattr(stopwatch, "interleave", copied)


def break_units(m):
    real = stopwatch.interleave
    m.setattr(stopwatch, "interleave", lambda arms, **how: {n: r.scaled(1e-3) for n, r in real(arms, **how).items()})


def break_clock(m):
    """The clock is read once and its answer kept: every block takes the same time."""
    real = stopwatch.interleave

    def frozen(arms, **how):
        got = real(arms, **how)
        return {
            n: Reading(n, (r.samples[0] * (1 + 0.01 * i),) * len(r.samples), r.calls_per_block)
            for i, (n, r) in enumerate(got.items())
        }

    m.setattr(stopwatch, "interleave", frozen)


def break_quartile(m):
    m.setattr(Reading, "ns", property(lambda self: self.median))


CODE_FAULTS = {
    "no synchronisation": (break_sync, no_sync),
    "a read that does not wait": (break_item, item_in_loop),
    "no warm-up": (break_warm_up, no_warmup),
    "one variant after the other": (break_interleaving, aa_pair),
    "the A/A pair dropped": (break_pair_dropped, aa_pair),
    "the A/A pair copied": (break_pair_copied, aa_pair),
    "microseconds called nanoseconds": (break_units, units),
    "a clock read once": (break_clock, aa_pair),
    "the median for the lower quartile": (break_quartile, neighbour),
}


@pytest.mark.parametrize(
    "check", list(dict.fromkeys(check for _, check in CODE_FAULTS.values())), ids=lambda check: check.__name__
)
def test_the_check_is_green_without_a_fault(check):
    check()


@pytest.mark.parametrize("fault", CODE_FAULTS)
def test_the_check_goes_red_on(fault, monkeypatch):
    plant, check = CODE_FAULTS[fault]
    plant(monkeypatch)
    with pytest.raises(ExpectationError, match="Likely causes"):
        check()


# ------------------------------------------------------------------------------------------------ faults in a lesson's file


def _measuring_cell(nb):
    return next(c for c in nb.cells if c.cell_type == "code" and "torch.rand" in c.source)


def zeros_for_data(nb):
    cell = _measuring_cell(nb)
    cell.source = cell.source.replace("torch.rand(", "torch.zeros(")


def judge_left_out(nb):
    for cell in nb.cells:
        if cell.cell_type == "code" and cell.source.startswith(COMPARED):
            cell.source = COMPARED + "\nprint('✔ stages.sum: holds')"


def marker_lost(nb):
    for cell in nb.cells:
        cell.source = cell.source.replace(COMPARED + "\n", "")


def outputs_stripped(nb):
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = []


LESSON_FAULTS = {
    "zeros for data": (zeros_for_data, "uniform-data"),
    "a verdict printed instead of judged": (judge_left_out, "compared"),
    "a judging cell that is not compared": (marker_lost, "compared"),
    "outputs stripped": (outputs_stripped, "compared"),
}


@pytest.mark.parametrize("fault", LESSON_FAULTS)
def test_lint_of_lesson_05_goes_red_on(fault):
    plant, rule = LESSON_FAULTS[fault]
    nb = lesson("05_price_each_stage")
    before = set(lint_notebooks.lint(nb))
    plant(nb)
    assert rule in {found[0] for found in set(lint_notebooks.lint(nb)) - before}


def test_no_kind_of_fault_is_lost():
    assert min(map(len, (RECEIPT_FAULTS, STOPWATCH_FAULTS, ONE_ADD_FAULTS, CODE_FAULTS, LESSON_FAULTS))) >= 4
    assert sum(map(len, (RECEIPT_FAULTS, STOPWATCH_FAULTS, CODE_FAULTS, LESSON_FAULTS))) >= 40
