"""Drives a real JupyterLab: starts it on a free port with a config of its own, opens a notebook, runs it, reads the page.

    with serve(folder) as server, browse() as browser, server.open(browser, "lesson.ipynb") as notebook:
        notebook.run_all()
        assert not notebook.problems()

`serve(command=…)` starts another command that prints JupyterLab's URL (`make lab`). Nothing of the user's own Jupyter set-up
is read or written.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

REPO = Path(__file__).resolve().parents[2]
START_S = 90
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
# No question about news, no look-up of updates, and every cell in the page (a windowed notebook takes cells out of it).
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none", "autoStartDefaultKernel": True},
}
# A token that Jupyter made itself is printed; one that it was given is not.
URL = re.compile(r"https?://(?:127\.0\.0\.1|localhost)[^\s]*\?token=[0-9a-zA-Z_-]+")


# ------------------------------------------------------------------------------------------------ the server


def free_port() -> int:
    """A TCP port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def own_environment(folder: Path) -> dict[str, str]:
    """The environment of a Jupyter that knows nothing of this user: config, data, runtime, IPython and the reader's home."""
    settings = folder / "config" / "lab" / "user-settings" / "@jupyterlab"
    for plugin, values in SETTINGS.items():
        path = settings / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    own = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
        "ONE_ADD_HOME": "home",
    }
    paths = {name: str(folder / part) for name, part in own.items()}
    return {
        **os.environ,
        **paths,
        "PYTHONPATH": os.pathsep.join([str(REPO), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    }


@dataclass
class Server:
    """A running JupyterLab: `url` without the token, `token`, and everything it printed so far in `log`."""

    url: str
    token: str
    log: list[str] = field(default_factory=list)

    @contextmanager
    def open(self, browser, path: str) -> Iterator[Notebook]:
        """The notebook at `path` (relative to the server's folder) in a page of its own, its kernel ready."""
        page = browser.new_page(viewport={"width": 1100, "height": 1000})
        try:
            notebook = Notebook(page)
            page.goto(f"{self.url}/lab/tree/{quote(path)}?reset&token={self.token}")
            notebook.wait_ready()
            yield notebook
        finally:
            page.close()


@contextmanager
def serve(root: Path | str = ".", *, command: Sequence[str] | None = None, env: dict[str, str] | None = None) -> Iterator[Server]:
    """JupyterLab on `root`, or what `command` starts; stopped with all its children at the end.

    Raises RuntimeError with what was printed when no URL appears within START_S seconds.
    """
    with tempfile.TemporaryDirectory(prefix="one-add-lab-", ignore_cleanup_errors=True) as folder:
        if command is None:
            command = [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port_retries=50"),
                f"--port={free_port()}",
                f"--ServerApp.root_dir={Path(root).resolve()}",
            ]
        process = subprocess.Popen(
            list(command),
            cwd=REPO,
            env={**own_environment(Path(folder)), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        log: list[str] = []
        reader = threading.Thread(target=lambda: log.extend(process.stdout), daemon=True)
        reader.start()
        try:
            yield _ready(process, log)
        finally:
            _stop(process)
            reader.join(timeout=5)
            process.stdout.close()


def _ready(process: subprocess.Popen, log: list[str]) -> Server:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        found = [match[0] for line in list(log) if (match := URL.search(line))]
        if found:
            parts = urlsplit(found[-1])
            token = parts.query.removeprefix("token=")
            server = Server(f"{parts.scheme}://{parts.netloc}", token, log)
            try:
                with urlopen(f"{server.url}/api/status?token={token}", timeout=5):
                    return server
            except OSError:
                pass  # it printed its URL and does not answer yet
        time.sleep(0.1)
    raise RuntimeError("JupyterLab did not start:\n" + "".join(log[-40:]))


def _stop(process: subprocess.Popen) -> None:
    """End the server and its kernels: they share its process group, which is ours."""
    for sign, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            return
        try:
            process.wait(timeout=patience)
            return
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def browse(executable: str) -> Iterator:
    """A headless Chromium (`executable`) through Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


# ------------------------------------------------------------------------------------------------ the notebook


class Notebook:
    """One open notebook. `page` is Playwright's page; `console` holds what the page's scripts complained about."""

    READY = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-ExecutionIndicator[data-status='idle']"
    CODE = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell"

    def __init__(self, page):
        self.page = page
        self.console: list[str] = []
        page.on("pageerror", lambda error: self.console.append(str(error)))

    def wait_ready(self, timeout_s: float = 60) -> None:
        """Wait until the cells are there and the kernel has answered: until then a Run All is forgotten without a word."""
        self.page.wait_for_selector(self.CODE, timeout=1000 * timeout_s)
        self.page.locator("#jp-main-statusbar", has_text="| Idle").wait_for(timeout=1000 * timeout_s)
        self.page.wait_for_selector(self.READY, state="attached", timeout=1000 * timeout_s)

    def menu(self, *titles: str) -> None:
        """Choose from the menu bar as a reader does: menu("Run", "Run All Cells")."""
        first, *rest = titles
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{first}$")).click()
        for title in rest:
            self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{re.escape(title)}$")).click()

    def run_all(self, timeout_s: float = 300) -> None:
        """Run → Run All Cells, and wait until nothing runs any more."""
        self.menu("Run", "Run All Cells")
        self.wait_done(timeout_s)

    def wait_done(self, timeout_s: float = 300) -> None:
        """Wait until some cell has run, none is waiting to, and the kernel is idle. TimeoutError otherwise."""
        end, calm = time.monotonic() + timeout_s, 0
        while calm < 3:
            if time.monotonic() > end:
                raise TimeoutError(f"the notebook still runs after {timeout_s} s: {self.prompts()}")
            prompts = self.prompts()
            idle = self.page.locator(self.READY).count() > 0
            done = idle and any(re.search(r"\d", p) for p in prompts) and not any("*" in p for p in prompts)
            calm = calm + 1 if done else 0
            self.page.wait_for_timeout(250)

    def prompts(self) -> list[str]:
        """The prompts of the code cells: "[3]:", "[*]:" while waiting or running, "[ ]:" when never run."""
        return self.page.locator(f"{self.CODE} .jp-InputArea-prompt").all_inner_texts()

    def cell(self, index: int):
        """The locator of code cell `index`, counted from 0."""
        return self.page.locator(self.CODE).nth(index)

    def outputs(self, index: int):
        """The locator of the whole output area of code cell `index`."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def visible(self, selector: str, within=None) -> int:
        """How many elements of `selector` a reader can see (folded ones do not count)."""
        found = (within or self.page).locator(selector)
        return sum(found.nth(i).is_visible() for i in range(found.count()))

    def visible_text(self) -> str:
        """The text that stands on the page where a reader can see it, and the alt texts and titles of visible elements."""
        return self.page.evaluate(
            """() => {
                const seen = [];
                const options = {contentVisibilityAuto: false, opacityProperty: true, visibilityProperty: true};
                const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
                for (let node = walker.nextNode(); node; node = walker.nextNode()) {
                    const parent = node.parentElement;
                    if (node.nodeValue.trim() && parent.checkVisibility(options)
                        && !['SCRIPT', 'STYLE'].includes(parent.tagName)) seen.push(node.nodeValue);
                }
                for (const element of document.querySelectorAll('[alt], [title], [aria-label]'))
                    if (element.checkVisibility(options))
                        for (const name of ['alt', 'title', 'aria-label']) seen.push(element.getAttribute(name) || '');
                return seen.join('\\n');
            }"""
        )

    def problems(self) -> list[str]:
        """Everything a reader must never see: tracebacks, widgets without a model, errors of the page's scripts."""
        kinds = ".jp-RenderedText[data-mime-type*='error'], .jp-RenderedText[data-mime-type*='stderr']:has-text('Traceback')"
        found = [f"error output: {t[:500]}" for t in self.page.locator(kinds).all_inner_texts()]
        text = self.page.locator("body").inner_text()
        for words in ("model not found", "Error displaying widget", "Error creating widget", "Javascript Error"):
            if words.lower() in text.lower():
                found.append(f"on the page: {words}")
        return found + [f"script: {line[:300]}" for line in self.console]
