"""A pytest plugin for runs that hold lessons (`-p tools.pytest_lessons`): a home of their own, and no wait on a dead kernel."""

from __future__ import annotations

import os
import tempfile
import time
from queue import Empty

NBVAL = (
    "-p",
    "tools.pytest_lessons",
    "--nbval-lax",
    "--nbval-current-env",
    "--nbval-cell-timeout=300",
    "--nbval-sanitize-with=tools/nbval_sanitize.cfg",
)


def pytest_configure(config):
    """Give the run a reader's folder of its own, whatever the environment says: no test touches anyone's results."""
    if not hasattr(config, "_one_add_home"):
        config._one_add_home = tempfile.TemporaryDirectory(prefix="one-add-home-", ignore_cleanup_errors=True)
        config._one_add_home_before = os.environ.get("ONE_ADD_HOME")
        os.environ["ONE_ADD_HOME"] = config._one_add_home.name


def pytest_unconfigure(config):
    home = config.__dict__.pop("_one_add_home", None)
    if home is None:
        return
    if config._one_add_home_before is None:
        os.environ.pop("ONE_ADD_HOME", None)
    else:
        os.environ["ONE_ADD_HOME"] = config._one_add_home_before
    home.cleanup()


def see_dead_kernels() -> None:
    """Make nbval look every second whether the kernel lives; 0.11 waits its whole cell timeout on one that is gone."""
    from nbval.kernel import RunningKernel

    if getattr(RunningKernel.await_reply, "sees_death", False):
        return
    original = RunningKernel.await_reply

    def await_reply(self, msg_id, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return original(self, msg_id, timeout=1.0)
            except Empty:
                if not self.is_alive():
                    raise RuntimeError("the kernel died while it ran this cell") from None
                if end is not None and time.monotonic() > end:
                    raise

    await_reply.sees_death = True
    RunningKernel.await_reply = await_reply


try:
    see_dead_kernels()
except ImportError:  # one room's tests run without nbval too
    pass
