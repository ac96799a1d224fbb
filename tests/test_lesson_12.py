"""Lesson 12: sentences that stay true whatever a machine gives; buffers as rectangles; two panels.

What the lesson says is in `utils/show/lesson12.py`. `check_sentences(module)` holds every sentence against the part it was made
from, on parts made in code where the usual order is turned round; the planted faults are that module with one piece of its
logic broken, and the same check must go red on each. The instruments have tests of their own (test_alloc_trace).
"""

from __future__ import annotations

import pytest

from tests import memories
from tests.broken import broken
from tests.memories import HERE, MIB, THERE, both
from utils.measure import planned_memory, stream_reuse, study
from utils.measure.block_memory import FORWARD
from utils.model import expected, ledger, memory_plan, recompute
from utils.model.memory_plan import Buffer
from utils.model.quantities import NotMeasured
from utils.show import arena_explorer, arena_figure, lesson12, recompute_explorer
from utils.show.arena_figure import Laid, mib


def check_sentences(m) -> None:
    check_buffers(m)
    check_requests(m)
    check_plans(m)
    check_traffic(m)
    check_trades(m)
    check_deeper(m)
    check_missing(m)
    check_judged(m)
    check_end(m)


def check_buffers(m) -> None:
    for overlap, kind in ((0, "one"), (1, "some"), (3, "some"), (6, "all")):
        assert m.peak(both(memories.liveness(forward=overlap)))[0] == m.PEAK_ANSWERS[kind][1], kind
    said = str(m.peak(both(memories.liveness(), memories.liveness("cuda", off=512, workspace=32 * MIB)))[1])
    here, there = said.split(HERE)
    assert "Buffers: 6, together 24.0 MiB. At most 8.00 MiB lived at one moment: 33 % of the sum" in here
    assert "a count of what the ops returned: the same, to the byte" in here and "workspace" not in here
    assert "the allocator's own totals of requested bytes it is off by 512 bytes" in there
    assert "cuBLAS's workspace: 32.0 MiB" in there and THERE in there

    for keeping, kind in (((5,), "same"), ((1, 3, 5), "more"), (tuple(range(6)), "all")):
        assert m.grad(both(memories.liveness(keeping=keeping)))[0] == m.GRAD_ANSWERS[kind][1], kind
    said = str(m.grad(both(memories.liveness()))[1])
    assert "Without gradients the peak was 8.00 MiB, with them 16.0 MiB of a sum of 24.0 MiB; 12.0 MiB stayed" in said
    assert "Forward and backward took 6 buffers of 24.0 MiB; their peak: 16.0 MiB, 67 % of the sum" in said

    one, two = m.lives(both(memories.liveness(), memories.liveness("cuda")), FORWARD)
    assert HERE in one.alt and THERE in two.alt and "Forward, no_grad: no byte used twice" in one.alt
    assert "the highest reaches 24.0 MiB; the most that lives at once, a dashed line, is 8.00 MiB" in one.alt
    assert [row["op"] for row in one.table.rows] == list(memories.NAMES) and one.table.rows[1]["at"] == f"{4 * MIB:,}"
    assert m.life_tables(both(memories.liveness(off=64)))[0].rows[0]["counted"] == "8.00 MiB"


def check_requests(m) -> None:
    for miss, kind in ((4e3, "alike"), (2e5, "tens"), (1e6, "more")):
        assert m.miss(both(memories.requests(miss=miss)))[0] == m.MISS_ANSWERS[kind][1], kind
    said = str(m.miss(both(memories.requests(), memories.requests("cuda", 500.0, 2e5)))[1])
    here, there = said.split(HERE)
    assert "A block of 64.0 MiB: from what was kept 3.00 µs, from the system 36.0 ms: 12,000 times" in here
    assert "16,385 page faults at the first writing, 2.20 µs each" in here and "1,000 in the first, 333 in a later one" in here
    assert "from what was kept 500 ns, from the system 200 µs: 400 times" in there and "page" not in there
    assert "asked 14 times; of the driver 1,000 times in the first step, 333 in a later one" in there
    one, steps = m.miss_tables(both(memories.requests()))
    assert one.rows[0]["fresh"] == "0" and one.columns["fresh"] == "page faults, a call" and steps.rows[2]["fresh"] == "333"
    assert m.miss_tables(both(None, memories.requests("cuda")))[0].columns["fresh"] == "asked of the driver, a call"


def check_plans(m) -> None:
    for online, offline, kind in ((1.25, 1.0, "size"), (1.0, 1.2, "time"), (1.0, 1.0, "alike")):
        assert m.plan(both(memories.arena(online=online, offline=offline)))[0] == m.PLAN_ANSWERS[kind][1], kind
    said = str(m.plan(both(memories.arena()))[1])
    assert "needs 1.250 in the order of time and 1.000 with the largest first; all buffers side by side 2.75" in said
    assert "asked the allocator 0 times in place of 6 and gave the very numbers" in said and "it gave other numbers" in said
    said = str(m.plan(both(memories.arena(same=False, overlapped=False, asked=6.0)))[1])
    assert "asked the allocator 6 times" in said and "a fault" in said and "it gave the same numbers all the same" in said
    row = next(r for r in m.plan_tables(both(memories.arena()))[0].rows if r["planner"] == "no reuse")
    assert row["size"] == "24.0 MiB" and row["bound"] == "16.0 MiB" and row["over"] == "1.500"
    panel = m.arenas(both(memories.arena(), memories.arena("cuda")))
    assert HERE in panel.shown[0].alt and "Not measured" in str(m.arenas(both(None)))
    assert THERE in m.arenas(both(None, memories.arena("cuda"))).shown[0].alt

    for peak, largest, kind in ((12, 4, "same"), (8, 4, "less"), (4, 4, "one")):
        assert m.compiled(both(memories.compiled(peak=peak, largest=largest)))[0] == m.COMPILED_ANSWERS[kind][1], kind
    said = str(m.compiled(both(memories.compiled(), memories.compiled("cuda", peak=5, training=False)))[1])
    here, there = said.split(HERE)
    assert (
        "Forward, no_grad: 6 buffers of 24.0 MiB with a peak of 12.0 MiB; compiled 2 of 8.00 MiB, peak 8.00 MiB, 2.0 times"
        in here
    )
    assert "Forward and backward: 12 buffers" in here and "Forward and backward" not in there and "peak 5.00 MiB" in there
    assert m.compiled_tables(both(memories.compiled()))[0].rows[1]["planned"] == "8.00 MiB"


def check_traffic(m) -> None:
    for moved, kind in ((1.0, "same"), (1.5, "fewer")):
        assert m.moved(both(memories.traffic(moved=moved)))[0] == m.BYTES_ANSWERS[kind][1], kind
    said = str(m.moved(both(memories.traffic()))[1])
    assert "lie in 0.17 of the memory" in said and said.count("576 MiB") == 2 and "1.0 times as many bytes" in said
    for over, kind in (((1.0, 1.9, 1.0), "some"), ((1.3, 1.9, 1.2), "always"), ((1.0, 1.1, 0.9), "never")):
        assert m.place(both(memories.traffic(over=over)))[0] == m.PLACE_ANSWERS[kind][1], kind
    said = str(m.place(both(memories.traffic()))[1])
    assert "64.0 KiB: 1.1 times; 4.00 MiB: 1.9 times; 16.0 MiB: 1.0 times" in said and "the chain of 4.00 MiB results" in said
    assert "took 1.0 to 1.0 times the arena's time: about as long" in said
    assert "about as long" not in str(m.place(both(memories.traffic(eager=1.8)))[1])
    figure = m.traffic_figures(both(memories.traffic()))[0]
    assert HERE in figure.alt and [row["batch"] for row in figure.table.rows] == ["64", "4,096", "16,384"]


def check_trades(m) -> None:
    for least, kind in ((1, "one"), (2, "some"), (12, "last")):
        assert m.again(both(memories.recompute(least=least)))[0] == m.RECOMPUTE_ANSWERS[kind][1], kind
    said = str(m.again(both(memories.recompute()))[1])
    assert "Storing all: a peak of 37.0 MiB. Least with the input of every 2 layers stored: 12.6 MiB, 34 % of it" in said
    assert (
        "2.0 times the time and 1.5 times the ops" in said and "bit by bit those of storing" in said and "they are others" in said
    )
    said = str(m.again(both(memories.recompute(same=False, careless=True)))[1])
    assert "a fault" in said and "they are still the same" in said
    bars, table = m.again_figures(both(memories.recompute()))
    assert "every 2" in bars.alt and HERE in bars.alt and table.rows[0]["every"] == "store" and table.rows[2]["over"] == "2.0"

    found = both(memories.out_of_memory())
    assert m.memory(found)[0] == m.MEMORY_ANSWERS["request"][1]
    assert m.memory(both(memories.out_of_memory(asked=30 * MIB)))[0] == m.MEMORY_ANSWERS["need"][1]
    assert m.memory(both(memories.out_of_memory(failed=False)))[0] is None
    assert m.memory(both(memories.out_of_memory(asked=0)))[0] is None
    said = str(m.memory(found)[1])
    assert "With 24.0 MiB to take, storing all fails" in said and "It names 1.00 MiB, of a step that needs 37.0 MiB" in said
    assert "recomputing fits, and the process goes on" in said
    assert "Asking for 1.00 GiB gave the process 4.00 KiB; writing to 128 MiB of it 128 MiB" in said
    said = str(m.memory(both(memories.out_of_memory(again=True, after=True)))[1])
    assert "recomputing fails too, and the process does not go on" in said
    assert "did not fail: the limit did not bind" in str(m.memory(both(memories.out_of_memory(failed=False)))[1])
    assert "Asking" not in str(m.memory(both(None, memories.out_of_memory("cuda")))[1])
    assert [row["failed"] for row in m.memory_tables(found)[0].rows] == ["RuntimeError", "no"]


def check_deeper(m) -> None:
    said = str(m.gaps(both(memories.gaps())))
    assert "none for blocks that fit the gaps, 100 % for blocks twice as large, 10 % for those where neighbours" in said
    assert "needs 1.00 of what lives at once; in the order of time 1.48" in said
    assert m.gap_tables(both(memories.gaps()))[0].rows[1]["grew"] == "32.0 MiB"
    found = both(stream_reuse.simulated())
    said = str(m.streams(found))
    assert said.startswith("Played through, not measured") and HERE not in said and "no GPU has been recorded" in said
    assert "two streams, nothing said: the freed block was handed out at once, the reader saw the new ones, too early" in said
    assert "two streams, record_stream: another block was handed out, the reader saw the old numbers" in said
    said = str(m.streams(both(None, memories.reuse())))
    assert "Played through" not in said and THERE in said and "a private pool's block was kept for that pool" in said
    said = str(m.streams(both(stream_reuse.simulated(), memories.reuse())))
    assert said.index("Played through") < said.index(THERE) and HERE not in said


def check_missing(m) -> None:
    nothing = both(None)
    for say in (m.peak, m.grad, m.miss, m.plan, m.compiled, m.moved, m.place, m.again, m.memory):
        right, said = say(nothing)
        assert right is None and "no compiler" in str(said) and "no GPU has been recorded" in str(said)
    for say in (m.gaps, m.streams):
        assert str(say(nothing)).count("Not measured") == 2
    empty = [m.lives(nothing, FORWARD), m.life_tables(nothing), m.miss_tables(nothing), m.plan_tables(nothing)]
    empty += [m.compiled_tables(nothing), m.traffic_figures(nothing), m.again_figures(nothing), m.memory_tables(nothing)]
    assert all(one == [] for one in empty)


JUDGED = {
    "peak_share": "liveness",
    "counted": "liveness",
    "planned": "arena",
    "same_numbers": "arena",
    "overlap_shows": "arena",
    "no_requests": "arena",
    "compiled_peak": "compiled",
    "bytes_moved": "traffic",
    "least_peak": "recompute",
    "same_gradients": "recompute",
    "out_of_memory": "out_of_memory",
    "fits_again": "out_of_memory",
    "gaps_do_not_fit": "fragmentation",
    "untold": "reuse",
}


def check_judged(m) -> None:
    found = m.judged("cpu", **memories.study())
    for metric, name in JUDGED.items():
        assert expected.judge(f"memory_plan.{metric}", found[name]).value is not None, metric
    recorded = m.judged("cpu", **{name: both(None, one.first.value) for name, one in memories.study().items()})
    for metric, name in JUDGED.items():
        one = expected.judge(f"memory_plan.{metric}", recorded[name])
        assert one.value is None and "no compiler" in one.note, metric
    assert isinstance(m.judged("cuda", arena=both(None))["arena"]["same"], NotMeasured)


FIVE = ((6, 0, 3), (2, 1, 4), (2, 1, 3), (4, 2, 4), (8, 3, 4))


def check_end(m) -> None:
    assert "Nothing predicted yet" in str(m.transfer(None, FIVE))
    for mine, words in ((14, "That is the smallest"), (13, "Too small"), (22, "It can be smaller")):
        assert words in m.transfer(mine, FIVE).notes[0], mine
    rows = {row["arena"]: row["mib"] for row in m.transfer(14, FIVE).rows}
    assert rows["the smallest there is"] == rows["the most that lives at once"] == 14
    assert rows["first fit, in the order of time"] == rows["all side by side"] == 22
    table = m.verdicts("cpu", memories.study())
    assert {row["id"] for row in table.rows} == {c.id for c in ledger.claims("memory_plan")} == {"B28", "B53"}


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson12)


FAULTS = {
    "a peak of one buffer called some": (
        'numbers["forward_peak"] <= ONE else "some"',
        'numbers["forward_peak"] <= 0 else "some"',
    ),
    "the sum told in the peak's place": ("At most {mib(row['peak'])} lived", "At most {mib(row['sum'])} lived"),
    "a difference of the counts not told": ('if not off else f"By', 'if off >= 0 else f"By'),
    "the allocator's count said of a CPU": ('if value["device"] == "cuda" else "a count', 'if value["device"] else "a count'),
    "gradients always more": ('"same" if row["peak"] <= ONE * without["peak"]', '"same" if row["peak"] < 0'),
    "hit and miss exchanged": ("{format_time(numbers['miss'])}: {times", "{format_time(numbers['hit'])}: {times"),
    "a GPU's misses told as page faults": (
        'if value["device"] == "cuda":\n            return (',
        'if value["device"] == "tpu":\n            return (',
    ),
    "the planners exchanged": ('"time" if online < offline else "size"', '"time" if online > offline else "size"'),
    "a wrong arena called right": ('if n["same"] else "other', 'if n["same"] >= 0 else "other'),
    "eager's peak given for the compiled one": ("peak {mib(fast['peak'])}, ", "peak {mib(eager['peak'])}, "),
    "fewer bytes whatever was counted": ('value["numbers"]["moved_ratio"] > 1.01', 'value["numbers"]["moved_ratio"] > 0'),
    "one faster size called every size": ('"always" if all(faster)', '"always" if any(faster)'),
    "the least peak's place ignored": ('"one" if every <= 1', '"one" if every <= 3'),
    "gradients always the same": ('if n["same"] else "other than', 'if n["same"] >= 0 else "other than'),
    "the size in the message taken for the need": (
        '"request" if row["asked"] < row["limit"] / 4',
        '"request" if row["asked"] > row["limit"] / 4',
    ),
    "a step that fitted told as a failure": (
        'if not row["failed"]:\n            return f"With',
        'if row["failed"] is None:\n            return f"With',
    ),
    "what was played through told as measured": (
        'if value["label"] == "simulated" else ""',
        'if value["label"] == "none" else ""',
    ),
    "a recording judged as if it were live": ('judged_here(device, part.here, ', 'judged_here(device, part.first, '),
    "too small an arena praised": ('if mine < least', 'if mine < 0'),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_lesson_is_found_out(fault, tmp_path):
    copy = broken(lesson12, *FAULTS[fault], tmp_path)  # outside: a fault that no longer fits the code is an error of its own
    with pytest.raises(AssertionError):
        check_sentences(copy)


def test_the_lesson_measures_only_what_the_study_has():
    assert set(lesson12.JUDGED) == set(planned_memory.IN_LESSON) == set(planned_memory.PARTS)
    assert study.parts_of("memory_plan") is planned_memory.PARTS
    assert set(lesson12.WHY) == {f"memory_plan.{name}" for name in QUESTIONS}


QUESTIONS = ("peak", "grad", "miss", "plan", "compiled", "bytes", "place", "recompute", "memory")


def test_where_nothing_is_measured_a_cpus_recording_stands_in_with_its_label(monkeypatch):
    found = both(memories.compiled())
    assert lesson12.with_cpu(found, "compiled") is found
    monkeypatch.setattr(lesson12, "recorded", lambda *asked: both(None, memories.compiled()).there)
    stood_in = lesson12.with_cpu(both(None), "compiled")
    assert stood_in.here.value is None and THERE in str(lesson12.compiled(stood_in)[1])


# ------------------------------------------------------------------------------------------------ pictures and panels


def test_bytes_are_told_for_people():
    assert [mib(n) for n in (12, 3 << 10, 4 * MIB, 3 << 29)] == ["12.0 bytes", "3.00 KiB", "4.00 MiB", "1.50 GiB"]


def test_rectangles_lie_where_the_plan_says_and_the_numbers_can_be_read_without_colour():
    laid = Laid(((100, 0, 2), (300, 1, 4)), ("mm", "add"), (0, 100), 400, 400)
    figure = arena_figure.figure(laid, "two", "made up", moment=1)
    assert ">1</text>" in figure.svg and ">2</text>" in figure.svg and "<title>add</title>" in figure.svg
    assert "as high as that line" in figure.alt and laid.alive(1) == [0, 1] and laid.alive(3) == [1]
    whole = 760 - 84 - 20
    assert f'x="84.0" y="{58 + 250 * 0.75:.1f}" width="{whole / 2:.1f}"' in figure.svg
    assert f'x="{84 + whole / 4:.1f}" y="58.0" width="{whole * 3 / 4:.1f}"' in figure.svg


def test_the_chains_chart_names_its_axis():
    assert "KiB of one result" in lesson12.traffic_figures(both(memories.traffic()))[0].svg


def test_the_arenas_panel_tells_who_lives_and_what_the_arena_takes():
    panel = lesson12.arenas(both(memories.arena()))
    assert panel.values["planner"] == arena_explorer.START, "it starts with the plan that answers nothing"
    panel.fire("moment", 1)
    assert (
        "At moment 1: 2 of 6 buffers, 8.00 MiB" in panel.shown[1] and "over the most that lives at once: 1.500" in panel.shown[1]
    )
    panel.fire("planner", "by size")
    assert "as small as any arena can be" in panel.shown[1] and panel.message == ""
    panel.fire("moment", 999)
    assert "is not a number from" in panel.message


def test_store_or_recompute_has_its_least_at_the_square_root():
    assert recompute.peak(12, 0, 3) == 37 and recompute.peak(12, 1, 3) == 15 and recompute.peak(12, 12, 3) == 37
    assert recompute.least(12, 3) == (2, 12) and recompute.square_root(12, 3) == 2
    assert recompute.peak(13, 2, 3) == 13, "a part-filled group needs its stored input as well"
    assert recompute.time(0, 0.3) == 1 and recompute.time(4, 0.3) == pytest.approx(1.3)
    with pytest.raises(ValueError, match="below 1"):
        recompute.peak(0, 1, 3)


def test_the_sliders_say_what_is_saved_and_where_the_least_is():
    panel = recompute_explorer.explorer()
    assert "One input stored in 1: a peak of 960 MiB in place of 2.31 GiB, least at every 2: 768 MiB" in panel.shown[1]
    panel.fire("every", 2)
    assert "the least there is" in panel.shown[1] and "over storing: 1.33" in panel.shown[1]
    panel.fire("every", 96)
    assert "One input stored in 12" in panel.shown[1], "no more layers lie between two inputs than there are"
    rows = panel.shown[0].table.rows
    assert rows[0]["peak"] == "2.31 GiB" and rows[-1]["every"].endswith("◀") and len(rows) == 13
    panel.fire("layers", 2)
    assert panel.message == "" and len(panel.shown[0].table.rows) == 3


def test_the_transfers_bound_is_reached_by_a_plan():
    buffers = [Buffer(n, *one) for n, one in enumerate(FIVE)]
    assert memory_plan.by_size(buffers, 1).size == memory_plan.peak(buffers, 1) < memory_plan.first_fit(buffers, 1).size
