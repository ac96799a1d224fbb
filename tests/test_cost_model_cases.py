"""The step model and its fit: bytes and distances by hand, the rules of the queue, prices found again, and no answer known."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from utils import paths
from utils.measure import step_cases
from utils.model import cost_fit, costmodel, step_model
from utils.model.cost_fit import Leak, Timed
from utils.model.step_model import Layout, Program

DEVICES = ("cpu", "cuda")


def drawn_prices(programs, device: str, seed: int = 3) -> dict[str, float]:
    """Prices near the usual ones, a different factor each."""
    draw = np.random.default_rng(seed)
    names = step_model.parameter_names(programs, device)
    return {name: step_model.usual(name, device) * float(np.exp(draw.normal(0, 0.3))) for name in names}


def synthetic(programs, device: str, prices, noise: float = 0.0, seed: int = 5) -> list[Timed]:
    draw = np.random.default_rng(seed)
    us = cost_fit.predict(programs, device, prices)
    return [Timed(p, u * float(np.exp(draw.normal(0, noise)))) for p, u in zip(programs, us, strict=True)]


def small_world(device: str) -> tuple[list[Program], list[Program]]:
    """(calibration, cases) of few kinds, so that a fit takes a fraction of a second."""
    calibration = [Program((kind,) * 6, 1 << e, "fp32") for kind in ("add", "relu") for e in (8, 14, 17, 20, 23)]
    calibration += [Program(("relu",) * 6, 1 << 9, "fp32", grad=True), Program(("add", "relu") * 4, 1 << 9, "fp32")]
    cases = [Program(("add", "relu") * k, 1 << e, "fp32", grad=k == 3) for k in (1, 3, 8) for e in (10, 16, 19, 22)]
    return calibration, cases


# ------------------------------------------------------------------------------------------------ descriptions


def test_bytes_and_flops_by_hand():
    chain = Program(("add", "relu", "view"), 1000, "bf16")
    assert chain.nbytes == 1000 * 2 * (3 + 2)
    assert chain.flops == 2000
    product = Program(("mm",), 1000, "fp32", side=10)  # 100 rows
    assert product.nbytes == 4 * (1000 + 1000 + 100)
    assert product.flops == 2 * 100 * 10 * 10


def test_without_a_tape_two_places_take_turns():
    rows = step_model.touched(Program(("relu",) * 5, 16, "fp32"))
    assert [row[-1][0] for row in rows] == ["result 0", "result 1", "result 0", "result 1", "result 0"]
    assert rows[0][0][0] == "input" and all(a[-1][0] == b[0][0] for a, b in zip(rows, rows[1:], strict=False))


@pytest.mark.parametrize(
    "kinds, places",
    [(("relu",) * 4, 4), (("add",) * 4, 2), (("sigmoid", "add", "add", "add"), 3), (("add", "gelu", "add", "add"), 3)],
)
def test_a_tape_keeps_results_of_relu_inputs_of_gelu_nothing_of_add(kinds, places):
    rows = step_model.touched(Program(kinds, 16, "fp32", grad=True))
    assert len({row[-1][0] for row in rows}) == places


def test_what_a_tape_keeps_is_what_torch_keeps():
    """By torch itself: how many bytes live at the end of a chain that holds its last result only."""
    import torch

    for kinds, kept in ((("relu",) * 4, 4), (("add",) * 4, 1), (("sigmoid", "add", "add"), 2), (("add", "gelu", "add"), 2)):
        program = Program(kinds, 64, "fp32", grad=True)
        saved = set()
        with torch.autograd.graph.saved_tensors_hooks(lambda t, saved=saved: saved.add(t.data_ptr()) or t, lambda t: t):
            bench = step_cases.Bench("cpu", [program])
            bench.step(program)()
        inside = {bench._data["fp32"][0].data_ptr(), bench._data["fp32"][1].data_ptr()}
        keeps = len(saved - inside)
        last_is_saved = step_model.KEEPS.get(kinds[-1]) == "result"
        assert keeps + (not last_is_saved) == kept, kinds


def test_distance_of_a_chain_is_what_its_ops_stream_through():
    size = 4096
    far = step_model.distances(Program(("add",) * 6, size // 4, "fp32"))
    middle = far[3]  # reads the result before it and the other operand, writes where the one before that lay
    assert [moved for moved, _ in middle] == [size] * 3
    # by hand: the op before touched (result a, other, result b), this one (result b, other, result a): the same three
    assert {distance for _, distance in middle} == {3 * size}


def test_a_tape_makes_everything_farther():
    plain, tape = (
        sum(d for row in step_model.distances(Program(("relu",) * 8, 1024, "fp32", grad=g)) for _, d in row) for g in (0, 1)
    )
    assert tape > 2 * plain


def test_a_program_says_what_is_wrong_with_it():
    for wrong in ({"kinds": ("pow",)}, {"kinds": ()}, {"kinds": ("mm",), "side": 3}, {"kinds": ("add",), "dtype": "fp8"}):
        with pytest.raises(ValueError):
            Program(**({"elements": 16} | wrong))


# ------------------------------------------------------------------------------------------------ the model's rules


@pytest.mark.parametrize("seed", range(5))
def test_the_gpu_s_steps_are_those_of_the_queue(seed):
    draw = np.random.default_rng(seed)
    programs = [
        Program(tuple(draw.choice(["add", "relu", "view", "gelu"], size=int(draw.integers(2, 40)))), 1 << int(e), "fp32")
        for e in draw.integers(8, 26, size=6)
    ]
    programs = [p for p in programs if set(p.kinds) != {"view"}]
    prices = drawn_prices(programs, "cuda", seed)
    for program, us in zip(programs, cost_fit.predict(programs, "cuda", prices), strict=True):
        ops = step_model.ops(program, "cuda", prices)
        played = costmodel.queue(ops, gap_us=prices["gap"])
        assert us == pytest.approx(played.wall_us + prices["step"])
        by = step_model.three([program], "cuda", prices)[0]
        assert by["sum"] == pytest.approx(costmodel.total_sum(ops) + prices["step"])
        assert by["max"] == pytest.approx(costmodel.total_max(ops) + prices["step"])
        assert by["queue"] == pytest.approx(us)


def test_a_cpu_s_steps_are_sums():
    programs = [Program(("add", "gelu", "view"), 5000, "bf16"), Program(("relu",) * 9, 1 << 16, "fp32", grad=True)]
    prices = drawn_prices(programs, "cpu")
    for program, by in zip(programs, step_model.three(programs, "cpu", prices), strict=True):
        ops = step_model.ops(program, "cpu", prices)
        torn = prices["leaf"] + len(program.kinds) * prices["teardown"] if program.grad else 0.0
        assert by["queue"] == pytest.approx(by["sum"]) == pytest.approx(costmodel.total_sum(ops) + prices["step"] + torn)
        assert by["max"] < by["sum"]


@pytest.mark.parametrize("device", DEVICES)
def test_every_price_has_a_meaning_and_a_beginning(device):
    programs = [*step_cases.calibration(device), *step_cases.cases(device)]
    for name in Layout(programs, device).names:
        assert step_model.usual(name, device) > 0
        assert len(step_model.meaning(name)) > 15


def test_a_team_shares_what_is_large_enough():
    small, large = (Program(("add", "view"), n, threads=2) for n in (step_model.GRAIN, step_model.GRAIN + 1))
    assert [small.team("add"), large.team("add"), large.team("view"), small.team("mm")] == [1, 2, 1, 2]
    prices = drawn_prices([small, large], "cpu") | {"overlap": 1e-9, "written": 1.0}
    flat = prices | {f"memory {d}": prices["memory 16384"] for d in step_model.DISTANCES["cpu"]}
    alone, shared = (step_model.ops(p, "cpu", flat)[0].device_us for p in (replace(large, threads=1), large))
    assert shared - prices["team"] - prices["start"] == pytest.approx((alone - prices["start"]) / 2)
    assert "team" not in step_model.parameter_names([Program(("add",), 64)], "cpu")
    assert {p.threads for p in step_cases.on_threads(step_cases.cases("cpu"), 2)} == {2}


def test_no_price_belongs_to_one_size():
    """A price list that named sizes, lengths or tapes could look the answer up."""
    programs = [*step_cases.calibration("cpu"), *step_cases.cases("cpu")]
    names = step_model.parameter_names(programs, "cpu")
    more = step_model.parameter_names([*programs, Program(("add",) * 33, 1 << 21, "fp32", grad=True)], "cpu")
    assert names == more and len(names) < len(step_cases.calibration("cpu"))


# ------------------------------------------------------------------------------------------------ the fit


@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_a_synthetic_machine_are_predicted(device):
    calibration, cases = small_world(device)
    truth = drawn_prices([*calibration, *cases], device)
    errors = cost_fit.errors(
        cost_fit.held_out(synthetic(cases, device, truth), synthetic(calibration, device, truth), device),
        cost_fit.predict(cases, device, truth),
    )
    assert cost_fit.summary(errors)["worst"] < 0.06


def test_prices_that_show_are_found_again():
    calibration, cases = small_world("cpu")
    truth = drawn_prices([*calibration, *cases], "cpu")
    found = cost_fit.fit(synthetic([*calibration, *cases], "cpu", truth), "cpu")
    hosts = [name for name in truth if name.startswith("host")]
    assert [found[name] + found["start"] for name in hosts] == pytest.approx(
        [truth[name] + truth["start"] for name in hosts], rel=0.1
    )


def test_one_disturbed_case_does_not_move_the_others():
    calibration, cases = small_world("cpu")
    truth = drawn_prices([*calibration, *cases], "cpu")
    timed = synthetic(cases, "cpu", truth)
    timed[0] = Timed(timed[0].program, 8 * timed[0].us)
    predicted = cost_fit.held_out(timed, synthetic(calibration, "cpu", truth), "cpu")
    errors = cost_fit.errors(predicted[1:], [t.us for t in timed[1:]])
    assert cost_fit.summary(errors)["median"] < 0.05


def test_the_formulas_are_fitted_too():
    """Made by a formula, its cases are found by that formula: the fit of the published ones is not weak on purpose."""
    programs = [Program(("relu",) * k, 1 << e, "fp32") for k in (1, 4, 32) for e in (8, 16, 20, 24)]
    for how, join in (("sum", lambda a, b: a + b), ("max", max)):
        timed = [Timed(p, join(7.0 * len(p.kinds), p.nbytes * 1e-3 / 900)) for p in programs]
        said = cost_fit.published(how, timed[::2], programs[1::2])
        assert said == pytest.approx([t.us for t in timed[1::2]], rel=0.05), how


def test_the_textbook_s_sum_by_hand():
    program = Program(("add", "view", "relu"), 1_000_000, "bf16")
    assert cost_fit.textbook(program, 1000.0) == pytest.approx(2 * 10 + 2e6 * 5 / 1e6)


# ------------------------------------------------------------------------------------------------ no answer known


def test_a_planted_leak_is_refused():
    calibration, cases = small_world("cpu")
    truth = drawn_prices([*calibration, *cases], "cpu")
    timed = synthetic(cases, "cpu", truth)
    with pytest.raises(Leak, match="would predict"):
        cost_fit.held_out(timed, [*synthetic(calibration, "cpu", truth), timed[4]], "cpu")
    with pytest.raises(Leak):  # under another time as well: the same step is the same step
        cost_fit.held_out(timed, [Timed(timed[4].program, 2 * timed[4].us)], "cpu")
    with pytest.raises(Leak):  # the same case twice, in two folds
        cost_fit.held_out([*timed, *timed], synthetic(calibration, "cpu", truth), "cpu")


@pytest.mark.parametrize("how", ["model", "sum"])
def test_a_case_s_own_time_never_enters_its_prediction(how):
    calibration, cases = small_world("cpu")
    truth = drawn_prices([*calibration, *cases], "cpu")
    known, timed = synthetic(calibration, "cpu", truth, 0.05), synthetic(cases, "cpu", truth, 0.05)
    model = None if how == "model" else lambda train, test: cost_fit.published(how, train, test)
    before = cost_fit.held_out(timed, known, "cpu", model)
    fold = cost_fit.folds(len(timed))[0]
    lied = [Timed(t.program, 3 * t.us) if i in fold else t for i, t in enumerate(timed)]
    after = cost_fit.held_out(lied, known, "cpu", model)
    assert [after[i] for i in fold] == [before[i] for i in fold]
    if how == "model":  # the lie was told where it was heard (the formulas' three prices may shrug it off)
        assert [a for i, a in enumerate(after) if i not in fold] != [b for i, b in enumerate(before) if i not in fold]


def test_every_case_is_held_out_once():
    for count in (3, 8, 47, 48):
        together = [i for fold in cost_fit.folds(count) for i in fold]
        assert sorted(together) == list(range(count))


# ------------------------------------------------------------------------------------------------ the cases


@pytest.mark.parametrize("device", DEVICES)
def test_the_cases_are_what_the_bar_says(device):
    found = step_cases.cases(device)
    assert len(found) >= 40 and len(set(found)) == len(found)
    assert found == step_cases.cases(device)
    assert not set(found) & set(step_cases.calibration(device))
    lengths, sizes = {len(p.kinds) for p in found}, {p.elements for p in found}
    assert min(lengths) == 1 and max(lengths) == 64
    assert min(sizes) == 1 << 8 and max(sizes) == 1 << 27
    for share in (
        [p.dtype == "fp32" for p in found],
        [p.grad for p in found],
        [len(set(p.kinds)) > 1 for p in found],
    ):
        assert 0.25 < sum(share) / len(found) < 0.75
    assert sum("mm" in p.kinds for p in found) >= 6
    assert len({p.name for p in found}) == len(found)


def test_a_bench_runs_every_kind_with_and_without_a_tape():
    kinds = tuple(step_model.READS)
    programs = [Program(kinds, 64, dtype, grad, side=8) for dtype in ("fp32", "bf16") for grad in (False, True)]
    bench = step_cases.Bench("cpu", programs)
    for program in programs:
        assert bench.arm(program)(2) > 0


def test_windows_time_all_programs_together():
    programs = [Program(("add",) * 2, 256), Program(("relu",), 256, grad=True)]
    found = step_cases.timed("cpu", programs, windows=3, at_most_s=1.0)
    assert len(found["us"]) == 2 and min(found["us"]) > 0
    many = len(found["windows"]["s"])
    assert [len(us) for us in found["windows"]["us"]] == [many, many]
    assert found["windows"]["s"] == sorted(found["windows"]["s"])
    assert any("malloc" in note for note in found["notes"])


# ------------------------------------------------------------------------------------------------ the benchmark


def the_benchmark():
    spec = importlib.util.spec_from_file_location("cost_model_bench", paths.REPO / "benchmarks" / "cost_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kept(folder, *, noise: float, aa: float = 0.01) -> str:
    """A file as `--out` writes it, of a synthetic machine."""
    calibration, cases = small_world("cpu")
    programs = [*calibration, *cases]
    truth = drawn_prices(programs, "cpu")
    us = [t.us for t in synthetic(programs, "cpu", truth, noise)]
    data = {
        "device": "cpu",
        "us": us,
        "spread": [1.05] * len(us),
        "windows": {"s": [0.0, 1.0], "us": [[u, u] for u in us]},
        "aa": aa,
        "notes": [],
        "programs": [asdict(p) for p in programs],
        "calibration": len(calibration),
    }
    file = folder / "kept.json"
    file.write_text(json.dumps(data))
    return str(file)


def test_the_benchmark_judges_what_was_kept(tmp_path, capsys, monkeypatch):
    bench = the_benchmark()
    monkeypatch.setattr(bench, "LEAST_CASES", 12)
    assert bench.main(["--prices", "--from", kept(tmp_path, noise=0.0)]) == 0
    assert capsys.readouterr().out.count(" pass") == 2
    assert bench.main(["--from", kept(tmp_path, noise=0.8)]) == 1  # steps that nothing explains
    assert " short" in capsys.readouterr().out
    assert bench.main(["--from", kept(tmp_path, noise=0.8, aa=0.3)]) == 0  # a run that could not tell
    assert "nobar" in capsys.readouterr().out


def test_the_benchmark_wants_forty_cases(tmp_path, capsys):
    assert the_benchmark().main(["--from", kept(tmp_path, noise=0.0)]) == 1
    assert "12_cases" in capsys.readouterr().out
