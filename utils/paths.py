"""Where things live: the repository, the reader's own folder, the cache. Every other room asks here.

`ONE_ADD_HOME` overrides the reader's folder (results, predictions), `ONE_ADD_CACHE` the cache (the compiled probe).
Where neither can be written (a read-only home), a folder in the temporary directory is used and `home_note()` says so.
"""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import platformdirs

PACKAGE = Path(__file__).resolve().parent
REPO = PACKAGE.parent
DATA = PACKAGE / "data"
RECORDINGS = PACKAGE / "recordings"
APP = "one-add-priced"


def _writable(path: Path) -> bool:
    """True when a file can really be created there (access bits lie on read-only mounts and for root)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path):
            return True
    except OSError:
        return False


@functools.cache
def _folder(variable: str, default: str) -> tuple[Path, str]:
    asked = os.environ.get(variable)
    wanted = Path(asked).expanduser() if asked else Path(default)
    if _writable(wanted):
        return wanted, ""
    spare = Path(tempfile.gettempdir()) / f"{APP}-{os.getuid() if hasattr(os, 'getuid') else 'user'}" / variable.lower()
    spare.mkdir(parents=True, exist_ok=True)
    return spare, f"{wanted} cannot be written, so this session keeps its files in {spare}: copy them before they are gone"


def home() -> Path:
    """The folder of what is the reader's own: results and predictions."""
    return _folder("ONE_ADD_HOME", platformdirs.user_data_dir(APP))[0]


def home_note() -> str:
    """One sentence when the reader's folder had to move, else the empty string."""
    return _folder("ONE_ADD_HOME", platformdirs.user_data_dir(APP))[1]


def cache() -> Path:
    """The folder of what can be made again: the compiled probe."""
    return _folder("ONE_ADD_CACHE", platformdirs.user_cache_dir(APP))[0]
