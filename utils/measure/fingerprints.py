"""Which machine this is, in about fifteen words: the key of every result and recording, and the machine's class.

No host name, no path, nothing that changes from run to run. Nothing here raises because something is missing or
unreadable, and importing this file does not import torch. Overrides: ONE_ADD_CAPABILITY=7.5, ONE_ADD_CORES=1.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from utils.measure import cgroups, tools
from utils.model import devices

TESTED = {("2.13", "3.11"), ("2.11", "3.12")}  # (torch, Python) minor versions that the course's own suite runs on
OLDEST_TORCH, OLDEST_PYTHON = (2, 11), (3, 11)
CAPABILITY, CORES = "ONE_ADD_CAPABILITY", "ONE_ADD_CORES"


def fingerprint() -> dict:
    """The machine in about fifteen words: what results and recordings are keyed by. Plain JSON, no host name, no path.

    device ("cuda" when torch can use a GPU, else "cpu"), cpu, machine (x86_64 …), cpu_capability (AVX2 …), cores (given
    to this process), gpu, capability, sms, l2_mb, gpu_memory_gb, driver, cuda, torch, python, os, overrides.
    """
    return dict(_fingerprint(os.environ.get(CAPABILITY, ""), os.environ.get(CORES, "")))


def device_class(where: dict, device: str | None = None) -> str:
    """The class whose expected ranges apply: "cpu-x86-64", "cpu-arm64", "h200", "t4" … or "unknown".

    `device` ("cpu" or "cuda") asks for one side of a machine that has both; left out, it is the fingerprint's own. A part
    of a GPU (a MIG slice) and a GPU that `devices.yml` does not list are "unknown".
    """
    if (device or where.get("device")) == "cuda":
        row = devices.find(where.get("gpu"))
        return row.device_class if row else "unknown"
    arch = str(where.get("machine") or "").lower()
    return {"x86_64": "cpu-x86-64", "amd64": "cpu-x86-64", "arm64": "cpu-arm64", "aarch64": "cpu-arm64"}.get(arch, "unknown")


def cores() -> float:
    """Cores' worth of CPU time given to this process: the least of affinity, container limit and ONE_ADD_CORES; may be 1.5."""
    pretended = number(os.environ.get(CORES))
    if pretended:
        return pretended
    given = [float(affinity())]
    if (limit := cgroups.cores_limit()) is not None:
        given.append(limit)
    return min(given)


def support_tier(where: dict) -> str:
    """ "tested", "expected" (should work, not run by the course's own suite) or "unsupported" (older than the course needs)."""
    torch_minor, python_minor = minor(where.get("torch")), minor(where.get("python"))
    if not torch_minor or not python_minor or torch_minor < OLDEST_TORCH or python_minor < OLDEST_PYTHON:
        return "unsupported"
    pair = (".".join(map(str, torch_minor)), ".".join(map(str, python_minor)))
    return "tested" if pair in TESTED and where.get("os") == "Linux" else "expected"


@lru_cache(maxsize=8)
def _fingerprint(capability: str, pretended_cores: str) -> dict:
    card, torch = gpu(), torch_or_none()
    given = cores()
    return {
        "device": "cuda" if card.usable else "cpu",
        "cpu": cpu_model(),
        "machine": platform.machine(),
        "cpu_capability": quiet(lambda: torch.backends.cpu.get_cpu_capability()),
        "cores": int(given) if given == int(given) else round(given, 2),
        "gpu": card.name,
        "capability": capability or card.capability,
        "sms": card.sms,
        "l2_mb": card.l2_mb,
        "gpu_memory_gb": card.memory_gb,
        "driver": card.driver,
        "cuda": quiet(lambda: torch.version.cuda),
        "torch": quiet(lambda: str(torch.__version__)),
        "python": platform.python_version(),
        "os": platform.system(),
        "overrides": [f"{CAPABILITY}={capability}"] * bool(capability) + [f"{CORES}={pretended_cores}"] * bool(pretended_cores),
    }


def cpu_model(root: Path = Path("/")) -> str:
    """The CPU's own name for itself, or the architecture where it has none (many ARM machines, unreadable /proc)."""
    for line in quiet(lambda: (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()) or []:
        key, _, value = line.partition(":")
        if key.strip().lower() in ("model name", "cpu model", "hardware") and value.strip():
            return value.strip()
    if sys.platform == "darwin":
        _, text = tools.run(["sysctl", "-n", "machdep.cpu.brand_string"], seconds=5)
        if text.strip():
            return text.strip()
    return platform.processor() or platform.machine() or "unknown"


@dataclass(frozen=True)
class Gpu:
    """What torch and the driver say of GPU 0; all None without one. `problem` says why a present GPU cannot be used."""

    usable: bool = False
    name: str | None = None
    capability: str | None = None
    sms: int | None = None
    l2_mb: float | None = None
    memory_gb: float | None = None
    driver: str | None = None
    count: int = 0
    problem: str = ""


@lru_cache(maxsize=1)
def gpu() -> Gpu:
    """GPU 0 of this machine, tried with one add; read once per process."""
    torch = torch_or_none()
    if torch is None:
        return Gpu(problem="torch is not installed")
    driver = quiet(nvidia_driver)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about old drivers; the table says it in words
            available, count = torch.cuda.is_available(), torch.cuda.device_count()
        if not available:
            built = torch.version.cuda or torch.version.hip
            if driver and not built:
                return Gpu(driver=driver, problem="a GPU driver is here, but this torch is a CPU build")
            return Gpu(driver=driver, problem="torch cannot start CUDA with this driver" if driver else "no GPU")
        props = torch.cuda.get_device_properties(0)
        problem = ""
        try:
            torch.zeros(1, device="cuda").add_(1).item()
        except Exception as error:  # too old for this build, in exclusive use, out of memory …
            problem = f"it is there but an add on it fails: {str(error).splitlines()[0][:120]}"
        return gpu_facts(props, driver=driver, count=count, problem=problem)
    except Exception as error:
        return Gpu(driver=driver, problem=f"torch could not describe the GPU: {type(error).__name__}")


def gpu_facts(props, *, driver: str | None = None, count: int = 1, problem: str = "") -> Gpu:
    """A Gpu from torch's device properties; a property that this release of torch lacks becomes None."""
    l2, memory = getattr(props, "L2_cache_size", None), getattr(props, "total_memory", None)
    return Gpu(
        usable=not problem,
        name=str(props.name),
        capability=f"{props.major}.{props.minor}",
        sms=getattr(props, "multi_processor_count", None),
        l2_mb=round(l2 / 2**20, 1) if l2 else None,
        memory_gb=round(memory / 2**30, 1) if memory else None,
        driver=driver,
        count=count,
        problem=problem,
    )


def nvidia_driver(root: Path = Path("/")) -> str | None:
    """The NVIDIA driver's version from nvidia-smi or, without that program, from /proc; None when there is none."""
    if smi := shutil.which("nvidia-smi"):
        done = subprocess.run(
            [smi, "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, timeout=20, check=False
        )
        first = done.stdout.strip().splitlines()[:1]
        if done.returncode == 0 and first and re.fullmatch(r"[0-9.]+", first[0].strip()):
            return first[0].strip()
    text = quiet(lambda: (root / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")) or ""
    found = re.search(r"\s(\d{3}\.\d+(?:\.\d+)?)\s", text)
    return found.group(1) if found else None


def torch_or_none():
    """The torch module, or None where it is not installed or cannot be imported."""
    try:
        import torch
    except Exception:  # a broken install raises OSError, RuntimeError …: the table says "not installed"
        return None
    return torch


def quiet(read):
    """The value, or None when reading it fails in any way."""
    try:
        return read()
    except Exception:
        return None


def affinity() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def number(word: str | None) -> float | None:
    """A positive number, or None: an override that is no number is no override."""
    try:
        value = float(word or "")
    except ValueError:
        return None
    return value if value > 0 else None


def minor(version) -> tuple[int, int] | None:
    """(2, 13) of "2.13.0+cpu"; None when there is no such version."""
    found = re.match(r"(\d+)\.(\d+)", str(version or ""))
    return (int(found.group(1)), int(found.group(2))) if found else None
