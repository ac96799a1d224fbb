"""The box around a learner's kernel: the command that starts it under bubblewrap, and why that cannot be done here.

Inside there is the Python environment, the course's `utils/` and `labs/`, all read-only, and an empty folder of limited size; no
network, no other process, no home, no `solutions/`, no gradebook. What comes out are the messages of the kernel over sockets in
one folder. Source of the options: `man bwrap`, `man prlimit`.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from utils.paths import REPO

KERNEL = "one-add-box"  # the name of the kernelspec that is made for a run
SCRATCH = "/scratch"  # the only folder in the box that can be written, beside /tmp and the sockets' own
MIB = 1 << 20
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")  # links into /usr on most systems
READABLE = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/nix/store")  # where there is one
SHOWN = ("utils", "labs", "pyproject.toml")  # of the course: what a lab's cells import and read
CONTAINER = (
    "Grade in a Linux container or virtual machine that has bubblewrap and may make user namespaces, "
    "or add ARGS=--unsafe: then the learners' code runs as you, with your files and your network."
)


class NoBox(RuntimeError):
    """There is no way to box a kernel on this machine; the message says why and what to do, `reason` only why."""

    @property
    def reason(self) -> str:
        return self.args[0]

    def __str__(self) -> str:
        return f"{self.reason}. {CONTAINER}"


@dataclass(frozen=True)
class Limits:
    """What one submission may use: seconds a cell and in all, memory (MiB, of all its processes), file size and scratch (MiB),
    processes, and what its cells may print (MiB)."""

    cell_s: float = 30.0
    whole_s: float = 600.0
    memory_mib: int = 4096
    file_mib: int = 64
    scratch_mib: int = 256
    processes: int = 64
    output_mib: int = 8


def why_not() -> str:
    """ "" where a kernel can be boxed, else the reason in one sentence."""
    if not sys.platform.startswith("linux"):
        return f"bubblewrap is there on Linux only, and this is {sys.platform}"
    lacking = [tool for tool in ("bwrap", "prlimit") if shutil.which(tool) is None]
    if lacking:
        return f"{' and '.join(lacking)} cannot be found (Debian and Ubuntu: apt-get install bubblewrap util-linux)"
    tried = subprocess.run([*_wall(None, Limits()), "true"], capture_output=True, text=True)
    if tried.returncode:
        return f"bubblewrap cannot make its namespaces here: {tried.stderr.strip()[-200:]}"
    return ""


def needed() -> None:
    """Raises NoBox, with the container way, where a kernel cannot be boxed."""
    reason = why_not()
    if reason:
        raise NoBox(reason)


def kernelspec(folder: Path, sockets: Path, limits: Limits, *, unsafe: bool = False) -> None:
    """Write the kernelspec KERNEL into `folder`/kernels: a kernel in the box, whose sockets are in `sockets`.

    With `unsafe` a plain kernel, for machines without bubblewrap.
    """
    python = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {
        "argv": python if unsafe else [*_limited(limits), *_wall(sockets, limits), *python],
        "display_name": "Python in a box",
        "language": "python",
        "interrupt_mode": "message",  # a signal would reach the box's own process, and not the kernel in it
    }
    place = folder / "kernels" / KERNEL
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


def _limited(limits: Limits) -> list[str]:
    """Each process's own limits; those on all of them together are grading/watch.py's.

    That on the number of processes is an ordinary user's, all of them counted: the system does not hold root to it.
    """
    memory, file = limits.memory_mib * MIB, limits.file_mib * MIB
    # Not the address space: a CUDA build of torch maps more files into it than any lab needs memory.
    return ["prlimit", f"--data={memory}", f"--fsize={file}", "--core=0", "--nofile=1024", "--nproc=4096"]


def _wall(sockets: Path | None, limits: Limits) -> list[str]:
    """bwrap with all of its options; what follows runs inside."""
    size = limits.scratch_mib * MIB
    wall = ["bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if "--disable-userns" in _bwrap_help():  # from bubblewrap 0.8 on
        wall += ["--disable-userns"]
    wall += ["--ro-bind", "/usr", "/usr"]
    for place in SYSTEM:
        if os.path.islink(place):
            wall += ["--symlink", os.readlink(place), place]
        elif os.path.isdir(place):
            wall += ["--ro-bind", place, place]
    for place in READABLE:
        wall += ["--ro-bind-try", place, place]
    wall += ["--proc", "/proc", "--dev", "/dev"]
    for place in (SCRATCH, "/tmp", "/dev/shm"):
        wall += [*(["--size", str(size)] if "--size" in _bwrap_help() else []), "--tmpfs", place]
    for place in _environment():
        wall += ["--ro-bind", str(place), str(place)]
    for name in SHOWN:
        wall += ["--ro-bind", str(REPO / name), str(REPO / name)]
    if sockets is not None:
        wall += ["--bind", str(sockets), str(sockets)]
    wall += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SCRATCH, "--clearenv"]
    for name, value in _variables().items():
        wall += ["--setenv", name, value]
    return [*wall, "--"]


def _environment() -> list[Path]:
    """Where Python and its packages are, less what is bound already; an outer folder before one inside it."""
    places = {Path(place).resolve() for place in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    places.add(Path(sys.prefix))  # as it is named, too: the kernel's command is
    return sorted(place for place in places if not place.is_relative_to("/usr"))


def _variables() -> dict[str, str]:
    """The environment variables inside: none of the grader's own."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": SCRATCH,
        "LANG": "C.UTF-8",
        "ONE_ADD_REPO": str(REPO),
        "ONE_ADD_HOME": f"{SCRATCH}/home",
        "ONE_ADD_CACHE": f"{SCRATCH}/cache",
        "IPYTHONDIR": f"{SCRATCH}/ipython",
        "PYTHONHASHSEED": "0",  # graded twice, the same
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",  # as many submissions as cores run side by side
        "PIP_NO_INDEX": "1",  # `%pip install` ends at once: there is no network to wait for
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


@functools.cache
def _bwrap_help() -> str:
    return subprocess.run(["bwrap", "--help"], capture_output=True, text=True).stdout
