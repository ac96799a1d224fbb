"""Lets a lab's ungraded cells use what is not written yet: they say so and go on, instead of failing."""

from __future__ import annotations

from collections.abc import Callable


def attempt(call: Callable[[], object]):
    """What `call()` returns; None, after one printed sentence, when it meets a part that is not written yet.

    Only NotImplementedError is caught: every other error is the reader's to see.
    """
    try:
        return call()
    except NotImplementedError:
        print("Nothing to see yet: this cell uses a part of the lab that you have not written. Come back when you have.")
        return None
