"""Runs a notebook on a fresh kernel from top to bottom, in its own folder, as a reader's "Restart and Run All" would."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nbclient import NotebookClient
from nbformat import NotebookNode

CELL_TIMEOUT_S = 300


def execute(
    nb: NotebookNode, folder: Path, *, timeout_s: float = CELL_TIMEOUT_S, on_cell=None, env: dict | None = None
) -> NotebookNode:
    """Execute `nb` in place with `folder` as the working directory and return it.

    The kernel is the Python that runs this (never another one that a kernelspec of the same name points to). `env`
    replaces the kernel's environment. `on_cell(index)` is called before each cell. Raises
    `nbclient.exceptions.CellExecutionError` when a cell fails, `CellTimeoutError` when one takes longer than `timeout_s`
    seconds, `DeadKernelError` at once when the kernel dies.
    """
    client = NotebookClient(
        nb,
        timeout=timeout_s,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        store_widget_state=False,
        allow_errors=False,
        on_cell_start=None if on_cell is None else (lambda cell, cell_index: on_cell(cell_index)),
    )
    client.km = client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    client.execute(env=dict(os.environ if env is None else env), cwd=str(folder))
    return nb
