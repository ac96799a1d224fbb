"""Lab 5's bench: the same for the same name, equally hard for all, every trap in it a trap. Its tests against odd answers."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from grading import course
from grading.score import lost
from tests.lab_answers import LIAR, answered
from utils import paths
from utils.labs import cells, roofline_real
from utils.labs.learner import NOBODY, name_of, seed_of
from utils.labs.roofline import SIZES, bench
from utils.model import devices, recordings, studies
from utils.model.readings import quantile

LAB = "lab05_roofline"
NAMES = [NOBODY, "Ada", "Straße 7", "", "  ", "数", "x" * 500, "0", *(f"reader {i}" for i in range(16))]
TENSORS = {"sum": 1, "copy": 2, "add": 3}


def gbps(one) -> float:
    """The rate of a memory reading by its lower quartile, GB/s."""
    return TENSORS[one.op] * one.mib * 2**20 / quantile(list(one.blocks_us), 0.25) / 1e3


def large(one, own) -> bool:
    return TENSORS[one.op] * one.mib >= 4 * own.cache_mib


def roofs(work, machine) -> dict[str, float]:
    return {
        "memory": work.nbytes / machine.gbps[work.level] / 1e3,
        "arithmetic": work.flops / machine.tera[work.engine] / 1e6,
        "issue": work.instructions / machine.issue / 1e6,
    }


# ------------------------------------------------------------------------------------------------ whose bench


def test_the_same_name_gives_the_same_bench_and_another_name_another():
    assert bench("Ada") == bench("Ada") and bench("Ada").sweep == bench("  ada ").sweep
    assert len({bench(f"reader {i}").machine.issue for i in range(30)}) > 25
    assert len({bench(f"reader {i}").works for i in range(30)}) == 30
    assert seed_of("A  da", 5) == seed_of(" a da", 5) != seed_of("Ada", 5) != seed_of("Ada", 2)


@pytest.mark.parametrize("said", [None, 7, "", "   ", ["Ada"], b"Ada"])
def test_an_odd_name_is_nobodys(said):
    assert name_of(lambda: said) == NOBODY


def test_a_name_that_is_not_there_is_nobodys():
    def unwritten():
        raise NotImplementedError

    assert name_of(unwritten) == name_of(lambda: not_there_any_more()) == NOBODY  # noqa: F821
    assert name_of(lambda: "Ada") == "Ada"


def test_a_bench_says_that_it_is_made_up():
    for name in NAMES:
        assert "made up" in bench(name).label and "no machine was measured" in bench(name).label and len(bench(name).label) < 200


# ------------------------------------------------------------------------------------------------ as hard for one as for another


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:12])
def test_every_trap_of_a_sweep_is_one(name):
    """Without any single one of its rules a sweep gives another peak, whoever it belongs to."""
    own = bench(name)
    honest = [one for one in own.sweep if large(one, own) and one.data == "random" and one.result == "given"]
    assert Counter(Counter(one.op for one in honest).values()) == {3: 2}, "three honest sizes for two ops, none for the third"
    for op in {one.op for one in honest}:
        good = sorted((one.mib, gbps(one)) for one in honest if one.op == op)
        best = max(rate for _, rate in good)
        assert good[1][1] == best > 1.02 * max(good[0][1], good[2][1]), "best in the middle: neither first nor largest"
        others = [one for one in own.sweep if one.op == op and one not in honest]
        assert min(gbps(one) for one in others if not large(one, own)) > own.sheet_gbps > best, "in a cache"
        assert [gbps(one) > 1.3 * best for one in others if one.data == "zeros"] == [True]
        assert [gbps(one) < 0.6 * best for one in others if one.result == "allocated"] == [True] * (op != "sum")
        half = [one for one in others if own.cache_mib < TENSORS[op] * one.mib < 4 * own.cache_mib]
        assert len(half) == 1, "larger than the cache, and not large enough"
    for one in honest:
        low, median = (quantile(list(one.blocks_us), q) for q in (0.25, 0.5))
        assert min(one.blocks_us) < 0.97 * low and median > 1.1 * low


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:12])
def test_every_kernel_is_bound_by_the_same_roof_for_everybody(name):
    own = bench(name)
    bound = {}
    for work in own.works:
        us = sorted(roofs(work, own.machine).items(), key=lambda item: item[1])
        bound[work.name] = us[-1][0]
        assert us[-2][1] < 0.76 * us[-1][1], "two roofs too near to be told apart"
        assert work.level != "L2" or work.nbytes < own.cache_mib * 2**20, "said to be in L2, and does not fit"
    assert Counter(bound.values()) == {"memory": 4, "arithmetic": 3, "issue": 1}
    assert bound["fused tail with a random draw"] == "issue"
    shares = [max(roofs(work, own.machine).values()) / own.measured_us[work.name] for work in own.works]
    assert sum(share > 1.05 for share in shares) == 1 and min(shares) > 0.6


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:12])
def test_products_datasheet_and_step_of_a_bench(name):
    own = bench(name)
    for precision in ("bf16", "tf32", "fp32"):
        rates = {
            (p.data, p.m, p.n): 2 * p.m * p.k * p.n / quantile(list(p.blocks_us), 0.25) / 1e6
            for p in own.products
            if p.precision == precision
        }
        best = max(rate for (data, *_), rate in rates.items() if data == "random")
        assert max(rates.values()) > 1.05 * best, "zeros are faster"
        assert rates["random", 8_192, 8_192] < best, "the largest product is not the best"
        (peak,) = [peak for peak in own.peaks if peak.engine == precision]
        assert best < peak.tera / (2 if peak.sparse else 1), "nothing above the dense rate of the sheet"
    assert Counter(peak.sparse for peak in own.peaks) == {True: 2, False: 2}
    possible = own.step.seconds * own.machine.tera["bf16"] * 1e12 * own.step.devices
    assert 0.29 < 3 * own.step.forward_flops / possible < 0.46
    assert own.step.devices > 1 and own.step.kernel_seconds < own.step.seconds and own.step.recomputed_flops > 0
    assert Counter(op.kind for op in own.ops) == {"elementwise": 5, "matmul": 2, "reduction": 1, "decode": 1}
    assert {t.dtype for op in own.ops for t in op.arguments.get("inputs", ())} <= set(SIZES)


def test_the_model_answer_quotes_the_bench_of_its_name():
    source = {cell["id"]: cells.source(cell) for cell in cells.read(course.source(LAB))["cells"]}
    assert 'return "Ada"' in source["my_name"]
    own = bench("Ada")
    (tail,) = [work for work in own.works if work.name in source["card_written"]]
    peaks = own.machine.tera["fp32"], own.machine.tera["bf16"], own.machine.issue
    ridge, far, issue = (tera * 1e3 / own.machine.gbps["memory"] for tera in peaks)
    figures = [
        f"{ridge:.1f}",
        f"{far:.0f}",
        f"{tail.flops / tail.nbytes:.1f}",
        f"{tail.instructions / tail.nbytes:.1f}",
        f"{issue:.1f}",
    ]
    assert [figure for figure in figures if figure not in source["written_answer"]] == []
    assert len(source["written_answer"].replace("###", "").split()) <= 120 + 4, "it keeps the limit of its own card"


# ------------------------------------------------------------------------------------------------ real numbers


def test_datasheets_are_those_of_the_course():
    sheets = roofline_real.datasheets()
    (h100,) = [device for device in devices.load() if device.id == "h100-sxm"]
    (bf16, fp32), rates = sheets[h100.name]
    assert bf16.sparse and bf16.tera == pytest.approx(2 * h100.tflops["bf16"].value, rel=0.01)
    assert (fp32.tera, rates["memory"]) == (h100.tflops["fp32"].value, h100.gbps.value)
    assert "Tesla T4" not in sheets, "no bf16"
    for device in devices.load():
        if device.name in sheets:
            peak = sheets[device.name][0][0]
            assert peak.tera / (2 if peak.sparse else 1) == pytest.approx(device.tflops["bf16"].value, rel=0.02), device.name


def test_recorded_adds_are_those_of_the_recordings(monkeypatch):
    adds = roofline_real.recorded_adds()
    assert adds and all("recorded" in label and work.nbytes == 12 and us > 0.5 for label, work, _, us in adds)
    assert all(machine.issue == machine.tera["fp32"] / 2 for _, _, machine, _ in adds)
    monkeypatch.setattr(recordings, "available", lambda: [])
    assert roofline_real.recorded_adds() == []


def made_study(**parts) -> studies.Study:
    where = recordings.load(recordings.available()[0]).where
    return studies.Study("ridge_point", "cpu", "2030-01-01T00:00:00+00:00", where, parts, {})


def test_recorded_machines_are_those_of_the_lessons_study(monkeypatch):
    row = {"title": "add", "roof": "vector_fp32", "flops": 10, "bytes": 120, "ns": 50.0}
    ops = {"rows": [row, {**row, "title": "no roof", "roof": None}], "roofs": {"gbps": 4.0, "vector_fp32": 0.2}}
    numbers = {"gbps": 4.0, "vector_fp32": 0.2, "issue": 0.1, "gemm_fp64": 9.0}
    found = {"whole": made_study(ops=ops, peaks={"numbers": numbers}), "without": made_study()}
    monkeypatch.setattr(studies, "available", lambda name, folder=None: list(found))
    monkeypatch.setattr(studies, "load", lambda name, stem, folder=None: found[stem])
    ((label, (peaks, gbps)),) = roofline_real.recorded_peaks().items()
    assert label.startswith("recorded") and gbps == {"memory": 4.0}
    assert {peak.engine: peak.tera for peak in peaks} == {"fp32": 0.2, "issue": 0.1} and not any(p.sparse for p in peaks)
    ((_, work, machine, us),) = roofline_real.recorded_ops()
    assert (work.name, work.flops, work.nbytes, work.instructions, us) == ("add", 10, 120, 0, 0.05)
    assert machine.tera[work.engine] == 0.2 and machine.gbps[work.level] == 4.0


def test_without_the_study_there_is_nothing_to_show(tmp_path):
    assert roofline_real.recorded_peaks(tmp_path) == {} and roofline_real.recorded_ops(tmp_path) == []


def test_grading_needs_no_torch():
    code = "import sys, utils.labs.roofline_real as r; r.recorded_adds(); r.recorded_ops(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=paths.REPO, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


# ------------------------------------------------------------------------------------------------ the lab's tests


OTHER = {
    "my_name": "def my_name():\n    return 42",
    "elementwise": """
import numpy as np

def elementwise(inputs, out_dtype, flops_each):
    n = np.prod(np.broadcast_shapes(*[t.shape for t in inputs]), dtype=np.int64)
    nbytes, seen = n * SIZES[out_dtype], set()
    for t in inputs:
        if t.name not in seen:
            seen.add(t.name)
            nbytes += np.prod(t.shape, dtype=np.int64) * SIZES[t.dtype]
    return flops_each * n, nbytes
""",
    "counts": """
def reduction(shape, dims, size):
    outs = 1
    for i in range(len(shape)):
        outs *= 1 if i in dims else shape[i]
    each = math.prod(shape[d] for d in dims)
    return float(outs * (each - 1)), float(outs * (each + 1) * size)

def matmul(a, b, size):
    *batch, m, k = a
    n = b[-1]
    times = math.prod(batch)
    weights = k * n if len(b) == 2 else times * k * n
    return 2 * times * m * k * n, size * (times * m * k + weights + times * m * n)

def decode(batch, heads, kv_heads, length, head_dim, size):
    flops = batch * heads * (2 * length * head_dim + 2 * head_dim * length)
    keys = values = batch * kv_heads * length * head_dim
    query = result = batch * heads * head_dim
    return flops, size * (keys + values + query + result)
""",
    "traffic": """
def traffic(calls, nbytes, kept):
    apart = together = 0
    here = set()
    for reads, result in calls:
        apart += sum(map(nbytes.get, reads)) + nbytes[result]
        for name in reads:
            if name not in here:
                together += nbytes[name]
                here.add(name)
        here.add(result)
        if result in kept:
            together += nbytes[result]
    return apart, together
""",
    "bandwidth": """
import numpy as np

moved, tensors, best, own = {'sum': 1, 'copy': 2, 'add': 3}, None, None, None

def bandwidth(sweep, cache_mib):
    rates = {}
    for p in sweep:
        nbytes = dict(sum=1, copy=2, add=3)[p.op] * p.mib * 1024 * 1024
        if p.data != 'zeros' and p.result != 'allocated' and not nbytes < 4 * cache_mib * 1024 * 1024:
            rates.setdefault(p.op, []).append(nbytes / np.percentile(p.blocks_us, 25) * 1e-3)
    return {op: max(found) for op, found in rates.items()}
""",
    "peaks": """
def arithmetic_peak(products, precision):
    best = None
    for p in products:
        if p.data == 'random' and p.precision == precision:
            seconds = statistics.quantiles(p.blocks_us, n=4, method='inclusive')[0] * 1e-6
            rate = p.m * p.n * 2 * p.k / seconds * 1e-12
            best = rate if best is None else max(best, rate)
    return best

def ridges(peaks, gbps):
    table = {}
    for peak in peaks:
        table[peak.engine] = {}
        for level in gbps:
            table[peak.engine][level] = peak.tera * 1e12 / (1 + peak.sparse) / (gbps[level] * 1e9)
    return table
""",
    "predict": """
def predict(work, machine):
    memory = work.nbytes / (machine.gbps[work.level] * 1e9)
    arithmetic = work.flops / (machine.tera[work.engine] * 1e12)
    issue = work.instructions / (machine.issue * 1e12)
    seconds, roof = max((memory, 'memory'), (arithmetic, 'arithmetic'), (issue, 'issue'))
    return {'us': seconds * 1e6, 'tflops': work.flops / seconds / 1e12, 'roof': roof}
""",
    "reached": """
def reached(roof_us, measured_us):
    share = roof_us / measured_us
    if share > 1.05:
        return share, 'impossible'
    return share, 'below' if share < 0.9 else 'at the roof'

def mfu(step, tera):
    done = step.forward_flops + 2 * step.forward_flops
    return done / step.devices / step.seconds / (tera * 1e12)
""",
}


def test_right_answers_that_are_written_differently_have_full_marks():
    scores = answered(LAB, OTHER)
    assert lost(scores) == set(), [score for score in scores if score.said]


@pytest.mark.parametrize("name", ["my_name = 'Ada'", "", "def my_name():\n    return 'y' * 10_000", "def my_name(:"])
def test_no_point_hangs_on_the_name(name):
    assert lost(answered(LAB, {"my_name": name})) == set()


FUNCTIONS = {
    "elementwise": ["elementwise"],
    "counts": ["reduction", "matmul", "decode"],
    "traffic": ["traffic"],
    "bandwidth": ["bandwidth"],
    "peaks": ["arithmetic_peak", "ridges"],
    "predict": ["predict"],
    "reached": ["reached", "mfu"],
}
CONSTANTS = [
    "None",
    "0",
    "1.0",
    "0.3",
    "()",
    "{}",
    "(0, 0)",
    "(60_000, 8_000_000)",
    "(1.0, 'at the roof')",
    "(0.5, 'impossible')",
    "(0.5, 'below')",
    "{'roof': 'memory', 'us': 100.0, 'tflops': 0.4}",
    "{'roof': 'issue', 'us': 100.0, 'tflops': 0.4}",
    "{'roof': 'arithmetic', 'us': 100.0, 'tflops': 0.4}",
    "{'sum': 2097.152, 'copy': 2097.152, 'add': 2097.152}",
    "{'fp32': {'memory': 20.0}, 'bf16': {'memory': 20.0}}",
]


@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_function_that_returns_a_constant_earns_nothing(constant):
    answers = {cell: "\n".join(f"def {name}(*a): return {constant}" for name in names) for cell, names in FUNCTIONS.items()}
    assert [score.id for score in answered(LAB, answers) if score.points] == []


def test_an_answer_that_says_yes_to_everything_earns_nothing():
    """An object that equals all, is above and below all, holds all, and answers every operator with itself."""
    answers = {cell: LIAR + "\n".join(f"{name} = Liar()" for name in names) for cell, names in FUNCTIONS.items()}
    assert [score.id for score in answered(LAB, answers) if score.points] == []
