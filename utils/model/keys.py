"""The right number of a question: fixed, drawn from a seed, or worked out from what the reader measured on this machine.

    key(question, seed)  ->  Key: the prompt with its numbers, the right number, the tolerance, and whose measurement it rests on

Where the reader has measured nothing yet, the committed recordings stand in, and `source` says so. `columns` has what every
measured quantity is for saying aloud: yours, recorded on a GPU, cited by the texts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from utils.model import arithmetic, ledger, quantities, recordings, results
from utils.model.readings import Receipt

SCALE = {"us": 1e-3, "µs": 1e-3, "ns": 1.0, "ratio": 1.0, "percent": 100.0}
NOTHING = "measure a receipt in lesson 05 first"


@dataclass(frozen=True)
class Key:
    """The key of one number question. `value` is None where neither the reader nor a recording has what it needs."""

    prompt: str
    value: float | None
    unit: str
    tolerance: float
    source: str = ""
    columns: tuple[dict[str, str], ...] = field(default=())

    def accepts(self, given: float) -> bool:
        """Whether `given`, in `unit`, is near enough; False where there is nothing to compare with."""
        return self.value is not None and abs(given - self.value) <= self.tolerance * abs(self.value)


def key(question: Mapping[str, Any], seed: int = 0) -> Key:
    """The key of a question of kind number. The same seed gives the same numbers, on every machine."""
    answer = question["answer"]
    drawn = draws(question, seed)
    if "value" in answer:
        return Key(_prompt(question, drawn), float(answer["value"]), answer.get("unit", ""), answer["tolerance"])
    own = answer.get("own", {})
    if "from_results" in answer:
        own = {"share": {"measure": answer["from_results"], "unit": answer["unit"]}}
    known, source = _measured(own)
    prompt = _prompt(question, {**drawn, **({"whose": _whose(source)} if own else {})})
    columns = tuple(_column(spec) for spec in answer.get("own", {}).values())
    if known is None:
        return Key(prompt, None, answer["unit"], answer["tolerance"], NOTHING, columns)
    wanted = arithmetic.value(answer.get("formula", "share"), {**drawn, **known})
    return Key(prompt, wanted, answer["unit"], answer["tolerance"], source, columns)


def draws(question: Mapping[str, Any], seed: int = 0) -> dict[str, float]:
    """The numbers that this seed draws for the question: one of each list, independent of all other questions."""
    rng = random.Random(f"{question['id']}:{seed}")
    return {name: rng.choice(options) for name, options in sorted(question.get("draws", {}).items())}


def _prompt(question: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    text = question["prompt"]
    for name, number in values.items():
        text = text.replace("{" + name + "}", number if isinstance(number, str) else f"{number:,.12g}")
    return text


def _measured(own: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, float] | None, str]:
    """(the quantities in their units, whose they are): all of them the reader's own, else all of one recording, else None.

    Never some of each: a ratio of two machines would be nobody's.
    """
    for receipt_of in (results.latest_receipt, _recorded):
        found: dict[str, float] = {}
        source = ""
        for name, spec in own.items():
            for grad in (spec["grad"],) if "grad" in spec else (False, True):
                receipt = receipt_of(spec.get("device", "cpu"), grad)
                number = _evaluate(spec, receipt)
                if number is not None:
                    found[name] = number
                    source = "your own measurement" if receipt.source == "live" else recordings.receipt_label(receipt)
                    break
        if len(found) == len(own):
            return found, source
    return None, ""


def _evaluate(spec: Mapping[str, Any], receipt: Receipt | None) -> float | None:
    if receipt is None:
        return None
    try:
        return quantities.evaluate(spec["measure"], receipt).value * SCALE.get(spec["unit"], 1.0)
    except LookupError:
        return None


def _recorded(device: str, grad: bool) -> Receipt | None:
    best = recordings.best(device)
    return best.receipt(device, grad) if best else None


def _whose(source: str) -> str:
    """Where a quantity was measured, as a part of the question's sentence."""
    if not source:
        return "on this machine (not measured yet)"
    if source == "your own measurement":
        return "on this machine, as you measured it"
    return f"on the recorded machine ({source.removeprefix('recorded · ')})"


def _column(spec: Mapping[str, Any]) -> dict[str, str]:
    """One quantity for saying aloud: yours (CPU, and GPU where there is one), recorded GPU, cited."""
    grad = bool(spec.get("grad"))
    yours = _evaluate(spec, results.latest_receipt(spec.get("device", "cpu"), grad))
    gpu = _evaluate(spec, _recorded("cuda", grad))
    unit = ledger.UNITS[spec["unit"]]
    claim = ledger.find(spec["claim"]) if "claim" in spec else None
    return {
        "what": spec["measure"].removeprefix("stages.").replace("_", " ").replace(".", ", "),
        "yours": "not measured yet" if yours is None else f"{yours:,.3g} {unit}",
        "recorded": "not recorded" if gpu is None else f"{gpu:,.3g} {unit}",
        "cited": (claim.cited if claim else "") or "no figure",
    }
