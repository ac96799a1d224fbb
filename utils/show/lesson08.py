"""What lesson 08, batch and scale, says about its measurements: computed sentences, tables, figures, and the numbers judged.

It measures nothing: each function takes what `utils.measure.study_here` found (live here, recorded there, or nothing, with the
reason) and words it, so that a sentence stays true when the numbers surprise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from utils.measure import batch_and_scale
from utils.measure.step32 import WHY_NEVER
from utils.measure.study_here import Both
from utils.model import worth
from utils.model.costmodel import Op, per_step, total_sum
from utils.model.worth import Speed
from utils.show import batch_figures, controls, own_answer, study_end, worth_explorer
from utils.show.explain import Sentence
from utils.show.here_and_there import each, not_measured, option, per_cent, times, told
from utils.show.picture import Picture
from utils.show.study_end import judged_here
from utils.show.tables import Table, format_time, significant

STUDY = "batch_and_scale"

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
NULL_ANSWERS = {
    "same": (None, "About as long"),
    "some": ("batch_costs_in_part", "Longer, by less than half"),
    "double": ("batch_scales_time", "About twice as long: it has twice the work"),
}
OPS_ANSWERS = {
    "grow": ("ops_grow_with_batch", "More: each sample needs its ops"),
    "same": (None, "As many as before"),
}
EXTRA_ANSWERS = {
    "none": ("one_element_is_free", "Neither: an add of one element computes nothing"),
    "small": ("long_steps_hide_ops", "The small step only: the wide one is busy with its products"),
    "both": ("every_op_shows", "Both, by the price of the adds"),
}
WIDE_ANSWERS = {
    "same": ("same_code_same_curve", "As long: the same code with the same ops"),
    "some": ("batch_costs_in_part", "Longer, by less than half"),
    "double": (None, "Longer by half or more"),
}
FLAT_ANSWERS = {
    "host": ("flat_is_launch_bound", "The price of its ops: a flat step is launch bound"),
    "device": (None, "Its weights: they are read once, whatever the batch"),
}
HALF_ANSWERS = {
    "same": (None, "As long"),
    "less": ("faster_kernel_faster_step", "Shorter by what the kernel saves"),
    "half": ("kernel_is_the_step", "Half as long"),
}
WAVE_ANSWERS = {
    "same": ("idle_sms_take_it", "As long: one block among so many"),
    "little": ("blocks_share_the_time", "Longer by that block's share"),
    "round": (None, "Longer by a whole round"),
}
CLOCK_ANSWERS = {
    "lower": ("idle_is_slow", "Lower than under products: it saves power"),
    "same": ("clock_is_fixed", "The same: a chip has one clock"),
    "higher": (None, "Higher than under products"),
}
WORTH_ANSWERS = {
    "cheap": ("cheap_always_wins", "The cheap one, at every batch"),
    "fast": ("fast_always_wins", "The fast one, at every batch"),
    "depends": (None, "It depends on the batch"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "batch_and_scale.null": "Where the price of each op, and not the numbers in it, makes the step, more numbers change little.",
    "batch_and_scale.ops": "A batch makes tensors larger, and not more of them: the same calls in the same order.",
    "batch_and_scale.extra": "What the host pays more shows where it is the longer side. One thread has but one side.",
    "batch_and_scale.wide": "In wide layers the products are the step, and their work doubles with the batch.",
    "batch_and_scale.flat": "Reading the weights is a fixed price, too. A flat step says that something is fixed, and not what.",
    "batch_and_scale.layer": "Views only describe memory that is there: a call for the host, and no work for the device.",
    "batch_and_scale.step": "Ops of a layer, forward and backward, times the layers, and what the optimizer adds.",
    "batch_and_scale.half": "The device waits for the next launch either way: it is done sooner, and waits longer.",
    "batch_and_scale.wave": "A block that finds no place waits until one is free, and then runs as long as all the others.",
    "batch_and_scale.host": "A step that its host sets takes all that the host adds; one that its kernels set can hide it.",
    "batch_and_scale.clock": "A power limit binds under full load. Whether an idle chip lowers its clock is the driver's choice.",
    "batch_and_scale.worth": "Flat steps make all devices alike, and then the price decides; with full ones, the speed does.",
}

APART = 1.15  # steps within 15 % of each other are called about as long
HALF_MORE = 1.5
SHOWS = 0.5  # a step that grows by half of what was put into it shows it
MODELS = {
    "training": "a training step",
    "inference": "its forward alone",
    "wide": "a training step of wide layers",
    "weights": "one token through large weights",
}
STYLES = {"shipped": "nn.TransformerEncoderLayer", "spelled": "written out"}
ONE_THREAD = " Host and kernels are one thread here: nothing is launched ahead, and no step is launch bound."
TEXT_HOST_US = 8.0  # what the texts charge the host for an op; used where no GPU's host was measured


def _rows(value: Mapping, kind: str) -> list[Mapping]:
    return sorted((row for row in value["rows"] if row["kind"] == kind), key=lambda row: row["batch"])


def _noise(ratio: float) -> str:
    """The words behind a step that got shorter with more samples."""
    return " (more samples cannot make it shorter: noise did)" if ratio < 1 / APART else ""


def _growth(ratio: float) -> str:
    """About as long, longer by less than half, or more."""
    return "same" if ratio < APART else "some" if ratio < HALF_MORE else "double"


# ------------------------------------------------------------------------------------------------ the null experiment


def null(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): a training step at twice the batch, and what makes it flat."""

    def say(value: Mapping) -> str:
        rows, numbers = _rows(value, "training"), value["numbers"]
        first, second, last = rows[0], rows[1], rows[-1]
        double, samples = numbers["training_double"], last["batch"] // first["batch"]
        return (
            f"From batch {first['batch']} to {second['batch']} the step took {times(double)} as long{_noise(double)}; at batch "
            f"{last['batch']:,}, with {samples:,} times the samples, {times(numbers['training_largest'])} as long. "
            f"{bound_words(value, 'training')}{ONE_THREAD if value['device'] == 'cpu' else ''}"
        )

    return option(part, lambda v: _growth(v["numbers"]["training_double"]), NULL_ANSWERS), told(part, "a batch sweep", say)


def bound_words(value: Mapping, kind: str) -> str:
    """What sets the step at the smallest batch: by totals of host and device where there are two, by the ops' price on a CPU."""
    numbers = value["numbers"]
    if value["device"] == "cpu":
        share = numbers[f"{kind}_fixed_share"]
        what = (
            "most of it is a fixed price for each op"
            if share > 0.5
            else "most of it is the work on the numbers, weights among them"
        )
        return f"The same ops on next to no numbers take {per_cent(share)} of the step at the smallest batch: {what}."
    host, device = numbers.get(f"{kind}_host"), numbers.get(f"{kind}_device")
    if host is None or device is None:
        return "Totals of host and kernels were not measured."
    verdict = "launch bound" if host > device else "bound by its kernels"
    return (
        f"At the smallest batch the host needs {format_time(host)} to issue it and its kernels {format_time(device)}: {verdict}."
    )


def ops(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was counted, sentences): what the batch does to ops and kernels."""

    def say(value: Mapping) -> str:
        rows = _rows(value, "training")
        counts = sorted({row["ops"] for row in rows})
        same = f"{counts[0]:,} ops at every batch" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} ops"
        kernels = sorted({row["kernels"] for row in rows if row["kernels"] is not None})
        span = f"{kernels[0]:,}" if len(kernels) == 1 else f"{kernels[0]:,} to {kernels[-1]:,}" if kernels else ""
        of_them = f", and {span} kernels" if kernels else ""
        return f"The step has {same}{of_them}; {rows[0]['views']:,} more calls only look at memory that is there."

    def kind(value: Mapping) -> str:
        return "grow" if value["numbers"]["training_ops_ratio"] > 1.02 else "same"

    return option(part, kind, OPS_ANSWERS), told(part, "counts of ops", say)


def sweep_tables(part: Both, *kinds: str) -> list[Table]:
    """Each batch: samples, ops, kernels, host's and kernels' totals, the step, and the step over the samples."""
    columns = {
        "model": "model",
        "batch": "batch",
        "ops": "ops",
        "kernels": "kernels",
        "host": "host issues",
        "device": "kernels' total",
        "step": "step",
        "sample": "a sample",
    }
    out = []
    for found in each(part):
        rows = [
            {
                "model": MODELS[kind],
                "batch": f"{row['batch']:,}",
                "ops": row["ops"],
                "kernels": row["kernels"],
                "host": None if row["host_ns"] is None else format_time(row["host_ns"]),
                "device": None if row["device_ns"] is None else format_time(row["device_ns"]),
                "step": format_time(row["step_ns"]),
                "sample": format_time(row["step_ns"] / row["batch"]),
            }
            for kind in kinds
            for row in _rows(found.value, kind)
        ]
        words = [f"{MODELS[kind]}: {_rows(found.value, kind)[0]['words']}" for kind in kinds]
        out.append(Table(rows, columns, "A batch sweep", [found.label, *words, *found.value["notes"]]))
    return out


def sweep_figures(part: Both, *kinds: str) -> list[Picture]:
    """The step against its batch, here and on the recorded GPU, each in a figure of its own; totals where there are two sides."""
    out = []
    for found in each(part):
        series = {}
        for kind in kinds:
            rows = _rows(found.value, kind)
            series[MODELS[kind]] = {row["batch"]: row["step_ns"] for row in rows}
            if len(kinds) == 1:
                for key, words in (("host_ns", "host issues it"), ("device_ns", "its kernels")):
                    points = {row["batch"]: row[key] for row in rows if row[key]}
                    series |= {words: points} if points else {}
        out.append(batch_figures.against_batch(series, "A step against its batch", found.label))
    return out


# ------------------------------------------------------------------------------------------------ interventions and counter-cases


def extra(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): adds of one element put into the small step and into the wide one."""

    def kind(value: Mapping) -> str | None:
        small, wide = (_grew(value, name) for name in ("training", "wide"))
        if small is None or wide is None:
            return None
        if small < SHOWS:
            return "none" if wide < SHOWS else None
        return "both" if wide >= SHOWS else "small"

    def say(value: Mapping) -> str:
        words = []
        for name, kind_of in (("small", "training"), ("wide", "wide")):
            grew = _grew(value, kind_of)
            grown = (
                "can grow by so much unseen" if grew is None else f"grew by {per_cent(grew)} of that" if grew else "did not grow"
            )
            words.append(f"the {name} step {grown}")
        return f"Adds of one element were put into each step, and what they take alone was predicted: {' and '.join(words)}."

    return option(part, kind, EXTRA_ANSWERS), told(part, "adds put into a step", say)


def _grew(value: Mapping, kind: str) -> float | None:
    """A step's growth over what the adds take alone; 0 where none was seen, None where the error could hide half of it."""
    row = next(row for row in _added(value) if row["kind"] == kind)
    if row["seen"]:
        return value["numbers"][f"extra_{kind}"]
    return 0.0 if row["error_ns"] < SHOWS * row["alone_ns"] / 2 else None


def _added(value: Mapping) -> list[dict]:
    """The steps with adds in them. A recording made before adds were sized to each step has number and price once for all."""
    whole = {name: value["extra"][name] for name in ("adds", "alone_ns") if name in value["extra"]}
    error = value["numbers"].get("aa_error", 0.0)
    return [{"error_ns": error * row["with_ns"], **whole, **row} for row in value["extra"]["rows"]]


def extra_tables(part: Both) -> list[Table]:
    """Each step with adds in it: how many, what they take alone, the step as it was, as predicted if they show, as measured."""
    columns = {
        "step": "step",
        "adds": "adds",
        "alone": "alone they take",
        "before": "step without",
        "predicted": "if they show",
        "with": "measured",
    }
    return [
        Table(
            [
                {
                    "step": MODELS[row["kind"]],
                    "adds": row["adds"],
                    "alone": format_time(row["alone_ns"]),
                    "before": format_time(row["step_ns"]),
                    "predicted": format_time(row["step_ns"] + row["alone_ns"]),
                    "with": format_time(row["with_ns"]),
                }
                for row in _added(found.value)
            ],
            columns,
            "Adds of one element in a step",
            [found.label, *found.value["notes"]],
        )
        for found in each(part)
    ]


def wide(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the same sweep where the products are the step."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        return (
            f"With wide layers a step of twice the batch took {times(numbers['wide_double'])} as long, where the small model's "
            f"took {times(numbers['training_double'])}. {bound_words(value, 'wide')}"
        )

    return option(part, lambda v: _growth(v["numbers"]["wide_double"]), WIDE_ANSWERS), told(part, "the counter-case", say)


def flat(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): a step that is flat because it reads its weights."""

    def kind(value: Mapping) -> str | None:
        numbers = value["numbers"]
        if value["device"] == "cpu":
            return "host" if numbers["weights_fixed_share"] > 0.5 else "device"
        ratio = numbers.get("weights_device_over_host")
        return None if ratio is None else "host" if ratio < 1 else "device"

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        words = f"Its step took {times(numbers['weights_double'])} as long at twice the batch{_noise(numbers['weights_double'])}"
        flatly = "flat as well" if _growth(numbers["weights_double"]) == "same" else "not flat on this machine"
        return f"{words}: {flatly}. {bound_words(value, 'weights')}"

    return option(part, kind, FLAT_ANSWERS), told(part, "a step that reads its weights", say)


# ------------------------------------------------------------------------------------------------ counting


def layer(part: Both) -> Sentence:
    """Calls, ops, views and kernels of one layer's forward, as it comes and written out."""

    def say(value: Mapping) -> str:
        numbers, words = value["numbers"], []
        for style, name in STYLES.items():
            calls, views = numbers[f"{style}_forward_calls"], numbers[f"{style}_forward_views"]
            computing, kernels = numbers[f"{style}_forward_ops"], numbers.get(f"{style}_forward_kernels")
            launched = "" if kernels is None else f", {kernels:,.0f} kernels"
            words.append(
                f"{name}: {calls:,.0f} calls, {views:,.0f} of them views, {computing:,.0f} that compute "
                f"({per_cent(computing / calls)}){launched}"
            )
        return f"One layer's forward, {'; '.join(words)}."

    return told(part, "the calls of a layer", say)


def layer_tables(part: Both) -> list[Table]:
    """Every style and phase of a layer: calls, those that compute, views, kernels."""
    columns = {"style": "layer", "phase": "phase", "calls": "calls", "ops": "compute", "views": "views", "kernels": "kernels"}
    return [
        Table(
            [dict(row) | {"style": STYLES[row["style"]]} for row in found.value["rows"]],
            columns,
            "One transformer layer",
            [found.label, *found.value["notes"]],
        )
        for found in each(part)
    ]


def step(part: Both) -> Sentence:
    """The ops of a training step of 32 layers: counted on fake tensors, counted in a run, and what they cost the host."""

    def say(value: Mapping) -> str:
        numbers, words = value["numbers"], []
        for style, name in STYLES.items():
            kernels = numbers.get(f"real_{style}_kernels")
            launched = "" if kernels is None else f" and {kernels:,.0f} kernels"
            fake, real = (_optimizer(value[source], style) for source in ("fake", "real"))
            words.append(
                f"{name}: {numbers[f'fake_{style}_ops']:,.0f} ops that compute on fake CPU tensors (nothing ran; the optimizer's "
                f"{fake:,}), {numbers[f'real_{style}_ops']:,.0f}{launched} when a narrow one ran (the optimizer's {real:,}). The "
                f"host took {format_time(numbers[f'step_{style}'])} for it; estimated from steps of a few layers it is "
                f"{format_time(numbers[f'estimate_{style}'])}"
            )
        return f"A training step of 32 layers, {'; '.join(words)}."

    return told(part, "a step of 32 layers", say)


def _optimizer(counted: Mapping, style: str) -> int:
    return sum(row["ops"] for row in counted["rows"] if (row["style"], row["phase"]) == (style, "optimizer"))


def step_tables(part: Both) -> list[Table]:
    """Each phase of the step: the fake CPU count, labelled as such, and that of a run."""
    columns = {"source": "where", "how": "how", "style": "layer", "phase": "phase"}
    columns |= {"calls": "calls", "ops": "compute", "views": "views"}
    out = []
    for found in each(part):
        fake, real = found.value["fake"], found.value["real"]
        ran = "in a run, CPU" if found.value["device"] == "cpu" else "in a run, GPU"
        rows = [
            {"source": source, "how": "counted", **row, "style": STYLES[row["style"]]}
            for source, counted in (("fake tensors, CPU", fake["rows"]), (ran, real["rows"]))
            for row in counted
        ]
        sizes = [f"{fake['label']}, {fake['words']}", f"{ran}: {real['words']}"]
        out.append(Table(rows, columns, "A training step of 32 layers", [found.label, *sizes, *found.value["notes"]]))
    return out


def token(part: Both) -> Sentence:
    """Kernels of a layer, and the host's time, for one token written (deeper)."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        kernels = numbers.get("spelled_decode_kernels")
        launched = "" if kernels is None else f", {kernels:,.0f} kernels"
        return (
            f"One token through a layer, written out: {numbers['spelled_decode_calls']:,.0f} calls, "
            f"{numbers['spelled_decode_ops']:,.0f} that compute{launched}. The host takes {format_time(numbers['layer_ns'])} for "
            f"one layer and {format_time(numbers['token_ns'])} for 32."
        )

    return told(part, "one token", say)


def never() -> Sentence:
    """Why fake tensors that say cuda are never tried here (deeper)."""
    return Sentence(WHY_NEVER)


# ------------------------------------------------------------------------------------------------ host, device, clock


def half(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the step with a kernel of half the length behind the same host."""

    def kind(value: Mapping) -> str:
        ratio = value["numbers"]["half_ratio"]
        return "same" if ratio > 0.95 else "less" if ratio > 0.65 else "half"

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        where = "In a simulated queue" if value["label"] == "simulated" else "On the device"
        host = value["rows"][0]["host_us"]
        return (
            f"{where}, behind {significant(host)} µs of the host, an op took {format_time(numbers['step_3'])} with a kernel of "
            f"3 µs and {format_time(numbers['step_1_5'])} with one of 1.5 µs. The counter-case: 12 µs instead of 24 left "
            f"{per_cent(numbers['long_ratio'])} of the time."
        )

    here = part.here
    if here.value is not None and here.value["label"] == "simulated":
        part = replace(part, here=replace(here, label="the queue played through: nothing was measured"))
    return option(part, kind, HALF_ANSWERS), told(part, "two kernels behind one host", say)


def one_thread() -> Sentence:
    """What the same change does where host and kernel are one thread: worked out by the sum model."""
    long, short = (total_sum([Op(TEXT_HOST_US, device_us=kernel)]) for kernel in (3.0, 1.5))
    return Sentence(
        f"On a CPU alone there is no queue, and the sum is the model: {format_time(1e3 * long)} would become "
        f"{format_time(1e3 * short)}, {per_cent(short / long)}. There the shorter kernel does show."
    )


def wave(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): one block more than there are places, and SMs that stay idle."""

    def kind(value: Mapping) -> str:
        ratio = value["numbers"]["spin_one_more"]
        return "round" if ratio > 1.3 else "little" if ratio > 1.01 else "same"

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        words = (
            f"{value['sms']} SMs hold {value['fits']} blocks each; one block more than that took "
            f"{times(numbers['spin_one_more'])} as long. A kernel that computes: one block more than one for each SM took "
            f"{times(numbers['work_one_more'])} as long, one more than four for each SM {times(numbers['work_later'])}; with a "
            f"block for half of the SMs it took {times(numbers['work_half'])} as long as with one for each, for half the work."
        )
        if "spin_later" in numbers:
            words += (
                f" Of blocks that wait, one more than four full rounds took {times(numbers['spin_later'])}; counting says 1.25."
            )
        if "gemm_dip" in numbers:
            words += (
                f" Of products that grow by one tile of rows, the FLOPs a second fell by up to {per_cent(numbers['gemm_dip'])} "
                "from one size to the next larger one."
            )
        return words

    return option(part, kind, WAVE_ANSWERS), told(part, "blocks and rounds", say)


def wave_figures(part: Both) -> list[Picture]:
    """Time against blocks: a kernel that waits, and one that computes."""
    names = {"spin": "blocks that wait", "work": "blocks that compute"}
    out = []
    for found in each(part):
        value = found.value
        marks = {"one on each SM": value["sms"], "all places": value["sms"] * value["fits"]}
        for kernel, name in names.items():
            points = {row["blocks"]: row["ns"] for row in value["rows"] if row["kernel"] == kernel}
            if points:
                shown = {words: at for words, at in marks.items() if at <= max(points)}
                out.append(
                    batch_figures.against_blocks({name: points}, shown, f"A kernel against its blocks: {name}", found.label)
                )
    return out


def host(part: Both) -> Sentence:
    """What a slower thread makes of the small step and of the wide one; another process on the thread's core."""

    def say(value: Mapping) -> str:
        numbers = value["numbers"]
        words = (
            f"Of the time that was added to the ops the small step shows {per_cent(numbers['slope_small'])}. With the slowest "
            f"thread it takes {times(numbers['slowed_small'])} as long, and the wide step {times(numbers['slowed_wide'])}."
        )
        if "shared_small" in numbers:
            words += (
                f" With another busy process on its core: the small step {times(numbers['shared_small'])}, the wide one "
                f"{times(numbers['shared_wide'])} as long."
            )
        return words

    return told(part, "a slower host", say)


def host_tables(part: Both) -> list[Table]:
    """Each slowing of the thread: the step as predicted, if all of it shows, and as measured."""
    columns = {"kind": "step", "slow": "added to a call", "calls": "calls", "predicted": "if all of it shows", "step": "measured"}
    return [
        Table(
            [
                {
                    "kind": row["kind"],
                    "slow": format_time(1e3 * row["slow_us"]) if row["slow_us"] else "the mode alone",
                    "calls": row["calls"],
                    "predicted": format_time(row["predicted_ns"]),
                    "step": format_time(row["step_ns"]),
                }
                for row in found.value["slowed"]
            ],
            columns,
            "A thread that is slower, op by op",
            [found.label, *found.value["notes"]],
        )
        for found in each(part)
    ]


def clock(part: Both) -> tuple[str | None, Sentence]:
    """(text of the option that was measured, sentences): the SM clock of a mostly idle GPU beside that under products."""

    def kind(value: Mapping) -> str:
        ratio = value["numbers"]["idle_over_products"]
        return "higher" if ratio > 1.02 else "lower" if ratio < 0.98 else "same"

    def say(value: Mapping) -> str:
        told_of = "; ".join(f"{row['state']} {row['mhz']:,.0f}" for row in value["rows"])
        return f"The SM clock in MHz: {told_of}."

    return option(part, kind, CLOCK_ANSWERS), told(part, "the SM clock", say)


# ------------------------------------------------------------------------------------------------ throughput per cost


def measured_speeds(part: Both) -> list[Speed]:
    """The steps of the part "cost" as speeds: this machine's, and the recorded one's."""
    out = []
    for found in each(part):
        name = "this machine" if found.live else f"a recorded {'GPU' if found.value['device'] == 'cuda' else 'CPU'}"
        steps = {row["batch"]: 1e-3 * row["step_ns"] for row in found.value["rows"]}
        out.append(Speed(name, found.label, "measured" if found.live else "recorded", steps))
    return out


def known_speeds(part: Both) -> dict[str, Speed]:
    """All speeds that the panel offers: measured, recorded, and the datasheets' in the model; {} where nothing was counted."""
    value = part.first.value
    if value is None:
        return {}
    (first, last) = sorted(value["work"], key=lambda one: one["batch"])

    def work(batch: int) -> tuple[float, float]:
        share = (batch - first["batch"]) / (last["batch"] - first["batch"])
        flops, nbytes = (first[key] + share * (last[key] - first[key]) for key in ("flops", "bytes"))
        return flops, nbytes

    gpus = [found.value for found in each(part) if found.value["device"] == "cuda"]
    host_us = 1e-3 * gpus[0]["numbers"]["first_ns"] / gpus[0]["ops"] if gpus else TEXT_HOST_US
    return worth_explorer.speeds(measured_speeds(part), work, ops=value["ops"], host_us=host_us)


def prices_panel(part: Both) -> controls.Panel | Sentence:
    """The controls over prices and batch, or in words why there are none."""
    known = known_speeds(part)
    return worth_explorer.explorer(known) if known else Sentence(not_measured(part.here, "a step to put a price on"))


def _pair(part: Both) -> tuple[Speed, Speed] | None:
    """The cheap and the fast device of the question: a CPU and a GPU where both were measured, else two datasheets."""
    known = known_speeds(part)
    if not known:
        return None
    found = {one.value["device"]: speed for one, speed in zip(each(part), measured_speeds(part), strict=True)}
    return (found["cpu"], found["cuda"]) if len(found) == 2 else (known[worth_explorer.SMALL], known[worth_explorer.LARGE])


def worth_of(part: Both, prices: tuple[float, float]) -> tuple[str | None, Sentence]:
    """(text of the option that these prices give, sentences): who gives more samples for the money, batch by batch."""
    pair = _pair(part)
    if pair is None:
        return None, Sentence(not_measured(part.here, "throughput per cost"))
    best = worth.winners(*pair, prices)
    if not any(best.values()):
        return None, Sentence("No batch tells the two apart.")
    names = {name for name in best.values() if name}
    key = "depends" if len(names) == 2 else "cheap" if names == {pair[0].name} else "fast"
    listed = ", ".join(f"{batch:,} {name or 'alike'}" for batch, name in best.items())
    words = (
        f"At made-up prices of {prices[0]:g} and {prices[1]:g} an hour, more samples for the money by batch: {listed}.",
        *(f"{speed.name}: {speed.label}." for speed in pair),
    )
    return WORTH_ANSWERS[key][1], Sentence(*words)


def worth_figure(part: Both, prices: tuple[float, float]) -> Picture | None:
    """Both devices' samples for the money over the batch."""
    pair = _pair(part)
    return None if pair is None else worth_explorer.figure(pair, prices, max(speed.batches[0] for speed in pair))


# ------------------------------------------------------------------------------------------------ the numbers that are judged


# Part → the numbers that the lesson's checks speak of.
JUDGED = {
    "null_experiment": ("training_ops_ratio", "training_double", "wide_double", "extra_training"),
    "layer_ops": ("shipped_forward_calls", "shipped_forward_ops"),
    "step32": ("fake_shipped_ops", "fake_shipped_forward_ops", "check_difference"),
    "two_kernels": ("half_ratio", "long_ratio"),
    "waves": ("spin_one_more",),
    "host": ("slope_small",),
    "cost": ("gain",),
}


def judged(device: str, **parts: Both) -> dict[str, dict]:
    """For `expect`: by part, the numbers that were measured here; in place of one that was not, why not."""
    return {
        name: judged_here(device, part.here, JUDGED[name], batch_and_scale.judged)
        for name, part in parts.items()
        if name in JUDGED
    }


# ------------------------------------------------------------------------------------------------ the end


def verdicts(device: str, found: Mapping[str, Both]) -> Table:
    """The claims of this lesson: yours (the parts `found` live, by name), recorded, cited, the verdict with its sentence."""
    return study_end.verdicts(STUDY, device, found)


@own_answer.in_unit()
def transfer(
    mine: float | None, *, ops: int, host_us: float, kernel_us: float, alone: int, sweep: Both | None = None
) -> Sentence | Table:
    """The reader's batch at which a step of `ops` begins to grow, beside the batch that counting gives and the queue played.

    A kernel takes `kernel_us` up to `alone` samples and grows in proportion from there. `sweep` adds where a measured step has
    doubled.
    """
    if mine is None:
        return Sentence("Nothing predicted yet: write the batch from which on the step grows, mine = …, and run this cell again.")
    bend = alone * host_us / kernel_us

    def played(batch: float) -> float:
        kernel = kernel_us * max(1.0, batch / alone)
        return 1e3 * per_step([Op(host_us, device_us=kernel) for _ in range(ops)], warm=4, steps=2)

    rows = [
        {"what": "you", "batch": f"{mine:,g}", "step": format_time(played(mine))},
        {"what": "one sample", "batch": "1", "step": format_time(played(1))},
        {"what": "kernel as long as the host's part", "batch": f"{bend:,g}", "step": format_time(played(bend))},
        {"what": "twice that", "batch": f"{2 * bend:,g}", "step": format_time(played(2 * bend))},
    ]
    near = abs(mine - bend) <= 0.1 * bend
    notes = ["Steps by the queue, played through: host and device side by side"]
    notes.insert(
        0, "Near enough: within 10 %." if near else "More than 10 % off: at which batch is a kernel as long as the host's part?"
    )
    if sweep is not None and sweep.first.value is not None:
        rows_of = _rows(sweep.first.value, "training")
        over = next((row["batch"] for row in rows_of if row["step_ns"] > 2 * rows_of[0]["step_ns"]), None)
        reached = f"at batch {over:,}" if over else f"at no batch up to {rows_of[-1]['batch']:,}"
        notes.append(f"The training step of this lesson has more than doubled {reached} ({sweep.first.label})")
    return Table(rows, {"what": "whose", "batch": "batch", "step": "step"}, "Where the flat part ends", notes)
