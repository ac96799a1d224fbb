"""The hosted workflows: every command in them exists, every action is GitHub's own and pinned, none may write or run for ever."""

from __future__ import annotations

import os
import re
import shlex
from importlib.util import find_spec

import pytest
import yaml

from tests.conftest import REPO
from utils.__main__ import parser

FOLDER = REPO / ".github" / "workflows"
TARGETS = set(re.findall(r"^([a-z]+):.*## ", (REPO / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
FILES = sorted(FOLDER.glob("*.yml"))


def read(path) -> dict:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    data["on"] = data.pop(True, data.get("on"))  # YAML 1.1 reads the key `on` as true
    return data


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def wrong(command: str) -> str:
    """What is wrong with one line of a `run`, or ""."""
    words = shlex.split(command)
    if words[:2] == ["sudo", "env"]:
        words = [word for word in words[2:] if "=" not in word]
    match words:
        case [".ci/run"]:
            return "" if os.access(REPO / ".ci/run", os.X_OK) else ".ci/run cannot be run"
        case ["make", target, *_]:
            return "" if target in TARGETS else f"no target {target}"
        case [".venv/bin/python", "-m", "utils", *rest]:
            try:
                parser().parse_args(rest)
            except SystemExit:
                return f"python -m utils does not know {rest}"
            return ""
        case [".venv/bin/python", "-m", "pip", "install", "--upgrade", "torch"]:
            return ""
        case [".venv/bin/python", "-m", module, *_]:
            return "" if find_spec(module) else f"no module {module}"
    return f"not a command of this repository: {command}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_command_is_there(path):
    lines = [line for step in steps(read(path)) for line in step.get("run", "").splitlines()]
    assert lines and [wrong(line) for line in lines if wrong(line)] == []


@pytest.mark.parametrize(
    "command", ["make nothing", ".ci/test", ".venv/bin/python -m utils verfy", ".venv/bin/python -m tools.nothing", "curl x | sh"]
)
def test_a_command_that_is_not_there_is_seen(command):
    assert wrong(command)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_githubs_own_and_pinned_to_a_version(path):
    used = [step["uses"] for step in steps(read(path)) if "uses" in step]
    assert used and all(re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", one) for one in used), used


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_jobs_end_and_may_not_write_to_the_repository(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert 0 < job["timeout-minutes"] <= 90 and job["runs-on"] == "ubuntu-24.04", name
        assert job.get("permissions", {}).get("contents", "read") == "read", name
        assert all(set(step) & {"run", "uses"} for step in job["steps"]), name


def test_one_calls_ci_run_and_one_verifies_every_week():
    tests, weekly = read(FOLDER / "tests.yml"), read(FOLDER / "weekly.yml")
    assert sum(".ci/run" in step.get("run", "") for step in steps(tests)) == 1
    assert "pull_request" in tests["on"] and tests["on"]["push"] == {"branches": ["main"]}
    (cron,) = [row["cron"] for row in weekly["on"]["schedule"]]
    minute, hour, day, month, weekday = cron.split()
    assert day == month == "*" and weekday in "0123456" and 0 <= int(minute) < 60 and 0 <= int(hour) < 24
    assert [step["run"] for step in weekly["jobs"]["verify"]["steps"] if "run" in step] == [
        "make verify",
        ".venv/bin/python -m utils verify --device cpu",
    ]


def test_the_only_address_in_them_is_torchs_own_index():
    found = {address for path in FILES for address in re.findall(r"https?://[^\s\"']+", path.read_text(encoding="utf-8"))}
    assert found == {"https://download.pytorch.org/whl/cpu"}
