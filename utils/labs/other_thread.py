"""A call in a thread of its own: what is the thread's, such as modes and guards, is not there."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_another_thread(call: Callable[[], object]):
    """What `call()` returns in a thread of its own; an exception there is raised here."""
    came: list = []

    def run() -> None:
        try:
            came.append((call(), None))
        except BaseException as error:  # handed on to the thread that asked
            came.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = came[0]
    if error is not None:
        raise error
    return value
