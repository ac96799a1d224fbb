"""What every pytest run of this repository needs, lessons under nbval included: a home of its own, no wait on dead kernels."""

from __future__ import annotations

import os
import tempfile
import time
from queue import Empty

try:
    from nbval.kernel import RunningKernel
except ImportError:  # the suite of one room can run without nbval
    RunningKernel = None


def pytest_configure(config):
    """Tests never touch the reader's results; and whoever looks at a failure finds the folder named in the environment."""
    if "ONE_ADD_HOME" not in os.environ:
        config._one_add_home = tempfile.TemporaryDirectory(prefix="one-add-home-")
        os.environ["ONE_ADD_HOME"] = config._one_add_home.name


def pytest_unconfigure(config):
    home = getattr(config, "_one_add_home", None)
    if home is not None:
        os.environ.pop("ONE_ADD_HOME", None)
        home.cleanup()


def _await_reply_or_death(self, msg_id, timeout=None):
    """nbval 0.11 waits its whole cell timeout on a kernel that is gone; this looks every second whether it lives."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return _await_reply(self, msg_id, timeout=1.0)
        except Empty:
            if not self.is_alive():
                raise RuntimeError("the kernel died while it ran this cell") from None
            if end is not None and time.monotonic() > end:
                raise


if RunningKernel is not None:
    _await_reply = RunningKernel.await_reply
    RunningKernel.await_reply = _await_reply_or_death
