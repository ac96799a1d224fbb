"""Backtraces: gdb's text read without addresses or folders, words where gdb cannot trace, the committed frames shown then."""

from __future__ import annotations

import pytest

from utils.measure import backtrace, tools, trace
from utils.measure.backtrace import BacktraceError, parse

SAID = """
Breakpoint 1, 0x00007fb1a2b3c4d5 in at::native::impl(at::Tensor const&)@plt () from /some/where/lib/libtorch_cpu.so
#0  0x00007fb1a2b3c4d5 in at::native::impl(at::Tensor const&)@plt () from /some/where/lib/libtorch_cpu.so
#1  0x00007fb1a2b3c4d6 in at::(anonymous namespace)::wrapper_CPU_add(at::Tensor const&) () from /some/where/lib/libtorch_cpu.so
#12 slot_nb_add (self=..., other=...) at Objects/typeobject.c:8261
#13 0x000055d0 in _start ()
[Inferior 1 (process 4711) killed]
"""


def test_frames_are_read_without_addresses_arguments_and_folders():
    frames = parse(SAID)
    assert [(f.index, f.function, f.library) for f in frames] == [
        (0, "at::native::impl(at::Tensor const&)", "libtorch_cpu.so"),
        (1, "at::(anonymous namespace)::wrapper_CPU_add(at::Tensor const&)", "libtorch_cpu.so"),
        (12, "slot_nb_add", "typeobject.c"),
        (13, "_start", ""),
    ]
    assert parse("No stack.") == ()


@pytest.mark.parametrize("expression", ["a + b", "x @ w"])
def test_the_committed_frames_go_from_the_kernel_to_the_interpreter(expression):
    found = trace.backtrace(expression, live=False)
    names = [frame.function for frame in found.frames]
    assert found.source == "recorded" and "torch 2.13" in found.label() and found.why
    assert "::impl(" in names[0]
    order = [
        "::redispatch(",
        "VariableType::",
        "at::_ops::",
        "torch::autograd::THPVariable_",
        "slot_nb_",
        "_PyEval_EvalFrameDefault",
    ]
    places = [next(i for i, name in enumerate(names) if part in name and i > 0) for part in order if part != "at::_ops::"]
    assert places == sorted(places)
    assert not any("/" in frame.library or "=..." in frame.function for frame in found.frames)


def test_without_gdb_the_committed_frames_say_why(monkeypatch):
    monkeypatch.setattr(tools, "gdb", lambda: tools.Tool("gdb", False, "13.1", "it may not trace a process here"))
    found = trace.backtrace("a + b")
    assert found.source == "recorded" and "may not trace" in found.why
    assert trace.backtrace("x3 @ w") is None  # known to gdb's list as mm, but nothing of it is recorded


@pytest.mark.parametrize(
    ("answer", "said"), [((True, "Make breakpoint pending"), "reached no"), ((False, "killed\nno answer"), "no answer")]
)
def test_a_gdb_that_stops_nowhere_is_words(answer, said, monkeypatch):
    monkeypatch.setattr(tools, "gdb", lambda: tools.Tool("gdb", True, "13.1"))
    monkeypatch.setattr(tools, "run", lambda *a, **k: answer)
    with pytest.raises(BacktraceError, match=said):
        backtrace.frames_of("a + b", "at::native::nowhere")


def test_gdb_starts_a_child_and_never_attaches(monkeypatch):
    seen = {}

    def run(command, **options):
        seen["command"] = command
        return True, SAID

    monkeypatch.setattr(tools, "gdb", lambda: tools.Tool("gdb", True, "13.1"))
    monkeypatch.setattr(tools, "run", run)
    assert backtrace.frames_of("a + b", "at::native::impl")[0].index == 0
    words = " ".join(seen["command"])
    assert "--args" in words and "break at::native::impl" in words
    assert not any(word in words for word in ("attach", "-p ", "--pid"))
