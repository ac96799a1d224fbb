"""The course's public address and the pinned ref at it: one setting, `[tool.one_add]` in pyproject.toml, read here.

Badges, the first cell of every notebook and CITATION.cff are written from it by `make address` (tools/address.py).
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
_HOST = "https://github.com/"
_REPO = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?/[A-Za-z0-9._-]*[A-Za-z0-9_-]")
_REF = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")


class Invalid(ValueError):
    """An address or a ref that nothing could be fetched from; the message says what is expected."""


@dataclass(frozen=True)
class Address:
    """Where the course is published: `repo` as OWNER/NAME on GitHub, `ref` a tag. Both empty where it is not; then falsy."""

    repo: str = ""
    ref: str = ""

    def __bool__(self) -> bool:
        return bool(self.repo)

    @property
    def git(self) -> str:
        """What git fetches from, or "" where no address is set."""
        return _HOST + self.repo if self.repo else ""

    @property
    def source(self) -> str:
        """Git address and ref in one word, as the first cell of a notebook reads it; "" where no address is set."""
        return f"{self.git}#{self.ref}" if self.repo else ""

    def page(self, path: str) -> str:
        """The page that shows the file `path` of the repository, at the pinned ref; "" where no address is set."""
        return f"{self.git}/blob/{self.ref}/{path}" if self.repo else ""


def parsed(repo: str, ref: str) -> Address:
    """The address that is meant by OWNER/NAME or https://github.com/OWNER/NAME, and a tag. Raises Invalid in words."""
    name = repo.strip().removeprefix(_HOST).removesuffix("/").removesuffix(".git")
    if not _REPO.fullmatch(name):
        raise Invalid(
            f"REPO={repo!r}: say OWNER/NAME or {_HOST}OWNER/NAME. Colab opens notebooks from GitHub only; from another host the "
            "first cell fetches whatever git address ONE_ADD_REPO holds."
        )
    if not _REF.fullmatch(ref) or ".." in ref or ref.endswith(".lock"):
        raise Invalid(f"REF={ref!r}: say one tag, of letters, digits, dots, - and _ (a name with a slash makes no badge).")
    return Address(name, ref)


def read(pyproject: Path = PYPROJECT) -> Address:
    """The setting, checked. Raises Invalid when somebody wrote something into it that is none."""
    setting = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("tool", {}).get("one_add", {})
    repo, ref = setting.get("repo", ""), setting.get("ref", "")
    return parsed(repo, ref) if repo or ref else Address()
