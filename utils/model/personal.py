"""What in a measurement could tell who made it: paths, e-mail and network addresses are taken out, names are pointed at.

A recording's fingerprint has neither (utils/measure/fingerprints.py); a reason why something failed, or a note, may.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

GONE = "…"
VERSIONS = ("driver", "cuda", "torch", "python")  # of a fingerprint: four numbers with dots are no network address there
_PATH = re.compile(
    r"(?<![\w.:/<~])~?(?:/[\w.+@-]+)+/[^\s:'\",;)]*"  # two folders deep and more: /x or "a / b" is none
    r"|(?<![\w.])/(?:root|home|Users|tmp|mnt|content|kaggle|workspace)\b[^\s:'\",;)]*"
    r"|\b[A-Za-z]:\\[^\s'\",;)]*"
)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_NETWORK = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
# Names of users and machines that tell nothing of anybody.
COMMON = {
    "root",
    "user",
    "ubuntu",
    "admin",
    "runner",
    "jovyan",
    "colab",
    "student",
    "localhost",
    "debian",
    "docker",
    "home",
    "jupyter",
}


def cleaned(data: Any, key: str = "") -> Any:
    """`data` (plain JSON) with … in place of every path, e-mail and network address in its texts."""
    if isinstance(data, dict):
        return {name: cleaned(value, name) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [cleaned(value, key) for value in data]
    if not isinstance(data, str):
        return data
    for pattern in (_PATH, _MAIL) if key in VERSIONS else (_PATH, _MAIL, _NETWORK):
        data = pattern.sub(GONE, data)
    return data


def named(data: Any, names: dict[str, str], place: str = "") -> Iterator[str]:
    """Where one of `names` (word → what it is) still stands in the data, key or text, as "extras.failures: your user name".

    They are only pointed at: a user may be called "eager", and a word of a measurement must not vanish for that.
    """
    if isinstance(data, dict):
        for key, value in data.items():
            yield from named(str(key), names, place)
            yield from named(value, names, f"{place}.{key}" if place else str(key))
    elif isinstance(data, list | tuple):
        for value in data:
            yield from named(value, names, place)
    elif isinstance(data, str):
        for word, what in names.items():
            if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", data, re.IGNORECASE):
                yield f"{place or 'the top'}: {what}"


def own_names() -> dict[str, str]:
    """The names of this machine and its user, where they could tell something."""
    import getpass
    import socket

    found = {}
    for what, read in (("your user name", getpass.getuser), ("this machine's name", socket.gethostname)):
        try:
            name = read()
        except (OSError, KeyError, ImportError):
            continue
        if len(name) > 3 and name.lower() not in COMMON:
            found[name] = what
    return found
