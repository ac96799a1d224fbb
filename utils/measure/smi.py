"""What nvidia-smi says while something runs: utilisation, SM clock and power of one GPU, sampled by its own process.

No dependency: the driver brings the program along. What it samples is the driver's figure over a window of 1/6 to 1 s, so a
reading means something only when the work has run for longer than that.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from utils.measure.device_clock import MeasurementError

FIELDS = "utilization.gpu,clocks.sm,power.draw"
EVERY_MS = 100


def one(query: str, gpu: str) -> str:
    """nvidia-smi's answer to one query of one GPU, as text. Raises MeasurementError, in words, when there is none."""
    smi = _program()
    command = [smi, f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", gpu]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MeasurementError(f"nvidia-smi does not answer: {error}") from None
    if run.returncode != 0:
        raise MeasurementError(f"nvidia-smi does not answer: {' '.join((run.stdout + run.stderr).split())[:120]}")
    return run.stdout.strip()


def number(text: str) -> float | None:
    """A number of nvidia-smi's, None for "[N/A]" and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def this_gpu() -> str:
    """How nvidia-smi is told which GPU torch's current one is: by its UUID, by its number where torch does not tell that."""
    import torch

    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    return f"GPU-{uuid}" if uuid else str(torch.cuda.current_device())


class Samples:
    """Readings that came in: `rows` are (seconds since the start, utilisation %, SM clock MHz, power W); None for no number."""

    def __init__(self):
        self.rows: list[tuple[float, float | None, float | None, float | None]] = []

    def since(self, seconds: float) -> list[tuple[float, float | None, float | None, float | None]]:
        """The rows from `seconds` on: those before show what ran earlier."""
        return [row for row in self.rows if row[0] >= seconds]


@contextmanager
def sampling(gpu: str) -> Iterator[Samples]:
    """Inside, nvidia-smi runs and its readings come in, about ten a second. Raises MeasurementError where it is missing."""
    command = [_program(), f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits", "-i", gpu, f"--loop-ms={EVERY_MS}"]
    samples = Samples()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        start = time.monotonic()

        def read() -> None:
            for line in running.stdout or ():
                numbers = [number(part.strip()) for part in line.split(",")]
                if len(numbers) == 3:
                    samples.rows.append((round(time.monotonic() - start, 3), *numbers))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield samples
        finally:
            running.terminate()
            running.wait(10)
            reader.join(10)


def _program() -> str:
    found = shutil.which("nvidia-smi")
    if not found:
        raise MeasurementError("there is no nvidia-smi here, so nothing tells the utilisation")
    return found
