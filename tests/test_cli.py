"""The terminal entry: help without torch, one line per refusal, exit codes, pure JSON, pipes that close early."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.factories import make_receipt
from utils import commands, paths
from utils.__main__ import main
from utils.commands import preflight as preflight_command
from utils.commands import price
from utils.measure import fingerprints, machine, record
from utils.model import recordings
from utils.model.readings import Receipt


def run(*words: str, env: dict | None = None, **options) -> subprocess.CompletedProcess:
    """`python -m utils WORDS…` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "utils", *words],
        cwd=paths.REPO,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **(env or {})},
        check=False,
        **options,
    )


# ---- help


@pytest.mark.parametrize("words", [[], *[[name] for name in commands.COMMANDS], ["results", "export"]], ids=" ".join)
def test_help_everywhere(words):
    done = run(*words, "--help")
    assert done.returncode == 0 and "usage: python -m utils" in done.stdout and done.stderr == ""


def test_help_imports_neither_torch_nor_matplotlib_nor_numpy():
    code = (
        "import sys\nfrom utils.__main__ import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'matplotlib', 'numpy', 'ipywidgets', 'IPython', 'yaml', 'jsonschema'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=paths.REPO, check=True, capture_output=True)


# ---- refusals: exit code and one line


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "COMMAND"),
        (["fly"], 2, "invalid choice: 'fly'"),
        (["price", "--device", "tpu"], 2, "invalid choice: 'tpu'"),
        (["price", "--colour"], 2, "unrecognized arguments: --colour"),
        (["record", "--device", "mps"], 2, "invalid choice: 'mps'"),
        (["verify", "--lesson", "zero"], 2, "there is no lesson"),
        (["verify", "there-is-no-such-file.json"], 2, "No such file"),
        (["results", "import", "there-is-no-such-file.json"], 1, "no file"),
        (["results", "steal"], 2, "invalid choice: 'steal'"),
        (["price", "--recorded", "atlantis"], 2, "no recording is called 'atlantis'"),
        (["trace", "q + 1"], 2, "q is not known here"),
        (["trace", "a +"], 2, "no Python expression"),
        (["trace", ""], 2, "there is no expression"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_costs_one_line(words, code, said, capsys):
    try:
        returned = main(words)
    except SystemExit as exit:  # argparse's own way out
        returned = exit.code
    out, err = capsys.readouterr()
    assert returned == code
    assert said in err and err.startswith("error: ") and len(err.splitlines()) == 1
    assert out == ""


def test_a_refusal_in_a_process_of_its_own():
    done = run("price", "--device", "tpu")
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["price", "record"])
def test_cuda_without_cuda_is_refused_in_one_line(command, monkeypatch, capsys):
    monkeypatch.setattr(fingerprints, "gpu", lambda: fingerprints.Gpu(problem="no GPU"))
    assert main([command, "--device", "cuda"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: no CUDA here (no GPU)") and len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("reason", "hint"), [("MeasurementError: the clock stood still", False), ("its process was killed by signal 11", True)]
)
def test_a_measurement_that_fails_is_told_in_one_line(monkeypatch, capsys, reason, hint):
    def fails(*args, **kwargs):
        raise RuntimeError(reason)

    monkeypatch.setattr(record, "in_child", fails)
    assert main(["price", "--recorded", "none"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: the receipt could not be measured: {reason}") and len(said.splitlines()) == 1
    assert ("ONE_ADD_NO_COMPILER=1" in said) == hint


@pytest.mark.parametrize("text", ["", "{", '{"format": "something else"}', "[1, 2]", "\x00\x01", '{"where": 3, "receipts": []}'])
def test_a_file_that_is_no_recording_is_refused_with_the_reason(tmp_path, text, capsys):
    file = tmp_path / "strange.json"
    file.write_text(text)
    assert main(["verify", str(file)]) == 1
    said = capsys.readouterr()
    assert "strange.json" in said.out + said.err
    assert "Traceback" not in said.err


def test_a_missing_package_is_named_not_thrown(monkeypatch, capsys):
    def needs(args):
        raise ModuleNotFoundError("No module named 'platformdirs'", name="platformdirs")

    monkeypatch.setattr(preflight_command, "run", needs)
    assert main(["preflight"]) == 1
    assert capsys.readouterr().err == "error: the package 'platformdirs' is missing; `make lab` installs what the course needs\n"


def test_an_interrupt_is_130(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(preflight_command, "run", interrupted)
    assert main(["preflight"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX pipe")
def test_a_reader_that_goes_away_is_no_error_message():
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        [sys.executable, "-m", "utils", "results"], cwd=paths.REPO, stdout=write, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(write)
        errors = process.communicate(timeout=60)[1]
    assert errors == "" and process.returncode == 1


# ---- preflight


def test_preflight_as_json_is_the_table():
    found = machine.preflight()
    again = json.loads(json.dumps(found.to_dict()))
    assert again["rows"] == found.rows() and again["where"] == machine.fingerprint()
    text = " ".join(preflight_command.text(found, 4000).split())
    for row in again["rows"]:
        for cell in row.values():
            assert " ".join(cell.split()) in text


@pytest.mark.parametrize(
    "why", ["it needs a GPU", "Triton does not support capability 7.5 (8.0 and later)", "triton is not installed"]
)
def test_preflight_does_not_deny_tritons_interpreter(why):
    """Lab 7 runs its kernels in it on the CPU: what is missing without a GPU are compiled ones."""
    from utils.measure import pieces

    said = pieces.triton_line(why).means
    assert why in said and ("run here in its interpreter, on the CPU" in said) == (why != "triton is not installed")
    found = machine.preflight()
    last = preflight_command.text(found, 200).splitlines()[-1]
    assert "triton on a GPU" in last and ", triton," not in last


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_table_keeps_to_the_terminal(columns):
    lines = preflight_command.text(machine.preflight(), columns).splitlines()
    assert max(map(len, lines[:-1])) <= columns + 4


def test_preflight_in_a_process_of_its_own_prints_only_json():
    done = run("preflight", "--json", env={"ONE_ADD_NO_COMPILER": "1", "ONE_ADD_CORES": "1"})
    assert done.returncode == 0
    said = json.loads(done.stdout)
    assert said["can"]["compile"] is False and said["where"]["cores"] == 1
    assert any("override ONE_ADD_CORES=1" in row["found"] for row in said["rows"])


def test_a_terminal_that_knows_only_ascii_gets_its_table():
    done = run("preflight", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0 and "Traceback" not in done.stderr and "CPU" in done.stdout


# ---- price


@pytest.fixture
def receipt(monkeypatch) -> Receipt:
    made = make_receipt("cpu")
    monkeypatch.setattr(price, "measure", lambda device, grad: make_receipt(device, grad) if grad else made)
    return made


def test_price_prints_every_stage_the_rest_and_what_it_adds_up_to(receipt, capsys):
    assert main(["price", "--recorded", "none"]) == 0
    said = capsys.readouterr().out
    from utils.show import catalogue, tables

    for stage in receipt.stages:
        assert catalogue.title(stage.stage) in said and tables.format_ns(stage.isolate) in said
    assert "context" in said and tables.format_ns(receipt.context_ns) in said and tables.format_ns(receipt.total_ns) in said
    notes = tables.receipt_table(receipt).notes
    words = " ".join(said.split())
    assert len(notes) >= 2 and all(" ".join(note.split()) in words for note in notes), "the A/A error, the machine, the state"
    assert "view alive" in words and f"after {receipt.in_program[-1][0]} other ops" in words
    assert receipt.first_call and all(name in words for name, _ in receipt.first_call)
    assert "█" in said


@pytest.mark.parametrize("columns", [80, 120])
def test_what_stands_under_the_table_keeps_to_the_terminal(columns):
    lines = price.text(make_receipt("cpu", grad=True), make_receipt("cuda", source="recorded"), columns).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("a + b, end to end")) + 1
    assert len(lines) > start + 4 and max(map(len, lines[start:])) <= columns


ITSELF = "Of 1.15 µs the addition itself (the kernel: a loop and its set-up) takes"
AROUND = ": the rest is what stands around it, most of all TensorIterator set-up, 500 ns."


@pytest.mark.parametrize(
    ("kernel", "aa", "said"),
    [
        (48.0, 0.0, f"{ITSELF} 48.0 ns, 4.2 %{AROUND}"),
        (575.0, 0.0, f"{ITSELF} 575 ns, 50 %: more than all the rest together."),
        (48.0, 0.05, f"{ITSELF} no more than the same code differs by when it is timed twice (57.5 ns){AROUND}"),
        (None, 0.0, "What the addition itself has of the 1.15 µs could not be measured here."),
    ],
)
def test_price_ends_with_what_the_addition_has_of_it(kernel, aa, said):
    from utils.model.readings import Reading, StagePrice

    def flat(name, ns):
        return Reading(name, (ns,) * 8, 1000)

    stages = (
        StagePrice("tensor_iterator", flat("t", 500.0)),
        StagePrice("kernel", None if kernel is None else flat("k", kernel), why_missing="no compiler"),
    )
    twice = (flat("a + b", 1150.0), flat("again", 1150.0 * (1 + aa)))
    receipt = make_receipt("cpu", end_to_end=twice[0], stages=stages, control=twice)
    assert price.share(receipt) == said
    assert " ".join(price.text(receipt).split()).endswith(said)
    assert price.summary(receipt)["share_of_addition"] == (None if kernel is None else round(kernel / 1150.0, 4))


def test_on_a_gpu_the_addition_is_not_the_launch():
    receipt = make_receipt("cuda")
    said, device = price.share(receipt), receipt.device_time["kernel"]
    assert "of the host's time the launch of the addition takes" in said
    from utils.show.tables import format_ns

    assert f"on the GPU: its kernel and the step to the next one take {format_ns(device)} there." in said


def test_the_words_of_a_receipt_are_explained_where_they_stand():
    made = make_receipt("cpu")
    lines = price.legend(made)
    assert [line.split(":")[0] for line in lines] == ["by difference", "in a tight loop", "ladder"]
    with_replica = make_receipt("cpu", arms={**made.arms, "replica": made.end_to_end})
    assert any(line.startswith("replica: the op rebuilt from its pieces") for line in price.legend(with_replica))
    assert price.legend(make_receipt("cpu", compiler=False)) == [], "none of these words stands in it"


@pytest.mark.parametrize(("isolates", "said"), [(300.0, "agrees"), (470.0, "agrees"), (480.0, "DISAGREES")])
def test_a_step_of_the_ladder_shows_how_far_apart_it_may_be(isolates, said):
    from utils.model.readings import LadderGroup

    group = LadderGroup("output", "making the output", "", 380.0, isolates, ("allocator",))
    words = " ".join(price.more(make_receipt("cpu", ladder_groups=(group,)), 400))
    assert f": {said} (allowed gap 95.0 ns)" in words


def test_price_as_json_is_the_receipt_and_its_sums(receipt, capsys):
    assert main(["price", "--json", "--recorded", "none"]) == 0
    said = json.loads(capsys.readouterr().out)
    again = Receipt.from_dict(said["receipt"])
    assert again.total_ns == pytest.approx(receipt.total_ns, rel=1e-4) and len(again.stages) == len(receipt.stages)
    sums = said["summary"]
    assert sums["stage_sum_ns"] + sums["context_ns"] == pytest.approx(sums["total_ns"], abs=0.05)
    assert sums["coverage"] == pytest.approx(sums["stage_sum_ns"] / sums["total_ns"], abs=1e-3)


def test_price_with_grad_has_the_autograd_node(receipt, capsys):
    assert main(["price", "--grad", "--recorded", "none"]) == 0
    assert "autograd node" in capsys.readouterr().out


def test_the_recording_stands_beside_with_its_label(receipt, monkeypatch, capsys):
    gpu = make_receipt("cuda", source="recorded")
    recording = recordings.Recording("h200-torch2.11", gpu.date, gpu.where, {"cuda": gpu})
    monkeypatch.setattr(recordings, "best", lambda device="cuda", folder=None: recording)
    assert main(["price"]) == 0
    said = capsys.readouterr().out
    from utils.show import tables

    assert "NVIDIA H200" in said and "recorded" in said and tables.format_ns(gpu.stage("kernel").isolate) in said


def test_without_a_compiler_the_rungs_and_a_clear_sentence(monkeypatch, capsys):
    monkeypatch.setattr(price, "measure", lambda device, grad: make_receipt(device, grad, compiler=False))
    recorded = make_receipt("cpu", source="recorded")
    recording = recordings.Recording("cpu-2core-torch2.13", recorded.date, recorded.where, {"cpu": recorded})
    monkeypatch.setattr(recordings, "best", lambda device="cuda", folder=None: recording if device == "cpu" else None)
    assert main(["price"]) == 0
    said = capsys.readouterr().out
    assert "no C++ compiler was found" in said and "recorded, not yours" in said
    live, shown = said.split("recorded, not yours", 1)
    assert said.count("no C++ compiler was found") == 1, "the reason is told once, not in every row"
    assert "not measured" in live and "not measured" not in shown
    assert "stages not measured, and context" in live and "rungs from Python: a + b" in live


@pytest.mark.parametrize(
    ("ns", "whole", "cells"),
    [(0.0, 100.0, 0), (-5.0, 100.0, 0), (100.0, 100.0, 24), (50.0, 100.0, 12), (0.01, 100.0, 1), (None, 1.0, 0)],
)
def test_bars_are_to_scale(ns, whole, cells):
    assert len(price.bar(ns, whole)) == cells


@pytest.mark.parametrize(
    ("ns", "said"), [(412.3, "412 ns"), (9700.0, "9.70 µs"), (2.6e6, "2.60 ms"), (1.75e9, "1.75 s"), (999_000.0, "999 µs")]
)
def test_first_calls_are_told_in_ms_and_s(ns, said):
    assert price._price(ns) == said


def test_bars_never_outgrow_their_column_and_never_shrink_as_prices_grow():
    widths = [len(price.bar(float(ns), 1000.0)) for ns in range(1, 3000, 7)]
    assert max(widths) == price.BAR and widths == sorted(widths)


def test_json_refuses_what_is_not_json():
    with pytest.raises(ValueError):
        commands.print_json({"ns": float("inf")})


# ---- results and figures


def test_results_travel_in_a_file(tmp_path):
    mine, theirs = {"ONE_ADD_HOME": str(tmp_path / "mine")}, {"ONE_ADD_HOME": str(tmp_path / "theirs")}
    code = "from utils.model import results; "
    code += "results.record('race.demo', {'device': 'cpu', 'value': 41.5}, where={'torch': '2.13.0', 'cpu': 'x'})"
    subprocess.run([sys.executable, "-c", code], cwd=paths.REPO, env={**os.environ, **mine}, check=True)
    file = str(tmp_path / "carried.json")
    assert run("results", "export", file, env=mine).returncode == 0
    assert "added 1 entries" in run("results", "import", file, env=theirs).stdout
    assert "added 0 entries" in run("results", "import", file, env=theirs).stdout
    shown = json.loads(run("results", "--json", env=theirs).stdout)
    assert shown["rows"] == {"race.demo": 1} and shown["machines"] == 1


def test_a_foreign_file_is_not_imported(tmp_path, capsys):
    file = tmp_path / "foreign.json"
    file.write_text('{"hello": 1}')
    assert main(["results", "import", str(file)]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_figures_writes_where_it_is_told_or_says_what_is_missing(tmp_path, capsys):
    code = main(["figures", "--out", str(tmp_path)])
    said = capsys.readouterr()
    if recordings.available():
        assert code == 0 and (tmp_path / "receipt-light.svg").read_text().startswith("<")
    else:
        assert code == 1 and "make record" in said.err


# ---- trace


def test_trace_prints_what_is_looked_up_and_the_committed_tree(capsys):
    assert main(["trace", "x @ w"]) == 0
    out, err = capsys.readouterr()
    for part in ("aten::matmul", "math kernel", "library inside the kernel", "recorded: x @ w", "runs natively", "100.0%"):
        assert part in out
    assert err == ""


@pytest.mark.parametrize("words", [["a * b"], ["x @ w", "--grad"]], ids=" ".join)
def test_trace_names_the_option_that_counts_a_tree(words, capsys):
    assert main(["trace", *words]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "is recorded; --live" in out and "valgrind" in out


def test_an_expression_that_calls_no_op_is_told(capsys):
    assert main(["trace", "a"]) == 0
    assert capsys.readouterr().out.count("none: this expression calls no op") == 2, "no schema, no ops"


def test_trace_as_json_is_json_and_nothing_else(capsys):
    assert main(["trace", "a + b", "--grad", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dispatch"]["op"] == "aten::add.Tensor" and found["tree"]["label"].startswith("recorded: a + b, grad")
    assert sum(row["instructions"] for row in found["fold"]["rows"]) == pytest.approx(found["fold"]["total"], rel=0.01)


def test_trace_without_valgrind_shows_ours_and_says_why(capsys, monkeypatch):
    monkeypatch.setenv("ONE_ADD_NO_VALGRIND", "1")
    assert main(["trace", "--live"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "not counted here: valgrind: switched off by ONE_ADD_NO_VALGRIND=1" in out and "recorded: a + b" in out
    assert main(["trace", "--record"]) == 1
    assert "nothing was recorded" in capsys.readouterr().err
