"""`make address REPO=OWNER/NAME REF=TAG`: writes where the course is published into everything that says so.

The setting is `[tool.one_add]` in pyproject.toml. From it are written: the first cell and the badges of every lesson and lab, the
student editions (generated again from solutions/), the line of the README's section "Elsewhere", and CITATION.cff. Without
arguments it prints the setting; REPO=none takes it away. Running it twice changes nothing. Exit 2 for an address that is none.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tools import badges, canonical
from tools.notebooks import with_standard_cells, write
from utils import address
from utils.address import Address, Invalid

REPO = Path(__file__).resolve().parent.parent
FIRST = "notebooks/00_start_here.ipynb"
MOVING = ("main", "master", "HEAD", "develop", "trunk")
_README = re.compile(r"(?<=<!-- address -->\n).*?(?=<!-- end of address -->)", re.DOTALL)
_SETTING = re.compile(r'^(\[tool\.one_add\]\n(?:#.*\n)*)repo = "[^"\n]*"(.*)\nref = "[^"\n]*"', re.MULTILINE)
_CODE = re.compile(r"^repository-code:.*\n", re.MULTILINE)


def notebooks() -> list[Path]:
    """Every notebook that carries badges and the first cell, less the student editions, which are generated."""
    return [*sorted((REPO / "notebooks").glob("*.ipynb")), *sorted((REPO / "solutions").glob("*/*.ipynb"))]


def setting(text: str, where: Address) -> str:
    """pyproject's text with the setting `where`. Raises Invalid when its section is gone."""
    new, count = _SETTING.subn(rf'\g<1>repo = "{where.repo}"\g<2>\nref = "{where.ref}"', text)
    if count != 1:
        raise Invalid("pyproject.toml has no section [tool.one_add] with the lines repo and ref")
    return new


def readme(text: str, where: Address) -> str:
    """The README's text with what it says about the address."""
    if where:
        told = (
            f"{badges.line(where, FIRST)}\n\n"
            f"The badges under a lesson's or lab's title open it from `{where.repo}` as of `{where.ref}`.\n"
        )
    else:
        told = (
            "**This copy has no public address yet**, so there is no badge to click. Open a downloaded `.ipynb` on Colab, put a\n"
            "line `%env ONE_ADD_REPO=…` above its first cell (a git address with `#tag`, a folder, or a `.zip` or `.tar.gz`\n"
            "that you uploaded) and run it. Who publishes the course sets the address once, with\n"
            "`make address REPO=OWNER/NAME REF=TAG`.\n"
        )
    return _README.sub(lambda _: told, text)


def citation(text: str, where: Address) -> str:
    """CITATION.cff's text with the address of the code, or without one."""
    text = _CODE.sub("", text)
    return text + f'repository-code: "{where.git}"\n' if where else text


def notebook(text: str, path: Path, where: Address) -> str:
    """A notebook's text with its first cell and badges for `where`, in canonical form."""
    return canonical.dumps(canonical.canonical(with_standard_cells(canonical.loads(text), path, where)))


def pages(where: Address) -> dict[Path, str]:
    """What each file that names the address has to hold for `where`, student editions apart."""
    wanted = {path: notebook(path.read_text(encoding="utf-8"), path, where) for path in notebooks()}
    for name, made in (("pyproject.toml", setting), ("README.md", readme), ("CITATION.cff", citation)):
        wanted[REPO / name] = made((REPO / name).read_text(encoding="utf-8"), where)
    return wanted


def rewrite(where: Address) -> list[Path]:
    """Write `where` into every file that names it but the student editions; returns those that changed."""
    changed = [(path, text) for path, text in pages(where).items() if path.read_text(encoding="utf-8") != text]
    for path, text in changed:
        write(path, text)
    return [path for path, _ in changed]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make address", description=__doc__.splitlines()[0])
    parser.add_argument("--repo", default="", help="OWNER/NAME on GitHub, or none")
    parser.add_argument("--ref", default="", help="the tag that badges and first cells name")
    args = parser.parse_args(argv)
    try:
        if not args.repo and not args.ref:
            where = address.read()
            print(f"{where.git} as of {where.ref}" if where else "no address is set: make address REPO=OWNER/NAME REF=TAG")
            return 0
        where = Address() if args.repo == "none" and not args.ref else address.parsed(args.repo, args.ref)
        changed = rewrite(where)
    except Invalid as error:
        print(f"make address: {error}", file=sys.stderr)
        return 2
    print(f"{len(changed)} files rewritten for {where.source or 'no address'}")
    if where.ref in MOVING:
        print(f"{where.ref} moves: what readers fetch changes under them. For a class, name a tag (INSTRUCTOR.md, A term).")
    elif where and changed:
        print(f"Next: commit, then `git tag {where.ref}` on that commit and push both. A badge works once the tag is there.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
