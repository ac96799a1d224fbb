"""What lesson 00, the stopwatch and its traps, says about its measurements: computed sentences, tables and figures.

It measures nothing: each function takes what `utils.measure` returned and words it, so that a sentence stays true when the
number surprises. The recorded GPU stands beside, always with its label.
"""

from __future__ import annotations

from itertools import pairwise

from utils.measure import traps
from utils.measure.simulated import SimulatedDevice, VirtualClock
from utils.model import ledger, quantities
from utils.model.readings import Race, Reading
from utils.show import catalogue, figures
from utils.show.explain import Sentence
from utils.show.picture import Picture
from utils.show.tables import Table, format_ns, significant

PLACES = {"cpu": "this CPU", "cuda": "this GPU", "simulated": "the simulated device"}
SHOWN_ANSWERS = {
    "same": ("profiler_is_neutral", "About what the add costs without the profiler"),
    "more": (None, "More: the profiler's own work is in it"),
    "less": (None, "Less: the profiler sees only a part of the add"),
}
WIGGLE = 0.05  # a row of the longer loops that is lower by less than that has not fallen
NEUTRAL = 0.10  # a profile within 10 % of the price (and the race's error) counts as right


# ------------------------------------------------------------------------------------------------ the opening


def strip() -> Picture:
    """The price strip with every group lit and no number on it: today all of it is one price."""
    return figures.price_strip(list(catalogue.groups()), to_scale=False)


def machine_table(here) -> Table:
    """The preflight as a table in words."""
    columns = {"piece": "piece", "found": "found here", "what it means": "what it means", "how to get it": "how to change it"}
    return Table(here.rows(), columns, "What this machine has, and what that means for the course")


# ------------------------------------------------------------------------------------------------ the stopwatch


def stopwatch(race: Race, alone: Reading, *, guess=None) -> Sentence:
    """What one add costs, what the same code says again, and what single calls between two clock readings would have said."""
    name, again = race.control
    mean = sum(alone.samples) / len(alone.samples)
    parts = [
        f"One {name} took {format_ns(race[name])}; the same code, raced under a second name, {format_ns(race[again])}.",
        f"They differ by {significant(100 * race.aa_error, 2)} %, so differences below {significant(100 * race.error, 2)} % "
        "are not claimed.",
        f"Timed call by call, the mean was {format_ns(mean)} and the slowest call {format_ns(max(alone.samples))}; "
        f"reading the clock alone takes {format_ns(race.timer_ns)}.",
    ]
    if race.noisy:
        parts.append("This is a noisy machine: its blocks disagree among themselves.")
    return Sentence(*parts, guess=guess)


def stopwatch_figure(race: Race, alone: Reading, guess=None) -> Picture:
    """The price by blocks, by blocks again, and call by call: mean, lower quartile and the fastest."""
    name, again = race.control
    samples = alone.samples
    bars = {
        f"{name}, blocks": race[name],
        f"{name}, blocks again": race[again],
        "call by call, fastest": min(samples),
        "call by call, lower quartile": alone.ns,
        "call by call, mean": sum(samples) / len(samples),
    }
    error = race.aa_error * race[name].ns
    return figures.bar(bars, title="One add, timed in five ways", guess=guess, error_ns=error, source="measured here")


# ------------------------------------------------------------------------------------------------ the traps


def recorded(name: str) -> tuple[dict, str] | None:
    """(the trap as recorded on a GPU, its label), or None where there is no such recording."""
    from utils.model import recordings

    best = recordings.best("cuda")
    kept = best.extras.get("traps", {}).get(name) if best else None
    return None if kept is None else (traps.restore(kept), best.label("cuda"))


def trap_figures(trap: dict, name: str, title: str) -> list[Picture]:
    """The figure of a trap here (it brings its table); then that of the recorded GPU, when what is here is no GPU."""
    shown = [figures.compare(trap["race"], title=title, truth=trap["names"]["honest"], source=f"measured on {_place(trap)}")]
    kept = None if trap["device"] == "cuda" else recorded(name)
    if kept:
        there, label = kept
        shown.append(figures.compare(there["race"], title=title, truth=there["names"]["honest"], source=label))
    return shown


def no_sync(trap: dict, *, guess=None) -> Sentence:
    def said(t: dict, place: str) -> str:
        share = significant(100 * t["wrong"] / t["honest"], 2)
        return (
            f"On {place} the clock showed {format_ns(t['wrong'])} when the call returned and {format_ns(t['honest'])} when the "
            f"device was done: {share} % of it. The first number is the price of a launch, however long the kernel."
        )

    return _everywhere(said, trap, "no_sync", guess)


def queue_table(trap: dict) -> Table:
    """The wrong price of one call in longer and longer loops of kernels that take 100 µs each."""
    rows = [{"calls": f"{n:,}", "price": format_ns(float(ns))} for n, ns in trap["by_calls"]]
    first, last = trap["by_calls"][0][1], trap["by_calls"][-1][1]
    full = "rose by" if last > 1.5 * first else "changed by"
    note = f"From the shortest loop to the longest, the price {full} a factor of {significant(last / first, 2)}."
    falls = [f"{n:,} to {m:,}" for (n, ns), (m, after) in pairwise(trap["by_calls"]) if after < (1 - WIGGLE) * ns]
    if falls:
        note += f" That compares the two ends only: from {' and from '.join(falls)} calls it fell."
    columns = {"calls": "calls in the loop", "price": "a call, clock stopped when the last one returns"}
    return Table(rows, columns, f"The same wrong stopwatch in longer loops ({_place(trap)}, kernels of 100 µs)", [note])


def no_warmup(trap: dict, *, guess=None) -> Sentence:
    def said(t: dict, place: str) -> str:
        calls = t["calls_ns"]
        settled = next((i for i, ns in enumerate(calls) if ns < 2 * t["honest"]), len(calls))
        after = "the second call was warm" if settled <= 1 else f"{settled} calls took more than twice the warm price"
        return (
            f"On {place} the first product of a process took {format_ns(t['wrong'])}, a warm one {format_ns(t['honest'])}: "
            f"{significant(t['wrong'] / t['honest'], 2)} times as much; {after}. The mean of the first ten would have said "
            f"{format_ns(sum(calls[:10]) / 10)}."
        )

    return _everywhere(said, trap, "no_warmup", guess)


def cache_resident(trap: dict, *, guess=None) -> Sentence:
    def said(t: dict, place: str) -> str:
        seen, true = (t["bytes"] / t[which] for which in ("wrong", "honest"))  # bytes a ns are GB/s
        return (
            f"On {place} one buffer, used again and again, seemed to move {significant(seen)} GB/s; with other data in every "
            f"call it was {significant(true)} GB/s. The reused buffer looked {significant(seen / true, 2)} times as fast."
        )

    return _everywhere(said, trap, "cache_resident", guess)


def item_in_loop(trap: dict, *, guess=None) -> Sentence:
    def said(t: dict, place: str) -> str:
        once, often = (t[which] / t["honest"] for which in ("wrong", "every_launch"))
        return (
            f"On {place} a value read in every step made the step {significant(once, 2)} times as dear, read after every launch "
            f"{significant(often, 2)} times. No kernel became slower: the host stood still instead of running ahead."
        )

    limit = (
        "With one wait in a step, host and device go one after the other instead of side by side: at most twice the time, and "
        "the price of the wait itself."
    )
    return _everywhere(said, trap, "item_in_loop", guess, limit)


def balance_table(trap: dict) -> Table:
    """What .item() in every step costs when host and device share the work differently."""
    found = [(significant(balance, 2), significant(factor)) for balance, factor in trap["by_balance"]]
    rows = [{"balance": f"{balance} ×", "factor": f"{factor} ×"} for balance, factor in found]
    columns = {"balance": "device work of a step, in host work", "factor": "a step with .item(), in steps without"}
    return Table(rows, columns, f"Where it costs most ({_place(trap)})")


def two_lanes(kernel_us: float, read: bool) -> list:
    """Three steps on the simulated device in virtual time: host and device as two lanes, and what the steps took in all.

    A step is ten launches of 20 µs; the last of them starts a kernel of `kernel_us`, the others' kernels are too short to see.
    `read` puts an .item() at the end of every step. The same numbers every time: nothing is measured here.
    """
    host, device, took = _steps(kernel_us, read)
    other = _steps(kernel_us, not read)[2]
    ways = {read: took, not read: other}
    said = f"Three steps take {format_ns(ways[True])} with .item() in each, {format_ns(ways[False])} without."
    title = f"A long kernel of {significant(kernel_us)} µs in each step, {'read' if read else 'not read'} in the loop"
    return [figures.timeline(host, device, title=title, source="simulated device, virtual time"), said]


def _steps(kernel_us: float, read: bool) -> tuple[list, list, float]:
    """(host spans, device spans, ns in all) of three steps."""
    dev = SimulatedDevice(launch_us=20.0, sync_us=10.0, copy_us=10.0, clock=VirtualClock())
    host, device = [], []
    for _ in range(3):
        start = dev.clock()
        for _ in range(9):
            dev.launch(0.0)
        dev.launch(kernel_us)
        host.append((start, dev.clock(), "launches"))
        device.append((dev.busy_until - kernel_us * 1e3, dev.busy_until, "kernel"))
        if read:
            called, done = dev.clock(), dev.busy_until
            dev.item()
            host += [(called, done, "waits", "wait"), (done, dev.clock(), ".item()")] if done > called else []
    called = dev.clock()
    dev.synchronize()
    host.append((called, dev.clock(), "waits", "wait"))
    return host, device, float(dev.clock())


def profiler_cost(trap: dict, *, guess=None) -> tuple[str, Sentence]:
    """("same", "more" or "less": what the profile shows of the add against its price, the sentence)."""

    def said(t: dict, place: str) -> str:
        return (
            f"With {place}, the add cost the host {format_ns(t['honest'])} alone and {format_ns(t['wrong'])} under the "
            f"profiler, {significant(t['wrong'] / t['honest'], 2)} times as much. The profile itself shows "
            f"{format_ns(t['shown_ns'])} for it."
        )

    gap = trap["shown_ns"] / trap["honest"] - 1
    way = "same" if abs(gap) <= max(NEUTRAL, trap["aa_error"]) else "more" if gap > 0 else "less"
    return way, _everywhere(said, trap, "profiler_cost", guess)


def _place(trap: dict) -> str:
    return PLACES[trap["device"]]


def _everywhere(said, trap: dict, name: str, guess, *more: str) -> Sentence:
    """The sentence for this machine, and for the recorded GPU when this is none."""
    names = trap["names"]
    unsure = not trap["race"].difference(names["honest"], names["wrong"]).seen
    parts = [said(trap, _place(trap)), "This run was too noisy to call that a difference." if unsure else "", *more]
    kept = None if trap["device"] == "cuda" else recorded(name)
    if kept:
        parts.append(said(kept[0], f"a GPU ({kept[1]})"))
    return Sentence(*parts, guess=guess)


# ------------------------------------------------------------------------------------------------ the end


def verdicts(found: dict[str, dict]) -> Table:
    """The claims of this lesson: yours (from the traps `found`, by name), recorded, the ledger's verdict with its sentence."""
    from utils.model import recordings

    flat = {f"{name}.{which}": trap[which] for name, trap in found.items() for which in ("wrong", "honest")}
    rows = []
    for row, claim in zip(ledger.verdict_table("start_here"), ledger.claims("start_here"), strict=True):
        ratio = quantities.evaluate(claim.metric["measure"], flat).value
        rows.append({**row, "yours": f"{significant(ratio, 3)} ×"})
    best = recordings.best("cuda")
    columns = {
        "id": "claim",
        "claim": "what is claimed",
        "yours": "yours (wrong over honest)",
        "recorded": "recorded",
        "verdict": "verdict",
        "sentence": "because",
    }
    where = ", ".join(sorted({_place(trap) for trap in found.values()}))
    notes = [f"Yours: measured on {where}", f"Recorded: {best.label()}" if best else "Recorded: no recording of a GPU yet"]
    return Table(rows, columns, "Claims and verdicts", notes)


def transfer(race: Race | None, right: bool) -> Sentence | Table:
    """What the reader's own race of the transfer op shows: a hint before it is written, then the table."""
    if race is None:
        return Sentence("Nothing priced yet: let mine() return the result of your op, and run this cell again.")
    if not right:
        return Sentence("mine() returns something else than the op, so its price would be the price of something else.")
    from utils.show.tables import race_table

    return race_table(race, "a + b", "Your op, priced by you")
