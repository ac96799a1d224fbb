"""utils/bootstrap.py: what a borrowed Python lacks is installed, what it has stays, and each way of failing says what to do."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPO
from utils import bootstrap

TORCH = importlib.metadata.version("torch")


def test_ready_does_nothing_where_all_is_there(monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "install", lambda lines: pytest.fail(f"installs {lines}"))
    bootstrap.ready()
    assert capsys.readouterr().out == ""


def _without(monkeypatch, *absent):
    real = importlib.util.find_spec
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None if name in absent else real(name))


def test_ready_installs_only_what_is_missing(monkeypatch, capsys):
    asked = []
    _without(monkeypatch, "yaml", "tabulate")
    monkeypatch.setattr(bootstrap, "install", lambda lines: (asked.extend(lines), monkeypatch.undo()))
    bootstrap.ready()
    assert sorted(line.split("==")[0] for line in asked) == ["pyyaml", "tabulate"]
    assert "pyyaml" in capsys.readouterr().out


@pytest.mark.parametrize("given", ["torch", "numpy"])
def test_torch_and_numpy_are_never_installed(monkeypatch, given):
    _without(monkeypatch, given)
    monkeypatch.setattr(bootstrap, "install", lambda lines: pytest.fail(f"installs {lines}"))
    with pytest.raises(bootstrap.NotReady, match=f"{given} cannot be imported"):
        bootstrap.ready()
    assert not {"torch", "numpy", "jupyterlab"} & set(bootstrap.requirements())


def test_offline_is_said_in_words(monkeypatch):
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(bootstrap.NotReady, match="offline"):
        bootstrap.install(["one-add-priced-no-such-package==1"])


def test_an_install_that_changes_nothing_says_restart(monkeypatch):
    _without(monkeypatch, "tabulate")
    monkeypatch.setattr(bootstrap, "install", lambda lines: None)
    with pytest.raises(bootstrap.NotReady, match="restart the kernel"):
        bootstrap.ready()


def test_everything_listed_has_the_import_name_we_look_for():
    """A requirement whose import name is not its own would be installed again by every first cell."""
    assert bootstrap.missing(bootstrap.requirements()) == []


def test_pip_is_held_to_torch_and_all_that_it_was_built_against(monkeypatch):
    """As constraints: asked for by name, they could bring what this machine left out on purpose."""
    ran = []
    here = {"torch": "2.11.0+cu130", "numpy": "2.1", "nvidia-cublas": "13.1", "cuda-bindings": "13", "triton": "3.6", "tqdm": "4"}

    def pip(line, **_):
        ran.append((line, Path(line[line.index("-c") + 1]).read_text(encoding="utf-8").split()))
        return subprocess.CompletedProcess(line, 0)

    monkeypatch.setattr(bootstrap, "versions", lambda: here)
    monkeypatch.setattr(bootstrap.subprocess, "run", pip)
    bootstrap.install(["tabulate==0.10.0"])
    ((line, held),) = ran
    assert line[-1] == "tabulate==0.10.0" and not any("torch" in word for word in line)
    assert held == ["cuda-bindings==13", "numpy==2.1", "nvidia-cublas==13.1", "torch==2.11.0+cu130", "triton==3.6"]


# ------------------------------------------------------------------------------------------------ with pip itself


def wheel(folder: Path, name: str, version: str, needs: str = "") -> None:
    """A package of one empty module, as a wheel in `folder`."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}/__init__.py", "")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/top_level.txt", f"{name}\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def borrowed(tmp_path_factory):
    """A function that calls `ready()` in a Python of its own, over the packages of this one, that lacks one package.

    pip finds the wheels of a folder and nothing else. The last line printed is torch's version there, whatever happened.
    """
    folder = tmp_path_factory.mktemp("borrowed")
    python = folder / "venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    venv.create(folder / "venv", with_pip=False, symlinks=sys.platform != "win32")
    own = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], text=True)
    (Path(own.strip()) / "base.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    wheels = folder / "wheels"
    wheels.mkdir()
    wheel(wheels, "oneaddplain", "1.0")
    wheel(wheels, "oneaddgreedy", "1.0", "Requires-Dist: torch==99.0\n")
    wheel(wheels, "torch", "99.0")
    wheel(wheels, "oneaddnewer", "1.0", "Requires-Dist: tabulate==99.0\n")
    wheel(wheels, "tabulate", "99.0")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
    env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}

    def call(package: str, before: str = "", after: str = ""):
        listed = folder / f"{package}.toml"
        listed.write_text(f"[project]\ndependencies = ['{package}==1.0']\n", encoding="utf-8")
        source = f"""
            import atexit, importlib.metadata, sys
            from pathlib import Path
            atexit.register(lambda: print(importlib.metadata.version("torch")))
            sys.path.insert(0, {str(REPO)!r})
            {before}
            from utils import bootstrap
            bootstrap.PYPROJECT = Path({str(listed)!r})
            bootstrap.ready()
            {after}
        """
        return subprocess.run([python, "-c", textwrap.dedent(source)], cwd=folder, env=env, capture_output=True, text=True)

    return call


def test_what_is_missing_is_installed_and_the_second_time_there_is_nothing_to_do(borrowed):
    ran = borrowed("oneaddplain", after="import oneaddplain; bootstrap.ready()")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["Installing oneaddplain …", TORCH]


def test_a_package_that_wants_another_torch_is_refused_and_torch_stays(borrowed):
    ran = borrowed("oneaddgreedy")
    assert "NotReady: pip could not install oneaddgreedy==1.0" in ran.stderr
    assert ran.stdout.splitlines()[-1] == TORCH


def test_offline_with_something_missing_says_what(borrowed):
    ran = borrowed("oneaddnowhere")
    assert "NotReady: pip could not install oneaddnowhere==1.0 (is this machine offline?)" in ran.stderr


def test_a_restart_is_asked_for_when_a_loaded_package_was_replaced_and_only_then(borrowed):
    ran = borrowed("oneaddnewer", before="import tabulate")
    assert "NotReady: All is installed, but pip had to replace tabulate" in ran.stderr and "restart the kernel" in ran.stderr
    again = borrowed("oneaddnewer", after="import tabulate; print(importlib.metadata.version('tabulate'))")
    assert (again.returncode, again.stdout.splitlines()) == (0, ["99.0", TORCH]), again.stderr
