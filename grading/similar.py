"""Answers that look alike, as a reason to read them side by side, and no evidence of anything.

The measure: an answer's code is cut into tokens, names made equal, comments and layout left out; what is counted are runs of
twelve tokens. Runs that stand in the lab itself, in its solution, or in more than a fifth of the class are left out, since
everybody may write those. Two students are as similar as the share of the smaller one's runs that the other has too.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import combinations

RUN = 12
FEWEST = 20  # runs of one's own; fewer say nothing
COMMON = 0.2
ALIKE = 0.7
LEFT_OUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)


def runs(code: str) -> set[tuple[str, ...]]:
    """The runs of tokens in `code`; none where it is no Python."""
    try:
        tokens = [_shape(token) for token in tokenize.generate_tokens(io.StringIO(code).readline) if token.type not in LEFT_OUT]
    except (tokenize.TokenError, SyntaxError):
        return set()
    return {tuple(tokens[i : i + RUN]) for i in range(len(tokens) - RUN + 1)}


def _shape(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return token.string if keyword.iskeyword(token.string) else "name"
    if token.type == tokenize.STRING and token.string.startswith(('"""', "'''")):
        return "text"
    return token.string


def pairs(answers: dict[str, Iterable[str]], of_the_lab: Iterable[str]) -> list[tuple[float, str, str]]:
    """(share, student, student) of those at least ALIKE, the most alike first. `of_the_lab`: its stubs and its solution."""
    own = {student: set().union(*(runs(code) for code in codes)) for student, codes in answers.items()}
    shared = set().union(*(runs(code) for code in of_the_lab))
    often = Counter(run for one in own.values() for run in one)
    most = max(2, COMMON * len(own))
    own = {student: {run for run in one - shared if often[run] <= most} for student, one in own.items()}
    who: dict[tuple, list[str]] = defaultdict(list)
    for student, one in own.items():
        for run in one:
            who[run].append(student)
    together = Counter(pair for students in who.values() for pair in combinations(sorted(students), 2))
    found = []
    for (a, b), count in together.items():
        smaller = min(len(own[a]), len(own[b]))
        if smaller >= FEWEST and count / smaller >= ALIKE:
            found.append((count / smaller, a, b))
    return sorted(found, key=lambda one: (-one[0], one[1:]))
