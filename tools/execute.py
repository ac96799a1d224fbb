"""Runs a notebook on a fresh kernel from top to bottom, in its own folder, as a reader's "Restart and Run All" would."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from nbclient import NotebookClient
from nbformat import NotebookNode

CELL_TIMEOUT_S = 300


def execute(
    nb: NotebookNode,
    folder: Path,
    *,
    timeout_s: float = CELL_TIMEOUT_S,
    python: str = sys.executable,
    env: dict | None = None,
    on_cell=None,
) -> NotebookNode:
    """Execute `nb` in place with `folder` as the working directory and return it.

    The kernel is `python` (never another one that a kernelspec of the same name points to), with `env` as its whole
    environment (default: this process's). `on_cell(index)` is called before each cell. Raises
    `nbclient.exceptions.CellExecutionError` when a cell fails, `CellTimeoutError` when one takes longer than `timeout_s`
    seconds, `DeadKernelError` at once when the kernel dies.
    """
    client = NotebookClient(
        nb,
        timeout=timeout_s,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        on_cell_start=None if on_cell is None else (lambda cell, cell_index: on_cell(cell_index)),
    )
    client.km = client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = str(python)
    with tempfile.TemporaryDirectory(prefix="k-", ignore_cleanup_errors=True) as sockets:
        if sys.platform != "win32":  # files instead of ports: this also works where there is no network at all
            client.km.transport = "ipc"
            client.km.ip = str(Path(sockets) / "s")
        client.execute(env=dict(os.environ if env is None else env), cwd=str(folder))
    return nb
