"""A measurement in a process of its own: a compiled probe that crashes, or a library that stays slow, takes only itself along.

The child is `python -m MODULE ARGUMENTS…`; it calls `serve`, and writes progress and then its answer, a line each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable

from utils import paths

Progress = Callable[[float, str], None]
PROGRESS, ANSWER = "progress", "answer"
LIMIT_S = 1800  # no measurement of the course takes a third of it: what has not answered by then hangs


def in_child(module: str, arguments: tuple[str, ...], progress: Progress, limit_s: float = LIMIT_S) -> dict:
    """What `python -m module arguments…` answers. RuntimeError with the reason when that process fails, dies, or has not
    answered within `limit_s` seconds and is killed."""
    command = [sys.executable, "-m", module, *arguments]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(paths.REPO), os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8", env=env) as child:
            answer, late = None, threading.Event()
            watch = threading.Timer(limit_s, lambda: (late.set(), child.kill()))
            watch.start()
            try:
                for line in child.stdout or ():
                    word, _, rest = line.partition(" ")
                    if word == PROGRESS:
                        done, _, text = rest.strip().partition(" ")
                        progress(float(done), text)
                    elif word == ANSWER:
                        answer = json.loads(rest)
                child.wait()
            except BaseException:  # an interrupted cell must not leave its child behind
                child.kill()
                raise
            finally:
                watch.cancel()
        if late.is_set():
            raise RuntimeError(f"its process had not ended after {limit_s:,.0f} s")
        if answer is not None and child.returncode == 0:
            return answer
        errors.seek(0)
        last = next((line.strip() for line in reversed(errors.readlines()) if line.strip()), "it said nothing")
    died = f"its process was killed by signal {-child.returncode}" if child.returncode < 0 else last
    raise RuntimeError(died)


def serve(measure: Callable[[Progress], dict]) -> None:
    """The other end of `in_child`: print progress and then the answer of `measure(progress)`, which must be JSON data."""

    def progress(done: float, text: str) -> None:
        print(PROGRESS, f"{done:.4f}", " ".join(text.split()), flush=True)

    answer = measure(progress)
    print(ANSWER, json.dumps(answer, allow_nan=False), flush=True)
