"""One address for all: what names it equals the setting, what cannot be one is refused, writing it twice changes nothing."""

from __future__ import annotations

import re
import shutil
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest
import yaml

from grading import course, release
from tests.conftest import REPO
from tools import address as tool
from tools import badges, canonical, lint_notebooks, notebooks
from tools.first_cell import FIRST_CELL, first_cell
from utils import address
from utils.address import Address, Invalid

SETTING = address.read()
LAB = "lab01_stopwatch"
ELSEWHERE = Address("test-owner/some.name", "no-such-term-0.1")  # nobody's, so that it is never the setting
NOTEBOOKS = tool.notebooks()
LABS = sorted((REPO / "labs").glob("*/*.ipynb"))


def title(path):
    return canonical.loads(path.read_text(encoding="utf-8")).cells[0].source


def named(path) -> str:
    return path.relative_to(REPO).as_posix()


# ------------------------------------------------------------------------------------------------ the repository as it is


def test_all_that_names_the_address_equals_the_setting():
    """The setup cell and the badges of every notebook, pyproject, README and CITATION: run `make address` when this is red."""
    changed = [named(path) for path, text in tool.pages(SETTING).items() if path.read_text(encoding="utf-8") != text]
    assert changed == []
    for path in LABS:
        assert badges.line(SETTING, named(path)) in title(path).splitlines()


@pytest.mark.parametrize("path", [*NOTEBOOKS, *LABS], ids=named)
def test_a_badge_stands_under_the_title_and_opens_a_file_that_is_there(path):
    lines = title(path).splitlines()
    assert lines[0].startswith("# ") and lines[2] == badges.line(SETTING, badges.opened(path))
    colab, binder = re.findall(r"\]\((https://[^)]*(?:/blob/|urlpath)[^)]*)\)", badges.line(ELSEWHERE, badges.opened(path)))
    _, file = colab.split(f"/github/{ELSEWHERE.repo}/blob/{ELSEWHERE.ref}/")
    assert parse_qs(urlsplit(binder).query)["urlpath"] == [f"lab/tree/{file}"]
    there = REPO / file
    assert there.is_file() and there.name == path.name and there.parts[len(REPO.parts)] in ("notebooks", "labs")


def test_without_an_address_no_badge_pretends_and_the_link_leads_to_the_readme():
    told = badges.line(Address(), "labs/lab01_stopwatch/lab01_stopwatch.ipynb")
    assert "://" not in told and told.endswith("(../../README.md#elsewhere)")
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    assert "\n## Elsewhere\n" in readme
    unset = tool.readme(readme, Address())
    assert "no public address yet" in unset and "colab.research" not in unset
    assert "no public address" not in tool.readme(readme, ELSEWHERE)


# ------------------------------------------------------------------------------------------------ another address


def test_writing_twice_is_writing_once_and_taking_it_away_gives_back_what_was_there():
    for path in (NOTEBOOKS[0], NOTEBOOKS[-1]):
        was = path.read_text(encoding="utf-8")
        once = tool.notebook(was, path, ELSEWHERE)
        assert once != was and tool.notebook(once, path, ELSEWHERE) == once and tool.notebook(once, path, SETTING) == was
    for name, made in (("pyproject.toml", tool.setting), ("README.md", tool.readme), ("CITATION.cff", tool.citation)):
        was = (REPO / name).read_text(encoding="utf-8")
        once = made(was, ELSEWHERE)
        assert once != was and made(once, ELSEWHERE) == once and made(once, SETTING) == was, name


def test_only_the_title_and_the_first_cell_change():
    for path in NOTEBOOKS:
        text = path.read_text(encoding="utf-8")
        was, now = canonical.loads(text).cells, canonical.loads(tool.notebook(text, path, ELSEWHERE)).cells
        assert [a.id for a, b in zip(was, now, strict=True) if a != b] == ["title", "setup"]


def test_badges_are_no_prose_and_break_no_rule():
    text = NOTEBOOKS[1].read_text(encoding="utf-8")
    was, now = (canonical.loads(t).cells[0] for t in (text, tool.notebook(text, NOTEBOOKS[1], ELSEWHERE)))
    assert lint_notebooks.count_words(was.source) == lint_notebooks.count_words(now.source)
    assert list(lint_notebooks.cell_rules(now)) == []
    long = Address("a" * 39 + "/" + "b" * 100, "c" * 60)
    assert not re.search(r".{131}", first_cell(ELSEWHERE)) and compile(first_cell(long), "setup", "exec")


@pytest.mark.parametrize("said", ["{}", "https://github.com/{}", "https://github.com/{}.git", "https://github.com/{}/", " {}"])
def test_an_address_may_be_said_in_each_usual_way(said):
    assert address.parsed(said.format(ELSEWHERE.repo), ELSEWHERE.ref) == ELSEWHERE
    assert ELSEWHERE.source == "https://github.com/test-owner/some.name#no-such-term-0.1"
    assert ELSEWHERE.page("a/b.md") == "https://github.com/test-owner/some.name/blob/no-such-term-0.1/a/b.md"
    assert Address().source == Address().git == Address().page("a/b.md") == ""


@pytest.mark.parametrize(
    ("repo", "ref", "wrong"),
    [
        ("someone", "v1", "REPO="),
        ("", "v1", "REPO="),
        ("https://gitlab.com/someone/one-add", "v1", "Colab opens notebooks from GitHub only"),
        ("git@github.com:someone/one-add", "v1", "REPO="),
        ("someone/one-add/tree/main", "v1", "REPO="),
        ("someone/one add", "v1", "REPO="),
        ("-x/one", "v1", "REPO="),
        ("someone/one-add", "", "say one tag"),
        ("someone/one-add", "a b", "say one tag"),
        ("someone/one-add", "feature/x", "say one tag"),
        ("someone/one-add", "--upload-pack=x", "say one tag"),
        ("someone/one-add", "v1..v2", "say one tag"),
        ("someone/one-add", 'v1"; print(1)', "say one tag"),
        ("someone/one-add", "v1)", "say one tag"),
    ],
)
def test_what_is_no_address_is_refused_in_words_and_writes_nothing(repo, ref, wrong, capsys, monkeypatch):
    monkeypatch.setattr(tool, "write", lambda path, text: pytest.fail(f"writes {path}"))
    with pytest.raises(Invalid, match=re.escape(wrong)):
        address.parsed(repo, ref)
    assert tool.main([f"--repo={repo}", f"--ref={ref}"]) == 2
    assert capsys.readouterr().err.startswith("make address: ")


def test_a_setting_that_somebody_broke_by_hand_is_refused(tmp_path):
    broken = tmp_path / "pyproject.toml"
    broken.write_text('[tool.one_add]\nrepo = "someone"\nref = "v1"\n', encoding="utf-8")
    with pytest.raises(Invalid, match="OWNER/NAME"):
        address.read(broken)
    broken.write_text("[project]\n", encoding="utf-8")
    assert not address.read(broken)
    with pytest.raises(Invalid, match="no section"):
        tool.setting("[project]\n", ELSEWHERE)


def test_the_tool_writes_every_file_and_the_student_editions_follow(tmp_path, monkeypatch, capsys):
    """As for a term, on a lesson and a lab: set, set again, take away; then the bytes are those of before."""
    files = ["pyproject.toml", "README.md", "CITATION.cff", "notebooks/00_start_here.ipynb", f"solutions/{LAB}/{LAB}.ipynb"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, tmp_path / name)
    for module in (tool, badges, notebooks):
        monkeypatch.setattr(module, "REPO", tmp_path)
    monkeypatch.setattr(course, "SOLUTIONS", tmp_path / "solutions")
    before = {name: (tmp_path / name).read_bytes() for name in files}

    line = [f"--repo={ELSEWHERE.repo}", f"--ref={ELSEWHERE.ref}"]
    assert tool.main(line) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{len(files)} files rewritten") and f"git tag {ELSEWHERE.ref}" in told
    assert tool.main(line) == 0 and capsys.readouterr().out.startswith("0 files")
    assert address.read(tmp_path / "pyproject.toml") == ELSEWHERE
    release.release(LAB, tmp_path / "labs" / LAB)
    lab = canonical.loads((tmp_path / f"labs/{LAB}/{LAB}.ipynb").read_text(encoding="utf-8"))
    assert f"blob/{ELSEWHERE.ref}/labs/{LAB}/{LAB}.ipynb" in lab.cells[0].source
    assert lab.cells[1].source == first_cell(ELSEWHERE)

    assert tool.main([f"--repo={SETTING.repo}", f"--ref={SETTING.ref}"] if SETTING else ["--repo=none"]) == 0
    assert [name for name in files if (tmp_path / name).read_bytes() != before[name]] == []


def test_a_branch_is_taken_with_a_warning(monkeypatch, capsys):
    monkeypatch.setattr(tool, "write", lambda path, text: None)
    assert tool.main(["--repo=someone/one-add", "--ref=main"]) == 0
    assert "main moves" in capsys.readouterr().out


def test_without_arguments_it_says_what_is_set(capsys):
    assert tool.main([]) == 0
    assert (SETTING.git or "no address is set") in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ CITATION.cff

# What the schema 1.2.0 of the Citation File Format asks of the fields that are used here.
CFF = {
    "type": "object",
    "required": ["cff-version", "message", "title", "authors"],
    "additionalProperties": False,
    "properties": {
        "cff-version": {"const": "1.2.0"},
        "message": {"type": "string", "minLength": 1},
        "title": {"type": "string", "minLength": 1},
        "abstract": {"type": "string", "minLength": 1},
        "type": {"enum": ["dataset", "software"]},
        "authors": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "anyOf": [{"required": ["name"]}, {"required": ["family-names"]}],
                "properties": {"name": {"type": "string", "minLength": 1}, "family-names": {"type": "string"}},
            },
        },
        "keywords": {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "string"}},
        "license": {"const": "MIT"},
        "version": {"type": "string", "minLength": 1},
        "repository-code": {"type": "string", "pattern": "^https://[^ ]+$"},
    },
}


@pytest.mark.parametrize("where", [SETTING, ELSEWHERE, Address()], ids=str)
def test_the_citation_keeps_its_format_and_names_version_and_licences(where):
    text = tool.citation((REPO / "CITATION.cff").read_text(encoding="utf-8"), where)
    cited = yaml.safe_load(text)
    jsonschema.validate(cited, CFF)
    pyproject = (REPO / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{cited["version"]}"' in pyproject
    assert cited.get("repository-code", "") == where.git
    assert "CC BY 4.0" in cited["abstract"] and "CC BY 4.0" in (REPO / "LICENSE").read_text(encoding="utf-8")


def test_the_first_cell_is_the_settings():
    assert FIRST_CELL == first_cell(SETTING)
