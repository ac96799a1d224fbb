"""What a notebook says, without the noise of one run: two runs that say the same are one text, whatever their clocks read.

`statements(nb)` gives, for each cell, the lines a reader sees: source, paragraphs, rows of tables, alt texts, lines that were
printed. In a line every number with a unit of time, rate or ratio (ns, µs, %, times, GB/s, …) is masked: timings alone are no
news. Other numbers (counts, bytes, versions, dates) stay. Drawings count by their alt text and not by their ink; the order of
lines does not count, since rows may be sorted by time.

Some counts are noise as well (launches until the queue is full, pages, steps until it pays), and no list of them would stay
right. So noise is measured, as the course does it: `changed(old, new, again)` takes a second fresh run, and whatever the two
fresh runs do not agree on is no news either.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser

from nbformat import NotebookNode

# A number: 1,215 · 0.5 · 2.13.0 · 10². A word that holds digits (a0, x86_64, fp16, H200) is a word.
_NUMBER = r"(?<![\w.])[+−-]?\d[\d,]*(?:\.\d+)*(?![\w])"
_UNIT = (
    r"(?:ns|µs|us|ms|s|min|minutes|seconds|%|×|times|GB/s|MB/s|TFLOP/s|GFLOP/s|TOP/s|GOP/s|FLOP/byte|MHz|GHz|a second|ns an op)"
)
_JOINED = r"(?:\s*(?:–|-|to|and|or|,|of|against|instead of)\s*)"
TIMING = re.compile(rf"(?:{_NUMBER}{_JOINED})*{_NUMBER}\s?{_UNIT}(?![\w/])")
# A difference that one run sees and the next does not: "no difference seen (A/A error 3 ns)", "3 ns more".
HIDDEN = re.compile(r"no difference seen(?: \(A/A error ⏱\))?|⏱ (?:more|less|longer|shorter)\b")
NUMBER = re.compile(_NUMBER)
_ENDS_A_LINE = {
    "p",
    "tr",
    "li",
    "summary",
    "caption",
    "figcaption",
    "br",
    "div",
    "ul",
    "ol",
    "table",
    "details",
    "pre",
    "figure",
    "h1",
}

Statements = dict[str, Counter]


class _Lines(HTMLParser):
    """The lines of an HTML output: what is in a block or a table's row, and each alt text."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag in _ENDS_A_LINE:
            self.end()
        if tag in ("td", "th"):
            self.open.append(" | ")
        if alt := dict(attrs).get("alt"):
            self.lines.append(alt)

    def handle_endtag(self, tag):
        if tag in _ENDS_A_LINE:
            self.end()

    def handle_data(self, data):
        self.open.append(data)

    def end(self) -> None:
        if line := " ".join("".join(self.open).split()):
            self.lines.append(line)
        self.open.clear()


def statements(nb: NotebookNode) -> Statements:
    """Cell id → how often the cell says each line, timings masked."""
    return {cell.id: Counter(masked(line) for line in _lines(cell)) for cell in nb.cells}


def _lines(cell: NotebookNode) -> Iterator[str]:
    yield f"{cell.cell_type} {cell.metadata.get('tags', [])}"
    yield from (f"source: {line}" for line in cell.source.splitlines())
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            yield from output.text.splitlines()
        elif output.output_type == "error":
            yield f"{output.ename}: {output.evalue}"
        else:
            yield from _of_data(output.data)


def _of_data(data: Mapping) -> Iterator[str]:
    yield f"shows {', '.join(sorted(data))}"
    if "text/html" in data:
        parser = _Lines()
        parser.feed(data["text/html"])
        parser.close()
        parser.end()
        yield from parser.lines
    else:
        yield from str(data.get("text/plain", "")).splitlines()


def masked(line: str) -> str:
    """The line with ⏱ in place of each timing. A source's line stays as it is."""
    if line.startswith("source: "):
        return line
    return HIDDEN.sub("⏱", TIMING.sub("⏱", line))


def changed(old: NotebookNode, new: NotebookNode, again: NotebookNode | None = None) -> list[str]:
    """What `new` says and `old` did not, and the other way round, as lines "cell: − was" and "cell: + is".

    `again`, a second run of the same notebook, takes out what it and `new` do not agree on: a line of words that only one of
    them says, and the numbers of a line whose numbers they give differently.
    """
    was, now = statements(old), statements(new)
    then = now if again is None else statements(again)
    out = [f"{name}: − the cell" for name in was if name not in now] + [f"{name}: + the cell" for name in now if name not in was]
    for name in (name for name in now if name in was):
        before, after, twin = was[name], now[name], then.get(name, Counter())
        gone, come = before - after, after - before
        noise = (after - twin) + (twin - after)
        shapes = {NUMBER.sub("#", line) for line in noise}
        out += [f"{name}: − {line}" for line in gone if NUMBER.sub("#", line) not in shapes]
        out += [f"{name}: + {line}" for line in come if NUMBER.sub("#", line) not in shapes]
    return out
