"""The self-check on paper: the questions by topic with their answers at the end, and the one page of numbers to know.

Both are HTML files that need nothing else: a browser prints them. Numbers are drawn with a seed, so that a class has one paper.
"""

from __future__ import annotations

import html

from utils.model import bank, keys
from utils.show import numbers_to_know, trace_pictures, widgets
from utils.show.numbers import format_number

STYLE = """
body{font:11pt/1.4 Georgia,serif;margin:2em auto;max-width:46em;color:#111}
h1{font-size:1.5em}h2{font-size:1.2em;break-before:page}h2.first{break-before:avoid}li{margin:0 0 .7em;break-inside:avoid}
ol.options{list-style:upper-alpha;margin-top:.3em}ol.options li{margin:0}table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid #bbb;text-align:left}img{max-width:100%}p.write{color:#555}
"""
ONE_PAGE = (
    "@page{size:A4;margin:9mm}body{font-size:8pt;line-height:1.05;margin:0;max-width:none}"
    "h1{font-size:1.2em;margin:.2em 0}td,th{padding:1px 4px!important}"
)
LETTERS = "ABCDEF"


def questions(topic: str | None = None, seed: int = 0) -> str:
    """All practice questions (or those of one topic) as an HTML page: by topic, then the key with reasons and proofs."""
    return _page("One add, priced: the self-check on paper", by_topic(topic, seed))


def by_topic(topic: str | None = None, seed: int = 0) -> str:
    """The body of that page alone."""
    asked, answered, number = [], [], 0
    for one in bank.topics():
        if topic not in (None, one.id):
            continue
        first = "" if asked else ' class="first"'
        asked.append(f"<h2{first}>{html.escape(one.title)}</h2><ol start={number + 1}>")
        answered.append(f"<h2>Answers: {html.escape(one.title)}</h2><ol start={number + 1}>")
        for question in bank.practice(one.id):
            number += 1
            asked.append(f"<li>{_asked(question, seed)}</li>")
            answered.append(f"<li>{_answered(question, seed)}</li>")
        asked.append("</ol>")
        answered.append("</ol>")
    return "".join([*asked, *answered])


def numbers() -> str:
    """The one page of numbers to know, as HTML."""
    return _page("One add, priced", numbers_to_know.table()._repr_html_(), ONE_PAGE)


def _page(title: str, body: str, more: str = "") -> str:
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}{more}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body><h1>{html.escape(title)}</h1>{body}</body></html>\n'


def _asked(question: dict, seed: int) -> str:
    if question["kind"] == "number":
        key = keys.key(question, seed)
        return f'{widgets.prose(key.prompt)}<p class="write">______________ {html.escape(unit(key.unit))}</p>'
    if question["kind"] == "free":
        return f'{widgets.prose(question["prompt"])}<p class="write">({bank.seconds(question)} s, aloud or in writing)</p>'
    shown = widgets.as_html(trace_pictures.picture(question["trace"])) if "trace" in question else ""
    options = "".join(f"<li>{widgets.prose(option['text'])}</li>" for option in question["options"])
    return f'{widgets.prose(question["prompt"])}{shown}<ol class="options">{options}</ol>'


def _answered(question: dict, seed: int) -> str:
    where = f"<br>Proof: {html.escape(bank.proof(question).words)}."
    if question["kind"] == "number":
        key = keys.key(question, seed)
        value = "not measured" if key.value is None else f"{format_number(key.value, 3)} {unit(key.unit)}"
        source = f" ({key.source})" if key.source else ""
        return f"<b>{html.escape(value)}</b>{html.escape(source)} {widgets.prose(question['feedback'])}{where}"
    if question["kind"] == "free":
        points = "".join(f"<li>☐ {widgets.prose(point)}</li>" for point in question["points"])
        follow = "".join(f"<br><i>{widgets.prose(f['ask'])}</i> {widgets.prose(f['answer'])}" for f in question["follow_ups"])
        return f"<ul>{points}</ul>{follow}{where}"
    reasons = "".join(
        f"<br>{'✔' if at == question['answer'] else '✘'} {LETTERS[at]}: {widgets.prose(option['feedback'])}"
        for at, option in enumerate(question["options"])
    )
    return f"<b>{LETTERS[question['answer']]}</b>{reasons}{where}"


def unit(name: str) -> str:
    """A unit as it is written: "us" is µs, "percent" %."""
    return {"us": "µs", "percent": "%"}.get(name, name)
