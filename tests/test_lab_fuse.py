"""Lab 7's world: two forms of a kernel on one memory, what a kernel touched told truly, cheats caught, words where it cannot."""

from __future__ import annotations

import copy
import importlib.util
import sys

import numpy as np
import pytest
import torch

from grading import course, fast
from grading.rebuild import rebuilt
from grading.score import lost, total
from utils.labs import cells, fuse, fuse_cpp, fuse_memory, fuse_referee, fuse_replay, fuse_triton
from utils.labs.fuse import KernelFailed, differs, far, jit, numbers_like, watch
from utils.labs.fuse_memory import Memory, NoSuchMemory, bits

LAB = "lab07_fuse"
KERNELS = ("add", "bias", "chain", "gelu")
needs_triton = pytest.mark.skipif(bool(fuse_triton.missing()), reason=fuse_triton.missing() or "-")
needs_compiler = pytest.mark.skipif(bool(fuse_cpp.missing()), reason=fuse_cpp.missing() or "-")
tl = fuse.tl


@jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + tl.load(y_ptr + i, mask=i < n), mask=i < n)


def add_cpp() -> str:
    return """
    void program(int64_t pid, Tensor x, Tensor y, Tensor out, int64_t n, int64_t BLOCK) {
      for (int64_t i = pid * BLOCK; i < (pid + 1) * BLOCK && i < n; i++) out.store(i, x.load(i) + y.load(i));
    }
    """


@jit
def twice(v):
    return v + v


@jit
def unwritten(x_ptr):
    raise NotImplementedError()


def no_cpp():
    raise NotImplementedError


def add(kernel, x, y):
    out = torch.empty_like(x)
    kernel[(-(-x.numel() // 64),)](x, y, out, x.numel(), BLOCK=64)
    return out


TRITON, CPP = (add_kernel, no_cpp), (unwritten, add_cpp)
BOTH = [pytest.param(TRITON, marks=needs_triton, id="triton"), pytest.param(CPP, marks=needs_compiler, id="c++")]
EACH = pytest.mark.parametrize("form", BOTH)


def seen(host=add, form=TRITON, n=150):
    return watch(host, form, x=numbers_like(1, n), y=numbers_like(2, n))


# ------------------------------------------------------------------------------------------------ the lab in its other form


def without(nb: dict, *answers: str) -> dict:
    """The notebook with some answers as they were handed out."""
    stubs = {cell.id: cell.source for cell in cells.released(LAB)}
    nb = copy.deepcopy(nb)
    for cell in nb["cells"]:
        if cell["id"] in answers:
            cell["source"] = stubs[cell["id"]]
    return nb


@needs_compiler
def test_the_cpp_form_earns_every_point():
    whole = cells.read(course.source(LAB))
    scores = fast.grade(rebuilt(without(whole, *(f"{name}_kernel" for name in KERNELS)), whole))
    assert lost(scores) == set(), [score for score in scores if score.said]
    assert total(scores) == 40


@needs_compiler
def test_the_cpp_form_counts_where_triton_is_missing(monkeypatch):
    monkeypatch.setattr(fuse_triton, "missing", lambda: "Triton cannot be imported here (no module)")
    got = watch(add, (add_kernel, add_cpp), x=numbers_like(1, 100), y=numbers_like(2, 100))
    assert got.by_the_kernel == "" and set(got.written) == {"out"}, "the name is the C++ parameter's"
    with pytest.raises(KernelFailed, match="no module.*C\\+\\+ form of this kernel is not written"):
        seen(form=TRITON)
    with pytest.raises(NotImplementedError):
        seen(form=(unwritten, no_cpp))


def test_a_machine_with_neither_is_told_what_is_still_open(monkeypatch):
    monkeypatch.setattr(fuse_triton, "missing", lambda: "Triton cannot be imported here (no module)")
    monkeypatch.setattr(fuse_cpp, "missing", lambda: "no compiler")
    points = {cell.id: cell.points for cell in cells.known(cells.read(course.source(LAB))) if cell.grade}
    needs = sum(p for name, p in points.items() if name.split("_")[0] in ("add", "bias", "chain", "gelu"))
    assert f"{sum(points.values()) - needs:g} points" in fuse.forms() and f"the other {needs:g}" in fuse.forms()
    with pytest.raises(KernelFailed, match="Colab"):
        seen(form=(add_kernel, add_cpp))


def test_forms_says_what_runs_here(monkeypatch):
    for triton, cpp, said in (
        ("", "", "would run as well"),
        ("", "no g++", "cannot be built here"),
        ("no triton", "", "same points"),
    ):
        monkeypatch.setattr(fuse_triton, "missing", lambda triton=triton: triton)
        monkeypatch.setattr(fuse_cpp, "missing", lambda cpp=cpp: cpp)
        assert said in fuse.forms()


def test_functions_that_give_an_input_back_earn_nothing_of_the_kernels():
    nb = cells.read(course.source(LAB))
    whole = copy.deepcopy(nb)
    for cell in nb["cells"]:
        if cell["id"] in ("add", "bias_add", "chain", "gelu_chain"):
            cell["source"] = cells.source(cell).split("    ### BEGIN")[0] + "    return x\n"
    assert total(fast.grade(rebuilt(nb, whole))) == 11, "the points of exercises 1 and 2"


# ------------------------------------------------------------------------------------------------ what a kernel touches


@EACH
def test_both_forms_tell_the_same(form):
    got = seen(form=form)
    assert differs(got.out, numbers_like(1, 150).double() + numbers_like(2, 150).double()) == ""
    assert (got.launches, got.programs, got.outside, got.by_the_kernel) == (1, 3, "", "")
    assert (got.read, sum(got.written.values()), got.moved) == ({"x": 600, "y": 600}, 600, 1_800)


@EACH
def test_a_tensor_that_is_not_there_has_offsets_past_2_31(form):
    got = watch(add, form, x=far([2**32 + 1]), y=far([2**32 + 1]))
    assert got.far(lambda x, y: x + y) == "" and got.out.device.type == "meta"
    assert "wanted" in got.far(lambda x, y: x - y)


@needs_triton
def test_an_offset_that_wraps_is_told_and_touches_nothing():
    @jit
    def narrow(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))

    got = watch(add, (narrow, no_cpp), x=far([2**31 + 640]), y=far([2**31 + 640]))
    assert "reads place -2,147,4" in got.outside and "stored by none" in got.far(lambda x, y: x + y)
    assert "program 2 reads place 150 of x and 41 more" in seen(form=(narrow, no_cpp)).outside


@needs_compiler
def test_cpp_is_kept_inside_and_told():
    source = (
        "void program(int64_t pid, Tensor x, Tensor y, Tensor out, int64_t n, int64_t BLOCK) { out.store(n + 7, x.load(-5)); }"
    )
    got = seen(form=(unwritten, lambda: source), n=10)
    assert got.outside == "program 0 reads place -5 of x, where no element of it is"
    assert got.by_the_kernel == "10 of 10 elements of the result were stored by no kernel"


@needs_compiler
@pytest.mark.parametrize("before", ["", 'extern "C" '])
def test_cpp_may_have_functions_of_its_own(before):
    source = f"static float twice(float v) {{ return v + v; }}\n{before}" + add_cpp().strip().replace(
        "x.load(i) +", "twice(x.load(i)) +"
    )
    got = seen(form=(unwritten, lambda: source))
    assert differs(got.out, 2 * numbers_like(1, 150).double() + numbers_like(2, 150).double()) == ""


@needs_compiler
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("void program(int64_t pid, Tensor x) { }", "program takes .pid, x.; pid comes by itself, you gave: argument 1"),
        ("void other(int64_t pid) { }", "no `void program"),
        ("void program(int64_t pid, float* x) { }", "each parameter is"),
        ("void program(int64_t pid, Tensor x, Tensor y, int64_t out, int64_t n, int64_t BLOCK) { }", "wants a int64_t for out"),
        (
            "void program(int64_t pid, Tensor x, Tensor y, Tensor out, int64_t n, int64_t BLOCK) { nonsense; }",
            "does not compile.*nonsense",
        ),
        ("", "returns its source as a text"),
    ],
)
def test_cpp_that_cannot_run_says_why(source, said):
    with pytest.raises(KernelFailed, match=said):
        seen(form=(unwritten, lambda: source))


def test_gaps_between_rows_are_no_elements():
    memory = Memory()
    view = memory.region(torch.randn(6, 10)[1:4, 2:7:2], "x")
    places = np.arange(-5, 70)
    wanted = {10 * row + col for row in (1, 2, 3) for col in (2, 4, 6)}
    assert set(places[view.belongs(places)]) == wanted
    assert set(places[memory.region(torch.randn(4, 5).t(), "t").belongs(places)]) == set(range(20))
    assert set(places[memory.region(torch.randn(1, 5).expand(3, 5), "e").belongs(places)]) == set(range(5))
    assert not memory.region(torch.randn(0, 4), "none").belongs(places).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_bits_round_as_torch_does(dtype):
    x = torch.cat([torch.randn(500), torch.tensor([float("nan"), float("inf"), -0.0, 1e-40, 3.3e38])])
    there = fuse_memory.numbers(bits(x.numpy(), dtype), dtype)
    assert np.array_equal(there, x.to(dtype).float().numpy(), equal_nan=True)


def test_tensors_that_the_lab_cannot_take_are_refused_in_words(monkeypatch):
    with pytest.raises(NoSuchMemory, match="int64"):
        Memory().region(torch.ones(3, dtype=torch.int64), "x")
    monkeypatch.setattr(fuse_memory, "MOST_BYTES", 100)
    with pytest.raises(NoSuchMemory, match="made on x's device"):
        Memory().region(torch.randn(100), "out")


@pytest.mark.parametrize("make", [torch.empty, torch.zeros, torch.ones])
def test_a_result_on_the_wrong_device_is_said_before_it_fills_the_memory(make):
    with pytest.raises(KernelFailed, match="device=x.device"):
        watch(lambda kernel, x, y: make(x.shape, dtype=x.dtype), TRITON, x=far([2**34]), y=far([2**34]))


# ------------------------------------------------------------------------------------------------ evidence


def by_torch(kernel, x, y):
    add(kernel, x, y)
    return x + y


def behind_the_kernel(kernel, x, y):
    out = add(kernel, x, y)
    out.numpy()[3] = 7.0  # no op of torch, and still seen
    return out


def by_numpy(kernel, x, y):
    add(kernel, x, y)
    return torch.from_numpy(x.numpy() + y.numpy())


def copied_first(kernel, x, y):
    return add(kernel, x.clone(), y)


def over_the_input(kernel, x, y):
    kernel[(3,)](x, y, x, x.numel(), BLOCK=64)
    return x


def half(kernel, x, y):
    out = torch.empty_like(x)
    kernel[(1,)](x, y, out, x.numel(), BLOCK=64)
    return out


CHEATS = {
    by_torch: "no kernel has seen",
    behind_the_kernel: "written to after the last kernel",
    by_numpy: "no kernel has seen",
    copied_first: "torch ran clone as well",
    over_the_input: "the input x is not what it was",
    half: "86 of 150 elements",
}


@needs_triton
@pytest.mark.parametrize(("host", "said"), CHEATS.items(), ids=lambda v: getattr(v, "__name__", ""))
def test_work_that_is_not_the_kernels_is_seen(host, said):
    assert said in seen(host).by_the_kernel


def test_what_is_no_tensor_or_never_launched_is_said():
    assert seen(lambda kernel, x, y: x + y).by_the_kernel == "no kernel was launched"
    assert differs([1.0], torch.randn(1)) == "a list came back, not a tensor"
    assert "shape (2,)" in differs(torch.randn(2), torch.randn(3)) and "bfloat16" in differs(
        torch.randn(2), torch.randn(2), torch.bfloat16
    )


@needs_triton
@pytest.mark.parametrize(
    ("launch", "said"),
    [
        (lambda k, x, y: k[3](x, y, x, 1, BLOCK=64), "a grid is a tuple"),
        (lambda k, x, y: k[(1.5,)](x, y, x, 1, BLOCK=64), "a grid is a tuple"),
        (lambda k, x, y: k(x, y), "launched with a grid"),
        (lambda k, x, y: k[(50_000,)](x, y, x, 1, BLOCK=64), "50,000 programs"),
        (lambda k, x, y: k[(1,)](x, y, x, 1.5, BLOCK=64), "n is a float"),
        (lambda k, x, y: k[(1,)](x, y, x, 1, BLOCK=48), "power of 2"),
    ],
)
def test_a_launch_that_cannot_be_says_why(launch, said):
    with pytest.raises(KernelFailed, match=said):
        seen(launch)


def test_differs_allows_one_rounding_and_no_second():
    exact = torch.randn(4_000, dtype=torch.float64) + torch.randn(4_000, dtype=torch.float64)
    assert differs(exact.bfloat16(), exact, torch.bfloat16) == "" == differs(exact.float(), exact)
    assert differs(exact.bfloat16() * torch.tensor(1.0078125, dtype=torch.bfloat16), exact, torch.bfloat16)
    special = torch.tensor([float("nan"), float("inf"), 0.0], dtype=torch.float64)
    assert differs(special.float(), special) == "" and "wanted: nan" in differs(torch.zeros(3), special)


# ------------------------------------------------------------------------------------------------ Triton's interpreter, borrowed


@needs_triton
def test_triton_is_left_as_it_was_found():
    from triton.runtime import interpreter
    from triton.runtime import jit as triton_jit

    def state():
        builtins = {name: getattr(tl, name) for name in ("load", "store", "arange", "reduce")}
        return builtins, tl.core.load, triton_jit.JITFunction.__call__, dict(vars(interpreter.interpreter_builder))

    @jit
    def fails(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, BLOCK), tl.sigmoid(tl.load(x_ptr + tl.arange(0, BLOCK))))
        raise ValueError("on purpose")

    seen()  # the builder has what any launch leaves there
    before = state()
    fuse_replay._kept.clear()
    seen()
    with pytest.raises(KernelFailed, match="ValueError: on purpose"):
        seen(form=(fails, no_cpp))
    after = state()
    assert after[:3] == before[:3] and after[3].keys() == before[3].keys()


@needs_triton
def test_kernels_may_call_jit_functions_and_see_the_hardwares_maximum():
    @jit
    def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + i, mask=i < n)
        tl.store(out_ptr + i, twice(tl.sigmoid(v)) + tl.maximum(tl.load(y_ptr + i, mask=i < n), 0.0) + tl.cdiv(n, n), mask=i < n)

    x, y = numbers_like(3, 70), numbers_like(4, 70)
    y[5] = float("nan")
    got = watch(add, (kernel, no_cpp), x=x, y=y)
    wanted = 2 * torch.sigmoid(x.double()) + torch.relu(torch.nan_to_num(y.double(), nan=-1.0)) + 1
    assert differs(got.out, wanted) == "", "a NaN is dropped, as a GPU's maximum does"


@needs_triton
def test_a_missing_name_is_missing_though_the_interpreter_has_it():
    @jit
    def uses_np(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, BLOCK), _mangled)  # noqa: F821

    with pytest.raises(KernelFailed, match="NameError"):
        seen(form=(uses_np, no_cpp))
    assert "interpreter_semantic" not in globals() and "GridExecutor" not in globals()


@needs_triton
def test_atomics_are_refused():
    @jit
    def atomic(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        tl.atomic_add(out_ptr + tl.arange(0, BLOCK), 1.0)

    with pytest.raises(KernelFailed, match="an atomic operation"):
        seen(form=(atomic, no_cpp))


@needs_triton
def test_it_makes_no_difference_that_triton_was_imported_to_interpret(monkeypatch):
    """With TRITON_INTERPRET=1 before the import, Triton's own jit functions are interpreted ones."""
    from triton.runtime import interpreter

    for name in ("sigmoid", "cdiv"):
        monkeypatch.setattr(tl, name, interpreter.InterpretedFunction(getattr(tl, name).fn))
    fuse_replay._kept.clear()
    load = tl.core.load
    test_kernels_may_call_jit_functions_and_see_the_hardwares_maximum()
    assert tl.core.load is load, "and it is left as it was found"


def test_a_triton_that_lost_a_name_is_said_to(monkeypatch):
    pytest.importorskip("triton")
    from triton.runtime import interpreter

    monkeypatch.delattr(interpreter, "_patch_lang")
    assert "no _patch_lang in its interpreter any more" in fuse_triton.missing()


def test_kernels_can_be_defined_where_triton_is_missing(monkeypatch):
    for name in ("triton", "triton.language", "triton.runtime"):
        monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.spec_from_file_location("fuse_without_triton", fuse.__file__)
    there = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, there)
    spec.loader.exec_module(there)

    @there.jit
    def kernel(x_ptr, BLOCK: there.tl.constexpr):
        there.tl.load(x_ptr)

    assert there.forms().startswith("Triton cannot be imported here (ModuleNotFoundError")
    with pytest.raises(fuse_cpp.NotBuilt, match="Write the C\\+\\+ form"):
        kernel.function(0, 1)


# ------------------------------------------------------------------------------------------------ replay


SCALE = 2.0


@needs_triton
def test_a_run_is_replayed_only_when_nothing_is_new(monkeypatch):
    runs = []
    interpreted = fuse_triton.run
    monkeypatch.setattr(fuse_triton, "run", lambda *args: (runs.append(1), interpreted(*args))[1])
    fuse_replay._kept.clear()

    @jit
    def scaled(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, SCALE * tl.load(x_ptr + i, mask=i < n), mask=i < n)

    def right(got, x):
        return differs(got.out, SCALE * x.double()) == "" and got.by_the_kernel == "" and got.read == {"x": 4 * x.numel()}

    x, y = numbers_like(5, 100), numbers_like(6, 100)
    first, again = (watch(add, (scaled, no_cpp), x=x, y=y) for _ in range(2))
    assert right(first, x) and right(again, x) and again.written == first.written and len(runs) == 1
    x[7] += 1.0
    assert right(watch(add, (scaled, no_cpp), x=x, y=y), x) and len(runs) == 2, "other numbers"
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert right(watch(add, (scaled, no_cpp), x=x, y=y), x) and len(runs) == 3, "another constant"
    monkeypatch.setitem(globals(), "SCALE", [3.0])
    assert fuse_replay.key_of(scaled.function, (1, 1, 1), [], [], {}, {"function": fuse._plain, "modules": (tl,)}) is None


@needs_triton
def test_a_kernel_that_reads_what_it_stores_is_never_replayed():
    fuse_replay._kept.clear()

    @jit
    def through_memory(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
        tl.store(out_ptr + i, tl.load(out_ptr + i, mask=i < n) + tl.load(y_ptr + i, mask=i < n), mask=i < n)

    got = seen(form=(through_memory, no_cpp))
    assert differs(got.out, numbers_like(1, 150).double() + numbers_like(2, 150).double()) == ""
    assert sum(got.written.values()) == 1_200 and got.read["out_ptr"] == 600 and not fuse_replay._kept


# ------------------------------------------------------------------------------------------------ the referee


@pytest.mark.parametrize("what", fuse_referee.cheats())
def test_the_referee_catches_each_cheat_and_lets_work_pass(what):
    candidate, source = fuse_referee.cheats()[what], fuse_referee._adds(1 << 10, "cpu")
    if what == "does the work":
        assert len(fuse_referee.referee(candidate, fuse_referee._sums, source, fuse_referee.HostTimer(), repeats=5)) == 5
        return
    says = "inputs are not what they were" if what == "writes over its input" else "not the sum of its inputs"
    with pytest.raises(fuse_referee.Caught, match=f"repeat .*{says}"):
        fuse_referee.referee(candidate, fuse_referee._sums, source, fuse_referee.HostTimer(), repeats=9)


class OtherStream:
    """A timer of a pretended device: `later` is work on another stream, done when the whole device is waited for."""

    def __init__(self):
        self.later, self.us = [], 100.0

    def time(self, call):
        out = call()
        return out, fuse_referee._copy(out), self.us

    def leftover_us(self) -> float:
        for work in self.later:
            work()
        late, self.later = 500.0 * len(self.later), []
        return late


@pytest.mark.parametrize("early", [False, True])
def test_the_referee_sees_work_on_another_stream(early):
    """Its numbers are not there yet when the timed stream is done; and if they happen to be, the device is still at work."""
    timer = OtherStream()

    def elsewhere(x, y):
        out = x + y if early else torch.full_like(x, 9.0)
        timer.later.append(lambda: torch.add(x, y, out=out))
        return out

    with pytest.raises(fuse_referee.Caught, match="in 17 of 17 repeats the device went on for 500" if early else "not the sum"):
        fuse_referee.referee(elsewhere, fuse_referee._sums, fuse_referee._adds(64, "cpu"), timer)


@pytest.mark.parametrize("hiccups, passes", [(4, True), (5, False)])
def test_a_late_wait_now_and_then_is_the_hosts(hiccups, passes):
    timer, asked = OtherStream(), iter(range(99))
    timer.leftover_us = lambda: 76.0 if next(asked) < hiccups else 5.0
    given = (lambda x, y: x + y, fuse_referee._sums, fuse_referee._adds(64, "cpu"), timer)
    if passes:
        assert len(fuse_referee.referee(*given)) == fuse_referee.REPEATS
        return
    with pytest.raises(fuse_referee.StillBusy, match="in 5 of 17 repeats the device went on for 76 µs"):
        fuse_referee.referee(*given)


def test_the_referee_judges_what_was_there_when_the_clock_stopped():
    """A comparison takes longer than the work that it would judge: by then another stream is done."""

    class Slow(OtherStream):
        def time(self, call):
            found = super().time(call)
            self.leftover_us()  # the other stream is done before anyone looks
            return found

    timer = Slow()

    def elsewhere(x, y):
        out = torch.full_like(x, 9.0)
        timer.later.append(lambda: torch.add(x, y, out=out))
        return out

    with pytest.raises(fuse_referee.Caught, match="not the sum"):
        fuse_referee.referee(elsewhere, fuse_referee._sums, fuse_referee._adds(64, "cpu"), timer)


@pytest.mark.parametrize("us, passes", [(79.0, False), (81.0, True)])
def test_a_time_in_which_the_bytes_cannot_be_moved_is_not_believed(us, passes):
    timer = OtherStream()
    timer.us = us
    given = (lambda x, y: x + y, fuse_referee._sums, fuse_referee._adds(64, "cpu"), timer)
    if passes:
        assert fuse_referee.referee(*given, least_us=80.0) == [us] * fuse_referee.REPEATS
        return
    with pytest.raises(fuse_referee.Caught, match="took 79.0 µs by their stream, and the bytes need at least 80.0"):
        fuse_referee.referee(*given, least_us=80.0)


def test_the_referee_looks_again_after_the_device_is_idle():
    timer = OtherStream()
    timer.leftover_us = lambda: [work() for work in timer.later] and 0.0 or 0.0

    def spoils(x, y):
        out = x + y
        timer.later.append(lambda: out.zero_())
        return out

    with pytest.raises(fuse_referee.Caught, match="looked at again"):
        fuse_referee.referee(spoils, fuse_referee._sums, fuse_referee._adds(64, "cpu"), timer)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def _on_a_gpu() -> tuple:
    """What the referee takes besides the candidate and the clock, and an honest add's least time."""
    source, timer = fuse_referee._adds(1 << 26, "cuda"), fuse_referee.CudaTimer()
    honest = fuse_referee.referee(lambda x, y: x + y, fuse_referee._sums, source, timer)
    return (fuse_referee._sums, source, timer), fuse_referee.FASTEST * sorted(honest)[len(honest) // 2]


@needs_gpu
@pytest.mark.parametrize("what", fuse_referee.cheats())
def test_on_a_gpu_each_cheat_is_caught_and_work_passes(what):
    given, least = _on_a_gpu()
    if what == "does the work":
        assert len(fuse_referee.referee(fuse_referee.cheats()[what], *given, least_us=least)) == fuse_referee.REPEATS
        return
    with pytest.raises(fuse_referee.Caught, match="repeat"):
        fuse_referee.referee(fuse_referee.cheats()[what], *given, least_us=least)


@needs_gpu
def test_on_a_gpu_work_on_another_stream_is_caught():
    given, least = _on_a_gpu()
    behind, ahead = fuse_referee.side_streams().values()
    for _ in range(5):
        with pytest.raises(fuse_referee.Caught, match="not the sum"):
            fuse_referee.referee(behind, *given, least_us=least)
    with pytest.raises(fuse_referee.Caught, match="moved elsewhere"):
        fuse_referee.referee(ahead, *given, least_us=least)
    assert len(fuse_referee.referee(ahead, *given)) == fuse_referee.REPEATS, "which only its impossible time gives away"


def test_there_is_no_badge_without_a_gpu_and_that_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert fuse_referee.badge(add, add_kernel) == "No badge here, and no points lost: there is no CUDA GPU here."
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert "8.0 and later" in fuse_referee.badge(add, add_kernel)


@pytest.mark.parametrize("busy", [True, False])
def test_a_gpu_that_others_use_gives_no_badge_and_blames_nobody(monkeypatch, busy):
    """Seen on an H200 with six notebooks at once: the device goes on after an honest add, too."""

    class Timer(fuse_referee.HostTimer):
        def leftover_us(self) -> float:
            return 1e9 if busy else 0.0

    class Written:
        written, compiled = (lambda self: True), (lambda self: self)

    monkeypatch.setattr(fuse_referee, "no_badge", lambda: "")
    monkeypatch.setattr(fuse_referee, "CudaTimer", Timer)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 2**30))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "made up")
    sets = [tuple(torch.empty(n, 64, dtype=torch.bfloat16) for n in (4, 1, 4)) for _ in range(2)]
    monkeypatch.setattr(fuse_referee, "_rows", lambda rows, cols: fuse_referee.Source(sets, fuse_referee._filled))
    chain = lambda kernel, x, bias, residual: (torch.relu(x.float() + bias.float()) + residual.float()).bfloat16()  # noqa: E731
    said = str(fuse_referee.badge(chain, Written(), mib=1))
    assert ("No badge now, and no points lost: something else uses this GPU." in said) == busy
    assert busy or "of the add's bandwidth" in said


@needs_triton
def test_what_a_gpu_compiles_is_the_same_source():
    compiled = add_kernel.compiled()
    assert (
        compiled.arg_names == ["x_ptr", "y_ptr", "out_ptr", "n", "BLOCK"] and compiled.fn.__code__ is add_kernel.function.__code__
    )


def test_the_table_of_cheats_has_one_honest_function():
    table = fuse_referee.caught()
    said = [row["the referee"] for row in table.rows]
    assert said.count("nothing to object to") == 1 and len(said) == (8 if torch.cuda.is_available() else 6)
    assert torch.cuda.is_available() or "needs a GPU" in table.notes[0]
