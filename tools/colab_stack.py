"""A second environment, `.venv-colab`, with Colab's widget stack over the packages of the Python that runs this.

ipywidgets 7, IPython 7 and an old ipykernel are installed into it; torch, numpy, matplotlib and the rest come from the running
environment through a .pth file, so that making it takes seconds.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
FOLDER = REPO / ".venv-colab"
# What utils/data/colab.yml names, and what those versions need that newer ones no longer do.
PINS = (
    "ipywidgets==7.7.1",
    "widgetsnbextension==3.6.10",
    "ipython==7.34.0",
    "ipykernel==6.17.1",
    "ipython-genutils==0.2.0",
    "backcall==0.2.0",
    "pickleshare==0.7.5",
    "decorator==5.2.1",
)


def ensure() -> Path:
    """The environment's Python, made on the first call. Raises RuntimeError with pip's words when it cannot be made."""
    python = FOLDER / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp = FOLDER / "stamp"
    wanted = "\n".join([sys.version, sysconfig.get_paths()["purelib"], *PINS])
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(FOLDER, ignore_errors=True)
    venv.create(FOLDER, with_pip=False, symlinks=sys.platform != "win32")
    own = Path(
        subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], text=True).strip()
    )
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", own, *PINS],
        capture_output=True,
        text=True,
    )
    if pip.returncode:
        raise RuntimeError(f"pip could not install Colab's widget stack:\n{pip.stderr[-1500:]}")
    (own / "base.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    stamp.write_text(wanted, encoding="utf-8")
    return python
