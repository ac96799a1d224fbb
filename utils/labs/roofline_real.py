"""Lab 5's last cells: datasheets and recorded machines in the form that the learner's functions take. Nothing here is graded."""

from __future__ import annotations

from pathlib import Path

from utils.labs.roofline import Machine, Peak, Work
from utils.model import devices, recordings, studies
from utils.model.quantities import NotMeasured

STUDY = "ridge_point"
ENGINES = {"gemm_bf16": "bf16", "vector_fp32": "fp32", "issue": "issue"}  # the study's names of peaks, and the lab's

Sheet = tuple[tuple[Peak, ...], dict[str, float]]
Timed = tuple[str, Work, Machine, float]


def datasheets() -> dict[str, Sheet]:
    """Name of a GPU to (its peaks in bf16 and fp32, its memory's GB/s), from utils/data/devices.yml.

    Where a sheet prints the sparse rate in bf16, that is what stands here. GPUs without bf16, or with an unconfirmed figure among
    these three, are left out.
    """
    found = {}
    for device in devices.load():
        figures = (device.gbps, device.tflops.get("bf16"), device.tflops["fp32"])
        if all(figure is not None and figure.checked for figure in figures):
            sparse = [quote["value"] for quote in device.quoted if (quote["dtype"], quote["trap"]) == ("bf16", "sparse")]
            bf16 = Peak("bf16", float(sparse[0]), True) if sparse else Peak("bf16", device.tflops["bf16"].value)
            found[device.name] = ((bf16, Peak("fp32", device.tflops["fp32"].value)), {"memory": device.gbps.value})
    return found


def recorded_peaks(folder: Path | None = None) -> dict[str, Sheet]:
    """Label to (peaks, the memory's GB/s), as measured, for every machine on which lesson 06's study was recorded."""
    found = {}
    for label, part in _parts("peaks", folder):
        numbers = part["numbers"]
        peaks = tuple(Peak(engine, numbers[name]) for name, engine in ENGINES.items() if name in numbers)
        found[label] = (peaks, {"memory": numbers["gbps"]})
    return found


def recorded_ops(folder: Path | None = None) -> list[Timed]:
    """(label, the work of an op, the roofs measured beside it, its µs) for the ops of lesson 06's study, where it was recorded.

    Instructions were not counted there and stand as 0.
    """
    found = []
    for label, part in _parts("ops", folder):
        tera = {name: rate for name, rate in part["roofs"].items() if name != "gbps"}
        machine = Machine(tera, {"memory": part["roofs"]["gbps"]}, 1.0)
        for row in part["rows"]:
            if row["roof"]:
                work = Work(row["title"], row["roof"], row["flops"], "memory", row["bytes"], 0)
                found.append((label, work, machine, row["ns"] / 1e3))
    return found


def recorded_adds() -> list[Timed]:
    """(label, the work of one add, the roofs of the GPU's datasheet, µs that its kernel took) for every recorded GPU.

    One element of float32: 12 bytes, 1 FLOP. The issue rate follows from the fp32 peak: an instruction a lane and clock, where a
    fused multiply-add counts as two FLOP. Two loads, an add and a store are the least that it runs.
    """
    found = []
    for stem in recordings.available():
        receipt = recordings.load(stem).receipts.get("cuda")
        device = devices.find(receipt.where["gpu"]) if receipt else None
        if device and "kernel" in receipt.device_time:
            fp32 = device.tflops["fp32"].value
            roofs = Machine({"fp32": fp32}, {"memory": device.gbps.value}, fp32 / 2)
            work = Work("c = a + b, one element", "fp32", 1, "memory", 12, 4)
            found.append((recordings.receipt_label(receipt), work, roofs, receipt.device_time["kernel"].ns / 1e3))
    return found


def _parts(name: str, folder: Path | None) -> list[tuple[str, dict]]:
    """(label, this part) of every recorded machine of the study that has it."""
    found = []
    for stem in studies.available(STUDY, folder):
        study = studies.load(STUDY, stem, folder)
        try:
            found.append((study.label(), study.part(name)))
        except NotMeasured:
            continue
    return found
