"""A pytest plugin for `make test` (`-p tools.pytest_again`): what fails is tried once more, and the summary says that it was.

The lessons measure, and the machines that run these tests are shared: a neighbour's burst moves a price for a second or two, and
some six thousand tests meet one now and then. A fault fails both times. A test function is run again by pytest-rerunfailures
(its mark is "R", and -rR lists it); a notebook cannot be taken up in its middle, so the whole of it is run again on a fresh
kernel, and where that run passes, the cells that failed become a warning. `make soak` counts every first failure: it does not
use this.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class PassedAgain(pytest.PytestWarning):
    """A lesson failed, and passed when it was run once more."""


def pytest_collection_modifyitems(items):
    for item in items:
        if isinstance(item, pytest.Function):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and not isinstance(item, pytest.Function) and Path(item.path).suffix == ".ipynb":
        wrong = second_run(Path(item.path))
        if wrong:
            report.longrepr = f"{report.longrepr}\n\nRun once more, on a fresh kernel:\n{wrong}"
        else:
            first = COLOUR.sub("", str(report.longrepr))
            item.warn(PassedAgain(f"{item.nodeid} failed, and the whole of it passed when run again: {first}"))
            report.outcome, report.longrepr = "passed", None
    return report


@cache
def second_run(notebook: Path) -> str:
    """Run a notebook from top to bottom on a fresh kernel: what is wrong with it, in words, or "" when nothing is."""
    from tools import gates

    outcome = gates.run(notebook, ())
    if not outcome.ok:
        return outcome.why
    return "" if outcome.compared == gates.committed(notebook) else "a check says something else than what is committed"
