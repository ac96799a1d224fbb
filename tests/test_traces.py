"""Reading a profiler's trace: lanes made by hand, a file torch wrote here, and files that are none."""

from __future__ import annotations

import gzip
import json
import random

import pytest
import torch

from utils.model import traces


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid}


def made() -> list[dict]:
    """Three launches, a read-out that waits, one more launch; two kernels overlap. Shuffled: files are in no order."""
    events = [
        event("cpu_op", "aten::add", 0, 10),
        event("cpu_op", "aten::empty", 2, 3),  # inside the add
        event("cuda_runtime", "cudaLaunchKernel", 5, 4),
        event("cpu_op", "aten::mul", 12, 8),
        event("cuda_runtime", "cudaLaunchKernel", 14, 4),
        event("cuda_driver", "cuLaunchKernelEx", 21, 4),
        event("cpu_op", "aten::item", 30, 70),
        event("cuda_runtime", "cudaStreamSynchronize", 35, 60),
        event("cuda_runtime", "cudaLaunchKernel", 105, 4),
        event("cuda_runtime", "cudaDeviceSynchronize", 120, 30),
        event("kernel", "add", 20, 20),
        event("kernel", "mul", 30, 30),
        event("kernel", "add", 60, 30),
        event("gpu_memcpy", "Memcpy DtoH", 92, 2),
        event("kernel", "add", 115, 25),
    ]
    random.Random(4).shuffle(events)
    return events


def test_the_lanes_of_a_stretch():
    found = traces.seen(made(), last_wait=False)
    assert found.span_ns == 150e3
    assert found.busy_ns == pytest.approx((70 + 2 + 25) * 1e3)  # 20–90 in one piece, though two kernels overlap in it
    assert found.idle_ns == pytest.approx((140 - 20 - 97) * 1e3)
    assert (found.kernels, found.copies, found.launches, found.replays) == (4, 1, 4, 0)
    assert found.waits == {"cudaStreamSynchronize": 1} and found.wait_ns == 60e3
    assert found.by_kernel == {"add": (3, 75e3), "mul": (1, 30e3)} and list(found.by_kernel) == ["add", "mul"]
    assert found.kernel_ns == pytest.approx(105e3 / 4) and found.busy == pytest.approx(97 / 150)
    assert found.ops == {"aten::add": 1, "aten::mul": 1, "aten::item": 1}


def test_the_wait_that_closes_a_measurement_counts_only_where_it_is_the_programs_own():
    assert sum(traces.seen(made()).waits.values()) == 2


def test_a_graph_replayed_is_one_call_and_many_kernels():
    events = [event("cuda_runtime", "cudaGraphLaunch", 0, 5), *(event("kernel", "add", 10 + 2 * i, 1) for i in range(30))]
    found = traces.seen(events)
    assert (found.replays, found.launches, found.kernels) == (1, 0, 30)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_torch_writes_is_read(tmp_path, packed):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.rand(8, 8) @ torch.rand(8, 8)
    file = tmp_path / "trace.json"
    profile.export_chrome_trace(str(file))
    if packed:
        file.write_bytes(gzip.compress(file.read_bytes()))
    found = traces.seen(traces.read(file))
    assert found.ops["aten::rand"] == 2 and found.ops["aten::matmul"] == 1 and "aten::mm" not in found.ops
    assert found.kernels == 0 and found.busy == 0.0 and found.kernel_ns == 0.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "holds nothing"),
        (b"# One add, priced\n", "holds no JSON; a trace is the file that torch.profiler's export_chrome_trace wrote"),
        (gzip.compress(b"hello\n", mtime=0), "holds no JSON"),
        (bytes(range(128, 256)), "holds no JSON"),
        (b"{", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"\x1f\x8b garbage", "its gzip is damaged"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff", "its gzip is damaged"),  # zlib's own error
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "its gzip is damaged"),
        (b"\xff\xfe\xff", "holds no JSON"),
        (b'{"cells": []}', "no list of traceEvents"),
        (b'{"traceEvents": []}', "without a single event"),
        (json.dumps({"traceEvents": [{"ph": "M"}, {"ph": "X", "ts": "now", "dur": 1}]}).encode(), "without a single event"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_in_words(tmp_path, text, said):
    file = tmp_path / "trace.json"
    file.write_bytes(text)
    with pytest.raises(traces.NoTrace, match=said) as refused:
        traces.read(file)
    assert "trace.json" in str(refused.value)


def test_a_missing_file_and_an_empty_stretch(tmp_path):
    with pytest.raises(traces.NoTrace, match="cannot be read"):
        traces.read(tmp_path / "none.json")
    with pytest.raises(ValueError, match="without an event"):
        traces.seen([])


def test_intervals_that_overlap_are_covered_once():
    drawn = random.Random(1)
    spans = [(start := drawn.randrange(200), start + drawn.randrange(20)) for _ in range(40)]
    assert traces.covered(spans) == len({moment for start, stop in spans for moment in range(start, stop)})
    assert traces.covered([]) == 0.0
