"""What lesson 03, autograd, says about what it read, counted and timed: computed sentences, tables, what its checks judge.

It measures nothing: each function takes a part of the study "autograd" (`utils.measure.autograd`), live or recorded, and words
it, so that every sentence stays true on another torch, on a GPU, and where something could not be had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from utils.measure.callgrind import CallgrindError
from utils.measure.grad_graph import Graph
from utils.measure.grad_prices import BACKWARD, DROPPED, FORWARD, HELD, KEPT, PLAIN, saved_share, saving_two
from utils.measure.handle_counts import ADD, MUL
from utils.measure.inference_tensors import ADD as INFERENCE_ADD
from utils.measure.inference_tensors import MUL as INFERENCE_MUL
from utils.measure.memory_of_modes import GRAD, INFERENCE, NO_GRAD
from utils.measure.saved_tensors import BOTH, FIRST, SECOND
from utils.measure.small_models import BLOCK, MLP
from utils.measure.version_counters import DATA
from utils.measure.version_counters import PLAIN as PLAIN_OP
from utils.model import ledger, studies
from utils.model.quantities import NotMeasured
from utils.model.readings import Difference, Race
from utils.model.studies import Study
from utils.show import figures
from utils.show.bytes_figure import against_batch
from utils.show.explain import Sentence
from utils.show.instructions import count
from utils.show.picture import Picture
from utils.show.tables import Table, format_ns, format_share, format_time, significant

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
GRAPH_ANSWERS = {
    "leaf": (None, "One"),
    "use": ("an_accumulator_for_each_use", "Two: one for each use"),
    "none": ("leaves_are_not_in_the_graph", "None: `x` was made by no op"),
}
ADD_ANSWERS = {
    "inputs": ("add_saves_its_inputs", "Both inputs"),
    "result": ("every_op_saves_its_result", "Its result"),
    "nothing": (None, "No tensor"),
}
PRODUCT_ANSWERS = {
    "both": ("matmul_always_saves_both", "Both, as always"),
    "own": ("what_needs_grad_is_kept", "`x`, which needs the gradient"),
    "other": (None, "`w`, which needs none"),
}
COUNTER_ANSWERS = {
    "ops": ("every_op_bumps", "Every op that reads or writes `t`"),
    "writes": ("every_write_bumps", "Everything that writes into `t`'s memory"),
    "in_place": (None, "In-place ops and `out=`, but not all that is written"),
}
INFERENCE_ANSWERS = {
    "refused": ("inference_tensors_never_return", "An error: `t` cannot enter a graph"),
    "works": (None, "A result with a node"),
    "plain": ("inference_spreads", "A result without a node: `t` turns recording off"),
}
OPS_ANSWERS = {
    "two": ("backward_is_twice_forward", "Two: a gradient for each input"),
    "one": ("backward_mirrors_forward", "One: backward mirrors forward"),
    "none": (None, "None"),
}
NODE_ANSWERS = {
    "less": ("nothing_computed_is_free", "Less than its forward"),
    "same": (None, "About as much"),
    "more": (None, "More than its forward"),
}
LIFE_ANSWERS = {
    "more": ("dropping_is_the_price", "More than keeping it, as before"),
    "same": (None, "The same as keeping it"),
    "less": ("dropping_is_cheaper", "Less than keeping it"),
}
COMPILED_ANSWERS = {
    "none": ("compiled_leaves_no_tape", "None"),
    "one": (None, "One for the whole region"),
    "all": ("compile_keeps_every_node", "As many as eager"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "autograd.accumulators": "A leaf has one accumulator. Every use of the leaf sends its gradient there, and it adds them up.",
    "autograd.add_keeps": "The gradient of a sum is the gradient that came in: no value of forward is needed for it.",
    "autograd.product_keeps": "The gradient of x is worked out from w, and that of w from x. What nobody asks for is not kept.",
    "autograd.growth": "Each row of the batch has activations of its own, while the parameters are there once.",
    "autograd.counters": "Views and detach() share the tensor's counter; what .data gives has a counter of its own.",
    "autograd.inference": "A tensor without a counter cannot be kept, since a change would go unseen. An add keeps none.",
    "autograd.step": "What the modes save is paid per op, by the host. Once the arithmetic takes longer, it is hidden.",
    "autograd.peak": "What no node keeps can be given back as soon as the next layer has read it.",
    "autograd.add_ops": "Both gradients of a sum are the gradient that came in. It is passed on, and nothing is computed.",
    "autograd.node": "The engine takes a node out of a queue, collects its gradients and checks them, whatever it computes.",
    "autograd.life": "What is dear is making the accumulators anew. While some graph holds them, nobody has to.",
    "autograd.compiled": "The region was differentiated when it was compiled: at run time one node calls the traced backward.",
}
TENTH = 0.1


def recorded(device: str = "cuda") -> Study | None:
    """The study that stands beside the reader's numbers: the best one of a GPU (or of a CPU), None where there is none."""
    return studies.best("autograd", device)


def _part(study: Study | None, name: str) -> Race | dict | None:
    try:
        return None if study is None else study.part(name)
    except NotMeasured:
        return None


def _bytes(n: float) -> str:
    return f"{n:,.0f} bytes"


# ------------------------------------------------------------------------------------------------ the graph


def accumulators(graph: Graph, leaf: str = "x") -> tuple[str, Sentence]:
    """(text of the option that the graph shows, sentences): how many accumulators a leaf has that several ops use."""
    mine = [node for node in graph.accumulators if node.leaf == leaf]
    uses = sum(edge is not None and edge[0] in {n.number for n in mine} for node in graph.nodes for edge in node.edges)
    kind = "none" if not mine else "leaf" if len(mine) == 1 else "use"
    return GRAPH_ANSWERS[kind][1], Sentence(
        f"Behind {graph.expression} stand {len(graph.nodes)} nodes: {len(graph.inner)} for ops, "
        f"{len(graph.accumulators)} that add into leaves.",
        f"{leaf} is used {uses} times and has {len(mine)} accumulator{'' if len(mine) == 1 else 's'}.",
        "A node has an edge for each input of its op, to the node that gets this gradient next.",
    )


# ------------------------------------------------------------------------------------------------ what is kept


def _names(kept: Sequence[str]) -> str:
    return " and ".join(kept) or "no tensor"


def add_keeps(kept: Mapping) -> tuple[str, Sentence]:
    """(text of the option that the hooks show, sentences): what x + y keeps when both need a gradient."""
    one = kept["cases"][f"x + y, {BOTH}"]
    kind = "nothing" if not one["kept"] else "result" if one["kept"] == ["result"] else "inputs"
    words = [f"x + y kept {_names(one['kept'])}: {_bytes(one['bytes'])}."]
    other = kept["cases"][f"x * y, {BOTH}"]
    words.append(f"x * y, of the same tensors, kept {_names(other['kept'])}: {_bytes(other['bytes'])}.")
    relu = kept["cases"][f"relu(x), {FIRST}"]
    words.append(f"relu kept {'its result' if relu['kept'] == ['result'] else _names(relu['kept'])}.")
    if kept["same_memory"]:
        same, memory = kept["same_memory"]["object"], kept["same_memory"]["memory"]
        words.append(
            f"What relu kept and its result are {'one' if same else 'two'} Python object{'' if same else 's'}"
            f"{' in the same memory: compare data_ptr(), not the objects' if memory and not same else ''}."
        )
    return ADD_ANSWERS[kind][1], Sentence(*words)


def product_keeps(kept: Mapping) -> tuple[str | None, Sentence]:
    """(text of the option that the hooks show, sentences): what x @ w keeps when only x needs a gradient."""
    one = kept["cases"][f"x @ w, {FIRST}"]
    kind = {("w", "x"): "both", ("x",): "own", ("w",): "other"}.get(tuple(one["kept"]))
    both = kept["cases"][f"x @ w, {BOTH}"]
    return None if kind is None else PRODUCT_ANSWERS[kind][1], Sentence(
        f"With only x needing a gradient, x @ w kept {_names(one['kept'])}: {_bytes(one['bytes'])} of the "
        f"{_bytes(both['bytes'])} that it keeps when both need one.",
        "x is not needed for its own gradient." if kind == "other" else "",
    )


def kept_table(kept: Mapping) -> Table:
    """Every op with each choice of who needs a gradient: what was kept, its bytes, and the node."""
    rows = [
        {
            "op": one["op"],
            "needs": _who(one).removeprefix(", ") or "its input",
            "kept": _names(one["kept"]),
            "bytes": one["bytes"],
            "node": one["node"],
        }
        for one in kept["cases"].values()
    ]
    columns = {"op": "op", "needs": "needs a gradient", "kept": "keeps", "bytes": "bytes", "node": "node"}
    return Table(rows, columns, "What an op keeps for backward, seen by hooks")


def _who(case: Mapping) -> str:
    """Who needs a gradient, for an op that leaves a choice."""
    return f", {case['needs']}" if " " in case["op"] else ""


def kept_figure(kept: Mapping) -> Picture:
    """The bytes that each op keeps, by who needs a gradient."""
    cases = kept["cases"].values()
    parts = {f"{one['op']}{_who(one)}: {_names(one['kept'])}": one["bytes"] / 1024 for one in cases}
    return figures.bar(parts, unit="KiB", title="What ops keep for backward, by who needs a gradient")


# ------------------------------------------------------------------------------------------------ activations


def activations(memory: Mapping, small: int, large: int) -> Sentence:
    """What forward leaves, at two batches, against the parameters, by two witnesses."""
    words = []
    for model, found in memory["activations"].items():
        a, b = found["batches"][str(small)], found["batches"][str(large)]
        words.append(
            f"{model}: forward of a batch of {large} leaves {_bytes(b['held'])} alive, "
            f"{significant(b['held'] / a['held'], 2)} times what a batch of {small} leaves; the parameters take "
            f"{_bytes(found['parameters'])}."
        )
        first = next((int(n) for n, one in found["batches"].items() if one["held"] > found["parameters"]), None)
        words.append(
            f"From a batch of {first} on, forward leaves more than the parameters take."
            if first
            else "At none of the batches tried does forward leave more than the parameters take."
        )
    agree = all(
        one["held"] == one["saved"] + one["result"]
        for found in memory["activations"].values()
        for one in found["batches"].values()
    )
    if agree:
        words.append("To the byte, that is what hooks saw saved, and the result. Nobody has called backward.")
    return Sentence(*words)


def activation_figure(memory: Mapping, source: str) -> Picture:
    """Bytes that live after forward, against the batch; the parameters as a level line."""
    series = {name: {int(n): one["held"] for n, one in found["batches"].items()} for name, found in memory["activations"].items()}
    levels = {f"parameters of the {name}": found["parameters"] for name, found in memory["activations"].items()}
    return against_batch(series, levels, title="What forward leaves in memory", source=source)


# ------------------------------------------------------------------------------------------------ counters, inference tensors


def counters(rules: Mapping) -> tuple[str, Sentence]:
    """(text of the option that the counters show, sentences): what raises a version counter."""
    bumps = rules["bumps"]
    silent = [line for line, by in bumps.items() if not by and line != PLAIN_OP]
    kind = "ops" if bumps[PLAIN_OP] else "in_place" if silent else "writes"
    words = [f"{PLAIN_OP} {'raised' if bumps[PLAIN_OP] else 'did not raise'} the counter of t."]
    if silent:
        words.append(f"{' and '.join(silent)} wrote into t, and its counter did not move.")
    let_through = [code for code, refused in rules["changed"].items() if DATA[1:6] in code and not refused]
    if let_through and rules["silently_wrong"]:
        words.append(
            f"So backward of {let_through[0]} is not refused, "
            f"and its gradient is off by {significant(rules['silently_wrong'], 2)}."
        )
    refused = [(code, text) for code, text in rules["changed"].items() if text]
    if refused:
        code, text = refused[0]
        words += [f"Refused was {code}: “{_until_hint(text)}”", _read(text)]
    return COUNTER_ANSWERS[kind][1], Sentence(*words)


def _until_hint(text: str) -> str:
    return text.partition(" Hint:")[0]


def _first_sentence(text: str) -> str:
    """torch's own words up to where it begins to advise; it does not always put a blank after a full stop."""
    return re.split(r"\.\s*(?=[A-Z])", text)[0]


def _read(text: str) -> str:
    """What the error of a version counter says, in words: which node kept the tensor, and both versions."""
    found = re.search(r"output (\d+) of (\w+), is at version (\d+); expected version (\d+)", text)
    if not found:
        return ""
    output, node, now, then = found.groups()
    return f"So: result {output} of {node} was kept at version {then}, and backward found it at version {now}."


def counters_table(rules: Mapping) -> Table:
    """Each line, and by how much it raised the counter."""
    rows = [{"line": line, "by": by} for line, by in rules["bumps"].items()]
    return Table(rows, {"line": "line", "by": "the counter of t rises by"}, "Version counters")


def changed_table(rules: Mapping) -> Table:
    """A result changed before backward: refused, with the error, or let through."""
    rows = [{"code": code, "said": _until_hint(refused) or "nothing: it ran"} for code, refused in rules["changed"].items()]
    return Table(rows, {"code": "before backward", "said": "backward says"}, "A result changed before backward")


def inference(rules: Mapping) -> tuple[str, Sentence]:
    """(text of the option that was tried, sentences): an inference tensor in an add, and in a product."""
    tried = rules["inference"]
    kind = "refused" if tried[INFERENCE_ADD] else "works" if rules["inference_node"] else "plain"
    words = [
        f"{INFERENCE_ADD} was refused."
        if tried[INFERENCE_ADD]
        else f"{INFERENCE_ADD} ran, with {rules['inference_node'] or 'no node'}.",
        f"{INFERENCE_MUL} was refused: {_first_sentence(tried[INFERENCE_MUL])}."
        if tried[INFERENCE_MUL]
        else f"{INFERENCE_MUL} ran.",
    ]
    if tried[INFERENCE_MUL] and not tried[INFERENCE_ADD]:
        words.append("A product has to keep t, and a sum does not: what decides is whether the op must save it.")
    untracked = [what for what, known in rules["views_tracked"].items() if known is False]
    if untracked:
        words.append(f"No base is known to {' and '.join(untracked)}: views are not tracked there.")
    return INFERENCE_ANSWERS[kind][1], Sentence(*words)


def inference_table(rules: Mapping) -> Table:
    """Each use of an inference tensor outside inference_mode, and what torch says."""
    rows = [{"code": code, "said": _first_sentence(refused) or "nothing: it ran"} for code, refused in rules["inference"].items()]
    notes = ["t was made in inference_mode, g needs a gradient; all of this stands outside inference_mode."]
    return Table(rows, {"code": "code", "said": "torch says"}, "Where a tensor of inference_mode is refused", notes)


# ------------------------------------------------------------------------------------------------ three modes


def steps(races: Mapping[str, Race], faults: Mapping | None = None, beside: Study | None = None) -> Sentence:
    """What inference_mode saves of each step, where the claimed share holds, and where nothing is seen; here and recorded."""
    words = _steps(races, "Here")
    if faults:
        words += _faults(races, faults)
    other = _part(beside, "steps")
    if beside is not None and other:
        words += _steps(other, f"On another machine ({beside.label()})")
    return Sentence(*words)


def _steps(races: Mapping[str, Race], where: str) -> list[str]:
    claim = ledger.find("A18")
    shares = {name: saved_share(race) for name, race in races.items()}
    parts = [f"{format_share(share, 1.0)} ({name})" for name, share in shares.items() if share]
    unseen = [name for name, share in shares.items() if not share]
    slack = ledger.ROUNDING  # as the ledger judges: figures cited with one digit are not finer
    inside = [n for n, share in shares.items() if claim.lo * (1 - slack) <= 100 * share <= claim.hi * (1 + slack)]
    words = [f"{where}, inference_mode saves of a step with grad: {', '.join(parts) or 'nothing that is seen'}."]
    words += [f"No difference is seen for {'; '.join(unseen)}."] if unseen else []
    words.append(f"The claimed {claim.cited} is seen for {'; '.join(inside) or 'none of them'}.")
    (first, race), (last, longest) = list(races.items())[0], list(races.items())[-1]
    if shares[first] and not shares[last]:
        saved = shares[first] * race[GRAD].ns
        words.append(
            f"The {format_ns(saved)} saved for {first} would be {format_share(saved, longest[GRAD].ns)} of the "
            f"{format_time(longest[GRAD].ns)} of {last}."
        )
    return words


def _faults(races: Mapping[str, Race], faults: Mapping) -> list[str]:
    more = {n: (f[GRAD], f[INFERENCE]) for n, f in faults.items() if f[GRAD] > f[INFERENCE] + 10 and saved_share(races[n])}
    if not more:
        return []
    name, (grad, without) = max(more.items(), key=lambda one: one[1][0])
    return [
        f"Not all of it is the host's work per op: at {name} the system hands out {grad:,.0f} pages of memory in a step with "
        f"grad, and {without:,.0f} in inference_mode. Memory that is kept cannot be used again."
    ]


def steps_table(races: Mapping[str, Race], source: str) -> Table:
    """Each step in the three modes, and what no_grad and inference_mode save of it."""
    rows = [
        {
            "step": name,
            **{mode: format_time(race[mode].ns) for mode in (GRAD, NO_GRAD, INFERENCE)},
            **{f"{mode} saves": _saves(race, mode) for mode in (NO_GRAD, INFERENCE)},
        }
        for name, race in races.items()
    ]
    return Table(rows, caption="One step of inference in three modes", notes=[source])


def _saves(race: Race, mode: str) -> str:
    share = saved_share(race, mode)
    return format_share(share, 1.0) if share else "no difference seen"


def steps_figure(races: Mapping[str, Race], source: str, guess=None) -> Picture:
    """The share of a step that inference_mode saves, a bar a step."""
    shares = {name: saved_share(race) for name, race in races.items()}
    parts = {name if share else f"{name}: none seen": 100 * share for name, share in shares.items()}
    return figures.bar(parts, unit="% of the step with grad", title="What inference_mode saves", guess=guess, source=source)


def beside(study: Study | None) -> list:
    """The recorded steps as a figure of its own, or why there is none; and the recorded instructions of the modes."""
    races = _part(study, "steps")
    if study is None or not races:
        found = Sentence("On a GPU: not measured, no recording is at hand.")
    else:
        found = steps_figure(races, study.label())
    instructions, label = counted()
    return [found, host_work(instructions), instructions_table(instructions, label)]


def peaks(memory: Mapping, batch: int) -> Sentence:
    """The peak of forward under no_grad over that with grad, inference_mode beside it, and the add, the counter-case."""
    which = "allocator" if "allocator" in memory["peaks"]["peaks"]["a + b"][GRAD] else "tensors"
    at = {mode: found[which] for mode, found in memory["peaks"]["peaks"][f"batch {batch}"].items()}
    add = {mode: found[which] for mode, found in memory["peaks"]["peaks"]["a + b"].items()}
    level = (
        "inference_mode needs as much as no_grad."
        if at[INFERENCE] == at[NO_GRAD]
        else f"inference_mode needs {_bytes(at[INFERENCE])}."
    )
    words = [
        f"Forward of the {MLP} on a batch of {batch} needs {_bytes(at[GRAD])} at most with grad, "
        f"{_bytes(at[NO_GRAD])} under no_grad: {format_share(at[NO_GRAD], at[GRAD])}. {level}"
    ]
    if add[GRAD] == add[NO_GRAD]:
        words.append(f"The add needs {_bytes(add[GRAD])} in every mode: it keeps nothing, so there is nothing to save.")
    else:
        words.append(f"The add needs {_bytes(add[GRAD])} with grad and {_bytes(add[NO_GRAD])} without.")
    return Sentence(*words)


def peaks_table(memory: Mapping) -> Table:
    """Peak bytes by batch and mode."""
    found = memory["peaks"]["peaks"]
    which = list(found["a + b"][GRAD])
    rows = [
        {
            "forward of": name if " + " in name else f"the {MLP}, {name}",
            "by": by,
            **{mode: one[by] for mode, one in modes.items()},
        }
        for name, modes in found.items()
        for by in which
    ]
    notes = [
        "Bytes beyond what was there before. By tensors: what ops return, to the byte. By the allocator (CUDA): as requested."
    ]
    return Table(rows, caption="Peak memory of forward in three modes", notes=notes)


# ------------------------------------------------------------------------------------------------ backward


def add_ops(ops: Mapping) -> tuple[str | None, Sentence]:
    """(text of the option that was counted, sentences): ops of an add's backward, and where the ratio of two holds."""
    add = ops["a + b"]
    kind = {0: "none", 1: "one", 2: "two"}.get(add["backward"])
    claim = ledger.find("A16")
    low, high = claim.bounds
    near = [name for name, one in ops.items() if low <= one["ratio"] <= high]
    far = [f"{name} ({significant(one['ratio'], 2)})" for name, one in ops.items() if name not in near]
    words = [f"Backward of a + b runs {add['backward'] or 'no'} op{'' if add['backward'] == 1 else 's'}."]
    if near:
        words.append(f"About two ops of backward for one of forward: {', '.join(near)}.")
    if far:
        words.append(f"Not so: {', '.join(far)}.")
    return None if kind is None else OPS_ANSWERS[kind][1], Sentence(*words)


def ops_table(ops: Mapping) -> Table:
    """Forward and backward ops that compute, their ratio, and the ops of backward by name."""
    rows = [
        {
            "of": name,
            "forward": one["forward"],
            "backward": one["backward"],
            "ratio": significant(one["ratio"], 2),
            "ops": _tally(one["ops"]["backward"]["computing"]),
        }
        for name, one in ops.items()
    ]
    columns = {"of": "of", "forward": "forward ops", "backward": "backward ops", "ratio": "ratio", "ops": "the ops of backward"}
    notes = ["Ops below autograd that compute; views are left out, and so is adding into .grad."]
    return Table(rows, columns, "Ops of forward and of backward", notes)


def _tally(names: Sequence[str]) -> str:
    short = [name.partition(".")[0] for name in names]
    return ", ".join(f"{short.count(name)} {name}" for name in dict.fromkeys(short)) or "none"


def node(chains: Mapping, ops: Mapping, beside: Study | None = None) -> tuple[str, Sentence]:
    """(text of the option that was measured, sentences): one add more in backward, against one add more in forward."""
    race = chains["per_op"]
    kind, words = _node(race, "Here")
    if not ops["a + b"]["backward"]:
        words.insert(1, "No op runs in that backward: it is the engine's own work.")
    words.append(f"Before its first node a backward takes {format_ns(chains['start'])}.")
    other = _part(beside, "chains")
    if beside is not None and other:
        words += _node(other["per_op"], f"On another machine ({beside.label()})")[1]
    return NODE_ANSWERS[kind][1], Sentence(*words)


def _node(race: Race, where: str) -> tuple[str, list[str]]:
    forward, backward = f"add, {FORWARD}", f"add, {BACKWARD}"
    found = race.difference(forward, backward)
    kind = "same" if not found.seen else "more" if found.ns > 0 else "less"
    against = {"same": "no difference is seen", "more": "backward costs more", "less": "backward costs less"}[kind]
    words = [
        f"{where}, one add more costs {format_ns(race[forward])} in forward and {format_ns(race[backward])} in backward: "
        f"{against}."
    ]
    mul = race[f"mul, {BACKWARD}"]
    words.append(f"A mul more, which does compute in backward, costs {format_ns(mul)} there.")
    return kind, words


def node_figure(chains: Mapping, source: str) -> Picture:
    """One op more in each pass."""
    return figures.compare(chains["per_op"], title="The price of one op more in a chain", source=source)


def life(race: Race, lives: Mapping[str, bool], beside: Study | None = None) -> tuple[str, Sentence]:
    """(text of the option that was measured, sentences): dropping a result while an older one is kept, against keeping it.

    The arms have inputs of their own, and identical arms on other inputs differ by a percent: so what is judged is whether more
    than a tenth of the price of dropping is left.
    """
    dropped, held = race.difference(KEPT, DROPPED), race.difference(KEPT, HELD)
    left = held.ns / dropped.ns if dropped.seen else 0.0
    kind = "same" if not held.seen or abs(left) <= TENTH else "more" if held.ns > 0 else "less"
    words = [_life(race, dropped, "With no other result alive, dropping the result")]
    if kind == "same" and dropped.seen:
        words.append(f"While an older result is kept, less than a tenth of that is left ({format_ns(race[HELD])}).")
    else:
        words.append(_life(race, held, "While an older result is kept, dropping the new one"))
    if lives[KEPT] and not lives[DROPPED]:
        words.append("A mark put on the accumulator of a is still there when the result lives, and gone when it was dropped")
        words[-1] += ", unless an older result lives." if lives[HELD] else ", whether or not an older result lives."
    other = _part(beside, "results")
    if beside is not None and other:
        words.append(_life(other, other.difference(KEPT, DROPPED), f"On another machine ({beside.label()}), dropping the result"))
        words.append(_life(other, other.difference(KEPT, HELD), "Dropping it there while an older one is kept"))
    return LIFE_ANSWERS[kind][1], Sentence(*words)


def _life(race: Race, found: Difference, what: str) -> str:
    both = f"({format_ns(race[found.b])} and {format_ns(race[found.a])})"
    if not found.seen:
        return f"{what} shows no difference from keeping it {both}."
    return f"{what} costs {format_ns(abs(found.ns))} {'more' if found.ns > 0 else 'less'} than keeping it {both}."


def life_figure(race: Race, source: str) -> Picture:
    return figures.compare(race, title="The same add, its result kept or dropped", source=source)


# ------------------------------------------------------------------------------------------------ ahead of time


def compiled_nodes(compiled: Mapping) -> tuple[str | None, Sentence]:
    """(text of the option that the graphs show, sentences): nodes behind the result of a compiled region."""
    eager, after = compiled["eager_nodes"], compiled["compiled_nodes"]
    kind = "none" if after == 0 else "one" if after == 1 else "all" if after == eager else None
    names = [n["name"] for n in compiled["compiled"]["nodes"] if not n["name"].endswith("AccumulateGrad")]
    words = [
        f"Eager, {eager} nodes for ops stand behind {compiled['eager']['expression']}; compiled, {after}:"
        f" {', '.join(names) or 'none'}.",
        "Both gave the same gradients." if compiled["same"] else "The two gave different gradients.",
    ]
    if compiled["backward_ops"]:
        words.append(f"Its backward was traced ahead: {_tally(compiled['backward_ops'])}.")
    return None if kind is None else COMPILED_ANSWERS[kind][1], Sentence(*words)


def compiled_table(compiled: Mapping) -> Table:
    """The nodes of both graphs, eager and compiled, from the result down."""
    rows = [
        {"graph": name, "node": node["name"], "to": node["leaf"] and f"adds into {node['leaf']}.grad", "keeps": _kept_by(node)}
        for name in ("eager", "compiled")
        for node in compiled[name]["nodes"]
    ]
    columns = {"graph": "graph", "node": "node", "keeps": "keeps", "to": "at its end"}
    notes = ["What a compiled region keeps is not told by its node."] if compiled["compiled_nodes"] == 1 else []
    return Table(rows, columns, "The graph at run time, eager and compiled", notes)


def _kept_by(node: Mapping) -> str | None:
    tensors = [name for name, what in node["saved"].items() if what.startswith("tensor")]
    return ", ".join(tensors) or None


# ------------------------------------------------------------------------------------------------ deeper


def counted(measure: Callable | None = None) -> tuple[dict[str, float] | None, str]:
    """(instructions by statement, whose they are): counted by `measure("cpu")` where it is given, else the recorded ones.

    Where counting fails, the recorded ones with the reason; None where there are none.
    """
    study, why = recorded("cpu"), ""
    if measure is not None:
        try:
            return measure("cpu"), "counted here"
        except CallgrindError as error:
            why = f"not counted here: {error}; "
    part = _part(study, "instructions")
    return (None, why) if study is None or not part else (dict(part), why + study.label())


def host_work(counted: Mapping[str, float] | None) -> Sentence | None:
    """What no_grad takes off a step of the MLP in instructions, at each batch: the same number, of more and more."""
    steps = [name.removesuffix(f", {GRAD}") for name in counted or {} if name.startswith(MLP) and name.endswith(f", {GRAD}")]
    if counted is None or not steps:
        return None
    words = []
    for step in steps:
        whole, less = counted[f"{step}, {GRAD}"], counted[f"{step}, {NO_GRAD}"]
        way, share = "fewer" if less <= whole else "more", format_share(abs(whole - less), whole)
        words.append(f"{count(abs(whole - less))} of {count(whole)} {way}, {share} ({step})")
    return Sentence(f"Instructions of a step under no_grad, against one with grad: {'; '.join(words)}.")


def instructions_table(counted: Mapping[str, float] | None, label: str) -> Table | Sentence:
    """Instructions of each statement in each mode, and what the mode takes off."""
    if not counted:
        return Sentence("Instructions: not measured, no counts are at hand.", label)
    rows = []
    for name, total in counted.items():
        base = counted.get(f"{name.rpartition(', ')[0]}, {GRAD}")
        rows.append({"statement": name, "instructions": count(total), "of": format_share(total, base) if base else None})
    columns = {"statement": "statement, mode", "instructions": "instructions", "of": "of the same with grad"}
    return Table(rows, columns, "Instructions in three modes", [label])


def handles(kept: Mapping, counted: Mapping[str, float] | None, label: str) -> Sentence:
    """Saved tensors and reference counts: what the intervention, an op that saves against one that does not, shows."""
    found = kept["handles"]
    words = []
    if found is None:
        words.append("This torch does not tell how many handles a tensor has.")
    else:
        add, mul = found[ADD], found[MUL]
        words.append(
            f"While the result of a + b lives, a has {add['a']} handle{'' if add['a'] == 1 else 's'} more (its accumulator's); "
            f"while that of a * b lives, {mul['a']}. After backward of a * b it is {mul['after a']}."
        )
    if counted:
        more = saving_two(counted)
        words.append(
            f"Keeping two tensors takes {count(more)} instructions: what grad adds to a * b, less what it adds to a + b "
            f"({label})."
        )
    else:
        words.append("What keeping takes in instructions: not measured.")
    return Sentence(*words)


# ------------------------------------------------------------------------------------------------ what the checks judge


def seen(device: str, kept: Mapping, memory: Mapping, rules: Mapping, small: int, large: int) -> dict:
    """What was kept, held, counted and refused, as numbers for `expect`."""
    cases, block = kept["cases"], memory["activations"][BLOCK]["batches"]
    in_place = [by for line, by in rules["bumps"].items() if line not in (PLAIN_OP, DATA)]
    return {
        "device": device,
        "add keeps": cases[f"x + y, {BOTH}"]["bytes"],
        "product keeps": cases[f"x @ w, {BOTH}"]["bytes"],
        "product keeps for x": cases[f"x @ w, {FIRST}"]["bytes"],
        "product keeps for w": cases[f"x @ w, {SECOND}"]["bytes"],
        "relu keeps": cases[f"relu(x), {FIRST}"]["bytes"],
        "relu result": cases[f"relu(x), {FIRST}"]["result_bytes"],
        "held": block[str(large)]["held"],
        "held, small": block[str(small)]["held"],
        "saved": block[str(large)]["saved"],
        "result": block[str(large)]["result"],
        "in place": sum(in_place) / len(in_place),
        "not counted": rules["bumps"][PLAIN_OP] + rules["bumps"][DATA],
        "refused after a change": sum(bool(text) for text in rules["changed"].values()),
        "inference add refused": int(bool(rules["inference"][INFERENCE_ADD])),
        "inference mul refused": int(bool(rules["inference"][INFERENCE_MUL])),
    }


def passes(device: str, memory: Mapping, ops: Mapping, rules: Mapping, compiled: Mapping, batch: int) -> dict:
    """Peaks, ops of both passes, lives of accumulators and nodes of a compiled region, as numbers for `expect`."""
    found = memory["peaks"]["peaks"]
    at, add = found[f"batch {batch}"], found["a + b"]
    lives = rules["accumulator_lives"]
    return {
        "device": device,
        "peak, grad": at[GRAD]["tensors"],
        "peak, no_grad": at[NO_GRAD]["tensors"],
        "peak of the add, grad": add[GRAD]["tensors"],
        "peak of the add, no_grad": add[NO_GRAD]["tensors"],
        "add, backward ops": ops["a + b"]["backward"],
        "product, forward ops": ops["a @ b"]["forward"],
        "product, backward ops": ops["a @ b"]["backward"],
        "MLP, forward ops": ops[MLP]["forward"],
        "MLP, backward ops": ops[MLP]["backward"],
        "rebuilt": int(not lives[DROPPED]),
        "rebuilt, though held": int(not lives[KEPT]) + int(not lives[HELD]),
        "compiled nodes": compiled["compiled_nodes"],
        "compiled agrees": int(compiled["same"]),
    }


# ------------------------------------------------------------------------------------------------ claims and the end


def verdicts(parts: Mapping[str, Race | dict], device: str, study: Study | None = None) -> Table:
    """Every claim of this lesson, what was seen of it here and recorded, and the ledger's verdict with its sentence."""
    here = _evidence(parts)
    there = {} if study is None else _evidence(study.parts)
    rows = [
        {
            "id": c.id,
            "claim": c.claim,
            "here": here.get(c.id),
            "there": there.get(c.id),
            "cited": c.cited or "no figure",
            "verdict": ledger.WORDS[c.verdict],
            "because": c.sentence,
        }
        for c in ledger.claims("autograd")
    ]
    columns = {
        "id": "claim",
        "claim": "what is claimed",
        "here": f"yours ({device})",
        "there": "recorded",
        "cited": "cited",
        "verdict": "verdict",
        "because": "because",
    }
    note = "Recorded: not measured, no study of a GPU is at hand." if study is None else f"Recorded: {study.label()}."
    return Table(rows, columns, "Claims and verdicts", [note])


def _evidence(parts: Mapping[str, Race | dict]) -> dict[str, str]:
    """A few words of what the parts show of each claim; a part that is missing leaves its claims out."""
    words: dict[str, str] = {}
    if chains := parts.get("chains"):
        race = chains["per_op"]
        grad = race.difference(f"add, {PLAIN}", f"add, {FORWARD}")
        words["A04"] = words["B04"] = f"grad adds {format_ns(grad.ns)} to an add" if grad.seen else "no difference seen"
    if ops := parts.get("ops"):
        ratios = {"add": ops["a + b"], "product": ops["a @ b"], MLP: ops[MLP]}
        words["A16"] = ", ".join(f"{name} {significant(one['ratio'], 2)}" for name, one in ratios.items())
    if races := parts.get("steps"):
        words["A18"] = "; ".join(f"{name}: {_saves(race, INFERENCE)}" for name, race in races.items())
    if compiled := parts.get("compiled"):
        words["A26"] = f"{compiled['eager_nodes']} nodes walked for {compiled['eager']['expression']}"
        words["A31"] = f"nodes for ops behind the result: eager {compiled['eager_nodes']}, compiled {compiled['compiled_nodes']}"
    if kept := parts.get("kept"):
        cases = kept["cases"]
        words["A27"] = (
            f"x @ w: {_names(cases[f'x @ w, {BOTH}']['kept'])}; with x only: {_names(cases[f'x @ w, {FIRST}']['kept'])}"
        )
        words["A38"] = f"add: {_names(cases[f'x + y, {BOTH}']['kept'])}"
        if kept["handles"]:
            words["A30"] = f"handles on a: {kept['handles'][ADD]['a']} for an add, {kept['handles'][MUL]['a']} for a mul"
    if rules := parts.get("rules"):
        refused = sum(bool(text) for text in rules["changed"].values())
        words["A28"] = f"{refused} of {len(rules['changed'])} changed results refused"
        words["A29"] = f"{INFERENCE_MUL} {'refused' if rules['inference'][INFERENCE_MUL] else 'ran'}, " + (
            f"{INFERENCE_ADD} {'refused' if rules['inference'][INFERENCE_ADD] else 'ran'}"
        )
        words["B43"] = f"{PLAIN_OP}: {rules['bumps'][PLAIN_OP]}, t.add_(1): {rules['bumps']['t.add_(1)']}"
    if memory := parts.get("memory"):
        last = [found for name, found in memory["peaks"]["peaks"].items() if name.startswith("batch")][-1]
        add = memory["peaks"]["peaks"]["a + b"]
        words["A45"] = f"{MLP} {format_share(last[NO_GRAD]['tensors'], last[GRAD]['tensors'])} of the peak with grad, " + (
            f"add {format_share(add[NO_GRAD]['tensors'], add[GRAD]['tensors'])}"
        )
    return words


def transfer(own: Mapping | None, expected: int | None) -> Sentence | Table:
    """What the reader's own op kept beside the bytes that they expected; a hint while something is missing."""
    if own is None:
        return Sentence("Nothing tried yet: write the function, mine = lambda x, y: …, and your bytes, then run this cell again.")
    if expected is None:
        return Sentence("First your bytes: set expected to what you think is kept, then run this cell again.")
    if not any("Sigmoid" in node for node in own["nodes"]):
        return Sentence(f"That made {', '.join(own['nodes']) or 'no node'}: it is not the op of this exercise.")
    rows = [
        {"kept by hooks": number, "whose": what, "bytes": size, "memory": f"place {place}"}
        for number, what, size, place in own["rows"]
    ]
    hit = "as you expected" if own["bytes"] == expected else f"you expected {_bytes(expected)}"
    notes = ["Rows of one place share their memory: it is kept once."]
    return Table(rows, caption=f"{_bytes(own['bytes'])} are kept, {hit}", notes=notes)
