"""Opens JupyterLab on the first lesson: what `make lab` ends in.

`python -m tools.lab PORT [Jupyter's own arguments…]`. Where there is no display no browser is started, and Jupyter's
last lines are the address to open. A port in use is no error: Jupyter takes the next free one and prints that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
FIRST = "notebooks/00_start_here.ipynb"


def has_display() -> bool:
    """True where a browser can show itself: always on macOS and Windows, with a display server elsewhere."""
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    )


def command(port: int, more: list[str]) -> list[str]:
    """The command line of JupyterLab as started in the repository, the first lesson open."""
    line = [sys.executable, "-m", "jupyter", "lab", f"--ServerApp.port={port}"]
    line.append(f"--LabApp.default_url=/lab/tree/{FIRST}")
    if not has_display():
        line.append("--no-browser")
    if hasattr(os, "getuid") and os.getuid() == 0:
        line.append("--allow-root")  # in a container the only user is root; the server still listens on this machine only
    return line + more


def main(argv: list[str]) -> int:
    said = argv[0] if argv else ""
    if not (said.isascii() and said.isdigit()):
        print(f"PORT={said} is not a number", file=sys.stderr)
        return 2
    if len(said) > 9 or not 1 <= int(said) <= 65_535:
        print(f"PORT={said} is no port: choose one from 1 to 65535, such as 8888", file=sys.stderr)
        return 2
    line = command(int(said), argv[1:])
    if os.name == "nt":
        return subprocess.call(line, cwd=REPO)
    os.chdir(REPO)
    os.execv(line[0], line)  # in place of this process, so that Ctrl-C and signals reach Jupyter alone


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
