"""What the tests share: `require(piece)`, which skips in words on a reader's machine and fails where CI=true."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from tools.pytest_lessons import pytest_configure, pytest_unconfigure  # noqa: F401  (hooks: a home of its own)

REPO = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser() -> str | None:
    """The Chromium that is installed, or None. None is ever downloaded."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def _compiler() -> str | None:
    """g++ or clang++, with the Python headers that the probe is compiled against."""
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return next((path for path in map(shutil.which, ("g++", "c++", "clang++")) if path and headers.exists()), None)


PIECES = {
    "browser": (browser, "no Chromium or Chrome on PATH (Debian and Ubuntu: apt-get install chromium)"),
    "compiler": (_compiler, "no C++ compiler with Python's headers (Debian and Ubuntu: apt-get install g++ python3-dev)"),
    "valgrind": (lambda: shutil.which("valgrind"), "no valgrind on PATH (Debian and Ubuntu: apt-get install valgrind)"),
    "gdb": (lambda: shutil.which("gdb"), "no gdb on PATH (Debian and Ubuntu: apt-get install gdb)"),
    "git": (lambda: shutil.which("git"), "no git on PATH"),
}


def require(piece: str) -> str:
    """Where `piece` is; skips the test in words when it is absent, and fails it instead where CI=true."""
    find, missing = PIECES[piece]
    found = find()
    if found:
        return found
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"CI needs it: {missing}", pytrace=False)
    pytest.skip(missing)


@pytest.fixture
def repo() -> Path:
    """The root of the repository."""
    return REPO


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The reader's folder for one test: empty, and nothing of it is remembered before or after."""
    from utils import paths
    from utils.model import results

    monkeypatch.setenv("ONE_ADD_HOME", str(tmp_path))
    paths._folder.cache_clear()
    results._open.cache_clear()
    yield tmp_path
    paths._folder.cache_clear()
    results._open.cache_clear()
