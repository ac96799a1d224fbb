"""What Moodle's importer asks of a Moodle XML file, as its documentation (docs.moodle.org, "Moodle XML format") and code have it.

`problems(text)` lists what it would refuse or silently read as something else: Moodle itself says that it does not check.
"""

from __future__ import annotations

import base64
from xml.etree import ElementTree as et

FRACTIONS = {
    "100",
    "90",
    "83.33333",
    "80",
    "75",
    "70",
    "66.66667",
    "60",
    "50",
    "40",
    "33.33333",
    "30",
    "25",
    "20",
    "16.66667",
    "0",
}
FORMATS = {"html", "moodle_auto_format", "plain_text", "markdown"}
KINDS = {"category", "multichoice", "numerical", "essay"}
ESSAY_FORMATS = {"editor", "editorfilepicker", "plain", "monospaced", "noinline"}
WITH_TEXT = ("name", "questiontext", "generalfeedback", "feedback", "graderinfo", "category")


def problems(text: str) -> list[str]:
    if not text.startswith('<?xml version="1.0"'):
        return ["the XML declaration is not the first thing in the file"]
    root = et.fromstring(text.encode("utf-8"))
    out = [] if root.tag == "quiz" else [f"the root is {root.tag}"]
    names = [q.findtext("name/text") for q in root if q.get("type") != "category"]
    out += [f"{name}: given twice" for name in {n for n in names if names.count(n) > 1}]
    for question in root:
        name = question.findtext("name/text") or question.findtext("category/text") or "a question without a name"
        out += [f"{name}: {found}" for found in _of(question)]
    return out


def _of(question: et.Element) -> list[str]:
    kind = question.get("type")
    if question.tag != "question" or kind not in KINDS:
        return [f"type {kind!r} is none"]
    out = [f"<{e.tag}> has no <text>" for e in question.iter() if e.tag in WITH_TEXT and e.find("text") is None]
    out += [f"format {e.get('format')!r}" for e in question.iter() if e.get("format") not in {None, *FORMATS}]
    if kind == "category":
        path = question.findtext("category/text") or ""
        return (
            out if path.startswith(("$course$/", "$module$/", "$system$/")) and "//" not in path else [*out, f"category {path!r}"]
        )
    if not question.findtext("name/text") or not question.findtext("questiontext/text"):
        out.append("no name or no text")
    if len(question.findtext("name/text") or "") > 255:
        out.append("a name of more than 255 characters is cut")
    out += _files(question)
    return out + {"multichoice": _choice, "numerical": _number, "essay": _essay}[kind](question)


def _files(question: et.Element) -> list[str]:
    text = question.findtext("questiontext/text") or ""
    there = {file.get("name") for file in question.findall("questiontext/file")}
    wanted = {piece.split('"')[0] for piece in text.split("@@PLUGINFILE@@/")[1:]}
    out = [f"the file {name!r} is named and not there, or there and not named" for name in there ^ wanted]
    for file in question.iter("file"):
        try:
            base64.b64decode(file.text or "", validate=True)
        except ValueError:
            out.append("a file that is not base64")
    return out


def _choice(question: et.Element) -> list[str]:
    answers = question.findall("answer")
    fractions = [a.get("fraction") for a in answers]
    out = [] if len(answers) >= 2 else ["fewer than two answers"]
    out += [f"fraction {f!r} is none of Moodle's" for f in fractions if f not in FRACTIONS]
    if question.findtext("single") == "true" and fractions.count("100") != 1:
        out.append("single, and not exactly one answer of 100 %")
    if question.findtext("single") not in ("true", "false") or question.findtext("shuffleanswers") not in (
        "true",
        "false",
        "1",
        "0",
    ):
        out.append("single or shuffleanswers is missing")
    if question.findtext("answernumbering") not in ("none", "abc", "ABCD", "123", "iii", "IIII"):
        out.append("answernumbering")
    return out + ["an answer without text" for a in answers if not a.findtext("text")]


def _number(question: et.Element) -> list[str]:
    out = [] if question.find("answer") is not None else ["no answer"]
    for answer in question.findall("answer"):
        try:
            float(answer.findtext("text") or "")
            if float(answer.findtext("tolerance") or "") < 0:
                out.append("a negative tolerance")
        except ValueError:
            out.append("an answer or a tolerance that is no number")
        if answer.get("fraction") not in FRACTIONS:
            out.append(f"fraction {answer.get('fraction')!r}")
    return out


def _essay(question: et.Element) -> list[str]:
    out = [] if question.findtext("responseformat") in ESSAY_FORMATS else ["responseformat"]
    if not (question.findtext("responsefieldlines") or "").isdigit() or question.findtext("responserequired") not in ("0", "1"):
        out.append("responsefieldlines or responserequired")
    return out if question.findtext("graderinfo/text") else [*out, "nothing for the grader"]
