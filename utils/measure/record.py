"""Runs every instrument of the course once and puts what they measured into one recording.

A recording is a plain dict (JSON): date, where (fingerprint), command, receipts, extras. An instrument that fails leaves
its reason in extras["failures"], and the rest goes on. Numbers are rounded so that a file stays small; sealing, naming and
writing are `utils.model.recordings`' business.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from utils import paths
from utils.measure import machine

Progress = Callable[[float, str], None]
PROGRESS, ANSWER = "progress", "answer"


@dataclass(frozen=True)
class Instrument:
    """One thing to run: `measure(progress)` gives plain data for `part` ("receipts", "extras"); `weight` is its share of time."""

    name: str
    part: str
    measure: Callable[[Progress], object]
    weight: float = 1.0


def instruments(device: str) -> list[Instrument]:
    """What is run for this device: the CPU's receipts always, the GPU's (with its lanes) for "cuda", then the contrast of
    cold code with cold data, then the five traps. Each runs in a process of its own."""
    weights = {"cpu": 3.0, "cpu_grad": 3.0, "cuda": 5.0, "cuda_grad": 4.0, "code_or_data": 1.0, "traps": 2.0}
    names = [name for name in MEASURES if device == "cuda" or not name.startswith("cuda")]
    return [Instrument(name, MEASURES[name][0], partial(in_child, name, device), weights[name]) for name in names]


def record(device: str = "cpu", *, progress: Progress | None = None, run: list[Instrument] | None = None) -> dict:
    """Runs the instruments (`run` replaces the list in tests) and returns the recording as plain JSON data."""
    report = progress or (lambda done, text: None)
    todo = instruments(device) if run is None else run
    out: dict = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "where": machine.fingerprint(),
        "command": f"python -m utils record --device {device}",
        "receipts": {},
        "extras": {},
    }
    whole, done = sum(i.weight for i in todo), 0.0
    for one in todo:

        def within(part: float, text: str, one=one, done=done) -> None:
            # Short of 1: a bar closes itself there, and the next instrument still has to run.
            report(0.999 * (done + one.weight * min(1.0, max(0.0, part))) / whole, f"{one.name}: {text}" if text else one.name)

        within(0.0, "")
        try:
            out[one.part][one.name] = rounded(one.measure(within))
        except Exception as error:  # one instrument must not cost the others
            out["extras"].setdefault("failures", {})[one.name] = _in_words(error)
        done += one.weight
    report(1.0, "done")
    return out


def rounded(data):
    """`data` as plain JSON with every float cut to four significant digits (two decimals at most are ever meant)."""
    if isinstance(data, dict):
        return {str(k): rounded(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [rounded(v) for v in data]
    if isinstance(data, float):
        if not math.isfinite(data):
            raise ValueError("a number that is not finite is no measurement")
        return round(data, 3 - math.floor(math.log10(abs(data)))) if data else 0.0
    return data


def _in_words(error: Exception) -> str:
    """The reason an instrument failed, without the folders of this machine."""
    said = re.sub(r"/[^\s:'\"]*/", "", " ".join(str(error).split()))[:300]
    return said or type(error).__name__


# ---- an instrument in a process of its own: a compiled probe that crashes takes only itself along -------------------------


def in_child(name: str, device: str, progress: Progress) -> dict:
    """What MEASURES[name] measures, in a fresh process; RuntimeError with the reason when that process fails or dies."""
    command = [sys.executable, "-m", "utils.measure.record", name, device]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(paths.REPO), os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8", env=env) as child:
            answer = None
            for line in child.stdout or ():
                word, _, rest = line.partition(" ")
                if word == PROGRESS:
                    done, _, text = rest.strip().partition(" ")
                    progress(float(done), text)
                elif word == ANSWER:
                    answer = json.loads(rest)
        if answer is not None and child.returncode == 0:
            return answer
        errors.seek(0)
        last = next((line.strip() for line in reversed(errors.readlines()) if line.strip()), "it said nothing")
    died = f"its process was killed by signal {-child.returncode}" if child.returncode < 0 else last
    raise RuntimeError(died)


def _child(name: str, device: str) -> None:
    """The other end of `in_child`: progress and then the answer, a line each."""

    def progress(done: float, text: str) -> None:
        print(PROGRESS, f"{done:.4f}", " ".join(text.split()), flush=True)

    answer = MEASURES[name][1](device, progress)
    print(ANSWER, json.dumps(answer, allow_nan=False), flush=True)


def _receipt(on: str, grad: bool, device: str, progress: Progress) -> dict:
    from utils.measure.stages import price_stages

    return price_stages(on, grad, progress=progress).to_dict()


def _code_or_data(device: str, progress: Progress) -> dict:
    from utils.measure.programs import code_or_data

    return code_or_data(device, progress=progress).to_dict()


def _traps(device: str, progress: Progress) -> dict:
    from utils.measure import traps

    return traps.run_all(device, progress=progress)


# Instrument → (its part of the recording, what measures it), in the order in which they run.
MEASURES: dict[str, tuple[str, Callable[[str, Progress], dict]]] = {
    "cpu": ("receipts", partial(_receipt, "cpu", False)),
    "cpu_grad": ("receipts", partial(_receipt, "cpu", True)),
    "cuda": ("receipts", partial(_receipt, "cuda", False)),
    "cuda_grad": ("receipts", partial(_receipt, "cuda", True)),
    "code_or_data": ("extras", _code_or_data),
    "traps": ("extras", _traps),
}

if __name__ == "__main__":
    _child(*sys.argv[1:3])
