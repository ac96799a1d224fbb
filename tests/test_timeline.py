"""The timeline: launches joined to kernels by correlation id, lanes and arrows for Perfetto, words without a GPU."""

from __future__ import annotations

import json
import random
import subprocess

import pytest

from utils.measure import timeline as room
from utils.measure.timeline import Timeline, TimelineError, join, record_timeline, to_perfetto
from utils.model import schemas

RNG = random.Random(20261129)
WHERE = {"torch": "2.11.0+cu130", "python": "3.12.3", "gpu": "NVIDIA H200", "driver": "580.1"}
BEGIN = 1_000_000.0 + RNG.uniform(0, 1e6)


def event(category: str, name: str, start: float, length: float, **args) -> dict:
    return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 7, "ts": BEGIN + start, "dur": length, "args": args}


def a_trace(adds: int = 3) -> list[dict]:
    """What the profiler writes for a chain of adds in a marked segment, with noise around it, in no order."""
    events = [
        event("user_annotation", "segment: adds", 0.0, 100.0 * adds + 50),
        event("gpu_user_annotation", "segment: adds", 40.0, 9.0),
    ]
    for i in range(adds):
        start, number = 100.0 * i, 10 + i
        events += [
            event("cpu_op", "aten::add", start + 5, 40.0),
            event("cuda_runtime", "cudaLaunchKernel", start + 20, 15.0, correlation=number),
            event("kernel", f"vectorized_elementwise_kernel_{i}", start + 60, 1.5, correlation=number, stream=7),
            {"ph": "s", "id": number, "ts": BEGIN + start, "cat": "ac2g", "name": "ac2g", "pid": 7, "tid": 7},
        ]
    events += [
        event("cuda_runtime", "cudaDeviceSynchronize", 100.0 * adds, 45.0, correlation=90),
        event("cuda_runtime", "cudaLaunchKernel", -200.0, 15.0, correlation=3),  # of the segment before
        event("kernel", "earlier", -100.0, 1.0, correlation=3),
        {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
    ]
    RNG.shuffle(events)
    return events


def test_each_launch_gets_the_kernel_of_its_number():
    segment = join(a_trace(), "adds", "one element")
    assert [launch.correlation for launch in segment.launches] == [10, 11, 12]
    assert [launch.kernel for launch in segment.launches] == [f"vectorized_elementwise_kernel_{i}" for i in range(3)]
    first = segment.launches[0]
    assert first.op == "aten::add" and first.launch_start_us == pytest.approx(20, abs=0.01)
    assert first.wait_us == pytest.approx(60 - 35, abs=0.01) and segment.unjoined == 0
    assert segment.device_us == pytest.approx(4.5) and segment.us == pytest.approx(261.5, abs=0.01)
    assert [op.depth for op in segment.ops] == [0, 0, 0]


def test_numbers_swapped_between_kernels_are_followed_not_the_order():
    events = a_trace()
    for one in events:
        if one.get("cat") == "kernel" and one["args"]["correlation"] in (10, 11):
            one["args"]["correlation"] = 21 - one["args"]["correlation"]
    segment = join(events, "adds", "one element")
    assert segment.launches[0].kernel.endswith("_1") and segment.launches[1].kernel.endswith("_0")


def test_a_kernel_lost_by_the_profiler_and_one_without_a_launch_are_counted():
    events = [e for e in a_trace() if not (e.get("cat") == "kernel" and e["args"].get("correlation") == 11)]
    events.append(event("kernel", "stranger", 50.0, 1.0, correlation=77))
    segment = join(events, "adds", "one element")
    assert [launch.correlation for launch in segment.launches] == [10, 12] and segment.unjoined == 2


def test_the_drivers_launch_inside_the_runtimes_is_no_lost_launch():
    events = [*a_trace(), event("cuda_driver", "cuLaunchKernelEx", 24.0, 5.0, correlation=50)]
    segment = join(events, "adds", "one element")
    assert len(segment.launches) == 3 and segment.unjoined == 0
    alone = [*a_trace(), event("cuda_driver", "cuLaunchKernelEx", 80.0, 5.0, correlation=50)]
    assert join(alone, "adds", "one element").unjoined == 1


def test_ops_inside_ops_have_a_depth_and_a_launch_belongs_to_the_innermost():
    events = [
        event("user_annotation", "segment: x @ w", 0.0, 100.0),
        event("cpu_op", "aten::matmul", 1.0, 60.0),
        event("cpu_op", "aten::mm", 5.0, 50.0),
        event("cuda_runtime", "cudaLaunchKernelExC", 20.0, 9.0, correlation=5),
        event("kernel", "gemm", 40.0, 8.0, correlation=5),
    ]
    segment = join(events, "x @ w", "square")
    assert [(op.name, op.depth) for op in segment.ops] == [("aten::matmul", 0), ("aten::mm", 1)]
    assert segment.launches[0].op == "aten::mm" and segment.launches[0].call == "cudaLaunchKernelExC"


def test_a_trace_without_the_segment_is_words():
    with pytest.raises(TimelineError, match="no segment 'muls'"):
        join(a_trace(), "muls", "")


def test_the_committed_timelines_have_the_written_shape_and_lost_nothing():
    for path in room.FOLDER.glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        schemas.validate("timeline", data)
        for segment in Timeline.from_dict(data).segments.values():
            assert segment.launches and segment.unjoined == 0, (path.name, segment.name)
            assert all(launch.kernel_start_us >= launch.launch_start_us for launch in segment.launches), path.name


@pytest.fixture
def recorded() -> Timeline:
    segments = {"adds": join(a_trace(), "adds", "float32, one element each")}
    return Timeline(segments, WHERE, "2026-11-29T12:00:00+00:00", "live")


def test_a_timeline_survives_its_file_and_has_the_written_shape(recorded, tmp_path, monkeypatch):
    data = json.loads(json.dumps(recorded.to_dict(), allow_nan=False))
    schemas.validate("timeline", data)
    monkeypatch.setattr(room, "FOLDER", tmp_path)
    assert room.timeline() == (None, "no timeline of a GPU is recorded yet")
    (tmp_path / "h200-torch2.11.json").write_text(json.dumps(data), encoding="utf-8")
    back, said = room.timeline()
    assert back.segments == recorded.segments and said == "" and back.source == "recorded"
    assert "NVIDIA H200" in back.label() and "under the profiler" in back.label()


def test_perfetto_gets_two_lanes_and_an_arrow_for_each_launch(recorded, tmp_path):
    events = json.loads(to_perfetto(recorded, tmp_path / "out.json").read_text(encoding="utf-8"))["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert {e["tid"] for e in spans} == {1, 2} and all(e["dur"] > 0 for e in spans)
    kernels = {e["args"]["correlation"]: e for e in spans if e["cat"] == "kernel"}
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert len(kernels) == 3 and set(starts) == set(ends) and len(starts) == 3
    for number, kernel in kernels.items():
        assert ends[f"1.{number}"]["ts"] == kernel["ts"] and starts[f"1.{number}"]["ts"] < kernel["ts"]
    names = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert {"host", "device"} < names and any("adds" in name and "H200" in name for name in names)


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (
            subprocess.CompletedProcess([], 1, "", "warning\nno CUDA device that torch can use: a timeline needs one\n"),
            "no CUDA device",
        ),
        (subprocess.CompletedProcess([], -11, "", ""), "said nothing"),
    ],
)
def test_a_machine_that_cannot_profile_says_why(done, said, monkeypatch, tmp_path):
    monkeypatch.setattr(room.subprocess, "run", lambda *a, **k: done)
    with pytest.raises(TimelineError, match=said):
        record_timeline(tmp_path / "t.json")


def test_without_cuda_nothing_is_profiled(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert room._main(str(tmp_path / "t.json")) == 1
    assert "no CUDA device" in capsys.readouterr().err and not (tmp_path / "t.json").exists()
