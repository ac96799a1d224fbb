"""How much of the machine this process was given: a container's limits on cores and memory (cgroup v1 and v2).

A limit can sit on any level between the process's own group and the root; the tightest one counts. Nothing here raises:
an unreadable tree means "no limit seen". `root` exists so that tests can bring a tree of their own.
"""

from __future__ import annotations

from pathlib import Path

NO_LIMIT = 2**60  # v1 writes "no limit" as a huge number of bytes


def cores_limit(root: Path = Path("/")) -> float | None:
    """Cores' worth of CPU time that the container may use (quota / period), or None without a limit."""
    limits = []
    for folder in _folders(root, "cpu"):
        v2 = _words(folder / "cpu.max")
        v1 = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
        limits += [cores for words in (v2, v1) if (cores := _ratio(words)) is not None]
    return min(limits, default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes of memory that the container may use, or None without a limit."""
    limits = []
    for folder in _folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            word = " ".join(_words(folder / name))
            if word.isdigit() and 0 < int(word) < NO_LIMIT:
                limits.append(int(word))
    return min(limits, default=None)


def _folders(root: Path, controller: str) -> list[Path]:
    """Every folder whose limits apply to this process, for one controller: its own group and all above it."""
    out: list[Path] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / controllers
        if controllers and not mount.is_dir():  # v1 mounts "cpu,cpuacct" under either name
            mount = root / "sys/fs/cgroup" / controller
        own = mount / group.strip("/")
        # Inside a container the group's path is the host's and does not exist here: the mount is then the own group.
        levels = [own, *own.parents] if own.is_dir() else [mount]
        out += [folder for folder in levels if folder == mount or mount in folder.parents]
    return out


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _ratio(words: list[str]) -> float | None:
    """quota / period of ["150000", "100000"]; None for "max", for -1 (both mean no limit) and for nonsense."""
    try:
        quota, period = map(float, words)
        cores = quota / period
    except (ValueError, ZeroDivisionError):
        return None
    return cores if cores > 0 else None
