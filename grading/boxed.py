"""nbgrader's own execution of a notebook, on a kernel in the box: what comes out of it is counted, and cannot unsay anything.

The messages of a kernel are a learner's to forge. So nothing that one says later takes back what was said before (a cleared or
updated output), a graded cell earns no value that it displays (the labs' cells earn all of their points or none), and what is
beyond the limit is dropped.
"""

from __future__ import annotations

from nbgrader.preprocessors import Execute
from traitlets import Integer

TAKES_BACK = ("clear_output", "update_display_data", "comm_open", "comm_msg", "comm_close")


class BoxedExecute(Execute):
    """Runs a notebook's cells as nbgrader does."""

    most_output = Integer(8 << 20, help="characters that all cells together may print").tag(config=True)
    iopub_timeout = 10  # seconds for what a cell printed to arrive, after it was stopped
    shutdown_kernel = "immediate"  # nothing in it is worth a second of good-bye
    printed = 0

    def process_message(self, msg, cell, cell_index):
        kind, content = msg["msg_type"], msg["content"]
        graded = cell.metadata.get("nbgrader", {}).get("grade")
        if kind in TAKES_BACK or (kind == "execute_result" and graded):
            return None
        if kind == "stream" and graded:  # nbgrader gives nothing where anything is on stderr, be it a warning
            content["name"] = "stdout"
        if kind in ("stream", "display_data", "execute_result"):
            self.printed += len(str(content.get("text") or content.get("data")))
            if self.printed > self.most_output:
                return None
        return super().process_message(msg, cell, cell_index)
