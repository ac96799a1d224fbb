"""What lesson 01, one add traced, says about what it traced: computed sentences, tables, and the numbers that its checks judge.

It traces nothing and counts nothing: each function takes what `utils.measure` found and words it, so that every sentence stays
true on another torch, on a GPU, and where something could not be had. Instructions carry the label of their tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils.measure.backtrace import Backtrace
from utils.measure.dispatch_trace import Dispatch
from utils.measure.fold_tree import CallTree, Fold, Rules
from utils.measure.fold_tree import fold as fold_tree
from utils.measure.timeline import Segment, Timeline
from utils.model import ledger
from utils.model.quantities import NotMeasured
from utils.show import figures, instructions
from utils.show.explain import Sentence
from utils.show.instructions import count, short
from utils.show.picture import Picture
from utils.show.tables import Table, format_ns, format_share, format_time, significant

# The options of the lesson's predictions: (the misconception behind an option or None, its text), by what the run may show.
NUMBER_ANSWERS = {
    "scalar": ("numbers_have_their_own_overload", "`add.Scalar`: its second argument is a number"),
    "tensor": (None, "`add.Tensor`, the same as `a + b`"),
    "python": ("numbers_stay_in_python", "None: Python adds a number by itself"),
}
PROMOTER_ANSWERS = {
    "parser": ("parser_promotes", "The argument parser: it has read both arguments"),
    "dispatcher": ("dtype_is_a_key", "The dispatcher: it looks the code up by dtype"),
    "op": (None, "The op's own set-up, after parser and dispatcher"),
}
NO_GRAD_ANSWERS = {
    "backend": ("no_grad_skips_autograd", "The backend's: without grad, Autograd is passed by"),
    "same": (None, "Autograd's, as without `no_grad`"),
    "other": ("modes_are_keys", "A key of `no_grad`'s own, which stands above the others"),
}
START_ANSWERS = {
    "before": (None, "Before the call that launches it has returned"),
    "after": (None, "After that call has returned"),
    "asked": ("nothing_runs_until_asked", "Only when Python asks for the result"),
}
TAX_ANSWERS = {
    "more": ("bigger_op_bigger_tax", "At least twice as many: a product is a bigger op"),
    "same": (None, "About as many"),
    "less": ("libraries_are_called_directly", "At most half as many: a library is called directly"),
}

CONVERSIONS = ("aten::to.", "aten::_to_copy", "aten::copy_")
VIEWS = {f"aten::{name}" for name in ("reshape", "view", "_unsafe_view", "expand", "as_strided", "resolve_conj")}
RESULT_STAGES = ("allocator", "output_tensor", "wrap_free")
LOCKS = ("gil", "handle_copies")  # rows whose work each part of the op asks for: taken away, it goes to whoever asked
INSIDE = ("kernel", "library", "inner_hops")  # rows of the work itself: the rest is the tax
# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "trace.number": "The parser wraps a number in a tensor; the overload for numbers serves callers from C++.",
    "trace.promoter": "Whoever decides must look at the dtypes, and do something else when they differ.",
    "trace.no_grad": "no_grad is a flag that the Autograd kernel reads, and no key.",
    "trace.kernel_share": "With one element, the way to the loop is longer than the loop.",
    "trace.result_share": "A result is made, wrapped and taken down for every op. Writing into a tensor that is there saves it.",
    "trace.starts": "A launch puts the kernel into a queue, and the device begins when it is free.",
    "trace.product_ops": "A composite op calls ops, and each of them is dispatched again.",
    "trace.tax": "Boundary, parser, hops, GIL and result are paid by every op: per call, not per number.",
    "trace.first_product": "What is set up once is paid by whoever comes first.",
}


# ------------------------------------------------------------------------------------------------ which overload


def number(lines: Mapping[str, Dispatch]) -> tuple[str | None, Sentence]:
    """(text of the option that ran, sentences) for `a + 1.0` beside `a + b`, from the trace of each."""
    one, both = lines["a + 1.0"], lines["a + b"]
    if not both.op:
        return None, Sentence(_unseen(both))
    kind = "python" if not one.op else "tensor" if one.op == both.op else "scalar"
    words = {
        "python": "a + 1.0 reached no op at all.",
        "tensor": f"a + 1.0 ran {one.op}, as a + b does: the parser wrapped the number in a tensor without dimensions.",
        "scalar": f"a + 1.0 ran {one.op}, and a + b {both.op}.",
    }[kind]
    inside = len(one.ops) - 1
    if inside > 0:
        words += f" Inside it {inside} more ops ran: {_names(one.ops[1:])}."
        if any(op.name.startswith(CONVERSIONS) for op in one.ops):
            words += f" Python's number is no {one.result_dtype}, so it was converted."
    others = [o.name for o in both.overloads if not o.chosen]
    also = f"The dispatcher also knows {', '.join(others)}, and a + b passed them over." if others else ""
    return NUMBER_ANSWERS[kind][1], Sentence(words, also)


def _unseen(dispatch: Dispatch) -> str:
    return "Not seen here: " + ("; ".join(dispatch.missing) or "no op was observed") + "."


def _names(ops: Sequence) -> str:
    return ", ".join(op.name.removeprefix("aten::") for op in ops)


def lines_table(lines: Mapping[str, Dispatch]) -> Table:
    """Each line of Python, the overload that it ran, and the ops that this one called."""
    rows = [
        {"line": line, "op": d.op or "not seen", "inside": _names(d.ops[1:]) or "none", "result": d.result_dtype}
        for line, d in lines.items()
    ]
    columns = {"line": "line", "op": "the op that ran", "inside": "ops inside it", "result": "dtype of the result"}
    return Table(rows, columns, f"Which overload each line runs ({next(iter(lines.values())).device})")


def overload_table(dispatch: Dispatch) -> Table:
    """What the parser matches against, and each overload of the dispatcher with why it was passed over."""
    rows = [
        {"known by": "argument parser", "what": s, "chosen": "the only one it names" if len(dispatch.signatures) == 1 else ""}
        for s in dispatch.signatures
    ]
    rows += [{"known by": "dispatcher", "what": o.schema, "chosen": "chosen" if o.chosen else o.why} for o in dispatch.overloads]
    if not rows:
        return Table([{"known by": "–", "what": _unseen(dispatch), "chosen": ""}], caption="Signatures and overloads")
    words = " ".join(dispatch.type_error.split())
    notes = [f"The parser's own words, when it is given nothing (deprecated forms it takes, but does not name): {words}"]
    return Table(rows, caption=f"What stands behind {dispatch.expression}", notes=notes if words else [])


# ------------------------------------------------------------------------------------------------ who promotes


def promoter(same: Dispatch, mixed: Dispatch, refused: Dispatch | None = None) -> tuple[str | None, Sentence]:
    """(text of the option that the traces leave, sentences): `same` is a + b of one dtype, `mixed` of two.

    Whoever promotes must do something else when dtypes differ: the parser another overload, the dispatcher another hop. When
    neither does, the op itself is left. `refused` is an op that promotes nothing, the counter-case.
    """
    if not same.op or not mixed.op or same.keys is None or mixed.keys is None:
        return None, Sentence(_unseen(mixed if mixed.missing else same))
    kind = "parser" if same.op != mixed.op else "dispatcher" if _places(same) != _places(mixed) else "op"
    pair = " and ".join(f"{a.name} is {a.dtype}" for a in mixed.arguments)
    words = [f"In {mixed.expression}, {pair}; the result is {mixed.result_dtype}."]
    if kind == "op":
        words.append(f"Yet {same.expression} and {mixed.expression} run the same overload, {same.op}, by the same hops:")
        words.append("nobody before the op looked at a dtype.")
        inside = [op for op in mixed.ops[1:] if op.name.startswith(CONVERSIONS)]
        if inside:
            words.append(f"Inside the op, {_names(inside)} ran: that is the conversion.")
        else:
            words.append("No conversion ran as an op of its own: the kernel's loop reads each number in its own dtype.")
    else:
        words.append(f"{same.expression} ran {same.op} by {_hops(same)}, {mixed.expression} {mixed.op} by {_hops(mixed)}.")
    if refused is not None and not refused.promoted:
        words.append(f"The counter-case: for {refused.expression}, {refused.promotion}.")
    return PROMOTER_ANSWERS[kind][1], Sentence(*words)


def _places(dispatch: Dispatch) -> tuple:
    return tuple((hop.op, hop.key, hop.registered_at) for hop in dispatch.hops)


def _hops(dispatch: Dispatch) -> str:
    return " → ".join(hop.key for hop in dispatch.hops) or "no hop that is seen"


def promotion_table(*traced: Dispatch) -> Table:
    """The traces side by side: dtypes, overload, hops, the ops inside, the result's dtype."""
    rows = [
        {
            "line": d.expression,
            "dtypes": ", ".join(a.dtype for a in d.arguments),
            "overload": d.op or "not seen",
            "hops": _hops(d),
            "inside": _names(d.ops[1:]) or "none",
            "result": d.result_dtype,
        }
        for d in traced
    ]
    columns = {
        "line": "line",
        "dtypes": "dtypes",
        "overload": "overload",
        "hops": "hops",
        "inside": "ops inside",
        "result": "result",
    }
    return Table(rows, columns, "One dtype, and two")


def promotion_cost(tree: CallTree | None) -> Sentence | None:
    """What working out the types takes in the tree, where that function is seen."""
    found = [] if tree is None else [f for f in tree.self_cost if "TensorIteratorBase::compute_types(" in f]
    if not found:
        return None
    cost = sum(tree.inclusive(function) for function in found)
    return Sentence(
        f"In the call tree, {short(found[0])} takes {count(cost)} of {count(tree.total)} instructions ({tree.label()})."
    )


# ------------------------------------------------------------------------------------------------ keys


def keys_table(looked: Mapping[str, Dispatch]) -> Table:
    """How the first key is found, one column a state of the thread: union, includes, excludes, fall-throughs."""
    steps = {
        "union of the arguments' key sets": lambda k: k.union,
        "plus: the thread includes": lambda k: k.included,
        "minus: the thread excludes": lambda k: k.excluded,
        "leaves": lambda k: k.with_thread,
        "of these the op falls through at": lambda k: k.masked,
        "the first key": lambda k: (k.highest,),
    }
    seen = {name: d for name, d in looked.items() if d.keys is not None}
    if not seen:
        return Table([{"step": _unseen(next(iter(looked.values())))}], caption="Key sets")
    rows = [
        {"step": step, **{name: ", ".join(read(d.keys)) or "none" for name, d in seen.items()}} for step, read in steps.items()
    ]
    rows.append({"step": "hops through the table", **{name: _hops(d) for name, d in seen.items()}})
    expression = next(iter(seen.values())).expression
    note = "Lowest priority first. inference_mode excludes the backend's own Autograd key as well, but torch does not print that."
    return Table(rows, {"step": "step", **{name: name for name in seen}}, f"From key sets to a kernel: {expression}", [note])


def no_grad(looked: Mapping[str, Dispatch]) -> tuple[str | None, Sentence]:
    """(text of the option that holds, sentences) for the first key under no_grad; `looked` has "plain", "no_grad" and more."""
    plain, without = looked["plain"], looked["no_grad"]
    if plain.keys is None or without.keys is None:
        return None, Sentence(_unseen(plain))
    backend = plain.hops[-1].key if plain.hops else ""
    kind = "same" if without.keys.highest == plain.keys.highest else "backend" if without.keys.highest == backend else "other"
    words = [f"Plain, the first key is {plain.keys.highest}; under no_grad it is {without.keys.highest}."]
    if kind == "same":
        words.append("The Autograd kernel runs either way; it asks whether grad mode is on, and makes no node when it is off.")
    inference = looked.get("inference_mode")
    if inference is not None and inference.keys is not None:
        hops = f"{len(inference.hops)} instead of {len(plain.hops)}"
        words.append(f"In inference_mode it is {inference.keys.highest}; hops: {hops}.")
    return NO_GRAD_ANSWERS[kind][1], Sentence(*words)


def autocast(add: Dispatch, product: Dispatch) -> Sentence:
    """What Autocast's key does to an add and to a matrix product, both traced under autocast."""
    if add.keys is None or product.keys is None:
        return Sentence(_unseen(add))
    words = []
    for one in (add, product):
        key = next((k for k in one.keys.with_thread if k.startswith("Autocast")), None)
        if key is None:
            words.append(f"Under autocast the keys of {one.expression} hold no Autocast key.")
        elif key in one.keys.masked:
            words.append(f"Under autocast {key} is among the keys of {one.expression}, but {one.op} falls through there:")
            words.append(f"the result is {one.result_dtype}.")
        else:
            kept = {argument.dtype for argument in one.arguments} == {one.result_dtype}  # float64, or what it would cast to
            does = "finds nothing to cast" if kept else "casts first"
            words.append(f"{one.op} has a kernel at {key}, which {does}: the result of {one.expression} is {one.result_dtype}.")
    return Sentence(*words)


# ------------------------------------------------------------------------------------------------ the call tree


def depth(tree: CallTree | None, rules: Rules) -> Sentence:
    """How many calls lie between the interpreter and the function that adds, and what that one takes."""
    path = [] if tree is None else instructions.path_to_loop(tree, rules)
    if not path:
        return Sentence("No call tree with a kernel is at hand, so no depth is known.")
    loop = path[-1]
    return Sentence(
        f"From the interpreter ({short(path[0])}) to {short(loop)} it is {len(path) - 1} calls; what was inlined is not counted.",
        f"The last one holds the loop over the elements: {count(tree.self_cost[loop])} of {count(tree.total)} instructions, "
        f"{format_share(tree.self_cost[loop], tree.total)}.",
    )


def tree_view(tree: CallTree | None, rules: Rules, note: str = "") -> Table | Sentence:
    """The call tree as a table, or why there is none."""
    if tree is None:
        return Sentence(f"No call tree: {note}.")
    table = instructions.tree_table(tree, rules)
    return Table(table.rows, table.columns, table.caption, [*table.notes, *([note] if note else [])])


def kernel_share(fold: Fold | None, tree: CallTree | None) -> Sentence:
    """The share of the kernel's row, in which the addition is, with the largest other row beside it."""
    if fold is None:
        return Sentence("No call tree is at hand, so no share is known.")
    kernel = sum(row.instructions for row in fold.rows if row.stage == "kernel")
    largest = max((row for row in fold.rows if row.stage != "kernel"), key=lambda row: row.instructions)
    return Sentence(
        f"The kernel takes {count(kernel)} of {count(fold.total)} instructions: {format_share(kernel, fold.total)}.",
        f"The largest other row is “{largest.title}” with {count(largest.instructions)}.",
        _whose(tree),
        "Counts add up, and repeat closely; how long each instruction takes they do not tell. Lesson 05 prices the stages.",
    )


def _whose(tree: CallTree) -> str:
    """Whose numbers a sentence tells, in few words; the figure beside it has the whole label."""
    return f"({tree.source}, torch {tree.where['torch']}, {tree.date[:10]})"


def result_share(fold: Fold | None, tree: CallTree | None, rules: Rules) -> Sentence:
    """What making, wrapping and freeing the result takes: by its own rows, and with the locks and handles that they ask for."""
    if fold is None or tree is None:
        return Sentence("No call tree is at hand, so no share is known.")
    own = _result(fold)
    for row in LOCKS:
        rules = rules.without(row)
    whole = _result(fold_tree(tree, rules))
    return Sentence(
        f"The rows of the result take {count(own)} of {count(fold.total)} instructions: {format_share(own, fold.total)}.",
        f"With the GIL and the handles that its freeing asks for, {count(whole)}: {format_share(whole, fold.total)}.",
        _whose(tree),
    )


def _result(fold: Fold) -> float:
    return sum(row.instructions for row in fold.rows if row.stage in RESULT_STAGES)


def rows_view(fold: Fold | None, tree: CallTree | None) -> Picture | None:
    return None if fold is None else instructions.rows_figure(fold, tree.label())


def strip_view(fold: Fold | None, tree: CallTree | None) -> Picture | None:
    """The rows to scale with those of the result lit."""
    return None if fold is None else instructions.strip(fold, tree.label(), lit=("output",))


# ------------------------------------------------------------------------------------------------ the numbers that are judged


def counted(fold: Fold | None, tree: CallTree | None) -> dict:
    """Instructions of the add's tree for `expect`: the whole, what the rows explain, kernel and result."""
    if fold is None or tree is None:
        why = NotMeasured("no call tree is at hand")
        return {"device": "cpu", "total": why, "explained": why, "kernel": why, "result": why}
    return {
        "device": "cpu",
        "total": tree.total,
        "explained": sum(row.instructions for row in fold.rows),
        "kernel": sum(row.instructions for row in fold.rows if row.stage == "kernel"),
        "result": _result(fold),
    }


def ran(lines: Mapping[str, Dispatch], mixed: Dispatch, looked: Mapping[str, Dispatch]) -> dict:
    """What was seen of overloads and hops, as numbers for `expect`.

    `overloads`: how many different ops the lines ran. `hops`, `no_grad`, `inference_mode`, `two dtypes`: hops of the add in
    each state. `number`: hops of the line with a number.
    """
    plain = looked["plain"]
    if any(not d.op for d in lines.values()):
        overloads: float | NotMeasured = NotMeasured(_unseen(plain))
    else:
        overloads = len({d.op for d in lines.values()})
    out: dict = {"device": plain.device, "overloads": overloads}
    for name, one in {"hops": plain, "two dtypes": mixed, **{n: looked[n] for n in ("no_grad", "inference_mode")}}.items():
        out[name] = NotMeasured(_unseen(one)) if one.keys is None else len(one.hops)
    return out


# ------------------------------------------------------------------------------------------------ a timeline to scale


def lanes(recorded: Timeline | None) -> list[Picture]:
    """Every segment that has a kernel, in two lanes to scale; empty where there is no timeline."""
    return [] if recorded is None else [_lane(segment, recorded) for segment in recorded.segments.values() if segment.launches]


def _lane(segment: Segment, recorded: Timeline) -> Picture:
    """The ops and their launches on the host, the kernels and the GPU's wait on the device; one launch shows its number."""
    number = f" #{segment.launches[0].correlation}" if len(segment.launches) == 1 else ""
    device: list[tuple] = []
    free = 0.0
    for launch in sorted(segment.launches, key=lambda one: one.kernel_start_us):
        start, end = launch.kernel_start_us, launch.kernel_start_us + launch.kernel_us
        if start > free:
            device.append((1e3 * free, 1e3 * start, "no kernel to run", "wait"))
        device.append((1e3 * start, 1e3 * end, f"kernel{number}"))
        free = end
    title = f"{segment.name} on a GPU, launch and kernel joined by their correlation id"
    return figures.timeline(_host_spans(segment, number), device, title=title, source=f"{segment.what} · {recorded.label()}")


def _host_spans(segment: Segment, number: str) -> list[tuple]:
    """The host's lane without overlap: pieces of the outer ops, cut where a launch begins and ends."""
    spans, cuts = [], sorted(segment.launches, key=lambda one: one.launch_start_us)
    for op in (op for op in segment.ops if op.depth == 0):
        at, end = op.start_us, op.start_us + op.us
        for launch in cuts:
            begin, back = launch.launch_start_us, launch.launch_start_us + launch.launch_us
            if op.start_us <= begin <= end:
                if begin > at:
                    spans.append((1e3 * at, 1e3 * begin, op.name))
                spans.append((1e3 * begin, 1e3 * back, f"launch{number}"))
                at = back
        if end > at:
            spans.append((1e3 * at, 1e3 * end, op.name))
    return spans


def starts(recorded: Timeline | None, why: str = "", name: str = "a + b") -> tuple[str | None, Sentence]:
    """(text of the option that the timeline shows, sentences): when the first kernel of a segment began, against its launch."""
    segment = None if recorded is None else recorded.segments.get(name)
    if segment is None or not segment.launches:
        return None, Sentence(f"Nothing to show: {why or f'the timeline has no kernel of {name}'}.")
    first = min(segment.launches, key=lambda one: one.launch_start_us)
    kind = "before" if first.wait_us < 0 else "after"
    gap = format_ns(abs(1e3 * first.wait_us))
    words = [
        f"The kernel of {name} began {gap} {'before' if kind == 'before' else 'after'} the call that launches it had returned, "
        f"and ran for {format_ns(1e3 * first.kernel_us)}.",
        f"Nobody had asked for the result. Of the {format_ns(1e3 * segment.us)} shown, the GPU worked "
        f"{format_share(segment.device_us, segment.us)}.",
        f"({recorded.label()}; the profiler stretches what it watches, so read order and waiting from it, not prices.)",
    ]
    if why:
        words.append(f"Why this one: {why}.")
    return START_ANSWERS[kind][1], Sentence(*words)


# ------------------------------------------------------------------------------------------------ x @ w


def ops_table(*traced: Dispatch) -> Table:
    """The ops that ran for each line, indented by who called whom, with the kernel that each reached on the way down."""
    rows = []
    for dispatch in traced:
        reached: dict[str, list[str]] = {}
        for hop in dispatch.hops:
            reached.setdefault(hop.op, []).append(hop.key)
        for op in dispatch.ops:
            rows.append(
                {
                    "line": dispatch.expression,
                    "op": f"{'· ' * op.depth}{op.name}",
                    "hops": " → ".join(reached.pop(op.name, [])) or None,
                    "schema": op.schema.partition("(")[2].join(["(", ""]),
                }
            )
        if not dispatch.ops:
            rows.append({"line": dispatch.expression, "op": _unseen(dispatch), "hops": None, "schema": None})
    columns = {"line": "line", "op": "op, one · inside another", "hops": "hops", "schema": "schema"}
    note = "The hops of ops that a kernel calls inside itself are left out."
    return Table(rows, columns, "Through the dispatcher, in the order of the calls", [note])


def ops(add: Dispatch, product: Dispatch, batch: Dispatch) -> Sentence:
    """How often each line goes through the dispatcher, and which ops the third dimension adds."""
    words = []
    for one in (add, product, batch):
        shapes = " and ".join(" × ".join(map(str, a.shape)) for a in one.arguments)
        words.append(f"{one.expression} ({shapes}): {_times(len(one.ops))} through the dispatcher." if one.ops else _unseen(one))
    new = [op.name for op in batch.ops if op.name not in {o.name for o in product.ops}]
    if new:
        what = ", which only change how the same memory is read" if VIEWS.issuperset(new) else ""
        words.append(f"The third dimension adds {', '.join(dict.fromkeys(new))}{what}.")
    return Sentence(*words)


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def tax(add: Fold | None, product: Fold | None) -> tuple[str | None, Sentence]:
    """(text of the option that the trees show, sentences): the instructions outside kernel and library, of both ops."""
    if add is None or product is None:
        return None, Sentence("No call trees are at hand, so the two cannot be compared.")
    a, b = outside(add), outside(product)
    kind = "more" if b >= 2 * a else "less" if b <= 0.5 * a else "same"
    return TAX_ANSWERS[kind][1], Sentence(
        f"Outside the kernel, {add.statement} takes {count(a)} instructions and {product.statement} {count(b)}: "
        f"{significant(b / a, 2)} times as many.",
        f"Inside, {count(add.total - a)} and {count(product.total - b)}.",
        _apart(add, product),
    )


def _apart(add: Fold, product: Fold) -> str:
    """The rows outside the kernel in which two ops differ most, either way: equal sums may be made of unequal parts."""
    gaps = {row.title: row.instructions - add.row(row.id).instructions for row in product.rows if row.id not in INSIDE}
    up, down = max(gaps, key=gaps.__getitem__), min(gaps, key=gaps.__getitem__)
    words = [
        f"“{up}” takes {count(gaps[up])} more" if gaps[up] >= 1 else "",
        f"“{down}” {count(-gaps[down])} fewer" if gaps[down] <= -1 else "",
    ]
    told = ", ".join(word for word in words if word)
    return f"The parts differ more than the sum: in {product.statement}, {told}." if told else ""


def outside(fold: Fold) -> float:
    """Instructions of an op that are not the work itself: everything but kernel, library and what the kernel dispatches."""
    return fold.total - sum(row.instructions for row in fold.rows if row.id in INSIDE)


def tax_view(add: Fold | None, product: Fold | None, *trees: CallTree | None) -> Picture | None:
    """Both ops row by row; `trees` are the two they were folded from, whose labels go under the figure."""
    if add is None or product is None or None in trees:
        return None
    labels = dict.fromkeys(tree.label().replace(f"{tree.statement}, ", "", 1) for tree in trees)
    return instructions.compare_rows({"a + b": add, "x @ w": product}, "; ".join(labels), title="Two ops, row by row")


def library(tree: CallTree | None, rules: Rules, note: str) -> Sentence:
    """Where the product is handed to a library, and what finding the code for these sizes takes in every call."""
    parts = _library(tree, rules)
    if parts is None:
        return Sentence("No library with a name of its own is in the tree.")
    gate, micro, whole, own = parts
    return Sentence(
        f"{short(gate)} is the library's door: behind it run {count(whole)} instructions, {count(own)} of them in "
        f"{short(micro)}, which multiplies.",
        f"The other {count(whole - own)} find that function and drive it, in every call.",
        f"Mind: {note}.",
    )


def _library(tree: CallTree | None, rules: Rules) -> tuple[str, str, float, float] | None:
    """(the library's first function, the one its dearest calls end in, instructions from the first down, the second's own)."""
    mine = [] if tree is None else [f for f in tree.self_cost if rules.row_of(f) == "library"]
    if not mine:
        return None
    gate = max(mine, key=tree.inclusive)
    path = [gate]  # not the dearest by itself: a driver's own loop may cost more than the few products that it drives
    while below := {f: cost for f, cost in tree.callees(path[-1]).items() if f not in path}:
        path.append(max(below, key=below.__getitem__))
    micro = path[-1]
    return gate, micro, tree.inclusive(gate), tree.self_cost[micro]


def first_product(trap: Mapping) -> Sentence:
    """The first product of a fresh process over a warm one."""
    place = {"cpu": "this CPU", "cuda": "this GPU"}.get(trap["device"], trap["device"])
    return Sentence(
        f"On {place}, the first x @ w of a process took {format_time(trap['wrong'])}, a warm one {format_time(trap['honest'])}: "
        f"{significant(trap['wrong'] / trap['honest'], 2)} times as much."
    )


def two_phenomena(trap: Mapping, kept: tuple[Mapping, str] | None, tree: CallTree | None, rules: Rules) -> Table:
    """What is paid once and what is paid in every call, in two rows that must not be confused (claim B05 has them as one)."""
    parts = _library(tree, rules)
    once = f"measured here ({trap['device']}): {format_time(trap['wrong'] - trap['honest'])} beyond a warm call"
    rows = [
        {"phenomenon": "the library found, set up, its first memory", "paid": "once a process", "how much": once},
    ]
    if kept:
        there, label = kept
        rows.append(
            {
                "phenomenon": "the same, recorded",
                "paid": "once a process",
                "how much": f"{label}: {format_time(there['wrong'] - there['honest'])} beyond a warm call",
            }
        )
    every = (
        "not counted: no tree with a library" if parts is None else f"{tree.label()}: {count(parts[2] - parts[3])} instructions"
    )
    rows.append({"phenomenon": "the code for these sizes chosen, its call prepared", "paid": "in every call", "how much": every})
    return Table(rows, caption="Two phenomena that are easily taken for one")


def traced_product(product: Dispatch, batch: Dispatch, add: Fold | None, tree_fold: Fold | None) -> dict:
    """What was seen of x @ w as numbers for `expect`: ops of both shapes, and the tax of both ops in instructions."""
    why = NotMeasured("no call trees are at hand")
    seen = {"ops": product, "ops in three dimensions": batch}
    return {
        "device": product.device,
        **{name: len(d.ops) or NotMeasured(_unseen(d)) for name, d in seen.items()},
        "add tax": why if add is None else outside(add),
        "product tax": why if tree_fold is None else outside(tree_fold),
    }


# ------------------------------------------------------------------------------------------------ deeper


def with_grad(plain: Fold | None, grad: Fold | None) -> Sentence:
    """What needing a gradient adds to the tree: rows that were empty, and the difference of the whole."""
    if plain is None or grad is None:
        return Sentence("No call trees are at hand, so the two cannot be compared.")
    new = [row for row in grad.rows if row.instructions >= 1 and plain.row(row.id).instructions < 1]
    more = grad.total - plain.total
    rows = " and ".join(f"“{row.title}” with {count(row.instructions)}" for row in new) or "no row"
    less = [row for row in grad.rows if plain.row(row.id).instructions - row.instructions > 0.02 * plain.total]
    words = [f"With grad the op takes {count(abs(more))} instructions {'more' if more >= 0 else 'less'}; new are {rows}."]
    words += [
        f"“{row.title}” takes fewer: {count(row.instructions)} against {count(plain.row(row.id).instructions)}." for row in less
    ]
    if any(row.id == "gil" for row in less):
        words.append("What else holds an input decides how often its handle takes the GIL: lesson 05 tests that with a view.")
    return Sentence(*words)


def frames_table(found: Backtrace | None) -> Table | Sentence:
    """The frames from the kernel up to the interpreter, or why there are none."""
    if found is None or not found.frames:
        return Sentence("No backtrace is recorded for this torch, and none was taken here.")
    rows, python = [], 0
    for frame in found.frames:
        rows.append({"frame": frame.index, "function": short(frame.function), "from": frame.library or None})
        python += "EvalFrame" in frame.function
        if python:
            break
    left = len(found.frames) - len(rows)
    notes = [found.label(), *([f"Why not live: {found.why}"] if found.why else []), f"{left} frames above: Python's own start."]
    return Table(rows, caption="Stopped in the kernel: who called whom, innermost first", notes=notes)


# ------------------------------------------------------------------------------------------------ claims and the end


def verdicts(add: Dispatch, product: Dispatch, batch: Dispatch, path: Sequence[str] = (), door: str = "") -> Table:
    """Every claim of this lesson, what was seen of it here, and the ledger's verdict with its sentence."""
    seen = {
        "A25": f"parsed as {' or '.join(add.signatures) or 'not seen'}; dispatched as {add.op or 'not seen'}; promoted by the op",
        "A40": f"__add__ is a {door or 'method'}; then "
        + " → ".join(short(f) for f in path if "slot_" in f or "THPVariable" in f),
        "B47": f"{len(product.ops)} ops for {product.expression}, {len(batch.ops)} for {batch.expression}",
    }
    rows = [
        {"id": c.id, "claim": c.claim, "seen": seen.get(c.id), "verdict": ledger.WORDS[c.verdict], "because": c.sentence}
        for c in ledger.claims("one_add")
    ]
    columns = {"id": "claim", "claim": "what is claimed", "seen": "seen here", "verdict": "verdict", "because": "because"}
    return Table(rows, columns, "Claims and verdicts")


def transfer(traced: Dispatch | None, expected: int | None) -> Sentence | Table:
    """What the reader's own trace shows beside the count that they expected; a hint while something is missing."""
    if traced is None:
        return Sentence('Nothing traced yet: write the expression as text, mine = "…", and your count, then run this cell again.')
    if expected is None:
        return Sentence("First your count: set expected to the number of ops that you think will run, then run this cell again.")
    if "aten::linear" not in {op.name for op in traced.ops}:
        return Sentence(f"{traced.expression} runs {traced.op or 'no op that is seen'}: that is not the op of this exercise.")
    table = ops_table(traced)
    n = len(traced.ops)
    hit = "as you expected" if n == expected else f"you expected {expected}"
    return Table(table.rows, table.columns, f"{traced.expression}: {n} ops ran, {hit}", [traced.promotion])
