"""The lines of the preflight table: each says what was found, what that means here, and how to get what is missing.

Written for students: a missing piece is told by which lesson falls back to a recording, not by an error code.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from utils import paths
from utils.measure import cgroups, tools, versions
from utils.measure.fingerprints import (
    CAPABILITY,
    CORES,
    OLDEST_PYTHON,
    OLDEST_TORCH,
    TESTED,
    Gpu,
    affinity,
    cores,
    device_class,
    quiet,
    support_tier,
    torch_or_none,
)
from utils.model import devices

COLUMNS = ("piece", "found", "what it means", "how to get it")


@dataclass(frozen=True)
class Piece:
    """One line of the preflight: what was found, what that means for the reader, how to get it when it is missing."""

    piece: str
    found: str
    means: str = ""
    get: str = ""

    def row(self) -> dict[str, str]:
        return dict(zip(COLUMNS, (self.piece, self.found, self.means, self.get), strict=True))


def guarded(name: str, make) -> Piece | None:
    """The piece, or a line that says it could not be read: one unreadable file must not cost the reader the table."""
    try:
        return make()
    except Exception as error:
        return Piece(name, "could not be read", f"({type(error).__name__}) the course goes on without it")


def cpu_line(where: dict) -> Piece:
    kind = device_class(where, "cpu")
    known = "its prices have expected ranges" if kind != "unknown" else "no expected ranges: only the structure is checked"
    vector = f", {where['cpu_capability']} kernels" if where.get("cpu_capability") else ""
    return Piece("CPU", f"{where['cpu']} ({where['machine']}{vector})", f"class {kind}: {known}")


def cores_line() -> Piece:
    torch, given, limit = torch_or_none(), cores(), cgroups.cores_limit()
    threads = quiet(lambda: torch.get_num_threads())
    seen = f"{given:g} given"
    parts = [f"affinity {affinity()} of {os.cpu_count()}", f"container limit {limit:g}" if limit else "no container limit"]
    if threads:
        parts.append(f"torch uses {threads} thread{'s' * (threads != 1)}")
    if pretended := os.environ.get(CORES):
        parts.insert(0, f"override {CORES}={pretended}")
    found = f"{seen} ({', '.join(parts)})"
    if threads and threads > given:
        fix = f"torch.set_num_threads({max(1, int(given))})"
        return Piece(
            "cores", found, "torch starts more threads than it was given cores: large CPU ops stall waiting for each other", fix
        )
    if given < 2:
        return Piece(
            "cores",
            found,
            "any other process disturbs the prices; two-thread comparisons show recordings",
            "a machine with 2 cores",
        )
    return Piece("cores", found, "enough: one for the course, one for everything else")


def load_line(noisy: list[bool]) -> Piece:
    import psutil

    before = psutil.cpu_times()
    start = time.perf_counter()
    time.sleep(0.3)
    wall, after = time.perf_counter() - start, psutil.cpu_times()
    idle = sum(getattr(after, k, 0.0) - getattr(before, k, 0.0) for k in ("idle", "iowait"))
    stolen = max(0.0, getattr(after, "steal", 0.0) - getattr(before, "steal", 0.0)) / wall
    count = psutil.cpu_count() or 1
    busy = min(float(count), max(0.0, count - idle / wall))
    average = quiet(lambda: os.getloadavg()[0])
    found = f"{busy:.1f} of {count} cores busy while the course slept"
    found += f", load average {average:.1f}" if average is not None else ""
    found += f", {stolen:.1f} cores taken by other virtual machines" if stolen >= 0.05 else ""
    noisy.append(busy > 0.3 * max(1.0, count / 2) or stolen >= 0.1)
    if noisy[-1]:
        return Piece(
            "load",
            found,
            "noisy: expect wider bands and more 'no difference seen'",
            "close other programs and other notebooks' kernels",
        )
    return Piece("load", found, "quiet")


def memory_line() -> Piece:
    import psutil

    memory, limit = psutil.virtual_memory(), cgroups.memory_limit()
    total = min(memory.total, limit) if limit else memory.total
    free = min(memory.available, total)
    found = f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} free" + (" (container limit)" if limit and limit < memory.total else "")
    if free < 3 * 2**30:
        return Piece("memory", found, "tight: the large-array parts shrink their arrays and say so", "close other kernels")
    return Piece("memory", found, "enough for every lesson")


def gpu_line(where: dict, gpu: Gpu, capability: tuple[int, int] | None) -> Piece:
    override = f"; override {CAPABILITY}={os.environ[CAPABILITY]}" if os.environ.get(CAPABILITY) else ""
    if not gpu.usable:
        found = (gpu.name or "none") + override
        means = "GPU lanes, launch prices and captured graphs are shown from the recording of an H200, always labelled"
        if gpu.problem and gpu.problem != "no GPU":
            means = f"{gpu.problem}; {means}"
        return Piece("GPU", found, means, "Colab (Runtime, Change runtime type, T4 GPU) or any cloud GPU")
    words = [gpu.name or "GPU", f"capability {gpu.capability}"]
    words += [f"{gpu.sms} SMs"] * bool(gpu.sms) + [f"{gpu.l2_mb:g} MiB L2"] * bool(gpu.l2_mb)
    words += [f"{gpu.memory_gb:g} GiB"] * bool(gpu.memory_gb) + [f"{gpu.count} of them, the first is used"] * (gpu.count > 1)
    kind = device_class(where, "cuda")
    means = [f"class {kind}" + (": only the structure is checked" if kind == "unknown" else "")]
    if capability is not None and capability >= (8, 0):
        means.append("bf16 yes")
    else:
        means.append("no bf16: those parts run in fp16 or show recordings; Triton unsupported: its kernels show recordings")
    return Piece("GPU", ", ".join(words) + override, "; ".join(means))


def peaks_line(gpu: Gpu) -> Piece | None:
    """The datasheet beside the device; no line without a GPU."""
    if not gpu.name:
        return None
    row = devices.find(gpu.name)
    if row is None:
        return Piece(
            "datasheet peaks",
            "not in devices.yml",
            "ridge points come from measurement alone",
            "a pull request with the sheet's dense figures",
        )
    peaks = " · ".join(f"{dtype} {figure}" for dtype, figure in row.tflops.items())
    ridges = " · ".join(f"{dtype} {row.ridge(dtype):,.0f}" for dtype in row.tflops)
    found = f"{row.name}: {peaks} TFLOP/s, {row.gbps} GB/s, {row.sms} SMs, {row.l2_mb} MB L2 (dense; {', '.join(row.sources)})"
    means = f"ridges of the datasheet: {ridges} FLOP/byte; yours are measured in lesson 06"
    beware = row.warnings()
    return Piece("datasheet peaks", found, means, f"beware: {'; '.join(beware)}" if beware else "")


def torch_line(where: dict) -> Piece:
    if not where["torch"]:
        return Piece(
            "torch", "not installed", "nothing can be measured; lessons show recordings", "make lab, or pip install torch"
        )
    tier = support_tier(where)
    pairs = " and ".join(f"torch {t} with Python {p}" for t, p in sorted(TESTED, reverse=True))
    needs = f"torch {dotted(OLDEST_TORCH)} and Python {dotted(OLDEST_PYTHON)}"
    means = {
        "tested": "tested: the course's own suite runs on this pair",
        "expected": f"expected to work; tested are {pairs} on Linux",
        "unsupported": f"older than the course needs ({needs}): stages may be missing",
    }[tier]
    return Piece("torch", where["torch"], means, "" if tier != "unsupported" else "pip install -U torch, then restart the kernel")


def python_line(where: dict) -> Piece:
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()  # the name exists from 3.13 on
    return Piece("Python", where["python"], "" if has_gil else "free-threaded: taking the GIL costs nothing here")


def cuda_line(where: dict) -> Piece:
    found = f"driver {where['driver'] or 'none'}, torch built for CUDA {where['cuda'] or 'none'}"
    if where["driver"] and not where["cuda"]:
        return Piece(
            "driver and CUDA",
            found,
            "the GPU is out of reach of a CPU build",
            "install a CUDA build of torch, then restart the kernel",
        )
    if where["cuda"] and not where["driver"]:
        return Piece("driver and CUDA", found, "no driver: GPU parts show recordings", "an NVIDIA driver and a GPU")
    return Piece("driver and CUDA", found, "" if where["driver"] else "GPU parts show recordings")


def compiler_line(tool: tools.Tool) -> Piece:
    if tool.works:
        return Piece("C++ compiler", tool.found, "the stage probe can be built: every stage of the receipt is measured here")
    means = f"{tool.why}; lesson 05 measures only the Python rungs here and shows the other stages from a recording"
    if "Python.h" in tool.why:
        return Piece("C++ compiler", tool.found, means, _install("python3-dev", dnf="python3-devel"))
    return Piece("C++ compiler", tool.found, means, _install("g++", dnf="gcc-c++", mac="xcode-select --install"))


def nvcc_line(tool: tools.Tool, where: dict, gpu: Gpu) -> Piece:
    if not gpu.usable:
        return Piece("nvcc", tool.found, "not needed without a GPU")
    wanted = str(where["cuda"] or "")
    if not tool.works:
        means = "hand-written CUDA kernels come from a recording; without CUDA's headers so do the receipt's GPU stages"
        return Piece("nvcc", tool.found, means, f"the CUDA toolkit {wanted}".strip())
    if wanted and tool.found.split(".")[0] != wanted.split(".")[0]:
        means = f"torch was built for CUDA {wanted}: extensions with kernels may not build"
        return Piece("nvcc", tool.found, means, f"CUDA toolkit {wanted}")
    return Piece("nvcc", tool.found, "extensions with CUDA kernels can be built")


def ninja_line() -> Piece:
    if has("ninja") or shutil.which("ninja"):
        return Piece("ninja", _version("ninja") or "present", "torch can build the C++ kernels of the later lessons")
    means = "torch builds no extension without it: the C++ kernels of lessons 09 and 11 come from a recording"
    return Piece("ninja", "none", means, "pip install ninja")


def triton_line(why: str) -> Piece:
    """`why` says why Triton cannot be used, empty when it can."""
    found = _version("triton") or "none"
    if not why:
        return Piece("triton", found, "hand-written kernels and torch.compile for the GPU run here")
    recorded = "lessons 09 and 10 show its compiled kernels from a recording"
    if why == "triton is not installed":
        return Piece("triton", found, f"{why}; {recorded}, lab 7 has a C++ form", "pip install triton (Linux x86-64)")
    return Piece("triton", found, f"lab 7's kernels run here in its interpreter, on the CPU; compiled: {why}, {recorded}")


def cupti_line(tool: tools.Tool) -> Piece:
    if tool.works:
        return Piece("CUPTI", tool.found, "the profiler's timeline has its GPU rows")
    means = f"{tool.why}; timelines of the GPU in lessons 01 and 04 come from a recording"
    broken = "no GPU" not in tool.why and "switched off" not in tool.why
    get = "clear LD_LIBRARY_PATH, so that the CUPTI that came with torch is found first" if broken else ""
    return Piece("CUPTI", tool.found, means, get)


def valgrind_line(tool: tools.Tool) -> Piece:
    if not tool.works:
        means = f"{tool.why}; instructions per stage (lesson 01) come from a recording"
        return Piece("valgrind", tool.found, means, _install("valgrind", mac=""))
    python = quiet(lambda: Path(shutil.which("python") or "").resolve() == Path(sys.executable).resolve())
    if not python:
        means = "instructions can be counted, though torch's Timer would start another `python` than this one"
        return Piece("valgrind", tool.found, means, "activate this environment, so that `python` is its own")
    return Piece("valgrind", tool.found, "instructions per stage can be counted here")


def gdb_line(tool: tools.Tool) -> Piece:
    if tool.works:
        return Piece("gdb", tool.found, "the live C++ call stack of one add can be shown")
    return Piece("gdb", tool.found, f"{tool.why}; the call stack in lesson 01 comes from a recording", _install("gdb", mac=""))


def packages_line() -> Piece:
    stale = versions.differing()
    if stale:
        return Piece("packages loaded", "older than those installed", versions.sentence(stale), "restart the kernel")
    return Piece("packages loaded", "same versions as installed", "")


def home_line() -> Piece:
    note = paths.home_note()
    if note:
        return Piece(
            "your results", "kept in a temporary folder", re.sub(r"/\S*/", "", note), "python -m utils results export FILE"
        )
    return Piece("your results", "folder can be written", "results and predictions are kept between sessions")


def dotted(version: tuple[int, int] | None) -> str:
    return "unknown" if version is None else ".".join(map(str, version))


def has(module: str) -> bool:
    return util.find_spec(module) is not None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _install(package: str, *, dnf: str | None = None, mac: str | None = None) -> str:
    """The command that installs a system package here."""
    if "google.colab" in sys.modules or os.environ.get("COLAB_RELEASE_TAG"):
        return f"!apt-get install -y {package}"
    if sys.platform == "darwin":
        return f"brew install {package}" if mac is None else mac or "not available on macOS"
    if sys.platform == "win32":
        return "use WSL"
    if shutil.which("apt-get"):
        return f"sudo apt-get install {package}"
    if shutil.which("dnf"):
        return f"sudo dnf install {dnf or package}"
    return f"install {package} with your package manager"
