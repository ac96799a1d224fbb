"""The world that lab 10 is graded on: sick and healthy programs, drawn for every name and class. No torch, no clock.

What a program's trace looks like is in `diagnose_traces`, how its illness is known in `diagnose_programs`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache

from utils.labs.diagnose_programs import WORTH, Other, Program, Work, facts, saved, seen, truth
from utils.labs.diagnose_traces import HOST_KINDS, ILLNESSES, LAB, NONE, Roofs, Trace, disguised
from utils.labs.learner import seed_of

CLASSICS = (  # (seed, what is wanted)
    (10, NONE),
    (18, "two"),
    (25, "two"),
    (1, "reads_out"),
    (6, NONE),
    (13, "recaptures"),
    (56, "two"),
)


@dataclass(frozen=True)
class Patient:
    """A trace with the diagnosis that its program has by construction, and the parts of a step that the program was made of."""

    trace: Trace
    diagnosis: str
    facts: dict[str, float]


def ward(who: str) -> tuple[Patient, ...]:
    """Ten programs of this name, whose diagnoses are known: each illness once, two in one program, and two that are well."""
    return _patients(f"{seed_of(who, LAB)}/ward", (*ILLNESSES, "two", NONE, NONE))


@lru_cache(maxsize=32)
def unseen(seed) -> tuple[Patient, ...]:
    """Ten programs of a class that nobody's ward has, in disguise: as `ward`, for hidden tests."""
    found = _patients(f"{seed_of('', LAB)}/unseen/{seed}", (*ILLNESSES, "two", NONE, NONE))
    return tuple(replace(patient, trace=disguised(patient.trace, f"{seed}/{i}")) for i, patient in enumerate(found))


@lru_cache(maxsize=32)
def _patients(seed: str, wanted: tuple[str, ...]) -> tuple[Patient, ...]:
    rng = random.Random(seed)
    found = []
    for want in wanted:
        program, diagnosis = _drawn(rng, want)
        found.append(Patient(seen(program), diagnosis, facts(program)))
    rng.shuffle(found)
    return tuple(found)


@lru_cache(maxsize=1)
def classics() -> tuple[Patient, ...]:
    """A few programs that are the same for every name and class: each is misread by some mistake that not every ward brings out."""
    found = []
    for seed, want in CLASSICS:
        program, diagnosis = _drawn(random.Random(f"lab 10/classic/{seed}/{want}"), want)
        found.append(Patient(seen(program), diagnosis, facts(program)))
    return tuple(found)


def _drawn(rng: random.Random, want: str) -> tuple[Program, str]:
    """A program with this diagnosis ("two": with a second illness that is worth a cure), and the diagnosis."""
    while True:
        program = _program(rng, rng.choice(ILLNESSES) if want == "two" else want, want == "two")
        diagnosis = truth(program)
        if want == "two" and diagnosis not in (None, NONE):
            if sum(share > 1.2 * WORTH for share in saved(program).values()) > 1:
                return program, diagnosis
        elif diagnosis == want:
            return program, diagnosis


def _program(rng: random.Random, illness: str, second: bool) -> Program:
    """One program: a body that keeps the device busy or does not, and what makes it ill. What comes of it, `truth` says."""
    host_us, bf16 = rng.uniform(5.0, 11.0), rng.uniform(90.0, 900.0)
    roofs = Roofs(
        round(rng.uniform(400.0, 4000.0)),
        {"bf16": round(bf16), "fp32": round(bf16 / rng.uniform(7, 16))},
        round(rng.uniform(1.2, 2.6), 1),
    )
    body = _Body(rng, roofs, host_us)
    graph = illness == "recaptures" or (illness == "unfused" and rng.random() < 0.6) or (illness == NONE and rng.random() < 0.3)
    illnesses = {illness} | ({rng.choice([i for i in ILLNESSES if i not in (illness, "recaptures")])} if second else set())
    for other in ("unfused", "recompiles"):  # fusing takes launches away as well; some steps compile and others do not
        if illnesses >= {"launch_bound", other}:
            illnesses.discard(other if illness == "launch_bound" else "launch_bound")
    works = _works(rng, body, illnesses, graph)
    if "reads_out" in illnesses and not graph:
        every = rng.randint(2, 4) if "launch_bound" not in illnesses else rng.randint(3, 8)
        works = [replace(work, read=(i + 1) % every == 0 or i == len(works) - 1) for i, work in enumerate(works)]
    elif illness == NONE and rng.random() < 0.5:  # a read-out for which hardly anybody waits
        works[-1] = replace(works[-1], read=True)
    device = sum(work.kernel_us for work in works)
    busy = max(device, 0.0 if graph else host_us * len(works))
    steps, many = [], 5
    compiles = {0} | (set(rng.sample(range(1, many), 4 if second else rng.randint(2, 3))) if "recompiles" in illnesses else set())
    for number in range(many):
        step: list[Work | Other] = [_jitter(rng, work) for work in works]
        if "waits_for_data" in illnesses:
            step.insert(0, Other("load", rng.uniform(0.9, 2.2) * busy * (rng.uniform(0.5, 0.9) if second else 1.0)))
        elif illness in (NONE, "unfused", "wide_dtype") and not works[-1].read:  # the next batch comes while the device works
            hidden = rng.uniform(0.02, 0.3) * (device - 1.3 * host_us * len(works))
            step[:0] = [Other("load", hidden)] if hidden > 1.0 else []
        if number in compiles and (illness != "launch_bound" or rng.random() < 0.5):
            step.insert(0, Other("compile", rng.uniform(1.5, 5.0) * busy * (0.3 if second else 1.0)))
        if graph and (number == 0 or "recaptures" in illnesses):
            step.insert(0, Other("record", rng.uniform(0.5, 1.5) * busy + 2.0 * host_us * len(works)))
        steps.append(tuple(step))
    return Program(tuple(steps), roofs, graph, round(rng.uniform(6.0, 12.0), 1), rng.uniform(1.5, 3.0), rng.uniform(0.3, 0.9))


def _works(rng: random.Random, body: _Body, illnesses: set[str], graph: bool) -> list[Work]:
    """The ops of one step."""
    if "launch_bound" in illnesses:
        works = [body.small(rng.uniform(0.25, 0.8)) for _ in range(rng.randint(12, 22))]
        if "wide_dtype" in illnesses:
            works += [body.product(rng.uniform(3.0, 8.0), "fp32") for _ in range(2)]
        return works
    if illnesses == {"reads_out"}:
        return [body.small(rng.uniform(0.6, 1.5)) for _ in range(rng.randint(8, 18))]
    dtype = "fp32" if "wide_dtype" in illnesses else "bf16"
    works = [body.product(rng.uniform(2.5, 9.0), dtype) for _ in range(rng.randint(2, 5))]
    works += [body.large(rng.uniform(2.0, 5.0)) for _ in range(rng.randint(0, 3))]
    works += [body.small(rng.uniform(0.3, 0.9)) for _ in range(rng.randint(1, 3))]
    if illnesses == {NONE} and rng.random() < 0.3:  # one product and next to nothing else
        works = [body.product(rng.uniform(40.0, 90.0), "bf16"), body.small(0.5)]
    if "unfused" in illnesses:
        tiny = graph and rng.random() < 0.5
        for chain in range(1, rng.randint(2, 3)):
            works += body.chained(rng.randint(4, 8), rng.uniform(0.3, 0.8) if tiny else rng.uniform(2.5, 7.0), chain)
        if tiny:
            works = [work for work in works if not work.flops]
    elif illnesses == {NONE}:  # what could be fused, and is not worth it
        works += body.chained(2, rng.uniform(0.3, 0.8), 1)
        works.append(body.product(rng.uniform(0.1, 0.4), "fp32"))
    elif illnesses & set(HOST_KINDS):  # for nothing, while the host is the slower side
        works += body.chained(rng.randint(2, 5), rng.uniform(1.0, 4.0), 1)
    return works


@dataclass(frozen=True)
class _Body:
    """Makes ops for one device; lengths of kernels as multiples of the host's time for an op."""

    rng: random.Random
    roofs: Roofs
    host_us: float

    def small(self, times: float) -> Work:
        us = max(self.roofs.floor_us * 1.02, times * self.host_us)
        return self._work(self._name(), us, nbytes=int((us - self.roofs.floor_us) * self.roofs.gbps * 300))

    def large(self, times: float) -> Work:
        return self._work(self._name(), times * self.host_us, nbytes=self._bytes(times * self.host_us))

    def product(self, times: float, dtype: str) -> Work:
        us = times * self.host_us + self.roofs.floor_us
        flops = int((us - self.roofs.floor_us) * self.roofs.tera[dtype] * 1e6 * self.rng.uniform(0.7, 0.92))
        return self._work("mm", us, nbytes=self._bytes(us) // 8, flops=flops, dtype=dtype)

    def chained(self, many: int, times: float, chain: int) -> list[Work]:
        us = max(self.roofs.floor_us * 1.1, times * self.host_us)
        half = self._bytes(us) // 2
        handed = [half, *[2 * half] * (many - 2), half]
        return [self._work(self._name(), us, nbytes=2 * half, chain=chain, handed=h) for h in handed]

    def _bytes(self, us: float) -> int:
        return int((us - self.roofs.floor_us) * self.roofs.gbps * 1e3 * self.rng.uniform(0.8, 0.93)) // 64 * 64

    def _work(self, name: str, us: float, **more) -> Work:
        return Work(name, self.host_us, us, **more)

    def _name(self) -> str:
        return self.rng.choice(("add", "mul", "relu", "gelu", "norm", "softmax", "copy", "where"))


def _jitter(rng: random.Random, work: Work) -> Work:
    """The same op in another step: a little longer or shorter."""
    return replace(work, host_us=work.host_us * rng.uniform(0.93, 1.08), kernel_us=work.kernel_us * rng.uniform(1.0, 1.03))
