"""Opens JupyterLab on the first lesson and prints the address it really got; `make lab` ends here.

PORT and further arguments come from the command line: `python -m tools.lab PORT [jupyter's arguments…]`. Where there is no
display, no browser is started. A port in use is no error: Jupyter takes the next free one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
FIRST = "notebooks/00_start_here.ipynb"


def has_display() -> bool:
    """True where a browser can show itself: always on macOS and Windows, with a display server elsewhere."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"))


def command(port: int, more: list[str]) -> list[str]:
    """The command line of JupyterLab with the repository as its root and the first lesson open."""
    line = [sys.executable, "-m", "jupyter", "lab", f"--ServerApp.port={port}", f"--ServerApp.root_dir={REPO}"]
    line.append(f"--LabApp.default_url=/lab/tree/{FIRST}")
    if not has_display():
        line.append("--no-browser")
    if hasattr(os, "getuid") and os.getuid() == 0:
        line.append("--allow-root")  # in a container the only user is root; the server still listens on this machine only
    return line + more


def announce(pid: int, timeout_s: float = 60) -> None:
    """Print the address once the server has written down where it listens."""
    from jupyter_core.paths import jupyter_runtime_dir

    note = Path(jupyter_runtime_dir()) / f"jpserver-{pid}.json"
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            server = json.loads(note.read_text())
            break
        except (OSError, ValueError):
            time.sleep(0.2)
    else:
        return
    token = f"?token={server['token']}" if server.get("token") else ""
    print(f"\nThe first lesson: {server['url'].rstrip('/')}/lab/tree/{FIRST}{token}\n(Ctrl-C here ends JupyterLab.)\n", flush=True)


def main(argv: list[str]) -> int:
    port, more = int(argv[0]), argv[1:]
    server = subprocess.Popen(command(port, more), cwd=REPO)
    threading.Thread(target=announce, args=(server.pid,), daemon=True).start()
    while True:
        try:
            return server.wait()
        except KeyboardInterrupt:
            continue  # the server has had it too, and asks or ends by itself


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
