"""The question bank as Moodle XML, for a course that runs on Moodle: multichoice, numerical and essay questions by category.

The format is Moodle's own (docs.moodle.org, "Moodle XML format"). A drill becomes one question for each of SEEDS. What is
answered from a reader's own measurements has no key that holds for a class, and is left out: `left_out()` names it.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator
from xml.etree import ElementTree as et

from utils.model import bank, keys
from utils.show import catalogue, trace_pictures, widgets
from utils.show.picture import Picture
from utils.show.print_out import unit

SEEDS = (1, 2, 3)
ROOT = "$course$/One add, priced"


def document() -> str:
    """The whole bank as the text of an XML file, the pre-test in a category of its own."""
    quiz = et.Element("quiz")
    for title, questions in [("Pre-test", bank.post_test()), *((t.title, bank.practice(t.id)) for t in bank.topics())]:
        category = et.SubElement(quiz, "question", type="category")
        _text(category, "category", f"{ROOT}/{title}")
        for question in questions:
            quiz.extend(_elements(question))
    et.indent(quiz)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + et.tostring(quiz, encoding="unicode") + "\n"


def left_out() -> list[str]:
    """The ids of the questions whose key is the reader's own measurement."""
    return [q["id"] for q in bank.practice() if _own(q)]


def _own(question: dict) -> bool:
    return question["kind"] == "number" and bool({"own", "from_results"} & set(question["answer"]))


def _elements(question: dict) -> Iterator[et.Element]:
    if _own(question):
        return
    if question["kind"] == "number":
        for seed in SEEDS if question.get("draws") else (0,):
            yield _numerical(question, seed)
    else:
        yield _essay(question) if question["kind"] == "free" else _choice(question)


def _choice(question: dict) -> et.Element:
    out = _head("multichoice", question["id"], _prompt(question), f"Proof: {bank.proof(question).words}.")
    if "trace" in question:
        _picture(out, question)
    for name, value in (("single", "true"), ("shuffleanswers", "true"), ("answernumbering", "abc")):
        et.SubElement(out, name).text = value
    for at, option in enumerate(question["options"]):
        answer = et.SubElement(out, "answer", fraction="100" if at == question["answer"] else "0", format="html")
        et.SubElement(answer, "text").text = widgets.prose(option["text"])
        words = option["feedback"]
        if "misconception" in option:
            words += f" (Misconception: {catalogue.misconception(option['misconception'])['name']}.)"
        _text(answer, "feedback", widgets.prose(words), format="html")
    return out


def _numerical(question: dict, seed: int) -> et.Element:
    key = keys.key(question, seed)
    prompt = f"<p>{widgets.prose(key.prompt)}</p><p>In {html.escape(unit(key.unit))}.</p>"
    name = f"{question['id']} {seed}" if question.get("draws") else question["id"]
    out = _head("numerical", name, prompt, f"{question['feedback']} Proof: {bank.proof(question).words}.")
    answer = et.SubElement(out, "answer", fraction="100", format="moodle_auto_format")
    et.SubElement(answer, "text").text = f"{key.value:.12g}"
    et.SubElement(answer, "tolerance").text = f"{abs(key.value) * key.tolerance:.6g}"
    _text(answer, "feedback", widgets.prose(question["feedback"]), format="html")
    return out


def _essay(question: dict) -> et.Element:
    out = _head("essay", question["id"], _prompt(question), f"Proof: {bank.proof(question).words}.")
    for name, value in {
        "responseformat": "editor",
        "responserequired": "1",
        "responsefieldlines": "15",
        "attachments": "0",
    }.items():
        et.SubElement(out, name).text = value
    points = "".join(f"<li>{widgets.prose(point)}</li>" for point in question["points"])
    follow = "".join(f"<p><i>{widgets.prose(f['ask'])}</i> {widgets.prose(f['answer'])}</p>" for f in question["follow_ups"])
    _text(out, "graderinfo", f"<ul>{points}</ul>{follow}", format="html")
    return out


def _prompt(question: dict) -> str:
    return f"<p>{widgets.prose(question['prompt'])}</p>"


def _head(kind: str, name: str, prompt: str, feedback: str) -> et.Element:
    """What every question has: name, text, general feedback, mark."""
    out = et.Element("question", type=kind)
    _text(out, "name", name)
    _text(out, "questiontext", prompt, format="html")
    _text(out, "generalfeedback", widgets.prose(feedback), format="html")
    et.SubElement(out, "defaultgrade").text = "1"
    return out


def _picture(out: et.Element, question: dict) -> None:
    """The trace, as a file that travels with the question's text; where it cannot be shown, the words that say so."""
    shown = trace_pictures.picture(question["trace"])
    holder = out.find("questiontext")
    if not isinstance(shown, Picture):
        holder.find("text").text += f"<p>{widgets.prose(shown)}</p>"
        return
    name = f"{question['id']}.svg"
    holder.find("text").text += f'<p><img src="@@PLUGINFILE@@/{name}" alt="{html.escape(shown.alt, quote=True)}"></p>'
    file = et.SubElement(holder, "file", name=name, path="/", encoding="base64")
    file.text = base64.b64encode(shown.svg.encode()).decode()


def _text(parent: et.Element, tag: str, text: str, **attributes: str) -> None:
    et.SubElement(et.SubElement(parent, tag, attributes), "text").text = text
