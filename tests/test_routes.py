"""The ways in: the README's routes, conda and Binder, the devcontainer, `make lab` at the far end of an SSH tunnel."""

from __future__ import annotations

import json
import re
import shlex
import socket
import sys
import tomllib
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pytest
import yaml

from tests.browser import lab
from tests.conftest import REPO
from tools import canonical
from tools.lint_labs import MARKS
from utils.model import schemas

README = (REPO / "README.md").read_text(encoding="utf-8")
CORE_MINUTES = 45  # of a lesson
# Minutes of a whole route: its heading says how much time you have, and a day or a weekend is not all spent at a desk.
ROUTES = {"2 hours": (105, 120), "a weekend": (8 * 60, 10 * 60), "5 days": (5 * 180, 5 * 300)}
DAY = (150, 300)
PARTS = {"notebooks/07_two_ceilings.ipynb": 30}  # of which a route asks for the first sections only


def route(name: str) -> list[tuple[list[str], list[str], int]]:
    """The rows of a route: (files it links, question ids, minutes)."""
    found = README.split(f"\n### You have {name}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (.*\]\(.*) \| (.*) \| (\d+) \|$", found, re.MULTILINE)
    return [(re.findall(r"\]\(([^)]+)\)", do), re.findall(r"`([\w.]+)`", ask), int(minutes)) for do, ask, minutes in rows]


def minutes_of(path: str, *, part: bool) -> int:
    """What a lesson's core takes, or what the cards of a lab say together."""
    if path.startswith("notebooks/"):
        return PARTS[path] if part else CORE_MINUTES
    nb = canonical.loads((REPO / path).read_text(encoding="utf-8"))
    return sum(int(marks[1]) for cell in nb.cells if (marks := MARKS.search(cell.source)))


EACH = pytest.mark.parametrize("name", ROUTES)


@EACH
def test_a_routes_minutes_are_those_of_its_lessons_and_labs_and_fit_the_time(name):
    rows = route(name)
    for files, _, minutes in rows:
        part = "sections 1 to 3" in README.split(f"### You have {name}")[1].split(files[0])[1].split("\n")[0]
        assert sum(minutes_of(file, part=part) for file in files) == minutes, files
        assert name != "5 days" or DAY[0] <= minutes <= DAY[1]
    least, most = ROUTES[name]
    assert least <= sum(minutes for *_, minutes in rows) <= most


@EACH
def test_a_routes_questions_are_there_and_belong_to_what_was_just_done(name):
    known = {q["id"]: q for q in schemas.load("questions")["questions"]}
    done: set[str] = set()
    for files, asked, _ in route(name):
        done |= {file.split("/")[1][3:].removesuffix(".ipynb") for file in files if file.startswith("notebooks/")}
        assert asked and set(asked) <= set(known), set(asked) - set(known)
        assert {known[i]["lesson"] for i in asked} <= done, "a question about a lesson that this route has not reached"
        for i in asked:
            assert known[i]["use"] in ("check", "exit", "recall"), f"{i} is asked before the lesson, not after"


def test_a_question_is_asked_by_its_id_as_the_readme_says():
    from utils.show.quiz import quiz

    assert "`from utils.show.quiz import quiz`" in README
    assert quiz([i for name in ROUTES for _, asked, _ in route(name) for i in asked]) is not None


def test_the_five_days_meet_every_lesson_and_the_shorter_routes_are_parts_of_the_course():
    there = {path.relative_to(REPO).as_posix() for path in (REPO / "notebooks").glob("*.ipynb")}
    linked = {file for files, *_ in route("5 days") for file in files}
    assert there <= linked, f"in no day: {sorted(there - linked)}"
    assert all((REPO / file).is_file() for name in ROUTES for files, *_ in route(name) for file in files)


def test_the_receipt_comes_first_and_licences_and_citation_are_named():
    assert README.index("receipt-light.svg") < README.index("## ") and "(figures/receipt.md)" in README
    licence = README.split("\n## Licence")[1]
    for name in ("MIT", "CC BY 4.0", "(LICENSE)", "(CITATION.cff)"):
        assert name in licence


# ------------------------------------------------------------------------------------------------ Binder, conda, containers


def test_binders_list_is_pyprojects_less_torch_which_comes_as_its_cpu_build():
    listed = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    parts = yaml.safe_load((REPO / "binder/environment.yml").read_text(encoding="utf-8"))["dependencies"]
    conda = [part for part in parts if isinstance(part, str)]
    assert next(part["pip"] for part in parts if isinstance(part, dict)) == [
        line for line in listed if not line.startswith(("torch==", "triton"))
    ]
    assert "pytorch-cpu>=2.11,<2.14" in conda and not any(part.startswith("pytorch=") for part in conda)
    assert {"python=3.12", "cxx-compiler", "pip"} <= set(conda)


def test_the_devcontainer_makes_the_environment_of_make_lab():
    container = json.loads((REPO / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    words = shlex.split(container["onCreateCommand"])
    assert (REPO / words[-1]).is_file() and words[-2:] == ["sh", "tools/environment.sh"]
    assert container["image"].startswith("python:3.1") and container["hostRequirements"]["gpu"] == "optional"
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    assert f"PORT ?= {container['forwardPorts'][0]}\n" in makefile
    assert container["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"].endswith("/.venv/bin/python")


# ------------------------------------------------------------------------------------------------ a machine over SSH


def test_make_lab_listens_on_its_own_machine_only_wants_its_token_and_says_which_port_it_took():
    """What a tunnel needs; and what keeps everybody else out of a machine that others share."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with lab.serve(command=[sys.executable, "-m", "tools.lab", str(port), "--no-browser"]) as server:
            got = int(server.url.rsplit(":", 1)[1])
            assert got != port, "the port was taken"
            if sys.platform == "linux":  # elsewhere only root may see who listens
                ears = {
                    c.laddr.ip for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.laddr.port == got
                }
                assert ears and ears <= {"127.0.0.1", "::1"}
            with pytest.raises(HTTPError) as refused:
                urlopen(f"{server.url}/api/contents", timeout=10)
            assert refused.value.code == 403
            with urlopen(f"{server.url}/api/contents?token={server.token}", timeout=10) as answer:
                assert {"notebooks", "labs"} <= {entry["name"] for entry in json.load(answer)["content"]}
    section = README.split("**A machine over SSH**")[1].split("\n\n")[0]
    assert "make lab PORT=8890" in section and "ssh -N -L 8890:localhost:8890" in section
