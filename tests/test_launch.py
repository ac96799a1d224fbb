"""The instruments of lesson 04: the loop that launches, the lanes, what is read from the profiler and nvidia-smi, CPU parts.

What needs a GPU is tried with functions and events of our own in its place.
"""

from __future__ import annotations

import ctypes
import os
import random
import stat
import sys
import time
import warnings

import numpy as np
import pytest
import torch

from tests.conftest import require
from utils.measure import first_gpu_calls, gil_threads, hidden_syncs, occupancy, openmp_cost, profiled, sm_clock, smi
from utils.measure import queue_lanes as rooms
from utils.measure import utilisation as use
from utils.measure.device_clock import MeasurementError
from utils.measure.launch import PARTS
from utils.measure.queue_lanes import alignment, describe, on_host_clock, simulated_lanes
from utils.measure.simulated import SimulatedDevice, VirtualClock
from utils.measure.stamp_kernels import SOURCES, Kernel, loops
from utils.model.readings import Race, Reading

RNG = random.Random(20261130)
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
WAIT = ctypes.CFUNCTYPE(ctypes.c_int)


class Driver:
    """Stands for the CUDA driver: its launch writes down what it was given."""

    def __init__(self, refuse_at: int | None = None):
        self.seen: list[tuple] = []
        self.waits = 0
        self.refuse_at = refuse_at
        self._launch, self._wait = LAUNCH(self._launched), WAIT(self._waited)
        self.address = {n: ctypes.cast(f, ctypes.c_void_p).value for n, f in (("launch", self._launch), ("wait", self._wait))}

    def _launched(self, function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra) -> int:
        pointers = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p))
        first = ctypes.cast(pointers[0], ctypes.POINTER(ctypes.c_int64))[0]
        self.seen.append((function, (gx, gy, gz), (bx, by, bz), stream, first))
        return 700 if len(self.seen) - 1 == self.refuse_at else 0

    def _waited(self) -> int:
        self.waits += 1
        return 0

    def kernel(self, *arguments, **more) -> Kernel:
        return Kernel(1234, arguments or (0,), call=loops(), **self.address, **more)


# ------------------------------------------------------------------------------------------------ the loop in C++


def test_the_loop_launches_counts_and_stamps_on_pythons_own_clock():
    require("compiler")
    driver = Driver()
    n = RNG.randint(20, 60)
    start = time.perf_counter_ns()
    before, after = driver.kernel(0, row=0, blocks=3, threads=64, stream=77).stamped(n, every=7)
    stop = time.perf_counter_ns()
    assert [one[4] for one in driver.seen] == list(range(n)) and driver.waits == n // 7
    assert set(driver.seen[0][:4]) == {1234, (3, 1, 1), (64, 1, 1), 77}
    assert start <= before[0] and after[-1] <= stop
    assert all(b <= a for b, a in zip(before, after, strict=True)) and all(
        a <= b for a, b in zip(after, before[1:], strict=False)
    )


def test_a_refused_launch_is_an_error_in_words_and_stops_the_loop():
    require("compiler")
    driver = Driver(refuse_at=5)
    with pytest.raises(MeasurementError, match="error 700"):
        driver.kernel().stamped(50)
    assert len(driver.seen) == 6
    with pytest.raises(MeasurementError, match="error 700"):
        Driver(refuse_at=0).kernel().loop(5)


def test_waiting_and_host_work_are_in_the_loops_time():
    require("compiler")
    driver = Driver()
    assert driver.kernel().loop(10, waiting=True) > 0 and driver.waits == 10
    assert driver.kernel().loop(10, pause_ns=200_000) >= 10 * 200_000
    assert len(driver.seen) == 20


def test_the_device_that_answers_is_believed_and_one_that_does_not_ends_the_asking():
    require("compiler")
    line, k = (ctypes.c_int64 * 64)(), 8
    before, after, answers = ((ctypes.c_int64 * k)() for _ in range(3))
    address = [ctypes.addressof(a) for a in (before, after, answers)]
    assert loops()["ask_clock"](ctypes.addressof(line), k, 2_000_000, *address) == 0
    with pytest.raises(MeasurementError, match="did not answer"):
        alignment([], [], [])
    line[9], line[8] = 1, 4711  # an answer to the first question that lies there already
    assert loops()["ask_clock"](ctypes.addressof(line), k, 2_000_000, *address) == 1
    assert answers[0] == 4711 and before[0] <= after[0]


def test_every_kernel_ends_by_a_number_of_rounds_or_by_its_own_clock():
    for name, source in SOURCES.items():
        assert f'extern "C" __global__ void {name}(' in source
        assert source.count("while (") == source.count("< ns)") + source.count("< i * every)") + source.count("line[0] < i)")
    assert "> limit) return" in SOURCES["answer"]


# ------------------------------------------------------------------------------------------------ two clocks, one axis


def test_the_narrowest_answer_sets_the_clocks_against_each_other():
    offset = RNG.randint(10**17, 10**18)
    before = [RNG.randint(10**9, 2 * 10**9) for _ in range(30)]
    widths = [RNG.randint(2_000, 9_000) for _ in before]
    widths[17] = 1_000
    answers = [t + offset + RNG.randint(0, w) for t, w in zip(before, widths, strict=True)]
    found = alignment(before, [t + w for t, w in zip(before, widths, strict=True)], answers)
    assert found.error_ns == 500 and abs(found.offset_ns - offset) <= 500


def test_device_stamps_come_back_to_the_hosts_clock_with_the_drift_taken_out():
    offset, drift = 1_790_000_000_000_000_000, 3e-5
    times = sorted(RNG.randint(0, 10**8) for _ in range(50))
    stamps = [t + offset + round(drift * t) for t in times]
    ends = [alignment([t], [t], [t + offset + round(drift * t)]) for t in (0, 10**8)]
    assert on_host_clock(stamps, *ends) == pytest.approx(times, abs=5)
    flat = [alignment([t], [t], [t + offset]) for t in (0, 10**8)]
    assert max(abs(a - b) for a, b in zip(on_host_clock(stamps, *flat), times, strict=True)) > 1_000


# ------------------------------------------------------------------------------------------------ lanes


@pytest.mark.parametrize("longest", [30, 2_000])  # the second: the queue is full before the first kernel has ended
@pytest.mark.parametrize("every", [None, 1, 7])
def test_the_quick_lanes_are_the_simulated_devices_own(every, longest):
    prices = dict(launch_us=RNG.uniform(1, 9), depth=RNG.randint(2, 40), gap_us=RNG.uniform(0, 3))
    kernel_us, n = RNG.uniform(longest / 4, longest), 150
    device = SimulatedDevice(clock=VirtualClock(), **prices)
    calls, returns, ends = [], [], []
    for i in range(n):
        calls.append(device.clock())
        device.launch(kernel_us)
        returns.append(device.clock())
        ends.append(device.busy_until)
        if every and (i + 1) % every == 0:
            device.synchronize()
    points = simulated_lanes(kernel_us=kernel_us, n=n, sync_every=every, **prices)["points"]
    assert points["i"] == list(range(n))
    close = dict(abs=2 * n)  # its clock gives whole ns: one may be lost at each look
    assert points["host_start_ns"] == pytest.approx(calls, **close)
    assert np.add(points["host_start_ns"], points["host_ns"]) == pytest.approx(returns, **close)
    assert points["end_ns"] == pytest.approx(ends, **close)


def test_a_slow_device_fills_the_queue_and_sets_the_hosts_pace():
    depth, kernel = RNG.randint(50, 200), RNG.uniform(15, 40)
    found = simulated_lanes(launch_us=5, kernel_us=kernel, gap_us=1, depth=depth)["numbers"]
    assert found["host_ahead_us"] == pytest.approx(5) and found["host_full_us"] == pytest.approx(kernel + 1, rel=0.01)
    assert found["depth_max"] == depth and found["gap_us"] == pytest.approx(1, abs=0.01)
    assert found["fills_at"] == pytest.approx(depth / (1 - 5 / (kernel + 1)), abs=3)
    assert found["ahead_us_max"] == pytest.approx(depth * (kernel + 1), rel=0.05)


def test_a_fast_device_waits_for_the_host_and_nothing_fills():
    kernel = RNG.uniform(0.5, 3)
    found = simulated_lanes(launch_us=6, kernel_us=kernel, gap_us=1)
    numbers = found["numbers"]
    assert numbers["fills_at"] is None and numbers["host_full_us"] is None and found["full"]["i"] == []
    assert numbers["gap_us"] == pytest.approx(6 - kernel, abs=0.01) and numbers["busy_share"] == pytest.approx(
        kernel / 6, rel=0.01
    )


def test_lanes_are_thinned_in_order_and_in_whole_nanoseconds():
    found = simulated_lanes(kernel_us=20, n=3000)
    assert found["label"] == "simulated" and found["points"]["i"][0] == 0 and found["points"]["i"][-1] == 2999
    assert len(found["points"]["i"]) == rooms.POINTS and found["begin"]["i"] == list(range(rooms.CLOSE_UP))
    assert found["numbers"]["fills_at"] in found["full"]["i"]
    for part in ("points", "begin", "full"):
        assert all(isinstance(v, int) for values in found[part].values() for v in values)
        assert found[part]["start_ns"] == sorted(found[part]["start_ns"])


def test_stamps_out_of_order_are_refused():
    stamps = [[0, 10, 20], [5, 15, 25], [6, 16, 26], [9, 19, 29]]
    describe(*stamps, label="measured", what="", kernel_us=0, sync_every=0)
    stamps[2][1] = 7
    with pytest.raises(MeasurementError, match="order"):
        describe(*stamps, label="measured", what="", kernel_us=0, sync_every=0)


@pytest.mark.parametrize("wrong", [{"n": 1}, {"sync_every": 0}, {"kernel_us": -1}, {"launch_us": -1}, {"depth": 0}])
def test_lanes_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError):
        simulated_lanes(**wrong)


# ------------------------------------------------------------------------------------------------ the profiler's trace


def event(cat: str, name: str, ts: float, dur: float, **args) -> dict:
    return {"cat": cat, "name": name, "ts": 5e6 + ts, "dur": dur, "tid": 1, "args": args}


def steps(wait: bool) -> list[dict]:
    """Three steps of 1,000 µs on the device; with `wait` the host waits after each and the next starts 80 µs late."""
    found, device = [event("user_annotation", "item", 0, 5000)], 100.0
    for i in range(3):
        host = device - 80 if wait else 100.0 * i
        found.append(event("cuda_runtime", "cudaLaunchKernel", host, 10, correlation=i))
        found.append(event("kernel", "void at::native::gemm<float>(int)", device, 1000.0, correlation=i))
        device += 1000
        if wait:
            found.append(event("cuda_runtime", "cudaMemcpyAsync", host + 20, 15))
            found.append(event("cuda_runtime", "cudaStreamSynchronize", host + 40, device + 4 - host - 40))
            device += 80
    found.append(event("cuda_runtime", "cudaDeviceSynchronize", device, 5))
    found += [event("cuda_runtime", "cudaStreamSynchronize", ts, 300) for ts in (-400, 5_500)]  # of other segments
    RNG.shuffle(found)
    return found


def test_a_wait_is_found_with_the_gap_it_leaves_and_the_programs_own_last_one_is_not():
    row = hidden_syncs.analyse(profiled.inside(steps(True), "item"), 3)
    assert row["syncs"] == {"cudaStreamSynchronize": 1.0} and row["waits"] and row["copy_us"] == pytest.approx(15)
    assert row["idle_us"] == pytest.approx(80) and row["sync_us"] > 900 and row["held_us"] == row["sync_us"] + row["copy_us"]
    free = hidden_syncs.analyse(profiled.inside(steps(False), "item"), 3)
    assert free["syncs"] == {} and not free["waits"] and free["idle_us"] is None and free["step_us"] < row["step_us"]


def test_a_trace_without_the_segment_or_without_work_says_so():
    with pytest.raises(MeasurementError, match="no segment"):
        profiled.inside(steps(True), "other")
    with pytest.raises(MeasurementError, match="CUPTI"):
        hidden_syncs.analyse([e for e in profiled.inside(steps(True), "item") if e["cat"] != "kernel"], 3)


def test_a_timeline_has_two_lanes_from_its_own_begin():
    lanes = hidden_syncs.timeline(profiled.inside(steps(True), "item"))
    assert [name for _, _, name in lanes["device"]] == ["gemm"] * 3 and lanes["device"][0][:2] == [100_000, 1_000_000]
    assert {name for _, _, name in lanes["host"]} >= {"cudaStreamSynchronize", "cudaDeviceSynchronize"}


def test_every_variant_of_the_steps_has_its_line():
    assert all(hidden_syncs.CODE.values()) and hidden_syncs.WAITS.search("cudaMemcpyAsync") is None
    for name in ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cuStreamSynchronize"):
        assert hidden_syncs.WAITS.search(name)


def test_the_profilers_figures_become_rows():
    grid, block, sms = [RNG.randint(1, 900), 2, 1], [128, 1, 1], 132
    there = event("kernel", "void at::softmax_warp<8>(float*)", 1, 7.5, grid=grid, block=block, **{occupancy.OCCUPANCY: 12})
    [row] = occupancy.rows("softmax", [{}, there, event("cuda_runtime", "cudaLaunchKernel", 0, 1)], sms)
    assert row["blocks"] == 2 * grid[0] and row["threads"] == 128 and row["occupancy"] == 12 and row["kernel"] == "softmax_warp"
    assert row["warps_per_sm"] == pytest.approx(2 * grid[0] * 4 / sms) and row["us"] == 7.5


def test_a_kernels_name_is_cut_to_what_tells_it_apart():
    names = {
        "void at::native::vectorized_elementwise_kernel<4, at::native::Add<float> >(int)": "vectorized_elementwise_kernel",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForwardReg<float, at::X>(float*, long)": "cunn_SoftMaxForwardReg",
        "nvjet_sm90_hsh_256x128": "nvjet_sm90_hsh_256x128",
        "Memcpy DtoH (Device -> Pageable)": "Memcpy DtoH",
    }
    assert {name: hidden_syncs.short(name) for name in names} == names


def test_torchs_debug_mode_warns_of_a_variant_and_its_own_notice_is_no_warning(monkeypatch, recwarn):
    mode = {"now": 0}

    def switch(to) -> None:
        mode["now"] = to
        warnings.warn("Synchronization debug mode is a prototype and does not detect all synchronizing operations", stacklevel=1)

    def waits() -> None:
        if mode["now"] == "warn":
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)

    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", switch)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(hidden_syncs, "variants", lambda: {"none": lambda: None, "item": waits})
    assert hidden_syncs._warnings() == {"none": False, "item": True}
    assert mode["now"] == 0 and not recwarn.list


def test_spans_that_overlap_are_counted_at_their_most():
    assert occupancy.most_at_once([(0, 10), (10, 20), (20, 30)]) == 1
    spans = [(RNG.randint(0, 50), RNG.randint(60, 100)) for _ in range(9)]
    assert occupancy.most_at_once(spans) == 9


# ------------------------------------------------------------------------------------------------ nvidia-smi, the clock


@pytest.fixture
def fake_smi(tmp_path, monkeypatch):
    """A program called nvidia-smi that answers one query, and goes on in a loop."""
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!{sys.executable}\nimport sys, time\n"
        "while True:\n    print('37, 1980, [N/A]', flush=True)\n"
        "    if not any('loop' in a for a in sys.argv): break\n    time.sleep(0.02)\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def test_readings_come_in_while_something_runs_and_no_number_is_none(fake_smi):
    with smi.sampling("0") as samples:
        deadline = time.monotonic() + 20
        while len(samples.rows) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert samples.rows[0][1:] == (37.0, 1980.0, None)
    count = len(samples.rows)
    time.sleep(0.1)
    assert len(samples.rows) == count  # the program was ended
    assert smi.one("utilization.gpu", "0").startswith("37")


def test_without_nvidia_smi_the_reason_is_in_words(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MeasurementError, match="no nvidia-smi"):
        smi.one("utilization.gpu", "0")


def test_a_workloads_row_says_how_busy_the_kernels_really_were():
    work = use.Workload("tiny", "a kernel", lambda s: 0, kernel_us=2.0, sms=1)
    row = use.row(work, [(1.3, 100.0, 1980.0, None), (1.4, 96.0, 1980.0, None), (1.5, None, None, None)], 10_000, 1.0)
    assert row["busy_share"] == pytest.approx(0.02) and row["utilisation"] == 98 and row["low"] == 96 and row["watts"] is None
    assert use.row(work, [], 1, 1.0)["utilisation"] is None


def test_cycles_over_nanoseconds_are_the_clock_and_its_ramp_is_found():
    slow, fast = RNG.uniform(300, 600), RNG.uniform(1500, 2000)
    t, cycles, stamps = 10**18, 10**12, []
    for i in range(61):
        stamps.append((t, round(cycles)))
        t, cycles = t + 200_000, cycles + 200 * (slow if i < 20 else fast)
    curve = sm_clock.clock_of(stamps)
    assert curve["mhz"][0] == pytest.approx(slow, rel=1e-3) and curve["mhz"][-1] == pytest.approx(fast, rel=1e-3)
    found = sm_clock.ramp(curve)
    assert found["ramp_ms"] == pytest.approx(4.1, abs=0.01) and found["settled_mhz"] == pytest.approx(fast, rel=1e-3)
    with pytest.raises(MeasurementError, match="stood still"):
        sm_clock.clock_of([stamps[0], stamps[0]])


# ------------------------------------------------------------------------------------------------ the CPU's parts


def test_two_threads_are_timed_against_one_and_torchs_threads_are_put_back(monkeypatch):
    monkeypatch.setattr(gil_threads, "cores", lambda: 2.0)
    before = torch.get_num_threads()
    found = gil_threads.gil_threads("cpu", blocks=4, block_ms=0.5)
    assert torch.get_num_threads() == before
    assert set(found["race"].readings) >= {gil_threads.ALONE, gil_threads.TOGETHER, gil_threads.TOGETHER + gil_threads.INFERENCE}
    assert found["numbers"]["ratio"] == pytest.approx(found["race"].ratio(gil_threads.ALONE, gil_threads.TOGETHER))


def test_the_second_thread_adds_too_and_in_the_mode_it_was_given():
    seen = []

    class Watched:
        def __add__(self, other):
            import threading

            seen.append((threading.get_ident(), torch.is_inference_mode_enabled()))

    pair = (Watched(), 1)
    gil_threads._together((pair, pair), torch.inference_mode, None)(5)
    assert len(seen) == 10 and len({who for who, _ in seen}) == 2 and all(mode for _, mode in seen)


def test_one_core_is_a_reason_in_words(monkeypatch):
    for room, measure in ((gil_threads, gil_threads.gil_threads), (openmp_cost, openmp_cost.openmp)):
        monkeypatch.setattr(room, "cores", lambda: 1.0)
        with pytest.raises(MeasurementError, match="two cores"):
            measure("cpu")


def test_waking_the_team_is_what_half_the_work_does_not_explain():
    fixed, per_element, wake = RNG.uniform(500, 900), RNG.uniform(0.05, 0.2), RNG.uniform(3_000, 9_000)
    sizes = {"half": 16_384, "below": 32_768, "above": 32_769, "far": 524_288}

    def price(size: int, threads: int) -> float:
        shared = threads == 2 and size > 32_768
        return fixed + per_element * size / (2 if shared else 1) + (wake if shared else 0)

    def reading(name: str, ns: float) -> Reading:
        return Reading(name, (ns,) * 16)

    readings = {openmp_cost.name_of(s, t): reading("", price(s, t)) for s in sizes.values() for t in (1, 2)}
    first = openmp_cost.name_of(32_768, 1)
    race = Race(readings | {"again": readings[first]}, (first, "again"))
    found = openmp_cost.numbers(race, sizes)
    assert found["wake_us"] == pytest.approx(wake * 1e-3, rel=0.01) and found["wake_seen"] == 1.0


def test_crossing_the_grain_is_measured_and_the_number_of_threads_put_back(monkeypatch):
    monkeypatch.setattr(openmp_cost, "cores", lambda: 2.0)
    monkeypatch.setattr(openmp_cost, "calibrate", lambda *_: 2)
    before = torch.get_num_threads()
    found = openmp_cost.openmp(blocks=2)
    assert torch.get_num_threads() == before and found["sizes"]["above"] == found["grain"] + 1
    assert set(found["numbers"]) >= {"wake_us", "wake_error_us", "crossing_us", "below_2_us"}


# ------------------------------------------------------------------------------------------------ the study


def test_a_gpus_parts_say_in_words_that_there_is_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for part in PARTS.values():
        if "cuda" in part.devices:
            with pytest.raises(MeasurementError, match="CUDA device|two cores"):
                part.measure("cuda", lambda done, text: None)


def test_first_calls_get_names_that_an_expression_can_hold(monkeypatch):
    steps = [["import torch", 1e9], ["first a + b", 2e3], ["first x @ x", 5e6]]
    monkeypatch.setattr(first_gpu_calls.first_call, "first_calls", lambda device, progress: tuple(map(tuple, steps)))
    found = first_gpu_calls.first_calls("cpu")
    assert found["steps"] == steps and found["numbers"]["first_a_plus_b_us"] == pytest.approx(2.0)
    assert all(" " not in name for name in found["numbers"])
