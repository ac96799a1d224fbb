"""What lesson 02, the dispatcher, says about what was looked up, who was reached and what it cost: computed sentences and tables.

It looks nothing up and times nothing: each function takes what `utils.measure` found and words it, so that every sentence stays
true on another torch, on a GPU, and where something could not be had. A recording's label stands beside its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from utils.measure.dispatcher import TENSORS, Lookup
from utils.measure.key_sets import KeySets, Registration, TableRow, ThreadSets
from utils.measure.layers import BACKENDS, MODE, SUBCLASS, Compiled, Stack
from utils.measure.other_layers import Seen
from utils.model import ledger
from utils.model.quantities import NotMeasured
from utils.model.readings import Race, Receipt
from utils.model.recordings import receipt_label
from utils.show import figures, key_figures
from utils.show.controls import Panel, choice, panel, slider
from utils.show.explain import Sentence
from utils.show.picture import Picture
from utils.show.tables import Table, format_ns, format_share, significant

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
DTYPE_ANSWERS = {
    "each": ("dtype_is_a_key", "A set for each dtype, and one for the transposed"),
    "strides": ("strides_are_a_key", "Two: the transposed one has a set of its own"),
    "one": (None, "One and the same for all four"),
}
AUTOCAST_ANSWERS = {
    "added": ("autocast_adds_its_key", "In no set: entering autocast adds it"),
    "carried": (None, "In each tensor's own set; the thread excludes it"),
    "made": ("tensors_remember_modes", "In the sets of tensors that were made under autocast"),
}
FIRST_ANSWERS = {
    "union": ("highest_key_runs", "ADInplaceOrView: the highest that is left in the sets"),
    "autograd": ("inference_is_no_grad", "Autograd's, as under `no_grad`"),
    "backend": (None, "The backend's: `CPU` or `CUDA`"),
}
ORDER_ANSWERS = {
    "mode": ("entered_last_sees_first", "The logging mode: it was entered last"),
    "subclass": ("class_decides_first", "The subclass: it is the class of an argument"),
    "autocast": ("highest_key_runs", "Autocast: its key is the highest of the four"),
    "autograd": (None, "Autograd"),
}
COMPILED_ANSWERS = {
    "same": ("compile_keeps_layers", "Each op, as in eager mode"),
    "nothing": (None, "Nothing: its turn was while compiling"),
    "refused": ("compile_refuses_layers", "It is not compiled at all: a subclass is refused"),
}
# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "dispatcher.dtype_keys": "Keys stand for device, sparse layout and layers. The dtype is a switch inside the kernel.",
    "dispatcher.autocast_key": "A mode must not touch every tensor there is: the thread lifts one exclude instead.",
    "dispatcher.first_key": "Where the op falls through, nobody is called: those keys go before the highest is taken.",
    "dispatcher.own_rows": "A table is filled: from the op's own kernels, from aliases, and from fallbacks for all ops.",
    "dispatcher.argument": "A key set is one machine word: uniting it is an OR, choosing the highest counts leading zeros.",
    "dispatcher.order": "The order is that of the keys, fixed when PyTorch was built, and not that of the `with` lines.",
    "dispatcher.compiled": "torch.compile ran the layers while it traced; what they did is in the graph.",
    "dispatcher.mode_price": "A hop in C++ is a look-up and a call. A hop to Python builds arguments and runs an interpreter.",
}
DTYPES = ("float32", "bfloat16", "int64", "transposed")
PASSING = "dispatch mode"
SUBCLASS_ALONE = "subclass without code"
LEAST_COUNTED = 0.03  # of the whole: two counts of the same line differed by up to 1.9 % (malloc tidies up now and then)


def unseen(why: str) -> str:
    return f"Not seen here: {why or 'this torch no longer tells'}."


def layer_of(key: str) -> str:
    """The layer behind a key, as the lesson calls it: "autocast" for AutocastCPU, "backend kernel" for CPU."""
    for name in ("Autocast", "Autograd"):
        if key.startswith(name):
            return name.lower()
    return "backend kernel" if key in BACKENDS.values() else key


# ------------------------------------------------------------------------------------------------ what a tensor carries


def dtype_keys(held: Mapping[str, Sequence[str]], hits: Mapping[str, int]) -> tuple[str | None, Sentence]:
    """(text of the option that holds, sentences) from the keys of each sample and how often one function was reached by each."""
    if not held:
        return None, Sentence(unseen(""))
    sets = {name: tuple(held[name]) for name in DTYPES}
    different = len(set(sets.values()))
    dtypes = len({sets[name] for name in DTYPES if name != "transposed"})
    kind = "one" if different == 1 else "strides" if dtypes == 1 else "each"
    found = "one and the same key set" if different == 1 else f"{different} different key sets"
    words = [f"{', '.join(DTYPES[:-1])} and {DTYPES[-1]} have {found}."]
    if hits and set(hits.values()) == {1}:
        words.append("A witness at the backend's key saw all of them arrive at one and the same function.")
    elif hits:
        words.append(f"A witness at the backend's key saw: {', '.join(f'{name} {_often(n)}' for name, n in hits.items())}.")
    changed = [name for name, keys in held.items() if name not in DTYPES and tuple(keys) != sets["float32"]]
    alike = [name for name, keys in held.items() if name not in DTYPES and tuple(keys) == sets["float32"]]
    words.append(f"Tensors with another set: {', '.join(changed) or 'none'}.")
    if alike:
        words.append(f"Others with the same set: {', '.join(alike)}.")
    return DTYPE_ANSWERS[kind][1], Sentence(*words)


def samples_table(held: Mapping[str, Sequence[str]]) -> Table:
    """The keys of each sample, and what it has more or less than the plain float32 tensor."""
    if not held:
        return Table([{"tensor": unseen("")}], caption="Key sets")
    plain = held["float32"]
    rows = []
    for name, keys in held.items():
        more, less = [k for k in keys if k not in plain], [k for k in plain if k not in keys]
        change = [*(f"+ {k}" for k in more), *(f"− {k}" for k in less)]
        rows.append({"tensor": name, "keys": ", ".join(keys), "change": ", ".join(change) or "the same"})
    columns = {"tensor": "tensor", "keys": "its keys, lowest priority first", "change": "against float32"}
    return Table(rows, columns, "What a tensor carries into every call")


# ------------------------------------------------------------------------------------------------ what the thread does


def autocast_key(
    held: Mapping[str, Sequence[str]], moments: Sequence[ThreadSets], hits: Mapping[str, int]
) -> tuple[str | None, Sentence]:
    """(text of the option that holds, sentences): where Autocast's key is before, inside and after autocast. `hits` says how
    often a witness at Autocast's key of the add was reached, plain and under autocast."""
    key = next((k for k in held.get("float32", ()) if k.startswith("Autocast")), None)
    if not held or len(moments) < 3:
        return None, Sentence(unseen(""))
    if key is None:
        return AUTOCAST_ANSWERS["added"][1], Sentence("No Autocast key is in the set of a plain tensor.")
    where = {moment.when: "excluded" if key in moment.excluded else "let in" for moment in moments}
    words = [f"Each tensor carries {key}, made under autocast or not.", f"In the thread's sets it is {_listed(where)} autocast."]
    if hits:
        without, under = hits["plain"], hits["autocast"]
        words.append(
            f"A witness put at {key} of the add was reached: without autocast {_often(without)}, under it {_often(under)}."
        )
    return AUTOCAST_ANSWERS["carried"][1], Sentence(*words)


def _often(n: float) -> str:
    return {0: "never", 1: "once"}.get(n, f"{n:,.0f} times")


def _listed(where: Mapping[str, str]) -> str:
    return ", ".join(f"{what} {when}" for when, what in where.items())


def thread_table(around: Mapping[str, Sequence[ThreadSets]]) -> Table:
    """For each context, what the thread includes and excludes inside it beyond what it did before, the first key of the add
    before, inside and after, and whether all is as before."""
    if any(len(moments) < 3 for moments in around.values()):
        return Table([{"context": unseen("")}], caption="Before, inside, after")
    outside = next(iter(around.values()))[0]
    whole = {"includes": ", ".join(outside.included), "excludes": ", ".join(outside.excluded)}
    rows = [{"context": "none: before", **whole, "first": outside.first, "after": None}]
    for name, (before, inside, after) in around.items():
        rows.append(
            {
                "context": name,
                "includes": _change(before.included, inside.included),
                "excludes": _change(before.excluded, inside.excluded),
                "first": " → ".join(moment.first for moment in (before, inside, after)),
                "after": "as before" if (before.included, before.excluded) == (after.included, after.excluded) else "changed",
            }
        )
    columns = {"context": "context", "includes": "includes, inside", "excludes": "excludes, inside"}
    columns |= {"first": "first key of the add: before → inside → after", "after": "sets after it"}
    note = "inference_mode also excludes the backend's own Autograd key, which torch does not name; set arithmetic sees it."
    return Table(rows, columns, "What a context does to the thread", [note])


def _change(before: Sequence[str], inside: Sequence[str]) -> str:
    more, less = [k for k in inside if k not in before], [k for k in before if k not in inside]
    return ", ".join([*(f"+ {k}" for k in more), *(f"− {k}" for k in less)]) or "no change"


# ------------------------------------------------------------------------------------------------ the first key


def first_key(looked: Mapping[str, Lookup]) -> tuple[str | None, Sentence]:
    """(text of the option that holds, sentences) for the first key in inference_mode, derived and then seen by witnesses."""
    one = looked["inference_mode"]
    if one.keys is None:
        return None, Sentence(unseen(one.missing))
    first = one.keys.highest
    layer = layer_of(first)
    kind = "autograd" if layer == "autograd" else "backend" if layer == "backend kernel" else "union"
    words = [f"In inference_mode the first key of {one.expression} is {first}."]
    if one.unmasked != first:
        words.append(f"Union, includes and excludes alone say {one.unmasked}; but there the op falls through.")
    no_grad = looked.get("no_grad")
    if no_grad is not None and no_grad.keys is not None:
        words.append(f"Under no_grad it is {no_grad.keys.highest}.")
    return FIRST_ANSWERS[kind][1], Sentence(*words, confirmed(*looked.values()))


def confirmed(*looked: Lookup) -> str:
    """In how many states the witnesses saw just the chain that was derived, and the states in which they did not."""
    seen = [one for one in looked if not one.missing]
    if not seen:
        return unseen(looked[0].missing if looked else "")
    wrong = [
        f"{one.expression}, {one.state} (derived {_path(one.derived)}, ran {_path(one.ran)})" for one in seen if not agrees(one)
    ]
    words = f"Witnesses at the keys saw the derived chain in {len(seen) - len(wrong)} of {len(seen)} runs."
    return f"{words} Otherwise: {'; '.join(wrong)}." if wrong else words


def agrees(one: Lookup) -> bool:
    return bool(one.ran) and one.ran == one.derived


def _path(keys: Sequence[str]) -> str:
    return " → ".join(keys) or "none"


def lookup_table(*looked: Lookup) -> Table:
    """Each run: what the highest key would be without the fall-throughs, the derived chain, and who was reached."""
    rows = [
        {
            "run": f"{one.expression}, {one.state}",
            "unmasked": one.unmasked or "–",
            "through": ", ".join(one.keys.masked) if one.keys else "–",
            "derived": _path(one.derived),
            "ran": _path(one.ran) if not one.missing else unseen(one.missing),
        }
        for one in looked
    ]
    columns = {"run": "op, state", "unmasked": "highest, fall-throughs left in", "through": "falls through at"}
    columns |= {"derived": "derived chain", "ran": "who was reached"}
    return Table(rows, columns, "Derived, then seen", _chain_notes(looked))


def _chain_notes(looked: Sequence[Lookup]) -> list[str]:
    """What a chain that ends above the backend means, and what the key of a mode's own does."""
    notes = []
    short = dict.fromkeys(one.expression for one in looked if one.derived and layer_of(one.derived[-1]) != "backend kernel")
    if short:
        notes.append(
            f"Where the chain of {' and '.join(short)} ends above the backend, the function reached last calls other ops, and "
            "each of these is looked up anew"
        )
    if any("PythonTLSSnapshot" in one.derived for one in looked):
        notes.append("At PythonTLSSnapshot the thread's two sets are noted, for the mode that is called at Python, further down")
    return notes


def first_figure(looked: Mapping[str, Lookup]) -> Picture | None:
    """The steps from the sets to the first key of the add in inference_mode."""
    one = looked["inference_mode"]
    if one.keys is None:
        return None
    note = f"Witnesses saw {_path(one.ran)}." if one.ran else unseen(one.missing)
    return key_figures.grid(one.keys, title=f"{one.expression} in {one.state}, step by step", note=note)


STEPS = ("the arguments united", "+ what the thread includes", "− what it excludes", "− where the op falls through")


def explorer(
    read: Callable[[str, str, str], KeySets | None], expressions: Sequence[str], states: Sequence[str], last: Sequence[str]
) -> Panel:
    """Choose an op, a state and what the last argument is, and take the steps one by one: the figure shows the sets so far and
    the highest key of each. `read(expression, state, last)` gives the key sets."""

    def draw(op: str, state: str, last: str, steps: int) -> Picture | Sentence:
        keys = read(op, state, last)
        if keys is None:
            return Sentence(unseen(""))
        return key_figures.grid(keys, title=f"{op}, {state}, last argument {last}: {STEPS[steps - 1]}", upto=steps)

    return panel(
        draw,
        title="Your turn: which step decides?",
        op=choice(list(expressions), label="op"),
        state=choice(list(states), label="state"),
        last=choice(list(last), label="last argument"),
        steps=slider(1, 4, 1, label="steps taken"),
    )


# ------------------------------------------------------------------------------------------------ the table

KINDS = {
    "kernel": "written for this key",
    "autograd kernel": "from the alias Autograd",
    "default backend kernel": "from a composite that serves any backend",
    "math kernel": "made of other ops (composite)",
    "backend fallback": "from a fallback for all ops of this key",
    "fallthrough": "falls through",
}


def kind_of(row: TableRow) -> str:
    return "fallthrough" if row.fallthrough else row.kind


SHOWN = 20  # keys named in a row: all that hold a kernel or fall through, and not the forty that one composite serves

KEYS_BESIDE = {
    device: (f"Autocast{name}", f"Autograd{name}", "ADInplaceOrView", "Python", name, "Meta") for device, name in BACKENDS.items()
}


def own_rows(rows: Sequence[TableRow]) -> Sentence:
    """How many rows of the table hold a kernel written for that key alone."""
    if not rows:
        return Sentence(unseen("no table"))
    kinds = _kinds(rows)
    own = len(kinds.get("kernel", ()))
    through = len(kinds.get("fallthrough", ()))
    return Sentence(
        f"{own} of {len(rows)} rows hold a kernel written for that key: {format_share(own, len(rows))}.",
        f"{through} rows fall through; the others are filled by an alias, a composite or a fallback.",
    )


def _kinds(rows: Sequence[TableRow]) -> dict[str, list[TableRow]]:
    out: dict[str, list[TableRow]] = {}
    for row in rows:
        out.setdefault(kind_of(row), []).append(row)
    return out


def table_by_kind(op: str, rows: Sequence[TableRow], registered: Sequence[Registration]) -> Table:
    """The rows of an op's table by where their entry comes from, with the aliases that filled them."""
    if not rows:
        return Table([{"entry": unseen("no table")}], caption=f"The table of {op}")
    out = [
        {
            "entry": KINDS.get(kind, kind),
            "rows": str(len(found)),
            "keys": ", ".join(row.key for row in found[:SHOWN]) + (", …" if len(found) > SHOWN else ""),
        }
        for kind, found in sorted(_kinds(rows).items(), key=lambda item: -len(item[1]))
    ]
    aliases = [one for one in registered if one.alias]
    replaced = [one for one in registered if not one.active]
    notes = [f"Aliases registered for it: {', '.join(f'{one.key} ({one.registered_at})' for one in aliases)}."] if aliases else []
    for one in replaced:
        now = next((row.registered_at for row in rows if row.key == one.key), "another")
        notes.append(f"At {one.key} the kernel of {one.registered_at} was replaced by that of {now}.")
    return Table(out, {"entry": "where the entry comes from", "rows": "rows", "keys": "keys"}, f"The table of {op}", notes)


def rows_beside(rows: Mapping[str, Sequence[TableRow]], keys: Sequence[str]) -> Table:
    """What stands at a few keys in the tables of several ops."""
    found = {op: {row.key: row for row in table} for op, table in rows.items()}
    out = [{"key": key, **{op: _entry(table.get(key)) for op, table in found.items()}} for key in keys]
    return Table(out, {"key": "key, highest priority first", **{op: op for op in found}}, "The same keys, two ops")


def _entry(row: TableRow | None) -> str:
    return "no row" if row is None else f"{KINDS.get(kind_of(row), row.kind)} ({row.registered_at})"


# ------------------------------------------------------------------------------------------------ four layers


def order(add: Stack, product: Stack, other: Stack, modes: Sequence[str] = ()) -> tuple[str | None, Sentence]:
    """(text of the option that holds, sentences) for who sees the add first. `other` is the add with its contexts entered in
    the opposite order: the intervention. `modes`, two of one key in the order in which they saw it, are the counter-case."""
    if add.missing or not add.order:
        return None, Sentence(unseen(add.missing))
    first = layer_of(add.order[0])
    kind = {MODE: "mode", SUBCLASS: "subclass"}.get(first, first if first in ORDER_ANSWERS else None)
    same = other.order == add.order
    swapped = "Entered the other way round, the order is the same." if same else f"The other way round: {_layers(other)}."
    words = [f"The add is seen by {_layers(add)}, in this order.", swapped]
    if "autocast" not in map(layer_of, add.order):
        words.append("Autocast never sees it: the add falls through there.")
    if product.order:
        words.append(f"The product is first seen by {layer_of(product.order[0])}; it comes out as {product.result.dtype}.")
    if len(modes) == 2:
        words.append(f"The counter-case: of two modes, which share one key, the {modes[0]} one saw the add first.")
    words.append(_results((add, product)))
    return ORDER_ANSWERS[kind][1] if kind else None, Sentence(*words)


def _layers(stack: Stack) -> str:
    return ", ".join(map(layer_of, stack.order))


def _results(stacks: Sequence[Stack]) -> str:
    same = all(one.result.same for one in stacks)
    kinds = " and ".join(f"{one.result.kind} with {one.result.node or 'no node'}" for one in stacks)
    return f"Out come {kinds}, {'equal' if same else 'NOT equal'} to what plain tensors give."


def stack_figure(*stacks: Stack) -> Picture | None:
    """Who was reached, in order, in one panel a run."""
    runs = {one.expression: [(layer_of(s.key), f"{s.op} ({', '.join(s.tensors)})") for s in one.sights] for one in stacks}
    if any(not steps for steps in runs.values()):
        return None
    layers = ("autocast", "autograd", MODE, SUBCLASS, "backend kernel")
    note = "Witnesses stand at keys of add, matmul and mm. The casts (_to_copy) are seen by mode and subclass alone."
    return key_figures.reached(runs, layers, title="Four layers around one op, and who sees what", source=note)


def compiled(found: Compiled | None, why: str = "") -> tuple[str | None, Sentence]:
    """(text of the option that holds, sentences): what is left of the layers in a compiled function; `why` if there is none."""
    if found is None:
        return None, Sentence(f"Nothing was compiled here: {why}.")
    nodes = {one.node for one in found.results}
    refused = not any("Compiled" in node for node in nodes)
    kind = "refused" if refused else "same" if found.per_call else "nothing"
    equal = "equal to" if all(one.same for one in found.results) else "NOT equal to"
    kinds = " and ".join(dict.fromkeys(one.kind for one in found.results))
    before, later = len(found.while_compiling), len(found.per_call)
    words = [
        f"While compiling, the subclass was reached {_often(before)}; in a later call, {_often(later)}.",
        f"The graph that is left runs {', '.join(found.graph)} on plain tensors: autocast's casts are ops of it.",
        f"The results are {kinds} again, with {', '.join(sorted(nodes))}, {equal} those of plain tensors.",
    ]
    return COMPILED_ANSWERS[kind][1], Sentence(*words, refusal(found))


def refusal(found: Compiled) -> str:
    """What becomes of the compiled function when a logging mode is entered around it."""
    if "Compiled" in found.node_outside:
        return f"With a logging mode around it the compiled code still ran; the mode saw {_ops(found.outside)}."
    return (
        "One layer does not fit: with a logging mode entered around it, torch ran the function uncompiled"
        f" ({found.node_outside}), and the mode saw {_ops(found.outside)}."
        f" Entered inside, around the graph, it saw {_ops(found.inside)}."
    )


def _ops(sights: Sequence) -> str:
    return f"{len(sights) or 'no'} op{'' if len(sights) == 1 else 's'}"


def compiled_table(found: Compiled | None) -> Table | None:
    """Who sees what: while compiling, in each compiled call, and with a mode around it."""
    if found is None:
        return None
    columns = {
        "the subclass, while compiling": found.while_compiling,
        "the subclass, in a later call": found.per_call,
        "a logging mode around the graph": found.inside,
        "a logging mode around the call": found.outside,
    }
    rows = [
        {
            "who": who,
            "times": str(len(sights)),
            "ops": ", ".join(dict.fromkeys(s.op for s in sights)) or "none",
            "kinds": ", ".join(dict.fromkeys(t.split(" ")[0] for s in sights for t in s.tensors if " " in t)) or "plain tensors",
        }
        for who, sights in columns.items()
    ]
    names = {"who": "who", "times": "reached", "ops": "ops", "kinds": "classes of tensors that arrive"}
    return Table(rows, names, f"{' and '.join(found.expressions)}, compiled as one function")


# ------------------------------------------------------------------------------------------------ prices


def mode_price(race: Race) -> Sentence:
    """What a Python mode that does nothing adds to the add, against the whole add; and what the other layers do."""
    more = race.difference("plain", PASSING)
    if not more.seen:
        return Sentence(f"No difference was seen between the add and the add below a {PASSING}.")
    whole = race["plain"].ns
    words = [
        f"Below a dispatch mode that does nothing, the add costs {significant(race.ratio('plain', PASSING), 2)} times as much:"
        f" {format_ns(race[PASSING])} against {format_ns(whole)}."
    ]
    if more.ns > whole:
        words.append("What the mode adds is more than the whole add, and so more than all C++ layers of the add together.")
    else:
        words.append(f"What it adds is {format_share(more.ns, whole)} of the whole add.")
    quiet = [name for name in ("no_grad", "autocast") if not race.difference("plain", name).seen]
    words += [f"No difference is seen for {' and '.join(quiet)}."] if quiet else []
    before = race.difference("plain", SUBCLASS_ALONE)
    if before.seen and before.ns > 0:
        words.append(
            f"A subclass without code has the key set of a plain tensor, and costs {format_ns(before.ns)} more all the same:"
            " Python's __torch_function__ is asked before the dispatcher."
        )
    words.append(_changed(race, "inference_mode", "Without the Autograd layer (inference_mode)"))
    words.append(_changed(race, "product, autocast", "The product under autocast", "product"))
    return Sentence(*words)


def _changed(race: Race, name: str, who: str, against: str = "plain") -> str:
    found = race.difference(against, name)
    if not found.seen:
        return f"{who}: no difference seen."
    return f"{who}: {format_ns(abs(found.ns))} {'more' if found.ns > 0 else 'less'}."


def meta(race: Race, rows: Sequence[TableRow]) -> Sentence:
    """Why an add on the meta device is no measure of the dispatcher alone; `rows` is the table of the add."""
    found = race.difference("plain", "meta")
    words = f"An add of meta tensors, which computes nothing, costs {format_ns(race['meta'])}"
    words += f": {significant(race.ratio('plain', 'meta'), 2)} times the real one." if found.seen else ", as the real one does."
    place = _meta_place(rows)
    if _in_python(place):
        return Sentence(
            words, f"Its kernel is registered from Python ({place}), so it measures Python, and not “dispatch alone”."
        )
    return Sentence(
        words, f"Its kernel ({place or 'not told'}) works out a shape and makes a tensor: that is not “dispatch alone”."
    )


def _meta_place(rows: Sequence[TableRow]) -> str:
    return next((row.registered_at for row in rows if row.key == "Meta"), "")


def _in_python(place: str) -> bool:
    return ".py:" in place


def meta_price(race: Race, rows: Sequence[TableRow]) -> dict:
    """The meta add and the plain one as numbers for `expect`, where the meta kernel is Python; elsewhere why it is not judged."""
    place = _meta_place(rows)
    other = NotMeasured(f"the meta kernel of this torch is not registered from Python ({place or 'not told'})")
    return {
        "device": race.device,
        "aa_error": race.error,
        "plain": race["plain"],
        "meta": race["meta"] if _in_python(place) else other,
    }


def price_figures(race: Race, recorded: Race | None = None, label: str = "", why: str = "") -> list:
    """The race as bars, and a recorded one in a picture of its own, or why there is none."""
    out = [figures.compare(race, title="The add below one layer at a time", source="live, on this machine")]
    if recorded is not None:
        out.append(figures.compare(recorded, title="The same on the host of a GPU", source=label))
    elif why:
        out.append(Sentence(f"On a GPU: not measured ({why})."))
    return out


def argument(counts: Mapping | None, why: str, label: str = "") -> Sentence:
    """What one more tensor adds to the dispatcher's own instructions, from ops of one, two and three tensors."""
    if counts is None:
        return Sentence(f"No instructions are at hand: {why}.")
    calls = {n: counts["hop"][code]["call"] for code, n in TENSORS.items()}
    steps = [calls[n + 1] - calls[n] for n in sorted(calls)[:-1]]
    more = dict.fromkeys(f"{step:,.0f}" for step in sorted(steps))
    total, hop = counts["total"]["plain"], counts["hop"]["plain"]
    ran = [part for part, cost in hop.items() if cost]
    words = [
        f"The function that unites the sets and calls the kernel takes {_numbers(calls.values())} instructions for ops of "
        f"{_numbers(calls)} tensors ({', '.join(TENSORS)}): {' to '.join(more)} more for each tensor ({label}).",
        f"All hops of a + b ({' and '.join(ran)}) take {sum(hop.values()):,.0f} of its {total:,.0f}: "
        f"{format_share(sum(hop.values()), total)}.",
    ]
    return Sentence(*words)


def _numbers(values) -> str:
    return ", ".join(f"{value:,.0f}" for value in values)


def layer_hops(counts: Mapping | None) -> Sentence:
    """Which way in ran in which state: a layer that is taken away takes its hop along, a flag leaves it."""
    if counts is None:
        return Sentence("No instructions are at hand.")

    def told(name: str) -> str:
        hop = counts["hop"][name]
        return f"{name} ({' + '.join(f'{part} {cost:,.0f}' for part, cost in hop.items() if cost)})"

    return Sentence(
        "A layer is one more hop. In instructions: "
        + ", ".join(told(name) for name in ("plain", "no_grad", "inference_mode"))
        + ".",
        "The prediction: inference_mode loses the second hop, and no_grad, a flag, loses none. "
        + ("That is what was counted." if hops_as_predicted(counts) else "That is NOT what was counted."),
    )


def hops_as_predicted(counts: Mapping) -> bool:
    again = {name: counts["hop"][name]["redispatch"] for name in ("plain", "no_grad", "inference_mode")}
    return again["plain"] > 0 and again["no_grad"] == again["plain"] and again["inference_mode"] == 0


def hop_time(receipt: Receipt | None) -> Sentence:
    """What the hops cost in ns, where a receipt has measured them with a no-op op of its own."""
    hops = None if receipt is None else next((s for s in receipt.stages if s.stage == "dispatcher_hop"), None)
    if hops is None or hops.ns is None:
        return Sentence("In time, the hops were not measured: that takes a C++ compiler, and lesson 05 does it.")
    share = format_share(hops.ns, receipt.total_ns)
    return Sentence(
        f"In time, the hops of an add take {format_ns(hops.ns)} of {format_ns(receipt.total_ns)}, {share}; an op that does"
        f" nothing shows them alone ({receipt_label(receipt)})."
    )


def kept_receipt() -> Receipt | None:
    """The recorded receipt of a CPU, whose hops were timed, or None."""
    try:
        return figures.recorded_receipt()
    except LookupError:
        return None


def two_prices(race: Race, counts: Mapping | None, label: str = "") -> Table:
    """Each layer by both instruments: time live, instructions as counted, each against the plain line of its own."""
    rows = []
    for name, reading in race.readings.items():
        if name == race.control[1]:
            continue
        against = "product" if name.startswith("product") else "plain"
        found = race.difference(against, name)
        total = None if counts is None else counts["total"].get(name)
        row = {"layer": name, "time": format_ns(reading), "instructions": None if total is None else f"{total:,.0f}"}
        if name != against:
            row["time against"] = f"{significant(race.ratio(against, name), 3)} ×" if found.seen else "no difference seen"
            row["instructions against"] = _against(counts, name, against)
        rows.append(row)
    columns = {"layer": "the add (product: x @ w)", "time": "time", "time against": "against plain"}
    columns |= {"instructions": "instructions", "instructions against": "against plain"}
    notes = (
        [f"Instructions: {label}."] if label else ["Instructions: none are at hand; live = True counts them (needs valgrind)."]
    )
    return Table(rows, columns, f"The price of each layer ({race.device})", notes)


def _against(counts: Mapping | None, name: str, against: str) -> str | None:
    if counts is None or name not in counts["total"]:
        return None
    ratio = counts["total"][name] / counts["total"][against]
    return "no difference seen" if abs(ratio - 1) <= LEAST_COUNTED else f"{significant(ratio, 3)} ×"


# ------------------------------------------------------------------------------------------------ deeper


def seen_table(*found: Seen) -> Table:
    """What the tensors look like inside functionalization and as fake ones."""
    rows = [{"layer": s.layer, "class": s.kind, "keys": ", ".join(s.keys) or "not told", "gives": s.result} for s in found]
    columns = {"layer": "layer", "class": "class of a", "keys": "keys of a, lowest priority first", "gives": "the result"}
    return Table(rows, columns, "Two more layers that hook in by keys")


def program(found: Seen) -> Table:
    """The ops that functionalization left of `a.add_(b)` and a product, line by line."""
    rows = [{"step": str(n), "op": line} for n, line in enumerate(found.code.splitlines(), start=1)]
    note = "No op writes in place any more; the copy at the end puts the result where the caller expects it."
    return Table(
        rows or [{"op": "nothing was traced"}], caption="What functionalization leaves of a.add_(b); a * b", notes=[note]
    )


def own(asked: Sequence[str], before: int, same: bool) -> Sentence:
    """Who was asked by an op of the reader's own: the first `before` plainly, the others in inference_mode."""
    plainly, inference = asked[:before], asked[before:]
    gone = [name for name in plainly if name not in inference]
    return Sentence(
        f"Asked were {' and then '.join(plainly) or 'nobody'}; the value {'is' if same else 'is NOT'} that of a + b.",
        f"In inference_mode: {' and then '.join(inference) or 'nobody'}. Not asked any more: {', '.join(gone) or 'none'}.",
    )


def trace_variable(found: Mapping) -> Sentence:
    """What TORCH_SHOW_DISPATCH_TRACE printed for one add."""
    lines = found["printed"]
    if found["missing"]:
        return Sentence(f"TORCH_SHOW_DISPATCH_TRACE=1 could not be tried here: {found['missing']}.")
    if not lines:
        return Sentence(
            f"TORCH_SHOW_DISPATCH_TRACE=1 printed nothing for an add on torch {found['torch']}:"
            " released wheels are built without it."
        )
    return Sentence(f"This torch ({found['torch']}) is built with it: {len(lines)} lines, the first: {lines[0].strip()}")


# ------------------------------------------------------------------------------------------------ what is judged


def looked(
    held: Mapping[str, Sequence[str]],
    hits: Mapping[str, int],
    around: Mapping[str, Sequence[ThreadSets]],
    autocast_hits: Mapping[str, int],
    lookups: Sequence[Lookup],
    device: str,
) -> dict:
    """What was looked up as numbers for `expect`: sets, runs that agree, contexts that put everything back."""
    blind = NotMeasured("this torch no longer tells its key sets")
    seen = [one for one in lookups if not one.missing]
    unwatched = NotMeasured("; ".join(dict.fromkeys(one.missing for one in lookups if one.missing)) or "nothing was looked up")
    back = [m[0].included == m[2].included and m[0].excluded == m[2].excluded for m in around.values() if len(m) == 3]
    mask = [one for one in lookups if one.keys is not None and one.unmasked != one.keys.highest]
    return {
        "device": device,
        "key sets": len({tuple(held[name]) for name in DTYPES}) if held else blind,
        "other sets": len({tuple(held[n]) for n in held if n not in DTYPES} - {tuple(held["float32"])}) if held else blind,
        "most arrivals": float(max(hits.values())) if hits else unwatched,
        "least arrivals": float(min(hits.values())) if hits else unwatched,
        "runs": len(seen) or unwatched,
        "as derived": sum(map(agrees, seen)) if seen else unwatched,
        "mask decides": len(mask) if any(one.keys for one in lookups) else blind,
        "contexts": len(back) or blind,
        "put back": sum(back) if back else blind,
        "reached under autocast": autocast_hits.get("autocast", unwatched),
        "reached without": autocast_hits.get("plain", unwatched),
    }


def stacked(add: Stack, product: Stack, other: Stack, found: Compiled | None, why: str, device: str) -> dict:
    """What was seen of the layers as numbers for `expect`."""
    blind = NotMeasured(add.missing or "no key could be watched")
    absent = NotMeasured(why or "nothing was compiled here")
    orders = len({add.order, other.order})
    return {
        "device": device,
        "layers of the add": blind if add.missing else len(add.order),
        "layers of the product": blind if add.missing else len(product.order),
        "orders": blind if add.missing else orders,
        "equal": sum(one.result.same for one in (add, product, other)),
        "compiled results": absent if found is None else len(found.results),
        "compiled and equal": absent if found is None else sum(r.same and "Compiled" in r.node for r in found.results),
        "seen while compiling": absent if found is None else len(found.while_compiling),
        "seen per call": absent if found is None else len(found.per_call),
    }


def counted(counts: Mapping | None, why: str) -> dict:
    """The dispatcher's own instructions as numbers for `expect`; they are those of a CPU."""
    absent = NotMeasured(why or "no instructions are at hand")
    if counts is None:
        names = ("one tensor", "three tensors", "plain", "hops", "again", "again under no_grad", "again in inference_mode")
        return {"device": "cpu", **dict.fromkeys((*names, "below a mode"), absent)}
    calls = {n: counts["hop"][code]["call"] for code, n in TENSORS.items()}
    hop = counts["hop"]
    return {
        "device": "cpu",
        "one tensor": calls[1],
        "three tensors": calls[3],
        "plain": counts["total"]["plain"],
        "hops": sum(hop["plain"].values()),
        "again": hop["plain"]["redispatch"],
        "again under no_grad": hop["no_grad"]["redispatch"],
        "again in inference_mode": hop["inference_mode"]["redispatch"],
        "below a mode": counts["total"][PASSING],
    }


# ------------------------------------------------------------------------------------------------ claims and the end


def verdicts(numbers: Mapping, layers: Mapping, counts: Mapping) -> Table:
    """Every claim of this lesson, what was seen of it here, and the ledger's verdict with its sentence."""

    def of(source: Mapping, words: str, *names: str, told: Callable[[float], str] = "{:,.0f}".format) -> str:
        values = [source[name] for name in names]
        missing = next((str(v) for v in values if isinstance(v, NotMeasured)), None)
        return missing or words.format(*map(told, values))

    seen = {
        "A22": of(numbers, "{} of {} runs went as derived, the fall-throughs taken off", "as derived", "runs"),
        "A23": of(
            layers,
            "layers that saw the op in turn, with the kernel: add {}, product {}",
            "layers of the add",
            "layers of the product",
        ),
        "A24": of(counts, "{} of {} instructions are the dispatcher's own", "hops", "plain"),
        "A39": of(
            numbers,
            "reached at Autocast's key, without autocast: {}; under it: {}",
            "reached without",
            "reached under autocast",
            told=_often,
        ),
        "A50": of(layers, "{} of {} compiled results equal those of plain tensors", "compiled and equal", "compiled results"),
        "B46": of(numbers, "number of key sets of three dtypes and a transposed tensor: {}", "key sets"),
    }
    rows = [
        {"id": c.id, "claim": c.claim, "seen": seen.get(c.id), "verdict": ledger.WORDS[c.verdict], "because": c.sentence}
        for c in ledger.claims("dispatcher")
    ]
    columns = {"id": "claim", "claim": "what is claimed", "seen": "seen here", "verdict": "verdict", "because": "because"}
    return Table(rows, columns, "Claims and verdicts")


def transfer(mine: str, found: Lookup | None) -> Sentence | Table:
    """The reader's own first key beside the one that was derived and the one that ran; a hint while none was given."""
    if not mine:
        return Sentence('First your key: write it as text, first_key = "…", then run this cell again.')
    if found is None or found.keys is None:
        return Sentence(unseen("" if found is None else found.missing))
    first = found.ran[0] if found.ran else found.keys.highest
    hit = "as you derived" if mine.strip().lower() == first.lower() else f"you said {mine.strip()}"
    table = lookup_table(found)
    heading = f"{found.expression}, {found.state}: the first key is {first}, {hit}"
    return Table(table.rows, table.columns, heading, table.notes)
