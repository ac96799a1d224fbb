"""The roofline room: its arithmetic, the C++ loops against torch, the CUDA kernels' text run as C++, and every part, small."""

from __future__ import annotations

import ctypes
import json
import random
import subprocess
import sys

import pytest
import torch

from tests.conftest import require
from utils import paths
from utils.measure import (
    allocation,
    bandwidth,
    cache_effects,
    census,
    cpu_loops,
    decode,
    either_clock,
    engines,
    gemm_peak,
    gpu_loops,
    knee,
    layout,
    paper_sums,
    placed_ops,
    ridge_point,
    roofline,
    utilisation_of_flops,
)
from utils.measure.device_clock import MeasurementError
from utils.measure.intensity import OpWork
from utils.measure.language_model import Size
from utils.model import devices, expected
from utils.model.studies import plain

RNG = random.Random(20261130)


# ------------------------------------------------------------------------------------------------ arithmetic


def test_a_roofline_is_the_lesser_of_its_two_limits():
    peak, gbps = RNG.uniform(0.1, 900), RNG.uniform(10, 5000)
    line = roofline.Roofline("test", gbps, {"gemm_bf16": roofline.Roof("gemm_bf16", peak)})
    ridge = line.ridge("gemm_bf16")
    assert ridge == pytest.approx(peak * 1e12 / (gbps * 1e9))
    assert line.attainable("gemm_bf16", ridge) == pytest.approx(peak)
    assert line.attainable("gemm_bf16", ridge / 4) == pytest.approx(peak / 4)
    assert line.attainable("gemm_bf16", ridge * 4) == peak
    nbytes = 1e9
    below, above = (line.floor("gemm_bf16", ridge * nbytes * factor, nbytes) for factor in (0.5, 2.0))
    assert (below.bound, above.bound) == ("memory", "arithmetic")
    assert above.seconds == pytest.approx(2 * below.seconds)
    assert line.knees(ridge / 10, ridge * 10, "gemm_bf16")[1] == pytest.approx((ridge, peak))
    assert len(line.knees(ridge * 2, ridge * 10, "gemm_bf16")) == 2


def test_the_datasheets_ridges_are_computed():
    h200 = next(d for d in devices.load() if d.id == "h200-sxm")
    line = roofline.from_datasheet(h200)
    assert line.ridge("gemm_bf16") == pytest.approx(989 / 4.8)
    assert line.ridge("vector_fp32") == pytest.approx(67 / 4.8)
    assert "gemm_bf16" not in roofline.from_datasheet(next(d for d in devices.load() if d.id == "t4")).roofs


def test_measured_beside_the_datasheet():
    h200 = next(d for d in devices.load() if d.id == "h200-sxm")
    part = {"numbers": {"gbps": 4320.0, "gemm_bf16": 791.2, "issue": 30.0, "copy_gbps": 1.0}}
    line = roofline.from_peaks(part, "label")
    assert set(line.roofs) == {"gemm_bf16", "issue"} and line.roofs["issue"].unit == "instruction"
    rows = {row["roof"]: row for row in roofline.beside(line, h200)}
    assert rows["memory"]["share"] == pytest.approx(0.9)
    assert rows["products, bf16"]["share"] == pytest.approx(0.8)
    assert rows["instruction issue"]["datasheet"] is None and rows["instruction issue"]["share"] is None
    assert all(row["share"] is None for row in roofline.beside(line, None))


def test_the_traced_ridge_is_where_flat_meets_steep():
    n, flat, slope = 1_000_000, RNG.uniform(5e5, 2e6), RNG.uniform(1e3, 9e4)
    works = [2 * k for k in knee.FMA["cpu"]]
    line = [{"work": w, "ns": max(flat, slope * w)} for w in works]
    line[-2]["ns"], line[-1]["ns"] = slope * works[-2], slope * works[-1]
    steep_start = flat / slope / knee.BYTES
    found = knee.numbers({"fma": line}, n)
    assert found["ridge_fma"] == pytest.approx(min(p["ns"] for p in line) / slope / 8)
    assert found["ridge_fma"] <= steep_start * 1.0001
    assert found["fma"] == pytest.approx(n / slope * 1e-3)
    assert found["gbps"] == pytest.approx(8 * n / min(p["ns"] for p in line))


def test_ridges_of_one_machine_differ_by_engine():
    part = {"numbers": {"gbps": 4000.0, "gemm_bf16": 800.0, "vector_fp32": 60.0, "issue": 32.0}}
    assert list(roofline.from_peaks(part, "x").ridges().values()) == pytest.approx([8.0, 15.0, 200.0])


def test_two_variants_of_one_name_are_refused():
    """An op named as a stream once took the stream's place, and the roof was twice as high as the memory."""
    with pytest.raises(ValueError, match="one name: add"):
        either_clock.race("cpu", {"add": lambda: None, "b": lambda: None}, arms={"add": lambda n: 1e-3 * n})


def test_a_product_that_would_take_too_long_is_left_out_and_named():
    variants, notes = {}, []
    gemm_peak._add_shapes(variants, notes, "cpu", "fp32", gemm_peak.shapes((4096, 8, 16)), 1e-3)
    assert [shape for _, shape in variants] == [(8, 8, 8), (16, 16, 16)]
    assert len(notes) == 1 and "4,096³" in notes[0]


# ------------------------------------------------------------------------------------------------ the C++ loops


@pytest.fixture(scope="module")
def loops():
    require("compiler")
    return cpu_loops.loops()


N = cpu_loops.WHOLE * 2 * RNG.randrange(3, 9)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", [k for k in cpu_loops.KINDS if k.split(",")[0] in ("copy", "add", "triad", "write")])
def test_a_stream_writes_what_it_says_and_nothing_else(loops, kind, threads):
    a, b, c = torch.rand(N), torch.rand(N), torch.full((N + 64,), -1.0)
    assert loops.run(kind, a, b, c, n=N, threads=threads) > 0
    wanted = {"copy": a, "add": a + b, "triad": a + 0.5 * b, "write": torch.full((N,), 0.5)}[kind.split(",")[0]]
    assert torch.allclose(c[:N], wanted) and (c[N:] == -1).all()


def test_the_chains_do_k_operations_an_element(loops):
    start = torch.rand(N)
    for k in (1, 4, 7):
        x, wanted = start.clone(), start.clone()
        loops.run("fma chain", x, x, x, n=N, k=k, threads=2)
        for _ in range(k):
            wanted = wanted * 0.999 + 0.001
        assert torch.allclose(x, wanted, rtol=1e-5)
    words = torch.randint(0, 2**31 - 1, (N,), dtype=torch.int32)
    y = words.clone()
    loops.run("integer chain", y, y, y, n=N, k=4, threads=1)
    wide = words.to(torch.int64)
    for _ in range(2):
        wide = ((wide + 0x9E3779B9) & 0xFFFFFFFF) ^ 0x85EBCA6B
    assert torch.equal(y.to(torch.int64) & 0xFFFFFFFF, wide)


def test_a_chain_takes_several_passes_when_asked(loops):
    x, wanted = torch.rand(N), None
    wanted = x.clone()
    loops.run("fma chain", x, x, x, n=N, k=1, threads=1, times=3)
    for _ in range(3):
        wanted = wanted * 0.999 + 0.001
    assert torch.allclose(x, wanted, rtol=1e-5)


def test_what_cannot_be_shared_out_is_refused(loops):
    x = torch.rand(N)
    with pytest.raises(MeasurementError, match="cannot run over"):
        loops.run("copy", x, x, x, n=N - 1, threads=2)
    for wrong in (x[1:], x[:16], x.double(), torch.rand(2 * N)[::2]):
        with pytest.raises(MeasurementError, match="contiguous vectors"):
            loops.run("copy", x, x, wrong, n=N, threads=1)
    with pytest.raises(ValueError):
        loops.run("no such loop", x, x, x, n=N)


def test_without_a_compiler_torch_alone_gives_the_roof(monkeypatch):
    def missing():
        raise MeasurementError("loops of our own could not be built here: no compiler")

    monkeypatch.setattr(cpu_loops, "loops", missing)
    vectors = [torch.rand(1 << 12) for _ in range(3)]
    calls, own, nbytes, notes = bandwidth.streams("cpu", *vectors)
    assert set(nbytes) == set(calls) == {"torch copy", "torch add"} and not own
    assert "no compiler" in notes[0]
    found = engines.engines("cpu", quick=True)
    assert found["numbers"] == {} and "no compiler" in found["missing"]["vector_fp32"]
    with pytest.raises(MeasurementError, match="no compiler"):
        knee.knee("cpu", quick=True)


# ------------------------------------------------------------------------------------------------ the CUDA kernels, as C++

SHIM = """#include <cmath>
#include <cstdio>
#define __global__
#define __restrict__
struct Index { int x; };
static Index threadIdx{0}, blockIdx{0}, blockDim{1}, gridDim{1};
struct float4 { float x, y, z, w; };
struct uint4 { unsigned x, y, z, w; };
static float4 __ldcg(const float4* p) { return *p; }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
"""


def _as_cpp(folder, *sources: str):
    compiler = require("compiler")
    (folder / "k.cpp").write_text(SHIM + "\n".join(sources))
    command = [compiler, "-std=c++17", "-O1", "-w", "-fPIC", "-shared", str(folder / "k.cpp"), "-o", str(folder / "k.so")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "k.so"))


def test_the_cuda_kernels_text_does_what_it_says(tmp_path):
    """One thread of one block must do the whole pass: the loops are grid-strided."""
    streams = [gpu_loops._stream(kind, body) for kind, body in gpu_loops._STREAMS.items()]
    chains = [gpu_loops._chain("chain_fma_5", 5, False), gpu_loops._chain("chain_integer_6", 6, True)]
    registers = [gpu_loops._registers(f"registers_{k}", body) for k, body in gpu_loops._REGISTERS.items()]
    library = _as_cpp(tmp_path, *streams, *chains, *registers, gpu_loops._READ, gpu_loops._REREAD)
    n = 24
    a, b, c = torch.rand(4 * n), torch.rand(4 * n), torch.zeros(4 * n + 4)
    address = [ctypes.c_void_p(x.data_ptr()) for x in (a, b, c)]
    for kind, wanted in {"copy": a, "add": a + b, "triad": a + 0.5 * b}.items():
        getattr(library, kind)(*address, n)
        assert torch.allclose(c[: 4 * n], wanted) and (c[4 * n :] == 0).all(), kind
    library.read(*address, n)
    library.reread(address[0], address[2], n, 3)
    assert torch.allclose(c[: 4 * n], a + 0.5 * b)  # a read writes nothing
    x, wanted = a.clone(), a.clone()
    library.chain_fma_5(ctypes.c_void_p(x.data_ptr()), n)
    for _ in range(5):
        wanted = wanted * 0.999 + 0.001
    assert torch.allclose(x, wanted)
    words = torch.randint(0, 2**31 - 1, (4 * n,), dtype=torch.int32)
    y, wide = words.clone(), words.to(torch.int64)
    library.chain_integer_6(ctypes.c_void_p(y.data_ptr()), n)
    for _ in range(2):  # three operations a round
        wide = ((wide + 0x9E3779B9) & 0xFFFFFFFF) ^ (wide >> 7)
    assert torch.equal(y.to(torch.int64) & 0xFFFFFFFF, wide)
    for kind in gpu_loops._REGISTERS:
        getattr(library, f"registers_{kind}")(address[2], 3)


def test_a_round_in_registers_holds_as_many_operations_as_it_is_counted_for():
    bodies = gpu_loops._REGISTERS
    assert bodies["fma"].count("fmaf(") * 8 == gpu_loops.PER_ROUND
    assert bodies["integer"].count("+=") * 8 == gpu_loops.PER_ROUND
    assert (bodies["mixed"].count("fmaf(") + bodies["mixed"].count("+=")) * 8 == gpu_loops.PER_ROUND


# ------------------------------------------------------------------------------------------------ the parts, small


@pytest.fixture
def small(monkeypatch):
    """Every part as usual, over little data and on one thread (a team's waits on a busy machine take longer than all of it)."""
    require("compiler")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(bandwidth, "LEAST", 1 << 14)
    mib = either_clock.MIB
    monkeypatch.setattr(bandwidth, "buffer_bytes", lambda device, quick: 2 * mib)
    monkeypatch.setattr(bandwidth, "QUICK", 2 * mib)
    monkeypatch.setattr(knee, "buffer_bytes", lambda device, quick: 2 * mib)
    monkeypatch.setattr(gemm_peak, "QUICK", {"cpu": (48, 96)})
    monkeypatch.setattr(gemm_peak, "DTYPES", {"cpu": ("fp32",)})
    monkeypatch.setattr(cache_effects, "last_cache", lambda device: 2 * mib)
    monkeypatch.setattr(layout, "SIDE", {"cpu": (256, 256)})
    monkeypatch.setattr(placed_ops, "ELEMENTS", {"cpu": (1 << 14, 1 << 14)})
    monkeypatch.setattr(placed_ops, "SIDE", {"cpu": (64, 64)})
    monkeypatch.setattr(placed_ops, "CONTEXT", {"cpu": (64, 64)})
    monkeypatch.setattr(placed_ops.malloc, "pin", lambda: False)  # it could not be taken back in this process
    monkeypatch.setattr(paper_sums, "SHAPE", (2, 64, 4096))
    monkeypatch.setattr(paper_sums, "SIDES", {"cpu": (16, 64)})
    monkeypatch.setattr(decode, "CONTEXT", {"cpu": (64, 64)})
    monkeypatch.setattr(census, "MODEL", {"cpu": Size("test", 32, 1, 2, 64, 2, 8)})
    sizes = tuple(Size(name, width, 1, 2, 64, 2, 8) for name, width in (("tiny", 16), ("narrow", 32), ("wide", 64)))
    monkeypatch.setattr(utilisation_of_flops, "SIZES", {"cpu": sizes})
    yield
    torch.set_num_threads(before)


ROOFS = {"gbps": 20.0, "gemm_fp32": 0.1, "vector_fp32": 0.2}


@pytest.mark.parametrize("part", [name for name in ridge_point.PARTS if name != "allocation"])
def test_a_part_is_plain_data_with_numbers(part, small):
    more = {"roofs": ROOFS} if part in ("census", "mfu") else {}
    found = ridge_point.PARTS[part].measure("cpu", lambda done, text: None, quick=True, **more)
    assert json.loads(json.dumps(plain(found), allow_nan=False))["device"] == "cpu"
    assert found["numbers"] and all(isinstance(value, float) for value in found["numbers"].values()), found["numbers"]
    assert isinstance(found["notes"], list)


@pytest.mark.parametrize("part", ridge_point.PARTS)
def test_a_part_without_a_gpu_says_so(part):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(MeasurementError, match="no CUDA device|GPU's"):
        ridge_point.PARTS[part].measure("cuda", None)


def test_rates_are_bytes_over_time(small):
    found = bandwidth.bandwidth("cpu", quick=True)
    for name, nbytes in found["bytes"].items():
        words = {"read": 1, "write": 1, "copy": 2, "add": 3, "triad": 3}[name.removeprefix("torch ").split(",")[0]]
        assert nbytes == words * 2 * either_clock.MIB
        assert found["gbps"][name] == pytest.approx(nbytes / found["race"][name].ns)
    reading_and_writing = [rate for name, rate in found["gbps"].items() if not name.startswith(("read", "write"))]
    assert found["numbers"]["gbps"] == max(reading_and_writing)


def test_peaks_hold_the_ridges_of_what_was_measured(small):
    numbers = ridge_point.peaks("cpu", quick=True)["numbers"]
    for roof in ("gemm_fp32", "vector_fp32", "issue"):
        assert numbers[f"ridge_{roof}"] == pytest.approx(numbers[roof] * 1e3 / numbers["gbps"])
    line = roofline.from_peaks({"numbers": numbers}, "here")
    assert line.ridge("gemm_fp32") == pytest.approx(numbers["ridge_gemm_fp32"])


def test_the_roofs_of_the_op_table_are_streams_and_products_of_its_race(small):
    found = placed_ops.ops("cpu", quick=True)
    readings = found["race"].readings
    streams = [name for name in readings if name.startswith("stream ")]
    assert len(streams) >= 4 and set(placed_ops.OPS) <= set(readings)
    n = 1 << 14
    words = {"copy": 2, "add": 3}
    rates = [4 * n * words[name.split(",")[0].split()[-1]] / readings[name].ns for name in streams]
    assert found["roofs"]["gbps"] == pytest.approx(max(rates))


def test_a_placed_op_has_the_floor_of_its_slower_limit():
    row = placed_ops.placed("add", 1 << 20, "fp32", 1e6, ROOFS)
    assert row["floor_ns"] == pytest.approx(12 * (1 << 20) / 20.0) and row["bound"] == "memory"
    assert row["share"] == pytest.approx(row["floor_ns"] / 1e6)
    row = placed_ops.placed("gemm", 1024, "fp32", 5e7, ROOFS)
    assert row["floor_ns"] == pytest.approx(2 * 1024**3 / 0.1 * 1e-3) and row["bound"] == "arithmetic"
    blind = placed_ops.placed("add", 1 << 20, "fp32", 1e6, {"gbps": 20.0})
    assert blind["roof"] is None and blind["arithmetic_ns"] is None
    assert placed_ops.numbers([row])["share_gemm"] == row["share"]


def test_the_wait_is_what_arithmetic_does_not_explain():
    row = placed_ops.placed("add", 1 << 20, "fp32", 1e6, ROOFS)
    assert placed_ops.numbers([row])["wait_share_add"] == pytest.approx(1 - (1 << 20) / 0.2 * 1e-3 / 1e6)


def test_the_census_adds_up(small):
    found = census.census("cpu", quick=True, roofs=ROOFS)
    assert found["unknown"] == []
    assert sum(row["count"] for row in found["rows"]) == found["numbers"]["ops"]
    assert sum(row["ns"] for row in found["rows"]) == pytest.approx(found["step_ns"])
    for what in ("count", "time"):
        assert sum(found["numbers"][f"{group}_{what}"] for group in census.GROUPS) == pytest.approx(1.0)
    assert {row["phase"] for row in found["rows"]} == {"forward", "backward", "optimizer"}


def test_below_the_ridge_of_ones_own_engine():
    def op(intensity: float) -> OpWork:
        return OpWork("x", 1000 * intensity, 0.0, 500, 500, (1,), "float32")

    ridge = ROOFS["gemm_fp32"] * 1e3 / ROOFS["gbps"], ROOFS["vector_fp32"] * 1e3 / ROOFS["gbps"]
    between = sum(ridge) / 2
    assert census.below_ridge(op(between), "elementwise", ROOFS, "fp32")
    assert not census.below_ridge(op(between), "product", ROOFS, "fp32")
    assert census.below_ridge(op(ridge[0] * 0.9), "product", ROOFS, "fp32")
    only_products = {k: v for k, v in ROOFS.items() if k != "vector_fp32"}
    assert not census.below_ridge(op(between), "elementwise", only_products, "fp32")


def test_mfu_is_the_products_flops_over_time_and_peak(small):
    found = utilisation_of_flops.mfu("cpu", quick=True, roofs=ROOFS)
    for row in found["rows"]:
        assert row["mfu"] == pytest.approx(row["flops"] / row["step_ns"] * 1e-3 / ROOFS["gemm_fp32"])
        assert 0.3 < row["flops"] / row["six_nd"] < 2
    assert [row["model"] for row in found["rows"]] == ["tiny", "narrow", "wide"]


def test_the_order_of_calls_is_all_that_differs_between_late_and_soon(small):
    found = cache_effects.intermediate("cpu", quick=True)
    assert found["bytes"] == 16.0 * found["elements"] * found["pieces"]
    assert found["numbers"]["late_gbps"] == pytest.approx(found["bytes"] / found["race"]["late"].ns)
    assert found["notes"][0] == "one thread"


def test_allocation_counts_the_pages_of_a_fresh_result():
    rows = []
    for history, ratio, faults in (
        ("fresh process", 3.0, 4096.0),
        ("after 30 MiB were freed", 1.1, 10.0),
        ("malloc pinned", 1.0, 0.0),
    ):
        for mb in allocation.MEBIBYTES:
            rows += [
                {"history": history, "mb": mb, "arm": allocation.GIVEN, "ns": 100.0, "faults": 0.0},
                {"history": history, "mb": mb, "arm": allocation.FRESH, "ns": 100.0 * ratio, "faults": faults},
            ]
    found = allocation.numbers(rows)
    assert found["fresh_16_ratio"] == 3.0 and found["pinned_64_ratio"] == 1.0 and found["freed_16_faults"] == 10.0


def test_fresh_pages_fault_and_are_counted():
    """In a process of its own: where malloc was pinned before, as most measurements do it, a block may be warm."""
    code = (
        "import torch\nfrom utils.measure import malloc\nbefore = malloc.page_faults()\n"
        "torch.empty(64 << 20, dtype=torch.uint8).fill_(1)\nprint(malloc.page_faults() - before)\n"
    )
    faults = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=paths.REPO, check=True).stdout)
    assert faults >= 64 * either_clock.MIB // 4096 * 0.9


def test_threads_are_what_they_were_after_an_experiment_on_one():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), either_clock.one_thread("cpu"):
        assert torch.get_num_threads() == 1
        raise KeyError
    assert torch.get_num_threads() == before


def test_caches_are_read_as_the_kernel_reports_them(tmp_path):
    for i, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K"), ("3", "Unified", "260M")]
    ):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    assert either_clock.caches("cpu", tmp_path) == {"L1": 48 << 10, "L2": 2 << 20, "L3": 260 << 20}
    assert either_clock.caches("cpu", tmp_path / "nothing") == {}


def test_a_working_set_fits_the_first_level_that_holds_it():
    known = {"L1": 64 << 10, "L2": 1 << 20, "L3": 32 << 20}
    assert [bandwidth._fits(size, known) for size in (1 << 10, 65 << 10, 2 << 20, 33 << 20)] == ["L1", "L2", "L3", "memory"]
    assert bandwidth._fits(1 << 10, {}) == "memory"


def test_a_dtype_that_a_gpu_lacks_is_said_in_words(monkeypatch):
    from utils.measure.fingerprints import Gpu

    monkeypatch.setattr(gemm_peak, "gpu", lambda: Gpu(usable=True, name="Tesla T4", capability="7.5"))
    assert "7.5" in gemm_peak.lacks("cuda", "bf16") and gemm_peak.lacks("cuda", "fp16") == ""
    assert gemm_peak.lacks("cpu", "bf16") == ""
    assert placed_ops.usual_dtype("cuda") == "fp16"


# ------------------------------------------------------------------------------------------------ the ranges

SOUND = {
    "cpu": {
        "intensity_add": 1 / 12, "intensity_gemm": 1024 / 6, "gemm_fp32": 0.17, "vector_fp32": 0.2, "ratio": 2.4,
        "reused_ratio": 1.4, "transposed_ratio": 7.5, "both_ratio": 1.04, "fresh_64_ratio": 3.5, "fresh_64_faults": 16385.0,
        "intensity": 0.4995,
        "intensity_largest": 0.4995, "product_time": 0.65, "product_count": 0.077, "below_count": 0.91, "wide_over_tiny": 126.0,
    },
    "cuda": {
        "intensity_add": 1 / 6, "intensity_gemm": 4096 / 3, "gemm_fp32": 51.0, "vector_fp32": 63.6, "ratio": 1.88,
        "reused_ratio": 1.17, "transposed_ratio": 2.66, "both_ratio": 1.0, "intensity": 0.9999, "intensity_largest": 0.9999,
        "product_time": 0.36,
        "product_count": 0.29, "below_count": 0.66, "wide_over_tiny": 36120.0,
    },
}  # fmt: skip
# What a plausible mistake gives: range → the numbers that it changes.
WRONG = {
    "ridge_point.intensity_add": {"intensity_add": 1 / 8},
    "ridge_point.gemm_over_add": {"intensity_gemm": 2.0},
    "ridge_point.vector_roof": {"gemm_fp32": 400.0},
    "ridge_point.warm_cold": {"ratio": 1.0},
    "ridge_point.intermediate": {"reused_ratio": 1.0},
    "ridge_point.transposed": {"transposed_ratio": 1.0},
    "ridge_point.both_transposed": {"both_ratio": 2.7},
    "ridge_point.fresh_result": {"fresh_64_ratio": 1.0},
    "ridge_point.fresh_faults": {"fresh_64_faults": 0.0},
    "ridge_point.decode": {"intensity": 4.0},
    "ridge_point.decode_batch": {"intensity_largest": 32.0},
    "ridge_point.census_products": {"product_time": 0.05},
    "ridge_point.below_count": {"below_count": 0.2},
    "ridge_point.mfu": {"wide_over_tiny": 1.0},
}


def test_every_range_of_the_lesson_has_a_mistake_that_it_catches():
    assert {row["id"] for row in expected.metrics("ridge_point")} == set(WRONG)


ABOUT = {row["id"]: row.get("devices", ("cpu", "cuda")) for row in expected.metrics("ridge_point")}


@pytest.mark.parametrize(("metric", "device"), [(m, d) for m in WRONG for d in SOUND if d in ABOUT[m]])
def test_a_sound_run_is_in_range_and_a_mistake_is_not(metric, device):
    part = {"numbers": SOUND[device], "device": device}
    expected.expect(metric, ridge_point.judged(part))
    with pytest.raises(expected.ExpectationError):
        expected.expect(metric, ridge_point.judged({**part, "numbers": SOUND[device] | WRONG[metric]}))
