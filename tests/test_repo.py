"""The repository's own promises: one list of dependencies, two commands from a bare machine, an import that costs nothing."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import stat
import subprocess
import sys
import tomllib

import pytest
import yaml

from tests.conftest import REPO, require

PYPROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (REPO / "Makefile").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ dependencies


def test_environment_yml_is_pyprojects_list():
    conda = yaml.safe_load((REPO / "environment.yml").read_text(encoding="utf-8"))
    pip = next(part["pip"] for part in conda["dependencies"] if isinstance(part, dict))
    assert pip == PYPROJECT["project"]["dependencies"]


def test_dependencies_are_pinned_and_torch_is_the_tested_one():
    listed = PYPROJECT["project"]["dependencies"]
    ranges = [line for line in listed if not re.fullmatch(r"[a-z]+==[\d.]+", line)]
    assert "torch==2.13.0" in listed
    # triton is torch's to pin: a range in which both torches' own lie, and only where there are wheels
    (triton,) = ranges
    assert triton == "triton>=3.6,<3.8; sys_platform == 'linux' and platform_machine == 'x86_64'"


def test_every_pin_says_why():
    """Each line of the list carries a comment: what the course needs it for."""
    text = (REPO / "pyproject.toml").read_text(encoding="utf-8")
    block = text[text.index("dependencies = [") : text.index("[project.optional-dependencies]")]
    lines = [line for line in block.splitlines() if line.strip().startswith('"')]
    assert lines and all("#" in line for line in lines)


def test_requirements_prints_the_list_and_an_extra():
    def printed(*extras):
        run = subprocess.run(
            [sys.executable, "tools/requirements.py", *extras], cwd=REPO, capture_output=True, text=True, check=True
        )
        return run.stdout.splitlines()

    assert printed() == PYPROJECT["project"]["dependencies"]
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert printed("test") == PYPROJECT["project"]["dependencies"] + extras["test"]
    assert printed("test", "grade") == PYPROJECT["project"]["dependencies"] + extras["test"] + extras["grade"]


def test_nbgrader_is_pinned_within_0_9_and_no_learner_needs_it():
    assert any(re.fullmatch(r"nbgrader==0\.9\.\d+", line) for line in PYPROJECT["project"]["optional-dependencies"]["grade"])
    everyone = PYPROJECT["project"]["dependencies"]
    assert not any("nbgrader" in line for line in everyone)


def test_the_extra_for_tests_has_its_tools():
    names = {re.split(r"[=<>]", line)[0] for line in PYPROJECT["project"]["optional-dependencies"]["test"]}
    assert {"nbval", "pytest", "playwright", "ruff"} <= names


# ------------------------------------------------------------------------------------------------ make


def make(*arguments, cwd=REPO, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env={**clean, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )


needs_make = pytest.mark.skipif(not shutil.which("make"), reason="no make on PATH")


@needs_make
def test_help_lists_every_target():
    listed = set(re.findall(r"make (\w+)", make("help").stdout))
    phony = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split()) - {"core", "extras", "grader"}
    assert listed == phony
    assert {"lab", "test", "measure", "record", "labs", "grade", "bench", "soak", "figures"} <= phony


@needs_make
@pytest.mark.parametrize("given", [(), ("LAB=lab1",), ("NOTEBOOK=x.ipynb",)], ids=str)
def test_grade_says_what_it_must_be_told(given):
    """Before anything is installed."""
    grade = make("grade", *given)
    assert grade.returncode != 0 and "make grade LAB=lab1 NOTEBOOK=" in grade.stderr


@needs_make
@pytest.mark.parametrize("given", ["NOTEBOOK=no such folder/x.ipynb", "SUBMISSIONS=nowhere.zip"])
def test_grade_looks_for_the_path_before_it_installs_anything(given, tmp_path):
    shutil.copy(REPO / "Makefile", tmp_path)  # there is no tools/ here: anything further would fail otherwise
    grade = make("grade", "LAB=lab1", given, cwd=tmp_path)
    name = given.partition("=")[2]
    assert grade.returncode == 2 and grade.stdout == ""
    assert grade.stderr.splitlines()[0] == f"make grade: {name}: no such file"


# A Python that only notes how it was called and answers as told: the script is tried without a network and in a second.
STUB = """#!/bin/sh
echo "$*" >>"$STUB_LOG"
case "$*" in
*'version_info[:2] <'*) exit ${STUB_OLD:-0} ;;
*'import venv, ensurepip'*) exit ${STUB_NO_VENV:-0} ;;
*'"%d.%d"'*) echo "${STUB_VERSION:-3.12}" ;;
'-m venv '*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
'-m pip install'*) echo 'no such package' >&2; exit ${STUB_NO_PIP:-0} ;;
esac
"""


class Bare:
    """A folder with the script, a pyproject and one Python that is a stub."""

    def __init__(self, folder):
        self.folder, self.log = folder, folder / "log"
        (folder / "tools").mkdir()
        shutil.copy(REPO / "tools" / "environment.sh", folder / "tools")
        shutil.copy(REPO / "pyproject.toml", folder)
        self.python = folder / "python-stub"
        self.python.write_text(STUB, encoding="utf-8")
        self.python.chmod(self.python.stat().st_mode | stat.S_IXUSR)

    def run(self, *arguments, **env):
        self.log.write_text("", encoding="utf-8")
        env = {"PATH": os.environ["PATH"], "PYTHON": str(self.python), "STUB_LOG": str(self.log), **env}
        return subprocess.run(
            ["sh", "tools/environment.sh", *arguments], cwd=self.folder, env=env, capture_output=True, text=True
        )

    @property
    def installs(self) -> int:
        return self.log.read_text(encoding="utf-8").count("-m pip install")


@pytest.fixture
def bare(tmp_path):
    return Bare(tmp_path)


@pytest.mark.parametrize("extra", [(), ("test",), ("test", "grade")], ids=str)
def test_the_environment_is_made_once(bare, extra):
    first = bare.run(*extra)
    assert first.returncode == 0 and bare.installs == 1, first.stderr
    again = bare.run(*extra)
    assert again.returncode == 0 and bare.installs == 0 and again.stdout == ""


def test_a_changed_list_is_installed_and_a_changed_setting_is_not(bare):
    bare.run()
    text = (bare.folder / "pyproject.toml").read_text(encoding="utf-8")
    (bare.folder / "pyproject.toml").write_text(text.replace("line-length = 130", "line-length = 120"), encoding="utf-8")
    bare.run()
    assert bare.installs == 0
    (bare.folder / "pyproject.toml").write_text(text.replace("tqdm==4", "tqdm==5"), encoding="utf-8")
    bare.run()
    assert bare.installs == 1


def test_the_extra_brings_the_core(bare):
    bare.run("test")
    bare.run()
    assert bare.installs == 0


def test_two_extras_bring_each_and_one_does_not_bring_the_other(bare):
    bare.run("test", "grade")
    for asked in [("test",), ("grade",), ("grade", "test"), ()]:
        bare.run(*asked)
        assert bare.installs == 0, asked


def test_an_extra_does_not_bring_another(bare):
    bare.run("grade")
    bare.run("test")
    assert bare.installs == 1
    bare.run("grade")
    assert bare.installs == 0, "what was there is still there"


def test_what_was_interrupted_is_made_again(bare):
    bare.run()
    (bare.folder / ".venv/bin/python").unlink()
    assert bare.run().returncode == 0 and bare.installs == 1


def test_a_failed_install_is_tried_again(bare):
    assert bare.run(STUB_NO_PIP="1").returncode == 2
    assert bare.run().returncode == 0 and bare.installs == 1


def test_another_python_makes_another_environment(bare):
    bare.run()
    (bare.folder / ".venv/bin/python").write_text('#!/bin/sh\ncase "$*" in *%d.%d*) echo 3.11 ;; esac\n', encoding="utf-8")
    ran = bare.run()
    assert "making it again" in ran.stdout and bare.installs == 1


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ({"STUB_OLD": "1"}, "is not a Python from 3.11"),
        ({"STUB_NO_VENV": "1"}, "has no venv or ensurepip"),
        ({"STUB_NO_PIP": "1"}, "pip could not install"),
    ],
)
def test_what_is_missing_is_said_in_one_line(bare, trouble, said):
    ran = bare.run(**trouble)
    ours = [line for line in ran.stderr.splitlines() if line.startswith("make: ")]
    assert ran.returncode == 2 and len(ours) == 1 and said in ours[0]


def test_no_python_at_all(bare):
    """With a PATH that holds the script's own tools and a Python too old."""
    folder = bare.folder / "bin"
    folder.mkdir()
    for tool in ("sh", "sed", "cksum", "cut", "dirname", "rm", "ls"):
        (folder / tool).symlink_to(shutil.which(tool))
    ran = bare.run(PATH=str(folder), PYTHON="")
    assert ran.returncode == 2 and "no Python from 3.11 to 3.14 found" in ran.stderr


def test_lab_passes_port_and_arguments_on_and_starts_no_browser_without_a_display(monkeypatch):
    from tools import lab

    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(lab.sys, "platform", "linux")
    line = lab.command(8899, ["--ServerApp.password="])
    assert "--ServerApp.port=8899" in line and line[-1] == "--ServerApp.password=" and "--no-browser" in line
    assert f"--LabApp.default_url=/lab/tree/{lab.FIRST}" in line
    monkeypatch.setenv("DISPLAY", ":0")
    assert "--no-browser" not in lab.command(8888, [])
    assert lab.main(["eighty"]) == 2


@pytest.mark.parametrize(
    ("port", "said"),
    [
        ("0", "from 1 to 65535"),
        ("65536", "from 1 to 65535"),
        ("80000", "from 1 to 65535"),
        ("9" * 5000, "from 1 to 65535"),
        ("-1", "not a number"),
        ("²", "not a number"),
        ("", "not a number"),
    ],
    ids=lambda value: value[:8],
)
def test_lab_refuses_what_is_no_port_before_anything_starts(port, said, monkeypatch, capsys):
    from tools import lab

    monkeypatch.setattr(lab.os, "execv", lambda *_: pytest.fail("JupyterLab was started"))
    assert lab.main([port]) == 2
    err = capsys.readouterr().err
    assert said in err and err.startswith("PORT=") and len(err.splitlines()) == 1


# ------------------------------------------------------------------------------------------------ CI


def test_ci_runs_make_test_and_asks_for_nothing():
    ci = REPO / ".ci" / "run"
    text = ci.read_text(encoding="utf-8")
    assert ci.stat().st_mode & stat.S_IXUSR
    assert text.startswith("#!/usr/bin/env bash\n") and text.rstrip().endswith("make test")
    assert "exec </dev/null" in text and "CI=true" in text and "://" not in text
    for piece in ("chromium", "g++", "valgrind", "gdb", "make", "python3-venv"):
        assert piece in text


@pytest.mark.parametrize(("ci", "fails"), [("true", True), ("", False)])
def test_a_missing_piece_fails_in_ci_and_is_a_skip_elsewhere(monkeypatch, ci, fails):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", "")
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception)) as raised:
        require("valgrind")
    assert isinstance(raised.value, pytest.fail.Exception) is fails
    assert "no valgrind on PATH" in str(raised.value)


# ------------------------------------------------------------------------------------------------ the package


def test_importing_utils_imports_nothing_heavy():
    code = "import sys, utils; print([m for m in ('torch', 'numpy', 'matplotlib', 'ipywidgets') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=REPO, text=True).strip() == "[]"


def test_the_readers_results_are_safe_from_the_tests():
    import platformdirs

    from utils import paths

    assert os.path.realpath(os.environ["ONE_ADD_HOME"]) != os.path.realpath(platformdirs.user_data_dir(paths.APP))


# ------------------------------------------------------------------------------------------------ benchmarks


@pytest.mark.parametrize("script", sorted((REPO / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_finds_all_that_it_imports_and_answers_help(script, capsys):
    """None of them runs in the tests (speed has no place here), so one whose import had moved stood broken unseen."""
    main = runpy.run_path(str(script), run_name="loaded")["main"]
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0 and "usage" in capsys.readouterr().out


def test_the_plants_of_the_benchmarks_are_built_and_found():
    from utils.measure import plant_instructions, plants

    require("compiler")
    assert plant_instructions.planting_library().exists()
    with plants.planted("allocator", 1.0):
        pass
