"""Runs one lesson inside the gates that tools/gates.py has set up around this process, and writes down what happened.

`python -m tools.gated JOB.json`: the job names the notebook, the folder to run it in, the kernel's Python and environment, and
what is to be looked at first, so that a gate that is not in force is a failure and not a pass.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError, DeadKernelError

from tools import canonical
from tools.execute import execute
from tools.lint_notebooks import COMPARED

# Runs in the kernel before the lesson: what this machine looks like from inside. `{port}` is a server outside that listens.
LOOK = """
import json, os, shutil, socket, sys
from pathlib import Path

def _can(action):
    try:
        action()
        return True
    except Exception:
        return False

{guard}
print(json.dumps(dict(
    programs=[p for p in "g++ c++ clang++ gcc cc clang nvcc valgrind".split() if shutil.which(p)],
    cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
    home_writable=_can(lambda: (Path.home() / "gate-check").write_text("x")),
    online=_can(lambda: socket.create_connection(("127.0.0.1", {port}), 3).close()),
    course_here=any((p / "utils").is_dir() for p in [Path.cwd(), *Path.cwd().parents]),
    overrides=sorted(k for k in os.environ if k.startswith("ONE_ADD_")),
    stack=[__import__(m).__version__ for m in ("ipywidgets", "IPython", "ipykernel")],
)))
"""
# Where no network namespace can be had: connections refused in the kernel itself.
GUARD = """
def _refuse(self, address, _connect=socket.socket.connect):
    if self.family in (socket.AF_INET, socket.AF_INET6):
        raise OSError("offline")
    return _connect(self, address)

socket.socket.connect = _refuse
"""
# Runs after the lesson.
FIRE = "import json\nfrom tools.widget_probe import fire_all\nprint(json.dumps(fire_all()))"


def main(path: str) -> int:
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    if job["one_core"]:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    nb = canonical.loads(Path(job["notebook"]).read_text(encoding="utf-8"))
    look = LOOK.format(port=job["port"], guard=GUARD if job["guard"] else "")
    nb.cells = [
        nbformat.v4.new_code_cell(look, id="gate-look"),
        *nb.cells,
        nbformat.v4.new_code_cell(FIRE, id="gate-fire"),
    ]
    at = [0]
    began = time.perf_counter()
    result = {"error": None, "cell": None}
    try:
        execute(
            nb,
            Path(job["folder"]),
            timeout_s=job["cell_timeout_s"],
            python=job["python"],
            env=job["env"],
            on_cell=lambda index: at.__setitem__(0, index),
        )
    except (CellExecutionError, DeadKernelError, TimeoutError) as error:
        result = {"error": f"{type(error).__name__}: {_plain(str(error))}", "cell": nb.cells[at[0]].id}
    result["seconds"] = time.perf_counter() - began
    result["look"] = _printed(nb.cells[0])
    result["fired"] = _printed(nb.cells[-1])
    result["compared"] = {
        cell.id: "".join(o.text for o in cell.outputs if o.output_type == "stream")
        for cell in nb.cells
        if cell.cell_type == "code" and cell.source.startswith(COMPARED)
    }
    Path(job["result"]).write_text(json.dumps(result), encoding="utf-8")
    return 0


def _printed(cell):
    """What a cell printed as JSON, or None when it did not get that far."""
    text = "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout").strip()
    return json.loads(text.splitlines()[-1]) if text else None


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
