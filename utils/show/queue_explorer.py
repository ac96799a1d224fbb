"""Sliders over a SIMULATED queue: what launch, kernel, gap, places in the queue and waiting make of one stream of launches.

Nothing is measured here: the simulated device of `utils.measure.simulated` runs in virtual time, so the same sliders give the
same lanes everywhere, and a move redraws in milliseconds. Every figure says that it is simulated.
"""

from __future__ import annotations

from utils.measure.queue_lanes import simulated_lanes
from utils.show import controls, lanes_figure
from utils.show.lanes_figure import Lanes
from utils.show.tables import significant

LABEL = "simulated queue, virtual time: no GPU, nothing measured"
LAUNCHES = 40


def simulate(
    launch_us: float, kernel_us: float, *, gap_us: float = 0.0, depth: int = 1024, sync_every: int = 0, launches: int = LAUNCHES
) -> Lanes:
    """The lanes of `launches` launches (µs each on the host) of kernels of `kernel_us`, in virtual time; at most 240 of them.

    `gap_us` passes on the device between two kernels that wait in the queue; a launch that finds `depth` kernels in it waits for
    one to end; `sync_every` k > 0 makes the host wait for the device after every k-th launch. ValueError for what cannot run.
    """
    case = simulated_lanes(launch_us, kernel_us, gap_us, depth, launches, sync_every or None)
    return Lanes.of(case["points"], LABEL, price_us=launch_us, full_from=0, waits=bool(sync_every), simulated=True)


def draw(launch_us: float, kernel_us: float, gap_us: float, depth: int, sync_every: int) -> list:
    """The figure for one setting of the sliders, and what it shows, in words."""
    lanes = simulate(launch_us, kernel_us, gap_us=gap_us, depth=depth, sync_every=sync_every)
    title = f"Simulated: {LAUNCHES} launches of {significant(launch_us)}, kernels of {significant(kernel_us)} (µs)"
    return [lanes_figure.figure(lanes, title), words(lanes)]


def words(lanes: Lanes) -> str:
    """Who sets the pace in these lanes, and what host and device lose; µs throughout, said once."""
    n, full, waits = len(lanes.device), lanes.spent("full"), lanes.spent("wait")
    idle = sum(end - start for start, end in lanes.idle[1:])  # the first stretch is the way to the first kernel
    out = [f"In µs: all {n} take {significant(lanes.end)}, {significant(lanes.end / n)} each."]
    out.append(f"The device works {significant(lanes.busy)} of that.")
    if full:
        out.append(f"The host waits {significant(full)} for a place in the queue: the device sets the pace.")
    elif idle and not waits:
        out.append(f"Between kernels the device waits {significant(idle)} for the next launch: the host sets the pace.")
    elif not waits:
        out.append(f"The host runs up to {lanes.most_queued} kernels ahead: the device sets the pace.")
    if waits:
        out.append(f"Waiting for the device costs the host {significant(waits)}, and the device then idles {significant(idle)}.")
    return " ".join(out)


def explorer() -> controls.Panel:
    """The sliders with their figure: one figure, whatever is moved and however often."""
    return controls.panel(
        draw,
        title="A simulated queue: move a slider (nothing here is measured)",
        launch_us=controls.slider(0.5, 20, 5, 0.5, label="launch", unit="µs"),
        kernel_us=controls.slider(0.5, 40, 2, 0.5, label="kernel", unit="µs"),
        gap_us=controls.slider(0, 5, 0, 0.5, label="gap between kernels", unit="µs"),
        depth=controls.slider(1, 40, 16, label="places in the queue"),
        sync_every=controls.slider(0, 20, 0, label="wait after every … launches (0: never)"),
    )
