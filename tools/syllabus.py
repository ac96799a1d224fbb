"""`python -m tools.syllabus`: INSTRUCTOR.md's table of objectives, with the cells, questions, exercises and claims of each.

The objectives are read from the lessons' first cells, their questions from questions.yml; what else belongs to them is in
utils/data/syllabus.yml. A test holds the table to what this gives, and the file to what there is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from utils.model import schemas
from utils.paths import REPO

PAGE = REPO / "INSTRUCTOR.md"
BEGIN, END = "<!-- objectives: made by python -m tools.syllabus -->", "<!-- end of objectives -->"
_OBJECTIVE = re.compile(r"^- \*\*(\w+\.\w+)\*\*: (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def lessons() -> Iterator[tuple[Path, dict]]:
    """Each lesson's file and its notebook as JSON data, in order."""
    for path in sorted((REPO / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        yield path, json.loads(path.read_text(encoding="utf-8"))


def objectives() -> dict[str, tuple[str, Path, list[str]]]:
    """By id: the objective's text, its lesson's file, and the ids of the lesson's cells."""
    found = {}
    for path, nb in lessons():
        ids = [cell.get("id", "") for cell in nb["cells"]]
        for name, text in _OBJECTIVE.findall("".join(nb["cells"][0]["source"])):
            found[name] = (_LINK.sub(r"\1", text), path, ids)
    return found


def exercises() -> dict[str, str]:
    """By <lab>/<number>, the title of each exercise of every lab."""
    found = {}
    for path in sorted((REPO / "solutions").glob("*/*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            heading = re.match(r"## Exercise (\d+) · (.+)", "".join(cell["source"]))
            if heading:
                found[f"{path.stem}/{heading[1]}"] = heading[2].strip()
    return found


def problems() -> list[str]:
    """Names in syllabus.yml that mean nothing, and objectives and exercises of finished lessons and labs that it leaves out."""
    there, tasks = objectives(), exercises()
    claims = {claim["id"]: claim["lesson"] for claim in schemas.load("claims")["claims"]}
    rows = schemas.load("syllabus")["objectives"]
    out = [f"{row['id']}: no lesson has this objective" for row in rows if row["id"] not in there]
    out += [f"{name}: given twice" for name in {row["id"] for row in rows} if sum(row["id"] == name for row in rows) > 1]
    for row in rows:
        ids = there.get(row["id"], ("", None, []))[2]
        out += [f"{row['id']}: its lesson has no cell {name}-text" for name in row["sections"] if f"{name}-text" not in ids]
        out += [f"{row['id']}: there is no exercise {name}" for name in row["exercises"] if name not in tasks]
        lesson = row["id"].split(".")[0]
        out += [f"{row['id']}: claim {name} is not of its lesson" for name in row["claims"] if claims.get(name) != lesson]
    asked = {name for row in rows for name in row["exercises"]}
    mapped = {name.split("/")[0] for name in asked}
    out += [
        f"{name}: no objective asks for this exercise" for name in tasks if name.split("/")[0] in mapped and name not in asked
    ]
    return out


def table() -> str:
    """The table, in Markdown; objectives that syllabus.yml does not know yet have empty places."""
    given = {row["id"]: row for row in schemas.load("syllabus")["objectives"]}
    questions = schemas.load("questions")["questions"]
    lines = ["| objective | afterwards you can | cells | questions | exercises | claims |", "|---|---|---|---|---|---|"]
    for name, (text, path, _) in objectives().items():
        row = given.get(name, {"sections": [], "exercises": [], "claims": []})
        asked = [q["id"].split(".")[1] for q in questions if q["objective"] == name]
        tasks = [f"{int(lab[3:5])}.{number}" for lab, number in (one.split("/") for one in row["exercises"])]
        columns = (f"[{name}](notebooks/{path.name})", text, *map(", ".join, (row["sections"], asked, tasks, row["claims"])))
        lines.append("| " + " | ".join(column.replace("|", "\\|") or "–" for column in columns) + " |")
    return "\n".join(lines)


def page(text: str) -> str:
    """INSTRUCTOR.md's `text` with the table as it is now. Raises ValueError where it has no place for it."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{PAGE.name}: no place for the table, which stands between {BEGIN!r} and {END!r}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def main() -> int:
    wrong = problems()
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page(text), encoding="utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
