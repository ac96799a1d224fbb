"""Features and diagnosis of traces: made ones of every illness on both devices, real ones of this torch, a reader's file."""

from __future__ import annotations

import gzip
import json
import random

import pytest
import torch

from tests.made_traces import BF16, ELEMENTWISE, ILL, TF32, Made, a_trace, chain, filling, loader, product, small, transposing
from utils import paths
from utils.__main__ import main
from utils.measure.sick import PROGRAMS
from utils.model import schemas, sick_traces, traces
from utils.model.diagnosis import NONE, RULES, diagnose, key
from utils.model.trace_features import features, kind_of, kind_of_kernel
from utils.show import diagnosis_page

SEEDS = [random.Random(20261130).randrange(10**6) for _ in range(1)] + list(range(5))
CASES = [(name, device) for name in ILL for device in ("cpu", "cuda") if a_trace(name, device) is not None]


def of(body, device="cuda", steps=3, seed=1, marked=True) -> list[dict]:
    """The events of steps that each do `body(made)`."""
    t = Made(device, seed)
    for _ in range(steps):
        if marked:
            with t.step():
                body(t)
        else:
            body(t)
    return t.events()


# ------------------------------------------------------------------------------------------------ every illness


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "device"), CASES)
def test_every_illness_is_found_on_every_device_that_has_it(name, device, seed):
    found = diagnose(a_trace(name, device, seed))
    assert found.id == name, (found.finding, found.also, found.saw)
    assert found.features.device == device and found.finding.share >= 0.3
    assert found.cure == key()[name].cure and found.finding.reason in found.reason


@pytest.mark.parametrize(("name", "device"), CASES)
def test_more_steps_another_order_and_another_origin_change_nothing(name, device):
    few, many = diagnose(a_trace(name, device, 3, steps=2)), diagnose(a_trace(name, device, 3, steps=9))
    assert few.id == many.id == name
    assert few.features.ops == pytest.approx(many.features.ops)
    assert few.features.step_ns == pytest.approx(many.features.step_ns, rel=0.15)
    events = a_trace(name, device, 4)
    moved = [{**e, "ts": e["ts"] * 1.0 + 12_345.0} for e in reversed(events)]
    first, second = features(events).to_dict(), features(moved).to_dict()
    for what, value in first.items():
        if isinstance(value, float):
            assert value == pytest.approx(second[what], rel=1e-3, abs=1e-3), what


@pytest.mark.parametrize(("name", "device"), [c for c in CASES if c[0] not in ("recompiles", "recaptures")])
def test_an_illness_is_found_in_a_trace_without_marks(name, device):
    events = [e for e in a_trace(name, device, 5) if "ProfilerStep" not in e["name"]]
    found = diagnose(events)
    assert not found.features.marked and found.features.steps == 1
    assert found.id == name, (found.finding, found.also, found.saw)


@pytest.mark.parametrize(("name", "device"), [c for c in CASES if c[0] not in ("small_batch", "recaptures", "recompiles")])
def test_an_illness_is_found_without_shapes(name, device):
    events = [{**e, "args": {k: v for k, v in e["args"].items() if not k.startswith("Input")}} for e in a_trace(name, device, 6)]
    if (name, device) == ("wide_dtype", "cpu"):  # nothing but the shapes' own record says what a CPU computes in
        assert diagnose(events).id == "compute_bound"
    else:
        assert diagnose(events).id == name


@pytest.mark.parametrize(("name", "device"), CASES)
def test_an_illness_that_is_a_twentieth_of_the_step_is_not_the_diagnosis(name, device):
    """Beside a product that takes twenty times as long, nothing else matters."""
    if name in ("compute_bound", "wide_dtype"):
        pytest.skip("it is a product itself")
    t = Made(device, 7)
    length = features(a_trace(name, device, 7)).step_ns * 1e-3
    for number in range(2):
        with t.step():
            if name == "recompiles":
                t.compile(90_000.0)
                t.op("aten::mul", kernel=ELEMENTWISE, kernel_us=3.0, dims=[[64 + number], []])
            else:
                ILL[name][device == "cuda"](t)
            product(t, us=20 * length, dtype="c10::BFloat16" if t.cuda else "float")
            if t.cuda:
                t.wait()
    assert diagnose(t.events()).id == "compute_bound"


# ------------------------------------------------------------------------------------------------ what looks alike, and is not


def test_a_wait_for_a_busy_device_is_no_illness():
    """One read-out at the end of a long step: the host waits for nearly all of it, and the device works all the while."""

    def step(t):
        product(t, us=8000.0)
        t.item()

    assert diagnose(of(step)).id == "compute_bound"


def test_a_loader_that_runs_beside_a_busy_device_stands_in_nobodys_way():
    def step(t):
        product(t, us=9000.0)
        loader(t, us=5000.0)
        t.wait()

    assert diagnose(of(step)).id == "compute_bound"


def test_one_compilation_in_many_steps_is_not_one_in_every_step():
    t = Made("cpu", 2)
    with t.step():
        t.compile(3000.0)
    for _ in range(30):
        with t.step():
            product(t, us=4000.0, dtype="float")
    found = diagnose(t.events())
    assert found.id == "compute_bound" and found.features.compiles == pytest.approx(1 / 31)


def test_a_captured_chain_is_bound_by_bandwidth_and_a_captured_small_one_is_not():
    assert diagnose(of(lambda t: t.replay(13, 400.0))).id == "bandwidth_bound"
    found = diagnose(of(lambda t: t.replay(300, 2.0)))
    assert found.id != "bandwidth_bound" and found.features.replays == 1 and found.features.kernels == 300


def test_tiny_kernels_that_keep_the_device_busy_are_still_launch_bound():
    """The utilisation says 95 %: kernels as short as a launch follow each other closely."""

    def step(t):
        for _ in range(80):
            t.op("aten::add", us=3.0, kernel=ELEMENTWISE, kernel_us=4.6, dims=[[64], [64], []])

    found = diagnose(of(step))
    assert found.id == "launch_bound" and found.features.busy > 0.7


def test_tf32_is_not_wide():
    assert diagnose(of(lambda t: product(t, kernel=TF32, dtype="float"))).id == "compute_bound"


def test_many_rows_are_no_small_batch_and_small_weights_neither():
    assert diagnose(of(lambda t: product(t, rows=64, us=500.0))).id == "compute_bound"

    def tiny(t):
        for _ in range(40):
            t.op("aten::mm", 6.0, kernel=BF16, kernel_us=3.0, dims=[[1, 32], [32, 32]], types=["c10::BFloat16"] * 2)

    assert diagnose(of(tiny)).id == "launch_bound"


def test_read_outs_that_bring_nothing_to_a_standstill_are_not_named():
    def step(t):
        chain(t, 8, 900.0)
        t.item()

    found = diagnose(of(step))
    assert found.id == "bandwidth_bound" and "reads_out" not in [f.id for f in found.also]


def test_two_illnesses_are_both_named_the_larger_one_first():
    def step(t):
        transposing(t, 4, 500.0)
        chain(t, 3, 400.0)

    found = diagnose(of(step, "cpu"))
    assert found.id == "needless_copies" and [f.id for f in found.also] == ["bandwidth_bound"]


def test_what_nobody_can_diagnose_says_so_and_what_it_saw():
    def step(t):  # a bit of everything, each less than a third
        product(t, us=500.0, dtype="float")
        chain(t, 2, 250.0)
        transposing(t, 2, 250.0)
        filling(t, 2, 250.0)
        t.python(500.0)

    found = diagnose(of(step, "cpu"))
    assert found.id == NONE and found.finding is None
    assert "Nothing on the list explains" in found.reason and found.saw in found.reason and "aten::" in found.saw
    assert 2 <= len(found.also) <= 5 or all(f.share < 0.3 for f in found.also)


def test_a_gap_on_the_host_of_a_busy_gpu_is_no_wait():
    def step(t):
        product(t, us=6000.0)
        t.python(4000.0)
        t.wait()

    found = diagnose(of(step))
    assert found.id == "compute_bound"


# ------------------------------------------------------------------------------------------------ features


def test_the_numbers_of_a_step_that_is_counted_by_hand():
    t = Made("cuda", 1)
    t.about = lambda us: us  # no variation: the numbers below are exact
    for _ in range(2):
        with t.step():
            small(t, 30, 2.0)
            product(t, us=1000.0)
            t.item()
    f = features(t.events())
    assert (f.steps, f.marked, f.device) == (2, True, "cuda")
    assert f.ops == 31 and f.kernels == 31 and f.launches == 31 and f.read_outs == 1
    assert f.kernel_ns == pytest.approx((30 * 2 + 1000) * 1e3 / 31)
    assert f.waits == {"cudaStreamSynchronize": 1} and f.bus_copies == 1 and f.bus_bytes == 4
    assert f.top_op == BF16 and f.dtype == "bf16" and f.rows == 4096
    assert f.product_flops == 2 * 4096**3 and f.weight_bytes == 4096 * 4096 * 2
    assert sum(f.kinds.values()) == pytest.approx(1.0) and f.kinds["product"] > 0.9
    assert f.busy + f.idle == pytest.approx(1.0) and f.same_shapes is True


def test_shares_are_shares_whatever_the_trace():
    rng = random.Random(7)
    bodies = [small, chain, loader, transposing, filling, product]
    for seed in range(20):
        some = rng.sample(bodies, 3)
        f = features(of(lambda t, some=some: [body(t) for body in some], rng.choice(["cpu", "cuda"]), seed=seed))
        shares = [f.in_ops, f.outside, f.long_gaps, f.small, f.wide, f.busy, f.wait, f.read_out, f.loader, f.compile, f.bus]
        assert all(0 <= share <= 1 for share in [*shares, *f.kinds.values(), *f.big.values(), f.malloc, f.capture])
        assert f.long_gaps <= f.outside + 1e-9 and f.top_share <= 1
        json.dumps(f.to_dict(), allow_nan=False)


def test_ops_inside_a_compilation_or_a_loader_are_not_the_steps():
    f = features(of(lambda t: (t.compile(20_000.0), loader(t), small(t, 10)), "cpu"))
    assert f.ops == 10 and f.compiles == 1 and f.loader > 0.1


def test_own_time_is_not_counted_twice():
    t = Made("cpu", 1)
    t.about = lambda us: us
    with t.step():
        with t.spanning("cpu_op", "aten::linear"):
            t.op("aten::addmm", 100.0, dims=[[8], [64, 8], [8, 8]])
            t.now -= 1.5
    f = features(t.events())
    assert f.by_op["aten::addmm"] == (1, pytest.approx(100e3)) and f.by_op["aten::linear"][1] == pytest.approx(0, abs=1)
    assert f.busy == pytest.approx(1.0, abs=0.02)


def test_kernels_of_a_step_that_end_after_its_mark_are_its_own():
    f = features(of(lambda t: chain(t, 4, 1000.0), steps=1))
    assert f.step_ns > 4e6 * 0.9 and f.busy > 0.9 and f.kernels == 4


def test_the_wait_that_closes_a_recording_is_not_the_programs():
    def with_end(wait):
        t = Made("cuda", 1)
        with t.step():
            chain(t, 4, 1000.0)
        if wait:
            t.wait("cudaDeviceSynchronize")
        return features(t.events())

    assert with_end(True).to_dict() == with_end(False).to_dict() and with_end(True).wait == 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", "product"),
        ("aten::convolution_backward", "product"),
        ("aten::_scaled_dot_product_flash_attention", "product"),
        ("aten::copy_", "copy"),
        ("aten::cat", "copy"),
        ("aten::zero_", "fill"),
        ("aten::item", "read_out"),
        ("aten::softmax", "elementwise"),
        ("aten::view", "other"),
        ("autograd::engine::evaluate_function: MulBackward0", "other"),
    ],
)
def test_ops_have_a_kind(name, kind):
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (BF16, "product"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu>", "product"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", "copy"),
        (ELEMENTWISE, "elementwise"),
        ("triton_poi_fused_add_mul_relu_0", "elementwise"),
    ],
)
def test_kernels_have_a_kind(name, kind):
    assert kind_of_kernel({"cat": "kernel", "name": name}) == kind


# ------------------------------------------------------------------------------------------------ the key


def test_the_answer_key_has_its_shape_and_a_rule_for_each_entry():
    schemas.validate("diagnoses", schemas.load("diagnoses"))
    assert set(RULES) | {NONE} == set(key()) and len(key()) >= 9
    assert {p.diagnosis for p in PROGRAMS.values()} == set(RULES), "each diagnosis has a program that shows it"
    assert all(lesson in schemas.LESSONS for entry in key().values() for lesson in entry.lessons)
    assert [e.id for e in key().values() if e.healthy] == ["compute_bound"]


def test_cures_and_reasons_are_no_copies_of_each_other():
    for what in ("name", "looks", "misleading", "reason", "cure", "confirm"):
        said = [getattr(e, what) for e in key().values()]
        assert len(set(said)) == len(said), what


# ------------------------------------------------------------------------------------------------ the reader's own trace


@pytest.fixture
def a_real_trace(tmp_path):
    """What torch writes here for three small steps, with and without what lets a diagnosis say more."""
    x = torch.rand(8, 8)

    def steps(**how):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **how) as profile:
            for number in range(3):
                with torch.profiler.record_function(f"ProfilerStep#{number}"):
                    y = x
                    for _ in range(40):
                        y = torch.tanh(y @ x)
        file = tmp_path / f"trace{len(list(tmp_path.iterdir()))}.json"
        profile.export_chrome_trace(str(file))
        return file

    return steps


def test_the_readers_file_is_read_plain_and_packed(a_real_trace, capsys):
    file = a_real_trace(record_shapes=True)
    packed = file.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    said = []
    for one in (file, packed):
        assert main(["diagnose", str(one)]) == 0
        said.append(capsys.readouterr().out.replace(one.name, "FILE"))
    assert said[0] == said[1]
    for words in ("diagnosis:", "because:", "cure:", "to be sure:", "what misleads:", "steps in the trace"):
        assert words in said[0], words


def test_json_is_json_and_holds_everything(a_real_trace, capsys):
    assert main(["diagnose", str(a_real_trace(record_shapes=True)), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["diagnosis"] in key() and found["features"]["steps"] == 3 and found["features"]["ops"] == 80


def test_what_the_trace_lacks_is_said(a_real_trace, capsys):
    assert main(["diagnose", str(a_real_trace())]) == 0
    assert "no shapes were recorded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "du', "stopped while it wrote"),
        (b'{"traceEvents": []}', "without a single event"),
        (b"PK\x03\x04 a zip", "holds no JSON"),
        (b"# One add, priced\n", "export_chrome_trace wrote"),
        (b'{"a": 1}', "no list of traceEvents"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "its gzip is damaged"),
    ],
)
def test_a_file_that_is_no_trace_ends_with_one_line(content, said, tmp_path, capsys):
    file = tmp_path / "trace.json"
    file.write_bytes(content)
    assert main(["diagnose", str(file)]) == 1
    err = capsys.readouterr().err
    assert said in err and "trace.json" in err and err.count("\n") == 1 and "Traceback" not in err


def test_no_file_and_a_folder_are_the_callers_mistake(tmp_path, capsys):
    assert main(["diagnose", str(tmp_path / "none.json")]) == 2 and "not there" in capsys.readouterr().err
    assert main(["diagnose", str(tmp_path)]) == 2 and "folder" in capsys.readouterr().err


def test_odd_events_do_not_stop_the_reading(tmp_path, capsys):
    """Names that are no text, lengths below zero, args that are none, threads that are words: other tools write such files."""
    odd = [
        {"ph": "X", "name": None, "cat": "cpu_op", "ts": 1, "dur": 2},
        {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "ts": 5, "dur": 3, "args": None, "tid": "main"},
        {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "ts": 9, "dur": 3, "args": {"Input Dims": "?", "Input type": 7}},
        {
            "ph": "X",
            "name": "aten::mm",
            "cat": "cpu_op",
            "ts": 14,
            "dur": 3,
            "args": {"Input Dims": [[2, [3]]], "Input type": ["float"]},
        },
        {"ph": "X", "name": "thing", "ts": 20, "dur": 0},
        {"ph": "X", "name": "k", "cat": "kernel", "ts": 20, "dur": 4, "args": {"correlation": "x"}},
    ]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(odd))
    assert main(["diagnose", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == len(odd)


def test_a_trace_without_an_event_that_counts_is_refused_in_words():
    with pytest.raises(ValueError, match="without an event"):
        features([])
    with pytest.raises(traces.NoTrace):
        traces.read("no such file")


# ------------------------------------------------------------------------------------------------ the page


def test_the_committed_answer_key_is_what_the_recordings_give(tmp_path, capsys):
    page = tmp_path / "key.md"
    assert main(["diagnose", "--key", "--out", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == (paths.REPO / "figures" / diagnosis_page.FILE).read_text(encoding="utf-8"), (
        "python -m utils diagnose --key"
    )


def test_the_page_has_every_diagnosis_and_program_and_claims_no_recording_that_is_not_there(monkeypatch):
    page = diagnosis_page.page()
    assert all(f"## {entry.name}\n" in page and entry.reason in page and entry.cure in page for entry in key().values())
    assert all(f"(`{name}`)" in page for name in PROGRAMS)
    monkeypatch.setattr(sick_traces, "FOLDER", sick_traces.FOLDER / "nowhere")
    empty = diagnosis_page.page()
    assert "recorded · " not in empty and empty.count("not recorded | – | –") == sum(len(p.devices) for p in PROGRAMS.values())


def test_neither_a_file_nor_the_key_is_asked_for(capsys):
    assert main(["diagnose"]) == 2 and "give the file" in capsys.readouterr().err


@pytest.mark.parametrize("wait_us", [0.3, 1.5, 6.0])
@pytest.mark.parametrize("every, is_read_out", [(1, True), (2, True), (8, False)])
def test_a_wait_behind_every_few_kernels_sets_the_pace_however_short_it_is(wait_us, every, is_read_out):
    """Two recordings of one program on an H200 lay on either side of a tenth of the step: the host of the second took longer to
    launch, and found less left to wait for."""
    t = Made("cuda", 3)
    for _ in range(3):
        with t.step():
            for number in range(40):
                t.op("aten::mul", 9.0, kernel="elementwise_kernel", kernel_us=1.9, dims=[[64]])
                if number % every == every - 1:
                    t.add("cuda_runtime", "cudaDeviceSynchronize", t.now, wait_us)
                    t.now += wait_us + 7.0
    found = diagnose(t.events())
    assert (found.id == "reads_out") == is_read_out, (found.finding, found.saw)
    assert is_read_out or found.id == "launch_bound"


def test_what_else_a_profiler_writes_changes_nothing():
    """Python's own frames (with_stack), memory events, arrows and names stand in many traces."""
    events = a_trace("reads_out", "cuda", 3)
    begin = min(e["ts"] for e in events)
    span = max(e["ts"] + e["dur"] for e in events) - begin
    frames = [
        {"ph": "X", "cat": "python_function", "name": f"train.py({i}): step", "ts": begin, "dur": span, "pid": 4711, "tid": 77}
        for i in range(5)
    ]
    whole = {
        "ph": "X",
        "cat": "Trace",
        "name": "PyTorch Profiler (0)",
        "ts": begin - 9e6,
        "dur": span + 2e7,
        "pid": "Spans",
        "tid": "x",
    }
    assert features([*events, *frames, whole]).to_dict() == features(events).to_dict()


def test_backward_on_a_thread_of_its_own_is_the_same_program():
    """On a GPU autograd works in another thread: its ops lie beside the others, not inside them."""
    events = a_trace("bandwidth_bound", "cuda", 2)
    halfway = sorted(e["ts"] for e in events)[len(events) // 2]
    moved = [{**e, "tid": 78} if e["cat"] in ("cpu_op", "cuda_runtime") and e["ts"] > halfway else e for e in events]
    assert features(moved).to_dict() == features(events).to_dict()


def test_steps_that_touch_keep_their_own_ops():
    """Where one step ends the next one begins, and files round: an op on the edge belongs to one of them, always the same one."""
    t = Made("cuda", 1)
    for _ in range(40):
        with t.step():
            small(t, 100)
    found = diagnose(t.events())
    assert found.id == "launch_bound" and found.features.ops == 100 and found.features.same_shapes is True
