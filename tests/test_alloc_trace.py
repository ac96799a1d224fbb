"""A trace of allocations: real ones beside a count that knows nothing of it; made-up ones, as the CUDA allocator writes them."""

from __future__ import annotations

import gc

import pytest
import torch

from utils.measure import (
    alloc_trace,
    arena,
    arena_traffic,
    block_memory,
    compiled_memory,
    fragmentation,
    malloc,
    out_of_memory,
    recompute,
    seams,
    stream_reuse,
)
from utils.measure.alloc_trace import Trace, from_events, history_events, memory_events, trace
from utils.measure.block_memory import FORWARD, KEEPING, TRAINING, Toy
from utils.measure.device_clock import MeasurementError
from utils.measure.live_storages import storages

SHAPE = (96, 32)


# ------------------------------------------------------------------------------------------------ real allocations


@pytest.mark.parametrize("case", [FORWARD, KEEPING, TRAINING])
def test_the_trace_agrees_with_a_count_of_storages_to_the_byte(case):
    f = Toy("cpu", SHAPE).cases[case]
    f()
    seen = trace(f).at_least(block_memory.SCALARS)
    with storages() as counted:
        kept = f()
    assert (seen.sum, seen.peak, seen.kept) == (counted.made, counted.peak, counted.live())
    del kept


def test_blocks_have_their_op_their_bytes_and_their_life_in_order():
    a, b = torch.rand(64, 64), torch.rand(64, 64)

    def f():
        c = a @ b
        d = c + b
        del c
        e = d.sigmoid()
        return e

    f()
    first, second, third = trace(f).blocks
    assert [one.op for one in (first, second, third)] == ["matmul: mm", "add", "sigmoid"]
    assert {one.size for one in (first, second, third)} == {64 * 64 * 4}
    assert first.end == 2 and first.freed and second.freed and third.kept
    assert first.start < second.start < first.end < third.start < second.end < third.end


def test_what_is_freed_was_there_before_is_no_block_of_the_trace():
    held = [torch.rand(512, 512)]
    seen = trace(lambda: (held.clear(), torch.rand(300, 300))[1])
    assert [block.size for block in seen.blocks] == [300 * 300 * 4] and seen.blocks[0].kept


def test_nothing_traced_is_told_in_words_and_the_collector_is_on_again():
    with pytest.raises(MeasurementError, match="shows no allocation"):
        trace(lambda: None)
    assert gc.isenabled()


# ------------------------------------------------------------------------------------------------ made-up events


def taken(*steps: tuple[int, int]) -> list[dict]:
    return [{"address": address, "bytes": size, "op": f"op {n}"} for n, (address, size) in enumerate(steps)]


def test_an_address_that_comes_again_is_another_block():
    seen = from_events(taken((7, 100), (7, -100), (7, 300), (9, 50), (7, -300)), "made up")
    assert [(b.size, b.start, b.end, b.freed) for b in seen.blocks] == [(100, 0, 1, True), (300, 2, 4, True), (50, 3, 5, False)]
    assert (seen.sum, seen.peak, seen.kept, seen.moments) == (450, 350, 50, 5)


def test_two_blocks_at_one_address_are_refused():
    with pytest.raises(MeasurementError, match="lost a freeing"):
        from_events(taken((7, 100), (7, 100)), "made up")


def test_memory_from_before_the_trace_moves_no_moment():
    seen = from_events(taken((1, -64), (7, 100), (2, -32), (7, -100)), "made up")
    assert seen.freed_before == 96 and seen.moments == 2 and seen.blocks[0].end == 1


def test_a_trace_survives_as_plain_data():
    seen = from_events(taken((7, 100), (9, 4), (7, -100)), "made up")
    assert Trace.from_dict(seen.to_dict()) == seen
    assert [b.size for b in seen.at_least(64).blocks] == [100] and seen.at_least(64).moments == 3
    assert [(b.id, b.size, b.start, b.end) for b in seen.buffers()] == [(0, 100, 0, 2), (1, 4, 1, 3)]


def profiled(*memory: tuple[float, int, int, int], ops=()) -> list[dict]:
    events = [
        {"ph": "i", "name": "[memory]", "ts": ts, "tid": 1, "args": {"Addr": at, "Bytes": size, "Device Type": kind}}
        for ts, at, size, kind in memory
    ]
    return events + [{"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "tid": tid} for name, ts, dur, tid in ops]


def test_events_of_the_profiler_are_put_in_order_named_and_told_by_device():
    ops = [("aten::dropout", 0, 10, 1), ("aten::empty_like", 1, 2, 1), ("aten::mul", 5, 3, 1), ("aten::add", 0, 99, 2)]
    events = profiled((6.0, 2, 8, 0), (1.5, 1, 4, 0), (7.0, 3, 16, 1), (50.0, 4, 2, 0), ops=ops)
    assert [(e["address"], e["op"]) for e in memory_events(events, 0)] == [(1, "dropout"), (2, "dropout: mul"), (4, "Python")]
    assert [e["bytes"] for e in memory_events(events, 1)] == [16]


def test_of_compiled_code_the_long_names_are_left_out():
    ops = [("Torch-Compiled Region: 0/0", 0, 9, 1), ("## Call CompiledFxGraph fabc ##", 1, 8, 1)]
    assert memory_events(profiled((2.0, 1, 4, 0), ops=ops), 0)[0]["op"] == "compiled code"
    ops = [("CompiledFunctionBackward", 0, 9, 1), ("## Call CompiledFxGraph fabc ##", 1, 8, 1)]
    assert memory_events(profiled((2.0, 1, 4, 0), ops=ops), 0)[0]["op"] == "compiled, backward"


ENTRIES = [
    {"action": "segment_alloc", "addr": 1, "size": 2 << 20, "stream": 0},
    {"action": "alloc", "addr": 1, "size": 1000, "stream": 0},
    {"action": "alloc", "addr": 1025, "size": 10, "stream": 0},
    {"action": "free_requested", "addr": 1, "size": 1000, "stream": 0},
    {"action": "free_completed", "addr": 1, "size": 1000, "stream": 0},
    {"action": "snapshot", "addr": 0, "size": 0, "stream": 0},
]


def test_of_the_allocators_history_each_taking_and_giving_back_counts_once_and_as_requested():
    events = history_events(ENTRIES)
    assert [(e["address"], e["bytes"]) for e in events] == [(1, 1000), (1025, 10), (1, -1000)]
    profiled_too = [{"address": 1, "bytes": 1024, "op": "mm"}, {"address": 1025, "bytes": 512, "op": "add"}]
    seen = from_events(alloc_trace._named(events, profiled_too), "made up")
    assert [(b.op, b.size) for b in seen.blocks] == [("mm", 1000), ("add", 10)]
    assert from_events(alloc_trace._named(history_events(ENTRIES), profiled_too[:1]), "made up").blocks[0].op == ""


def test_the_seams_of_the_cuda_allocator_are_known_by_name_and_missed_in_words(monkeypatch):
    assert seams.has_memory_history() and seams.has_blas_workspaces()
    if torch.version.cuda is None:
        assert seams.clear_blas_workspaces() is False
    monkeypatch.delattr("torch.cuda.memory._snapshot")
    assert not seams.has_memory_history()
    with pytest.raises(RuntimeError, match="no longer keeps a history"):
        seams.memory_history(True)
    assert alloc_trace._history(lambda: None) is None if torch.cuda.is_available() else True


# ------------------------------------------------------------------------------------------------ what is planned and run


def test_the_block_in_its_arena_gives_its_own_numbers_and_in_a_wrong_one_others():
    toy = Toy("cpu", SHAPE)
    found = arena._tried(toy)
    assert found == {"same": 1.0, "overlapped": 1.0, "requests_before": 6.0, "requests_in_arena": 0.0}


def test_the_three_homes_of_the_chain_move_the_same_bytes_and_give_the_same_result():
    chain = arena_traffic.Adds("cpu", 4096)
    from utils.measure import intensity

    results = [f().clone() for f in chain.ways.values()]
    assert all(torch.equal(results[0], other) for other in results)
    moved = {way: intensity.count(f).bytes for way, f in chain.ways.items()}
    assert set(moved.values()) == {3 * 4096 * arena_traffic.ADDS}
    assert chain.placed[arena_traffic.APART] == 6 * chain.placed[arena_traffic.ARENA]


def test_recomputing_gives_the_gradients_of_storing_for_less_memory(monkeypatch):
    monkeypatch.setattr(recompute, "SHAPE", {"cpu": (64, 16)})
    stack = recompute.Stack("cpu")
    steps = {every: stack.step(every) for every in (0, 3)}
    found, peaks = [], []
    for step in (*steps.values(), stack.step(3, keep_draws=False)):
        torch.manual_seed(3)
        found.append(step())
    for step in steps.values():
        with storages() as counted:
            kept = step()
        del kept
        peaks.append(counted.peak)
    assert all(torch.equal(a, b) for a, b in zip(found[0], found[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(found[0], found[2], strict=True))
    assert peaks[1] < 0.7 * peaks[0]


def test_half_of_the_bytes_are_asked_for_again_and_a_plan_needs_no_more_than_lives():
    for what in (fragmentation.GAPS, fragmentation.LARGER, fragmentation.JOINED):
        go, sizes = fragmentation.requests(what, 1 << 20)
        assert len(go) == 32 and sum(sizes) == pytest.approx(32 << 20, rel=0.01)
    second, pairs = (fragmentation.requests(what, 1 << 20)[0] for what in (fragmentation.LARGER, fragmentation.JOINED))
    assert not any(n + 1 in second for n in second) and all(n + 1 in pairs or n - 1 in pairs for n in pairs)
    known = fragmentation.planned(fragmentation.LARGER, 1 << 20)
    assert known["offline"] == known["bound"] < known["online"]


def test_streams_played_through_go_wrong_only_where_nobody_said_anything():
    rows = {row["case"]: row for row in stream_reuse.simulated()["rows"]}
    assert [case for case, row in rows.items() if not row["right"]] == [stream_reuse.UNTOLD]
    assert [case for case, row in rows.items() if not row["handed_out"]] == [stream_reuse.RECORDED]


def test_an_errors_message_is_shortened_and_its_size_read():
    said = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: you tried to allocate 2097152 bytes."
    assert out_of_memory._shortened(said).startswith("err == 0. Default") and out_of_memory._asked(said) == 2 << 20
    gpu = "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has 139 GiB. See documentation for Memory Management (https://x)"
    assert out_of_memory._shortened(gpu).endswith("139 GiB.") and out_of_memory._asked(gpu) == 3 << 29
    assert out_of_memory._asked("another error") == 0


def test_without_a_gpu_its_measurements_are_refused_in_words():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for part in (block_memory.liveness, arena.arena, arena_traffic.traffic, recompute.recompute, compiled_memory.compiled):
        with pytest.raises(MeasurementError, match="no CUDA device here"):
            part("cuda")
    for part in (fragmentation.fragmentation, out_of_memory.out_of_memory, stream_reuse.reuse):
        with pytest.raises(MeasurementError, match="no CUDA device here"):
            part("cuda")


def test_without_a_compiler_nothing_is_compiled_and_the_reason_is_told(monkeypatch):
    monkeypatch.setenv("ONE_ADD_NO_COMPILER", "1")
    with pytest.raises(MeasurementError, match="needs a C"):
        compiled_memory.compiled("cpu")


def test_malloc_says_where_it_is_not_glibcs(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert not malloc.pin() and not malloc.give_back(1 << 20)
