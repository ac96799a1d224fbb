"""The five traps: what they return and that their numbers are about what they say, on virtual time where a queue is needed."""

from __future__ import annotations

import json
import sys

import pytest

from utils.measure import traps
from utils.measure.device_clock import MeasurementError
from utils.measure.simulated import SimulatedDevice, VirtualClock
from utils.model.expected import ExpectationError, expect
from utils.model.readings import Race


class Virtual(traps._Simulated):
    """The traps' device on virtual time, whose clock costs a little to read."""

    def __init__(self):
        SimulatedDevice.__init__(self, launch_us=20.0, depth=64, sync_us=10.0, copy_us=10.0, clock=VirtualClock(reading_ns=30))


@pytest.fixture
def virtual(monkeypatch):
    monkeypatch.setattr(traps, "_Simulated", Virtual)


def test_without_waiting_the_launch_is_timed_and_with_it_the_kernel(virtual):
    found = traps.no_sync("cpu")
    assert found["device"] == "simulated"
    assert found["wrong"] == pytest.approx(20_000, rel=0.02)
    assert found["honest"] == pytest.approx(400_000 + (20_000 + 10_000) / 8, rel=0.02)
    expect("traps.no_sync", found)


def test_the_wrong_price_rises_to_the_kernels_once_the_queue_is_full(virtual):
    by_calls = dict(traps.no_sync("simulated")["by_calls"])
    assert by_calls[1] == pytest.approx(20_000, rel=0.05) == by_calls[64]
    assert by_calls[64] < by_calls[128] < by_calls[256] < 100_000


def test_item_costs_most_where_host_and_device_share_the_work(virtual):
    found = traps.item_in_loop("simulated")
    expect("traps.item_in_loop", found)
    factors = dict(found["by_balance"])
    assert factors[1.0] == max(factors.values()) > 1.5
    assert factors[0.03] < 1.3 and factors[10.0] < 1.2  # the counter-case: nothing overlapped, nothing is lost
    assert found["wrong"] / found["honest"] < 2.2 < found["every_launch"] / found["honest"]


def test_a_clock_that_always_waits_shows_no_trap(virtual, monkeypatch):
    real = traps._once
    monkeypatch.setattr(traps, "_once", lambda f, n, work, waits: real(f, n, work, True))
    with pytest.raises(ExpectationError, match="waited for the device after all"):
        expect("traps.no_sync", traps.no_sync("simulated"))


def test_an_item_that_does_not_wait_shows_no_trap(virtual, monkeypatch):
    monkeypatch.setattr(SimulatedDevice, "item", lambda self: 0.5)
    with pytest.raises(ExpectationError):
        expect("traps.item_in_loop", traps.item_in_loop("simulated"))


def test_the_first_call_happens_in_a_process_of_its_own_and_its_failure_is_told(monkeypatch):
    monkeypatch.setattr(traps, "FIRST_CALLS", "import json, random; print(json.dumps([random.uniform(5e6, 6e6)] + "
                                              "[random.uniform(1e4, 1.1e4) for _ in range(80)]))")  # fmt: skip
    found = traps.no_warmup("cpu")
    assert 5e6 <= found["wrong"] <= 6e6 and 1e4 <= found["honest"] <= 1.1e4
    assert found["device"] == "cpu" and len(found["calls_ns"]) == 20
    expect("traps.no_warmup", found)
    monkeypatch.setattr(traps, "FIRST_CALLS", "raise OSError('no room left')")
    with pytest.raises(MeasurementError, match="first call failed: OSError: no room left"):
        traps.no_warmup("cpu")


def test_the_process_of_the_first_call_is_this_python_and_has_the_prices_of_81_products(monkeypatch):
    import subprocess

    said = subprocess.run([sys.executable, "-c", traps.FIRST_CALLS, "cpu"], capture_output=True, text=True, check=True).stdout
    took = json.loads(said)
    assert len(took) == 81 and min(took) > 0 and len(set(took)) > 10


def test_the_rotation_has_other_data_in_every_call_and_far_more_than_a_cache(monkeypatch):
    seen = {}

    def no_race(variants, **how):
        adds = variants["other data every time"]
        results = [add() for add in adds]
        seen["places"] = {t.data_ptr() for t in results}
        seen["bytes"] = sum(3 * t.numel() * t.element_size() for t in results)
        seen["same"] = {variants["one buffer again and again"]().data_ptr() for _ in range(3)}
        seen["sums"] = {float(t.sum()) for t in results[:50]}
        raise MeasurementError("enough")

    monkeypatch.setattr(traps, "time_host", no_race)
    with pytest.raises(MeasurementError, match="enough"):
        traps.cache_resident("cpu")
    assert len(seen["places"]) > 500 and len(seen["same"]) == 1
    assert seen["bytes"] > 300e6
    assert len(seen["sums"]) == 50  # random data, not one value everywhere


def test_the_profiled_arm_runs_under_the_profiler_and_the_other_does_not(monkeypatch):
    import torch.profiler

    active, on, real = {"alone": 0, "under the profiler": 0}, [], traps._loop

    class Watched(torch.profiler.profile):
        def __enter__(self):
            on.append(1)
            return super().__enter__()

        def __exit__(self, *error):
            on.pop()
            return super().__exit__(*error)

    def watched(f, n, wait):
        active["under the profiler" if on else "alone"] += n
        return real(f, n, wait)

    monkeypatch.setattr(torch.profiler, "profile", Watched)
    monkeypatch.setattr(traps, "_loop", watched)
    found = traps.profiler_cost("cpu")
    assert active["alone"] and active["under the profiler"]
    assert found["shown_ns"] > 0 and found["names"]["wrong"] == "under the profiler"


def test_a_trap_survives_a_recording(virtual):
    found = traps.no_sync("simulated")
    again = traps.restore(json.loads(json.dumps(traps.plain(found))))
    assert isinstance(again["race"], Race) and again["race"].device == "simulated"
    assert again["honest"] == found["honest"] and again["race"].control == found["race"].control


def test_run_all_has_every_trap_by_the_name_of_its_metric(monkeypatch):
    from utils.model import expected

    called = []

    def fake(name):
        race = Race({}, ("a", "a (again)"))
        return lambda device: called.append((name, device)) or {"race": race, "wrong": 1.0, "honest": 2.0, "device": device}

    for name in traps.NAMES:
        monkeypatch.setattr(traps, name, fake(name))
    done = []
    out = traps.run_all("cpu", progress=lambda share, text: done.append(share))
    assert [name for name, _ in called] == list(out) == list(traps.NAMES)
    assert {f"traps.{name}" for name in out} == {m["id"] for m in expected.metrics() if m["id"].startswith("traps.")}
    assert done == sorted(done) and len(done) == 5
    json.dumps(out)


def test_a_trap_that_fails_leaves_its_reason_and_the_others_their_numbers(monkeypatch):
    def broken(device):
        raise RuntimeError("CUPTI was lost")

    fine = {"race": Race({}, ("a", "a (again)")), "wrong": 1.0, "honest": 2.0}
    for name in traps.NAMES:
        monkeypatch.setattr(traps, name, broken if name == "profiler_cost" else lambda device: fine)
    out = traps.run_all("cpu")
    assert out["failures"] == {"profiler_cost": "RuntimeError: CUPTI was lost"}
    assert set(out) == {*traps.NAMES, "failures"} - {"profiler_cost"}


def test_an_unknown_device_is_refused():
    for trap in (traps.no_sync, traps.item_in_loop):
        with pytest.raises(ValueError, match="cpu, simulated and cuda"):
            trap("tpu")
