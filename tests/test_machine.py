"""The preflight: this machine's table, every override, machines that are not here, and readings that cannot be made."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
import types
import warnings
from dataclasses import replace
from pathlib import Path

import psutil  # imported before any test pretends another platform
import pytest

from utils import paths
from utils.measure import cgroups, fingerprints, machine, pieces, tools, versions
from utils.model import devices, schemas


@pytest.fixture(autouse=True)
def _no_overrides(monkeypatch):
    """Each test starts from the machine as it is, whatever the gate that runs the suite pretends."""
    for name in ("ONE_ADD_CAPABILITY", "ONE_ADD_CORES", *tools.OVERRIDES.values()):
        monkeypatch.delenv(name, raising=False)
    fingerprints._fingerprint.cache_clear()
    yield
    fingerprints._fingerprint.cache_clear()


@pytest.fixture(scope="module")
def here() -> machine.Machine:
    return machine.preflight()


def line(found: machine.Machine, piece: str) -> dict:
    return next(row for row in found.rows() if row["piece"] == piece)


# ---- this machine


def test_the_table_of_this_machine_names_every_piece(here):
    names = [row["piece"] for row in here.rows()]
    for piece in ("CPU", "cores", "load", "memory", "GPU", "torch", "Python", "driver and CUDA", "C++ compiler", "nvcc", "ninja"):
        assert piece in names
    for piece in ("triton", "CUPTI", "valgrind", "gdb", "packages loaded", "your results"):
        assert piece in names
    assert len(names) == len(set(names))
    assert all(set(row) == set(machine.COLUMNS) for row in here.rows())
    assert all(row["found"] for row in here.rows())


def test_a_missing_piece_says_what_it_costs(here):
    for ability, piece in (("compile", "C++ compiler"), ("valgrind", "valgrind"), ("gdb", "gdb"), ("cuda", "GPU")):
        if not here.can(ability):
            row = line(here, piece)
            assert "recording" in row["what it means"] and row["how to get it"], piece


def test_the_fingerprint_holds_no_name_of_this_host_and_no_path(here):
    words = " ".join(map(str, here.where.values()))
    assert socket.gethostname() not in words
    assert not re.search(r"(^|\s)/", words)
    assert here.where == machine.fingerprint()
    assert here.where["cores"] >= 1 and here.where["torch"] and here.where["overrides"] == []


def test_the_fingerprint_is_a_copy_that_nobody_can_spoil():
    machine.fingerprint()["torch"] = "spoilt"
    assert machine.fingerprint()["torch"] != "spoilt"


def test_asking_for_an_unknown_ability_is_an_error_that_lists_the_known_ones(here):
    with pytest.raises(ValueError, match="valgrind"):
        here.can("fly")


def test_importing_the_room_does_not_import_torch():
    code = "import sys; import utils.measure.machine; assert 'torch' not in sys.modules and 'psutil' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=paths.REPO, check=True)


# ---- overrides: each closes its gate and is labelled


@pytest.mark.parametrize(
    ("ability", "piece", "variable"),
    [
        ("compile", "C++ compiler", "ONE_ADD_NO_COMPILER"),
        ("valgrind", "valgrind", "ONE_ADD_NO_VALGRIND"),
        ("cupti", "CUPTI", "ONE_ADD_NO_CUPTI"),
    ],
)
def test_a_tool_switched_off_is_missing_and_labelled(monkeypatch, ability, piece, variable):
    monkeypatch.setenv(variable, "1")
    found = machine.preflight()
    assert not found.can(ability)
    assert line(found, piece)["found"] == f"override {variable}=1"
    assert found.why[ability] == f"switched off by {variable}=1"
    assert "recording" in line(found, piece)["what it means"]
    monkeypatch.setenv(variable, "0")
    assert f"{variable}=" not in line(machine.preflight(), piece)["found"]


def test_cores_can_be_pretended(monkeypatch):
    monkeypatch.setenv("ONE_ADD_CORES", "1")
    assert machine.cores() == 1
    where = machine.fingerprint()
    assert where["cores"] == 1 and where["overrides"] == ["ONE_ADD_CORES=1"]
    row = pieces.cores_line().row()
    assert row["found"].startswith("1 given (override ONE_ADD_CORES=1")


def test_an_override_that_is_no_number_changes_nothing(monkeypatch):
    real = machine.cores()
    for word in ("many", "-2", "0", ""):
        monkeypatch.setenv("ONE_ADD_CORES", word)
        assert machine.cores() == real


def test_a_pretended_capability_is_labelled_but_opens_no_gpu(monkeypatch):
    monkeypatch.setattr(machine, "gpu", lambda: fingerprints.Gpu(problem="no GPU"))
    monkeypatch.setattr(fingerprints, "gpu", lambda: fingerprints.Gpu(problem="no GPU"))
    monkeypatch.setenv("ONE_ADD_CAPABILITY", "9.0")
    found = machine.preflight()
    assert not found.can("cuda") and not found.can("bf16") and not found.can("triton")
    assert "override ONE_ADD_CAPABILITY=9.0" in line(found, "GPU")["found"]
    assert found.where["capability"] == "9.0" and found.where["overrides"] == ["ONE_ADD_CAPABILITY=9.0"]


# ---- GPUs that are not here


def properties(name: str, major: int, minor: int, sms: int, l2_mb: float, gib: float) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name=name,
        major=major,
        minor=minor,
        multi_processor_count=sms,
        L2_cache_size=int(l2_mb * 2**20),
        total_memory=int(gib * 2**30),
    )


T4 = properties("Tesla T4", 7, 5, 40, 4, 14.7)
H200 = properties("NVIDIA H200", 9, 0, 132, 60, 139.8)
STRANGER = properties("NVIDIA Model X 96GB", 11, 0, 200, 100, 95.0)
SLICE = properties("NVIDIA H200 MIG 1g.18gb", 9, 0, 16, 7.5, 17.0)


def with_gpu(monkeypatch, props, **facts) -> machine.Machine:
    card = fingerprints.gpu_facts(props, driver="580.65.06", **facts)
    monkeypatch.setattr(machine, "gpu", lambda: card)
    monkeypatch.setattr(fingerprints, "gpu", lambda: card)
    monkeypatch.setattr(pieces, "has", lambda module: True)  # triton and ninja are there, whatever this machine has
    real = tools.check
    answer = tools.Tool("cupti", True, "sees kernels")
    monkeypatch.setattr(tools, "check", lambda names, gpu=None: {**real(names), "cupti": answer})
    return machine.preflight()


def test_a_t4_has_no_bf16_and_no_triton(monkeypatch):
    found = with_gpu(monkeypatch, T4)
    assert found.device_class == "t4" and found.can("cuda") and found.can("cupti")
    assert not found.can("bf16") and "7.5" in found.why["bf16"]
    assert not found.can("triton") and "7.5" in found.why["triton"]
    assert "no bf16" in line(found, "GPU")["what it means"]
    assert "fp16 65" in line(found, "datasheet peaks")["found"] and "bf16" not in line(found, "datasheet peaks")["found"]


def test_an_h200_has_everything_and_its_datasheet_is_dense(monkeypatch):
    found = with_gpu(monkeypatch, H200, count=8)
    assert found.device_class == "h200" and all(found.can(a) for a in ("cuda", "bf16", "triton", "cupti"))
    row = line(found, "GPU")
    assert "capability 9.0" in row["found"] and "132 SMs" in row["found"] and "8 of them" in row["found"]
    peaks = line(found, "datasheet peaks")
    assert "bf16 989" in peaks["found"] and "4,800 GB/s" in peaks["found"] and "dense" in peaks["found"]
    assert "bf16 206" in peaks["what it means"]
    assert "1,979" in peaks["how to get it"] and "sparsity" in peaks["how to get it"]


def test_an_h200_that_pretends_to_be_sm_75_closes_the_same_gates_as_a_t4(monkeypatch):
    monkeypatch.setenv("ONE_ADD_CAPABILITY", "7.5")
    found = with_gpu(monkeypatch, H200)
    assert found.can("cuda") and not found.can("bf16") and not found.can("triton")
    assert "override ONE_ADD_CAPABILITY=7.5" in line(found, "GPU")["found"]
    assert found.where["capability"] == "7.5"


def test_a_t4_that_pretends_to_be_newer_gets_no_bf16(monkeypatch):
    monkeypatch.setenv("ONE_ADD_CAPABILITY", "9.0")
    found = with_gpu(monkeypatch, T4)
    assert not found.can("bf16") and not found.can("triton")


@pytest.mark.parametrize("props", [STRANGER, SLICE], ids=["unknown model", "a slice of a known one"])
def test_a_gpu_without_a_datasheet_row_is_measured_but_has_no_class(monkeypatch, props):
    found = with_gpu(monkeypatch, props)
    assert found.device_class == "unknown" and found.can("cuda") and found.can("bf16")
    assert "only the structure" in line(found, "GPU")["what it means"]
    assert "not in devices.yml" in line(found, "datasheet peaks")["found"]


def test_a_gpu_on_which_an_add_fails_is_told_and_not_used(monkeypatch):
    found = with_gpu(
        monkeypatch, properties("Tesla K80", 3, 7, 13, 1.5, 11), problem="it is there but an add on it fails: no kernel image"
    )
    assert not found.can("cuda") and found.where["device"] == "cpu"
    assert "no kernel image" in line(found, "GPU")["what it means"]


def test_properties_that_an_older_torch_lacks_become_none():
    card = fingerprints.gpu_facts(types.SimpleNamespace(name="Tesla T4", major=7, minor=5))
    assert card.usable and card.capability == "7.5" and card.l2_mb is None and card.sms is None


# ---- classes and tiers


@pytest.mark.parametrize(
    ("where", "device", "expected"),
    [
        ({"device": "cpu", "machine": "x86_64"}, None, "cpu-x86-64"),
        ({"device": "cpu", "machine": "AMD64"}, None, "cpu-x86-64"),
        ({"device": "cpu", "machine": "arm64"}, None, "cpu-arm64"),
        ({"device": "cpu", "machine": "aarch64"}, None, "cpu-arm64"),
        ({"device": "cpu", "machine": "riscv64"}, None, "unknown"),
        ({"device": "cuda", "machine": "x86_64", "gpu": "NVIDIA H200"}, None, "h200"),
        ({"device": "cuda", "machine": "x86_64", "gpu": "NVIDIA H200"}, "cpu", "cpu-x86-64"),
        ({"device": "cuda", "gpu": "NVIDIA H100 80GB HBM3"}, None, "h100"),
        ({"device": "cuda", "gpu": "NVIDIA A100-SXM4-40GB"}, None, "a100"),
        ({"device": "cuda", "gpu": "NVIDIA L4"}, None, "l4"),
        ({"device": "cuda", "gpu": "Tesla T4"}, None, "t4"),
        ({"device": "cuda", "gpu": "NVIDIA GeForce RTX 4090 Laptop GPU"}, None, "unknown"),
        ({"device": "cuda", "gpu": None}, None, "unknown"),
        ({}, None, "unknown"),
    ],
)
def test_device_class(where, device, expected):
    assert machine.device_class(where, device) == expected


@pytest.mark.parametrize(
    ("torch", "python", "system", "tier"),
    [
        ("2.13.0+cpu", "3.11.7", "Linux", "tested"),
        ("2.11.0+cu130", "3.12.3", "Linux", "tested"),
        ("2.13.1", "3.12.3", "Linux", "expected"),
        ("2.13.0", "3.11.7", "Darwin", "expected"),
        ("2.14.0a0+git", "3.13.0", "Linux", "expected"),
        ("2.10.0", "3.11.7", "Linux", "unsupported"),
        ("2.13.0", "3.10.12", "Linux", "unsupported"),
        (None, "3.11.7", "Linux", "unsupported"),
    ],
)
def test_support_tier(torch, python, system, tier):
    where = {**machine.fingerprint(), "torch": torch, "python": python, "os": system}
    assert machine.support_tier(where) == tier
    if torch:
        word = {"tested": "tested", "expected": "expected", "unsupported": "older"}[tier]
        assert pieces.torch_line(where).means.startswith(word)


# ---- containers


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_cgroup_v2_the_tightest_level_counts(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/kubepods/pod1/box\n",
            "sys/fs/cgroup/kubepods/cpu.max": "800000 100000\n",
            "sys/fs/cgroup/kubepods/pod1/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/kubepods/pod1/memory.max": f"{3 * 2**30}\n",
            "sys/fs/cgroup/kubepods/pod1/box/cpu.max": "max 100000\n",
            "sys/fs/cgroup/kubepods/pod1/box/memory.max": "max\n",
        },
    )
    assert cgroups.cores_limit(root) == 1.5
    assert cgroups.memory_limit(root) == 3 * 2**30


def test_cgroup_v2_seen_from_inside_its_own_namespace(tmp_path):
    root = tree(
        tmp_path,
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n", "sys/fs/cgroup/memory.max": "1073741824\n"},
    )
    assert cgroups.cores_limit(root) == 2.0 and cgroups.memory_limit(root) == 2**30


def test_cgroup_v1_with_the_hosts_path_that_does_not_exist_inside(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
        },
    )
    assert cgroups.cores_limit(root) == 0.5 and cgroups.memory_limit(root) == 2**31


def test_cgroup_v1_without_limits(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/\n3:cpu:/\n0::/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert cgroups.cores_limit(root) is None and cgroups.memory_limit(root) is None


@pytest.mark.parametrize("text", ["", "nonsense\n", "0::\n:::\n", "3:cpu:/\n"])
def test_a_tree_that_makes_no_sense_is_no_limit(tmp_path, text):
    root = tree(
        tmp_path, {"proc/self/cgroup": text, "sys/fs/cgroup/cpu.max": "oops\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "x\n"}
    )
    assert cgroups.cores_limit(root) is None and cgroups.memory_limit(root) is None


def test_the_container_limit_is_what_the_machine_gives(monkeypatch):
    monkeypatch.setattr(fingerprints.cgroups, "cores_limit", lambda: 0.5)
    assert machine.cores() == 0.5
    row = pieces.cores_line().row()
    assert row["found"].startswith("0.5 given") and "container limit 0.5" in row["found"]
    assert "torch.set_num_threads(1)" in row["how to get it"]


# ---- nothing crashes, whatever is missing


def test_every_line_that_cannot_be_read_says_so_and_the_others_stand(monkeypatch):
    def broken(*args, **kwargs):
        raise PermissionError("unreadable")

    for name in [n for n in vars(pieces) if n.endswith("_line")]:
        monkeypatch.setattr(pieces, name, broken)
    found = machine.preflight()
    assert len(found.rows()) == 18
    assert all(row["found"] == "could not be read" for row in found.rows())


def test_without_psutil_only_its_lines_are_lost(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    found = machine.preflight()
    assert line(found, "load")["found"] == line(found, "memory")["found"] == "could not be read"
    assert line(found, "torch")["found"] != "could not be read"


def test_a_psutil_without_iowait_and_steal_still_gives_the_load(monkeypatch):

    clock = iter(range(1000))
    monkeypatch.setattr(psutil, "cpu_times", lambda: types.SimpleNamespace(idle=next(clock) * 0.3 * (psutil.cpu_count() or 1)))
    noisy: list[bool] = []
    assert "cores busy" in pieces.load_line(noisy).found and noisy == [False]


def test_a_busy_machine_is_called_noisy(monkeypatch):

    monkeypatch.setattr(psutil, "cpu_times", lambda: types.SimpleNamespace(idle=5.0))  # no idle time passes at all
    noisy: list[bool] = []
    row = pieces.load_line(noisy).row()
    assert noisy == [True] and row["what it means"].startswith("noisy")


def test_without_torch_the_table_still_comes(monkeypatch):
    monkeypatch.setattr(fingerprints, "torch_or_none", lambda: None)
    monkeypatch.setattr(pieces, "torch_or_none", lambda: None)
    no_torch = fingerprints.Gpu(problem="torch is not installed")
    monkeypatch.setattr(machine, "gpu", lambda: no_torch)
    monkeypatch.setattr(fingerprints, "gpu", lambda: no_torch)
    fingerprints._fingerprint.cache_clear()
    found = machine.preflight()
    assert line(found, "torch")["found"] == "not installed" and found.tier == "unsupported" and not found.can("cuda")
    assert not any(row["found"] == "could not be read" for row in found.rows())


def test_a_platform_without_affinity_proc_or_load_average(monkeypatch, tmp_path):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.delattr("os.getloadavg", raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    assert machine.cores() >= 0.1
    assert fingerprints.cpu_model(root=tmp_path)
    found = machine.preflight()
    assert not any(row["found"] == "could not be read" for row in found.rows())


def test_the_cpu_names_itself(tmp_path):
    root = tree(tmp_path, {"proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n"})
    assert fingerprints.cpu_model(root=root) == "Some CPU @ 3 GHz"


def test_the_driver_is_read_from_proc_without_nvidia_smi(monkeypatch, tmp_path):
    monkeypatch.setattr(fingerprints.shutil, "which", lambda name: None)
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)\n"
    assert fingerprints.nvidia_driver(root=tree(tmp_path, {"proc/driver/nvidia/version": text})) == "580.65.06"
    assert fingerprints.nvidia_driver(root=tmp_path / "elsewhere") is None


# ---- tools are tried, not looked up


@pytest.fixture
def fresh_tools(monkeypatch):
    monkeypatch.setattr(tools, "_known", {})


def script(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts stand in for the tools")
@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        (
            "g++",
            "case $* in *--version*) echo g++ 99;; *) echo 'x.h:1: fatal error: Python.h: No such file' >&2; exit 1;; esac",
            "Python.h",
        ),
        ("g++", "case $* in *--version*) echo g++ 99;; *) echo 'error: internal' >&2; exit 1;; esac", "cannot compile"),
        ("g++", "case $* in *--version*) echo g++ 99;; *) kill -11 $$;; esac", "signal 11"),
        ("valgrind", "case $* in *--tool*) exit 1;; *) echo valgrind-9.9;; esac", "cannot run"),
        ("gdb", "case $* in *-ex*) echo 'ptrace: Operation not permitted.';; *) echo 'GNU gdb (X) 99.1';; esac", "trace"),
        ("nvcc", "exit 3", "--version"),
    ],
)
def test_a_tool_that_is_there_but_does_not_work(monkeypatch, tmp_path, fresh_tools, name, body, why):
    script(tmp_path, name, body)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    key = {"g++": "compiler"}.get(name, name)
    tool = tools.check((key,))[key]
    assert not tool.works and why in tool.why
    assert str(tmp_path) not in tool.why


def test_no_tool_at_all(monkeypatch, tmp_path, fresh_tools):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    found = tools.check(("compiler", "valgrind", "gdb"))
    assert not any(tool.works for tool in found.values())
    assert all("PATH" in tool.why for tool in found.values())


def test_a_tool_that_hangs_is_given_up(monkeypatch):
    ok, text = tools.run([sys.executable, "-c", "import time; time.sleep(30)"], seconds=0.2)
    assert not ok and "no answer" in text


def test_cupti_is_tried_in_a_child_and_its_answer_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(tools.paths, "cache", lambda: tmp_path)
    monkeypatch.setattr(tools, "_known", {})
    answers = iter([(True, "kernels seen: 0\n"), (True, "kernels seen: 3\n"), (False, "killed by signal 11\n")])
    monkeypatch.setattr(tools, "run", lambda *args, **kwargs: next(answers))
    gpu = {"name": "NVIDIA H200", "torch": "2.11.0", "driver": f"{random.randint(500, 600)}.1"}
    assert "CUPTI could not start" in tools.cupti(gpu).why
    assert "CUPTI could not start" in tools.cupti(gpu).why, "this process remembers"
    tools._known.clear()
    assert "CUPTI could not start" in tools.cupti(gpu).why, "the next process reads the note"
    assert tools.cupti({**gpu, "torch": "2.12.0"}).works, "another torch is tried again"
    (tmp_path / "cupti.json").write_text("[damaged")
    tools._known.clear()
    assert "signal 11" in tools.cupti(gpu).why


# ---- loaded against installed


@pytest.fixture
def stale_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", types.SimpleNamespace(__version__="1.0.0"))
    monkeypatch.setattr(versions, "_told", False)


def test_a_changed_package_asks_for_a_restart_once_per_process(stale_numpy):
    with pytest.warns(UserWarning, match=r"numpy 1\.0\.0 is loaded but .* restart the kernel"):
        found = machine.preflight()
    assert "restart" in line(found, "packages loaded")["how to get it"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "restart" in line(machine.preflight(), "packages loaded")["how to get it"], "the table keeps saying it"


def test_equal_versions_ask_for_nothing(monkeypatch):
    monkeypatch.setattr(versions, "_told", False)
    assert versions.differing() == [] and versions.restart_note() == ""


@pytest.mark.parametrize(
    ("loaded", "installed", "same"),
    [
        ("2.13.0+cpu", "2.13.0+cpu", True),
        ("2.13.0+cu130", "2.13.0", True),
        ("2.13.0+cpu", "2.13.0+cu130", False),
        ("2.11.0+cu130", "2.13.0", False),
    ],
)
def test_a_build_tag_alone_is_a_difference_only_when_both_have_one(monkeypatch, loaded, installed, same):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__version__=loaded))
    monkeypatch.setattr(versions, "_installed", lambda name: installed if name == "torch" else None)
    assert versions.differing() == ([] if same else [("torch", loaded, installed)])


# ---- devices.yml


def test_the_datasheet_table_fits_its_schema_and_names_its_sources():
    schemas.load("devices")
    known = set(devices.sources())
    for device in devices.load():
        assert set(device.sources) <= known, device.id
    used = {source for device in devices.load() for source in device.sources}
    assert used == known, f"never cited: {sorted(known - used)}"
    ids = [device.id for device in devices.load()]
    assert len(ids) == len(set(ids))


def test_no_peak_is_one_of_the_figures_that_circulate_with_sparsity():
    for device in devices.load():
        for quoted in device.quoted:
            dense = device.tflops[quoted["dtype"]].value
            assert 1.9 < quoted["value"] / dense < 2.05, f"{device.id}: {quoted} against {dense}"


def test_the_peaks_obey_the_hardware():
    """Each SM has 128 fp32 lanes (64 up to the A100), 2 FLOP each: the clock that the fp32 peak implies must be a real one."""
    for device in devices.load():
        if device.capability is None:
            continue
        lanes = 64 if device.capability in ("7.0", "7.5", "8.0") else 128
        ghz = device.tflops["fp32"].value * 1e3 / (device.sms.value * lanes * 2)
        assert 1.2 < ghz < 2.7, f"{device.id}: {ghz:.2f} GHz"
        assert device.tflops["fp16"].value > device.tflops["fp32"].value
        if "tf32" in device.tflops and "bf16" in device.tflops:
            assert device.tflops["bf16"].value / device.tflops["tf32"].value == pytest.approx(2.0, rel=0.03)
        assert ("bf16" in device.tflops) == (float(device.capability) >= 8.0), device.id


@pytest.mark.parametrize(
    ("name", "dtype", "ridge"),
    [("Tesla T4", "fp16", 203), ("NVIDIA A100-SXM4-40GB", "bf16", 201), ("NVIDIA L4", "bf16", 403), ("NVIDIA H200", "fp32", 14)],
)
def test_ridges_are_computed_from_the_row(name, dtype, ridge):
    device = devices.find(name)
    assert device.ridge(dtype) == pytest.approx(ridge, rel=0.01)
    faster = replace(device, gbps=devices.Figure(2 * device.gbps.value))
    assert faster.ridge(dtype) == pytest.approx(device.ridge(dtype) / 2)


def test_every_name_belongs_to_one_row_and_a_t4_has_no_bf16_ridge():
    names = ["Tesla T4", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA GH200 480GB", "NVIDIA GH200 144G HBM3e", "NVIDIA B200"]
    for name in names:
        assert sum(device.matches(name) for device in devices.load()) == 1, name
    for name in ("NVIDIA GeForce RTX 3090 Ti", "NVIDIA H200 NVL", "GRID T4-16Q", "", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"):
        assert devices.find(name) is None, name
    with pytest.raises(KeyError):
        devices.find("Tesla T4").ridge("bf16")


def test_an_unconfirmed_figure_says_so():
    a10g = devices.find("NVIDIA A10G")
    assert not a10g.tflops["bf16"].checked and a10g.tflops["bf16"].reason
    assert "unconfirmed" in str(a10g.tflops["bf16"]) and "unconfirmed" not in str(a10g.gbps)
