"""The fused chains in every form that runs here, against float64 and the recomputed mask; what they move; what is missing."""

from __future__ import annotations

import ast
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.conftest import require
from utils.kernels import cpu_door, cuda_door, cuda_text, data, forms, interpreted, ladder, on_gpu, peer, sass, triton_door
from utils.kernels.forms import ABLATIONS, BLOCK_TAIL, FIRST_TRY, LADDER, STEPS, Form
from utils.measure.device_clock import MeasurementError

GELU = STEPS["with gelu"]
ON_CPU = {**STEPS, "tail": BLOCK_TAIL, "draw alone": Form(draw="eight"), "gelu alone": Form(gelu="cheap")}
IN_TRITON_3_6 = set(  # tried in 3.6.0
    "PropagateNan abs add arange constexpr erf exp2 float32 full int64 load maximum minimum program_id rand static_range store "
    "uint16 uint32 uint64 where".split()
)
needs_triton = pytest.mark.skipif(not triton_door.installed(), reason=triton_door.MISSING)


# ------------------------------------------------------------------------------------------------ forms


def test_bytes_are_counted_from_shapes():
    rows, cols, n = 8, 16, 128
    assert forms.ADD.nbytes(rows, cols, "fp32") == forms.ADD.eager_nbytes(rows, cols, "fp32") == 12 * n
    tail = BLOCK_TAIL
    assert tail.ops == 4 and tail.nbytes(rows, cols, "bf16") == 6 * n + 2 * cols
    # bias, gelu and dropout each read and write, the residual add reads two and writes one; the bias and the mask come on top
    assert tail.eager_nbytes(rows, cols, "bf16") == 2 * (2 + 2 + 2 + 3) * n + 2 * cols + n
    many = STEPS["eight ops"]
    assert (
        many.ops == 8 and many.nbytes(rows, cols, "fp32") == 12 * n and many.eager_nbytes(rows, cols, "fp32") == 4 * (14 + 3) * n
    )


def test_the_ladder_changes_one_thing_a_rung_and_ends_where_it_should():
    rungs = ladder.rungs()
    assert rungs[0].form == FIRST_TRY and rungs[-1].form == BLOCK_TAIL and rungs[-1].triton is None
    below, above = rungs[1:-1], rungs[2:]
    for low, high in zip(below, above, strict=True):
        parts = [(low.form.gelu, high.form.gelu), (low.form.draw, high.form.draw), (low.triton, high.triton)]
        assert sum(a != b for a, b in parts) == 1


@pytest.mark.parametrize("wrong", [{"bias": "div"}, {"gelu": "tanh"}, {"draw": "two"}, {"adds": -1}])
def test_there_is_no_other_form(wrong):
    with pytest.raises(ValueError):
        Form(**wrong)


# ------------------------------------------------------------------------------------------------ C++ on a CPU


@pytest.mark.parametrize("shape", [(16, 128), (141, 100), (5, 3), (9, 33), (1, 1), (8, 4096)], ids=str)
@pytest.mark.parametrize("streaming", [True, False])
def test_the_cpp_chain_is_right(shape, streaming):
    require("compiler")
    buffers = data.random(*shape, "fp32")
    for name, form in ON_CPU.items():
        for threads in (1, 3):
            data.poison(buffers)
            assert cpu_door.launch(form, buffers, streaming=streaming, threads=threads)() > 0
            assert data.wrong(form, buffers) == "", name


def test_the_cpp_chain_writes_nothing_else_and_takes_an_empty_one():
    require("compiler")
    wide = data.random(24, 96, "fp32")
    part = data.Data(wide.x[8:16], wide.bias, wide.residual[8:16], wide.out[8:16])
    data.poison(wide)
    cpu_door.launch(BLOCK_TAIL, part)()
    assert wide.out[:8].isnan().all() and wide.out[16:].isnan().all() and data.wrong(BLOCK_TAIL, part) == ""
    empty = data.Data(wide.x[:0], wide.bias, wide.residual[:0], wide.out[:0])
    assert cpu_door.launch(BLOCK_TAIL, empty)() >= 0
    assert wide.out[:8].isnan().all()


def test_the_cpp_chain_refuses_in_words_what_it_cannot_take():
    require("compiler")
    buffers = data.random(8, 32, "fp32")
    with pytest.raises(MeasurementError, match="contiguous fp32"):
        cpu_door.launch(GELU, data.random(8, 32, "bf16"))
    with pytest.raises(MeasurementError, match="contiguous fp32"):
        cpu_door.launch(GELU, data.Data(buffers.x.t(), buffers.bias[:8], buffers.residual.t(), buffers.out.t()))


def test_without_a_compiler_the_cpp_chain_says_so(monkeypatch):
    cpu_door._run.cache_clear()
    monkeypatch.setattr("utils.measure.probe._no_compiler", lambda: "no C++ compiler here")
    assert "no C++ compiler here" in cpu_door.why_not()
    cpu_door._run.cache_clear()


# ------------------------------------------------------------------------------------------------ the check itself


@pytest.mark.parametrize("fault", ["one element", "another seed", "unwritten", "no residual", "p for the scale"])
def test_a_wrong_result_is_seen(fault):
    require("compiler")
    buffers = data.random(64, 96, "fp32")
    cpu_door.launch(BLOCK_TAIL, buffers)()
    assert data.wrong(BLOCK_TAIL, buffers) == ""
    if fault == "one element":
        buffers.out[63, 95] += 1e-4
    if fault == "another seed":
        cpu_door.launch(BLOCK_TAIL, data.Data(buffers.x, buffers.bias, buffers.residual, buffers.out, buffers.seed + 1))()
    if fault == "unwritten":
        buffers.out[0, 0] = float("nan")
    if fault == "no residual":
        cpu_door.launch(BLOCK_TAIL.with_(residual=False), buffers)()
    if fault == "p for the scale":
        y = (buffers.out - buffers.residual) * (1 / 0.9 / forms.scale("eight"))
        buffers.out.copy_(buffers.residual + y)
    assert data.wrong(BLOCK_TAIL, buffers) != ""


def test_eager_is_judged_by_what_it_keeps():
    buffers = data.random(64, 256, "fp32")
    out = forms.eager(BLOCK_TAIL, *buffers.parts(BLOCK_TAIL))
    assert data.wrong_eager(BLOCK_TAIL, buffers, out) == ""
    assert data.wrong_eager(BLOCK_TAIL, buffers, out + 0.01) != ""
    assert "dropped" in data.wrong_eager(BLOCK_TAIL, buffers, forms.eager(BLOCK_TAIL, *buffers.parts(BLOCK_TAIL), p=0.3) * 1)


# ------------------------------------------------------------------------------------------------ Triton, CUDA


IN_THE_INTERPRETER = {**LADDER, **{name: STEPS[name] for name in ("a + b", "with bias")}, "mask": ABLATIONS["bias by mask"]}


@needs_triton
def test_the_triton_kernels_are_right_in_the_interpreter():
    requests = [
        interpreted.request(IN_THE_INTERPRETER, ((8, 128), (13, 100))),
        interpreted.request({"gelu": GELU, "tail": BLOCK_TAIL}, ((24, 96),), "bf16", seed=1),
        {"everywhere": True},
    ]
    four_bytes, two_bytes, everywhere = interpreted.ask(requests)
    assert {name: row["wrong"] for name, row in {**four_bytes, **two_bytes}.items() if row["wrong"]} == {}
    assert all(0.8 < row["kept"] < 0.95 for row in four_bytes.values() if row["kept"] is not None)
    # every finite bf16 number through the two-byte kernel's GELU
    assert everywhere["ulp"] <= 1 and everywhere["absolute"] <= 1e-7


@needs_triton
def test_instructions_are_counted_without_a_gpu():
    first, tail = sass.counted(FIRST_TRY), sass.counted(BLOCK_TAIL)
    assert first["bytes"] == tail["bytes"] == 6 and first["total"] == pytest.approx(sum(first["opcodes"].values()))
    assert sum(first["kinds"].values()) == pytest.approx(first["total"])
    # the draw is integer work: without it a first try loses dozens of instructions; eight halves a call cost a fraction of it
    assert first["total"] - sass.counted(FIRST_TRY.with_(draw=""))["total"] > 30
    assert tail["per_byte"] < 0.4 * first["per_byte"]
    assert tail["shared"] == 0  # no mask is carried from lane to lane
    assert "MUFU.EX2" in sass.sass(BLOCK_TAIL)


def test_the_kernels_use_only_what_the_oldest_triton_has():
    """torch 2.11 brings Triton 3.6. What 3.7 added (`tl.to_tensor`, say) compiles here and fails there."""
    text = Path(triton_door.__file__).with_name("triton_kernels.py").read_text(encoding="utf-8")
    names = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute))
    used = {node.attr for node in names if getattr(node.value, "id", "") == "tl"}
    assert used <= IN_TRITON_3_6, f"look whether Triton 3.6 has {sorted(used - IN_TRITON_3_6)}"


@needs_triton
def test_a_long_kernel_is_counted_to_its_end():
    long = sass.counted(LADDER["cheap gelu"], tuning=replace(ladder.WIDE_TRITON, block=2048))
    assert long["total"] * long["elements"] > 4096 and long["opcodes"]["MUFU.EX2"] == pytest.approx(1.0)


def test_without_triton_the_reason_is_in_words(monkeypatch):
    monkeypatch.setattr(triton_door, "kernels", lambda: (_ for _ in ()).throw(MeasurementError(triton_door.MISSING)))
    monkeypatch.setattr(triton_door, "installed", lambda: False)
    with pytest.raises(MeasurementError, match="not installed"):
        sass.counted(Form(adds=3))
    with pytest.raises(MeasurementError, match="not installed"):
        interpreted.check(STEPS)


def test_without_a_gpu_the_reason_is_in_words():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    buffers = data.random(8, 32, "fp32")
    for by in ("", "Triton", "CUDA C++"):
        with pytest.raises(MeasurementError, match="no CUDA device here"):
            on_gpu.fused(GELU, buffers, by=by)
    with pytest.raises(MeasurementError, match="no CUDA device here"):
        cuda_door.launch(GELU, buffers)


def test_when_triton_fails_the_other_form_is_tried_and_both_reasons_are_told(monkeypatch):
    monkeypatch.setattr(on_gpu, "_failed", {"triton": "Triton does not work here (capability 7.5)"})
    monkeypatch.setattr(cuda_door, "launch", lambda *_: lambda: None)
    kernel = on_gpu.fused(GELU, data.random(8, 32, "fp32"))
    assert kernel.by == "CUDA C++" and "7.5" in kernel.why
    monkeypatch.setattr(cuda_door, "launch", lambda *_: (_ for _ in ()).throw(MeasurementError("no NVRTC")))
    with pytest.raises(MeasurementError, match="7.5.*no NVRTC"):
        on_gpu.fused(GELU, data.random(8, 32, "fp32"))


@pytest.mark.parametrize("dtype", cuda_text.TYPES)
def test_the_cuda_text_says_what_the_form_is(dtype):
    text, name = cuda_text.source(BLOCK_TAIL, dtype, vector=4)
    assert name == "rows_of" and "#define DRAW 4" in text and "#define ROWS 8" in text and "#define V 4" in text
    assert cuda_text.source(FIRST_TRY, dtype)[1] == "flat"


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no CUDA compiler here: the text is compiled on a GPU machine only")
@pytest.mark.parametrize("dtype, arch, vector", [("bf16", "sm_90", 4), ("fp16", "sm_75", 8)])
def test_the_cuda_text_compiles_for_an_old_and_a_new_gpu(dtype, arch, vector, tmp_path):
    file = tmp_path / "kernel.cu"
    file.write_text(cuda_text.source(BLOCK_TAIL, dtype, vector=vector)[0])
    done = subprocess.run(
        ["nvcc", "-cubin", f"-arch={arch}", "-o", str(tmp_path / "k"), str(file)], capture_output=True, text=True
    )
    assert done.returncode == 0 or "Unsupported gpu" in done.stderr, done.stderr


# ------------------------------------------------------------------------------------------------ peers


def test_the_compiled_peer_shows_one_kernel_and_is_right():
    require("compiler")
    buffers = data.random(16, 64, "fp32")
    data.poison(buffers)
    found = peer.source(GELU, buffers)
    assert found["language"] == "C++" and found["kernels"] == 1 and "erf" in found["kernel"]
    assert len(found["kernel"]) < len(found["whole"])
    assert data.wrong_eager(GELU, buffers, buffers.out) == ""


def test_the_eager_peer_writes_the_output_that_it_was_given():
    buffers = data.random(16, 64, "fp32")
    for form in (GELU, BLOCK_TAIL, Form(gelu="cheap")):
        data.poison(buffers)
        peer.eager(form, buffers)()
        assert data.wrong_eager(form, buffers, buffers.out) == ""
