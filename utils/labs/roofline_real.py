"""Lab 5's last cells: datasheets and recorded adds in the form that the learner's functions take. Nothing here is graded."""

from __future__ import annotations

from utils.labs.roofline import Machine, Peak, Work
from utils.model import devices, recordings


def datasheets() -> dict[str, tuple[tuple[Peak, ...], dict[str, float]]]:
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


def recorded_adds() -> list[tuple[str, Work, Machine, float]]:
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
