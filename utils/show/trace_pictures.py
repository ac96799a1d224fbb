"""The pictures of questions that say "explain this trace": recorded runs, drawn without the words that would give the answer.

A question names a part of a study's recording, a case in it and a view: `lanes` (host and device to scale, waits not shaded:
seeing them is the question) or `calls` (what each launch call took, and the queue). Or it names a sick program: then it is a step
of the profiler's trace of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from utils.measure.study_here import recorded
from utils.model import sick_traces
from utils.show import lanes_figure, launch_figures, trace_lanes
from utils.show.lanes_figure import Lanes
from utils.show.picture import Picture

TITLE = "A recorded run"


def picture(trace: Mapping[str, str]) -> Picture | str:
    """The picture of a recorded trace, or the words that say why there is none."""
    if "sick" in trace:
        run = sick_traces.of(trace["sick"], device="cpu")
        return trace_lanes.figure(run.blinded(), TITLE) if run else "The trace cannot be shown: it is not recorded."
    found = recorded(trace["study"], trace["part"])
    if found.value is None:
        return f"The trace cannot be shown: {found.why}."
    case = found.value[trace["case"]]
    if trace["view"] == "calls":
        return launch_figures.calls(case, found.label)
    columns = case["begin"]
    shown = len(columns["i"])
    cut = f"the first {shown} of {case['n']:,} launches" if case["n"] > shown else ""
    lanes = Lanes.of(columns, found.label, price_us=case["numbers"]["host_ahead_us"], full_from=None, waits=False, cut=cut)
    return lanes_figure.figure(lanes, TITLE)
