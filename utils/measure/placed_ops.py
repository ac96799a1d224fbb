"""The op table on this machine's roofline: counted intensity, measured time, the floor set by the roofs of the same race."""

from __future__ import annotations

from utils.measure import malloc
from utils.measure.bandwidth import roof_streams
from utils.measure.either_clock import Progress, need, race, within
from utils.measure.engines import engines
from utils.measure.gemm_peak import flops as gemm_flops
from utils.measure.gemm_peak import lacks, product, torch_dtype
from utils.measure.op_table import OPS, work_of

ELEMENTS = {"cpu": (1 << 22, 1 << 24), "cuda": (1 << 27, 1 << 28)}  # of elementwise ops and rows: quick, else
SIDE = {"cpu": (1024, 2048), "cuda": (4096, 4096)}
CONTEXT = {"cpu": (4096, 16_384), "cuda": (65_536, 131_072)}


def usual_dtype(device: str) -> str:
    """What a model's tensors are on this device: fp32 on a CPU, bf16 on a GPU that has it, else fp16."""
    if device == "cpu":
        return "fp32"
    return "fp16" if lacks(device, "bf16") else "bf16"


def sizes(device: str, quick: bool) -> dict[str, int]:
    """Op → its size (see op_table)."""
    place = int(not quick)
    special = {
        "gemm": SIDE[device][place],
        "matvec": 2 * SIDE["cuda"][0] if device == "cuda" else 2048,
        "decode": CONTEXT[device][place],
    }
    return {key: special.get(key, ELEMENTS[device][place]) for key in OPS}


def ops(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False, dtype: str | None = None) -> dict:
    """Every op of the table beside a stream and a product of the same race:

    "rows": [{"op" (key), "title", "family", "shape", "dtype", "flops", "bytes", "intensity", "ns", "tera" (1e12 FLOP/s), "gbps"
    (counted bytes over time), "roof", "floor_ns", "bound", "share" (floor over time)}], "race", "dtype", "roofs": {"gbps",
    "gemm_…", "vector_fp32"}, "missing", "numbers": "intensity_<op>", "ns_<op>", "share_<op>", "wait_share_<op>" for elementwise
    ones (the part of the time that their arithmetic does not explain).
    On a CPU malloc is pinned first, so that results do not come fresh from the kernel. About 4 s quick. MeasurementError without
    the device.
    """
    need(device, "the op table")
    dtype = dtype or usual_dtype(device)
    notes = []
    if device == "cpu":
        notes.append(
            "malloc pinned: results are warm memory" if malloc.pin() else "malloc could not be pinned: fresh results fault"
        )
    vector = engines(device, within(progress, 0.0, 0.1), quick=True)
    vector_peak, missing = vector["numbers"].get("vector_fp32"), dict(vector["missing"])
    size = sizes(device, quick)
    calls, own, nbytes, said = roof_streams(device, size["add"])
    side = size["gemm"]
    calls |= {"a product": product(device, dtype, side)}
    calls |= {key: op.make(size[key], torch_dtype(dtype), device) for key, op in OPS.items()}
    found = race(
        device,
        calls,
        arms=own,
        control="add",
        blocks=12 if quick else 30,
        at_most_s=2.5 if quick else 15,
        progress=within(progress, 0.1, 0.9),
    )
    gbps = max(nbytes[name] / found[name].ns for name in nbytes)
    gemm = max(gemm_flops(side, side, side) / found[name].ns for name in ("a product", "gemm")) * 1e-3
    roofs = {"gbps": gbps, f"gemm_{dtype}": gemm} | ({"vector_fp32": vector_peak} if vector_peak else {})
    rows = [placed(key, size[key], dtype, found[key].ns, roofs) for key in OPS]
    return {
        "device": device,
        "dtype": dtype,
        "rows": rows,
        "race": found,
        "roofs": roofs,
        "missing": missing,
        "numbers": numbers(rows) | {"aa_error": found.aa_error},
        "notes": [*notes, *said],
    }


def placed(key: str, size: int, dtype: str, ns: float, roofs: dict[str, float]) -> dict:
    """One row: the op's work, and its measured time (ns) beside the floor of the roofs (GB/s; 1e12 a second)."""
    op, work = OPS[key], work_of(key, size, dtype)
    roof = op.roof(dtype)
    memory_ns = work.bytes / roofs["gbps"]
    arithmetic_ns = work.flops / roofs[roof] * 1e-3 if roof in roofs else None
    floor_ns = max(memory_ns, arithmetic_ns or 0.0)
    return {
        "op": key,
        "title": op.title,
        "family": op.family,
        "shape": op.shape(size),
        "dtype": dtype,
        "flops": work.flops,
        "bytes": work.bytes,
        "least_bytes": work.least_bytes,
        "intensity": work.intensity,
        "ns": ns,
        "tera": work.flops / ns * 1e-3,
        "gbps": work.bytes / ns,
        "roof": roof if roof in roofs else None,
        "memory_ns": memory_ns,
        "arithmetic_ns": arithmetic_ns,
        "floor_ns": floor_ns,
        "bound": "memory" if memory_ns >= (arithmetic_ns or 0.0) else "arithmetic",
        "share": floor_ns / ns,
    }


def numbers(rows: list[dict]) -> dict[str, float]:
    """The rows' figures by name (see `ops`)."""
    out = {}
    for row in rows:
        key = row["op"]
        out |= {f"intensity_{key}": row["intensity"], f"ns_{key}": row["ns"], f"share_{key}": row["share"]}
        if row["family"].startswith("elementwise") and row["arithmetic_ns"] is not None:
            out[f"wait_share_{key}"] = 1 - row["arithmetic_ns"] / row["ns"]
    return out
