"""The first code cell of every lesson and lab, word for word: tests/test_notebooks.py compares each notebook with it.

It must work with only the `.ipynb` at hand, so what finds or fetches the repository is here; the rest is utils/bootstrap.py.
Where it fetches from is the setting of utils/address.py; `make address` writes that into every notebook.
"""

from utils import address
from utils.address import Address

_TEXT = """\
# Finds the course's files; where only this notebook is at hand (Colab, say), fetches them first. Safe to run twice.
import os, shutil, subprocess, sys, urllib.request
from pathlib import Path

# Where the course lives: a git address, with #tag for one state of it; or a folder, a .zip or a .tar.gz.
SOURCE = os.environ.get("ONE_ADD_REPO", "{source}")
PLACE, _, TAG = SOURCE.partition("#")
FOLDER = Path("-".join(["one-add-priced", TAG]).strip("-")).resolve()


def course():
    places = [Path.cwd(), *Path.cwd().parents, Path(PLACE or "."), FOLDER, *FOLDER.glob("*")]
    return next((str(p) for p in places if (p / "utils/bootstrap.py").is_file()), None)


def fetch(part):  # into a folder of its own, renamed when all is there: what is interrupted is fetched again
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    if PLACE.endswith((".zip", ".tar.gz")):
        archive = PLACE if os.path.isfile(PLACE) else urllib.request.urlretrieve(PLACE)[0]
        shutil.unpack_archive(archive, part, "zip" if PLACE.endswith(".zip") else "gztar")
    else:
        place, env = os.path.abspath(PLACE) if os.path.exists(PLACE) else PLACE, {{**os.environ, "GIT_TERMINAL_PROMPT": "0"}}
        for words in (["init"], ["fetch", "--depth=1", place, TAG or "HEAD"], ["checkout", "FETCH_HEAD"]):
            subprocess.run(["git", "-C", part, *words], check=True, capture_output=True, text=True, env=env)
    os.replace(part, FOLDER)


if course() is None and not SOURCE:
    raise FileNotFoundError("The course's files are not here: keep this notebook in their folder, or set ONE_ADD_REPO.")
if course() is None:
    try:
        fetch(f"{{FOLDER}}.part")
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", "") or error
        do = "Keep this notebook in the course's folder, or set ONE_ADD_REPO to a copy of it that can be reached."
        raise ConnectionError(f"The course's files are not here, and {{SOURCE}} gave none (offline?). {{do}}\\n{{why}}") from None
sys.path.insert(0, course())
from utils.bootstrap import ready

ready()"""


def first_cell(where: Address) -> str:
    """The cell's source for a course that is published at `where`."""
    return _TEXT.format(source=where.source)


FIRST_CELL = first_cell(address.read())
