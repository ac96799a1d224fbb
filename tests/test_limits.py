"""The verdict on a program: each kind from facts made for it, the cures' bounds by hand, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from utils.model import limits
from utils.model.limits import Facts, Roofs, floors, judge

ROOFS = Roofs(gbps=1000.0, products=100.0, vector=10.0)
# 100 kernels issued in 500 µs that run for 90: 10 MB op by op, 4 as one kernel.
SMALL = Facts(500e3, 500e3, 90e3, launches=100, products=2, bytes=10e6, least_bytes=4e6, flops=1e9, product_flops=1e9)
BIG = replace(SMALL, step_ns=12e6, host_ns=500e3, device_ns=11.9e6, bytes=10e9, least_bytes=4e9)
WAITING = replace(SMALL, step_ns=800e3, host_ns=200e3, device_ns=450e3, wait_ns=500e3, waits=3, least_bytes=10e6)
PRODUCTS = replace(BIG, bytes=1e9, least_bytes=1e9, flops=1e12, product_flops=1e12)


def test_the_floors_are_bytes_over_bandwidth_and_flops_over_their_peaks():
    found = floors(replace(SMALL, flops=1.5e9), ROOFS)
    assert found.bytes_ns == pytest.approx(10e3) and found.least_bytes_ns == pytest.approx(4e3)
    assert found.flops_ns == pytest.approx(10e3 + 50e3)  # products at 100, the rest at 10 TFLOP/s
    assert floors(replace(SMALL, flops=1.5e9), replace(ROOFS, vector=None)).flops_ns == pytest.approx(10e3)


@pytest.mark.parametrize(
    ("facts", "kind", "first"),
    [
        (SMALL, limits.LAUNCH, "fuse"),
        (BIG, limits.BANDWIDTH, "fuse"),
        (PRODUCTS, limits.COMPUTE, "half the bytes an element"),
        (replace(BIG, bytes=1e9, least_bytes=1e9), limits.OFF, "half the bytes an element"),
        (WAITING, limits.SYNCHRONISING, "read out later"),
    ],
)
def test_each_kind_is_told_with_its_reason_and_the_cure_with_most_leverage_first(facts, kind, first):
    verdict = judge(facts, ROOFS)
    assert verdict.kind == kind and verdict.reason
    assert verdict.cure is None or verdict.cure.name == first
    best = [cure.best_ns for cure in verdict.cures]
    assert best == sorted(best) and all(ns < 0.95 * facts.step_ns for ns in best)


def test_the_bounds_of_the_cures_by_hand():
    cures = {cure.name: cure.best_ns for cure in judge(SMALL, ROOFS).cures}
    assert cures["capture"] == pytest.approx(90e3)  # the kernels back to back
    assert cures["fuse"] == pytest.approx(84e3)  # 5 launches of 100 cost 25 µs: the device's 90 less 6 MB at 1,000 GB/s is longer
    assert cures["fuse and capture"] == pytest.approx(84e3)
    assert "read out later" not in cures


def test_a_read_out_inside_the_step_forbids_a_graph_and_keeps_host_and_device_apart():
    cures = {cure.name: cure.best_ns for cure in judge(WAITING, ROOFS).cures}
    assert cures["read out later"] == pytest.approx(450e3)
    assert cures["fuse"] == pytest.approx(10e3 + 450e3)  # 5 launches of 100; no byte less
    assert not any("capture" in name for name in cures)


def test_capturing_a_bandwidth_bound_step_is_no_cure_and_fusing_it_is():
    cures = {cure.name: cure.best_ns for cure in judge(BIG, ROOFS).cures}
    assert "capture" not in cures and cures["fuse"] == pytest.approx(5.9e6)


def test_a_wait_with_a_busy_device_is_no_synchronising_program():
    facts = replace(BIG, wait_ns=8e6, waits=1)
    assert judge(facts, ROOFS).kind == limits.BANDWIDTH


@pytest.mark.parametrize("waits, kind", [(40, limits.SYNCHRONISING), (20, limits.SYNCHRONISING), (5, limits.LAUNCH)])
def test_a_wait_behind_every_kernel_or_two_is_synchronising_however_short(waits, kind):
    """The program that synchronises after every op, as recorded on an H200: 40 kernels, a tenth of the step inside the waits."""
    facts = replace(SMALL, step_ns=597e3, host_ns=540e3, device_ns=80e3, launches=40, wait_ns=57e3, waits=waits)
    verdict = judge(facts, ROOFS)
    assert verdict.kind == kind and (kind == limits.LAUNCH or f"waits in {waits} read-outs for 10% of the step" in verdict.reason)


def test_where_one_thread_is_host_and_device_the_parts_add_up():
    facts = replace(SMALL, step_ns=100e3, host_ns=60e3, device_ns=40e3, serial=True)
    verdict = judge(facts, ROOFS)
    assert verdict.kind == limits.LAUNCH and "0.6 µs each" in verdict.reason
    cures = {cure.name: cure.best_ns for cure in verdict.cures}
    assert cures["capture"] == pytest.approx(40e3) and cures["fuse"] == pytest.approx(3e3 + 34e3)
    assert judge(replace(PRODUCTS, serial=True, step_ns=12.4e6), ROOFS).cure is None  # nothing to gain but by another machine


@pytest.mark.parametrize("wrong", [{"host_ns": -1.0}, {"step_ns": 0.0, "device_ns": 0.0}, {"device_ns": 6e5}, {"launches": -1}])
def test_facts_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="negative|no time|busy"):
        replace(SMALL, **wrong)


def test_a_roof_is_positive():
    with pytest.raises(ValueError, match="positive"):
        Roofs(0.0, 1.0)
