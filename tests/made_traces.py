"""Made-up traces in the form that torch.profiler writes: a host that issues, a queue, a device that works through it.

`Made(device, seed)` has a clock for the host and one for the device; each call moves them as the real thing would. All lengths
are in µs, varied by up to a tenth by the seed; `events()` gives them in no order, from an arbitrary origin, as files do.
"""

from __future__ import annotations

import random
from contextlib import contextmanager

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>"
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>"
COPY = "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda>>"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul>>"
BF16 = "nvjet_tst_192x192_64x4_2x1_v_bz_coopA_NTT_bf16"
SGEMM = "ampere_sgemm_128x128_nn"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32"


class Made:
    """One trace in the making; `cuda` or not."""

    def __init__(self, device: str = "cuda", seed: int = 0):
        self.cuda = device == "cuda"
        self.rng = random.Random(seed)
        self.origin = self.rng.uniform(1e6, 1e12)
        self.now, self.free, self.number, self.steps = 0.0, 0.0, 100, 0
        self.made: list[dict] = []

    def about(self, us: float) -> float:
        return us * self.rng.uniform(0.93, 1.07)

    def add(self, cat: str, name: str, start: float, us: float, tid: int = 77, **args) -> None:
        on_device = cat in ("kernel", "gpu_memcpy", "gpu_memset")
        self.made.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 0 if on_device else 4711, "tid": 7 if on_device else tid}
            | {"ts": round(self.origin + start, 3), "dur": round(us, 3), "args": args}
        )

    @contextmanager
    def step(self):
        """A step as `profiler.step()` marks it."""
        begin = self.now
        yield
        self.add("user_annotation", f"ProfilerStep#{self.steps}", begin, self.now - begin)
        if self.cuda:  # the profiler writes the mark on the device's lane too
            self.add("gpu_user_annotation", f"ProfilerStep#{self.steps}", begin, self.now - begin)
        self.steps += 1

    @contextmanager
    def spanning(self, cat: str, name: str):
        begin = self.now
        yield
        self.add(cat, name, begin, self.now - begin)

    def python(self, us: float) -> None:
        """The host is in nothing the trace names."""
        self.now += self.about(us)

    def op(
        self, name: str, us: float = 6.0, *, kernel: str = "", kernel_us: float = 0.0, dims=None, types=None, **inside
    ) -> None:
        """An op on the host; with `kernel` one that launches it (on a CPU the op takes the kernel's time itself)."""
        begin, args = self.now, {}
        if dims is not None:
            args = {"Input Dims": dims, "Input type": types or ["float" if d else "Scalar" for d in dims]}
        host = self.about(us)
        if kernel and self.cuda:
            self.launch(begin + 0.3 * host, 0.5 * host, "kernel", kernel, self.about(kernel_us))
        elif kernel:
            host += self.about(kernel_us)
        self.now = begin + host
        self.add("cpu_op", name, begin, host, **args)
        self.now += self.about(1.5)  # Python, to the next line

    def launch(
        self, at: float, us: float, cat: str, name: str, kernel_us: float, call: str = "cudaLaunchKernel", **args
    ) -> float:
        """A call that puts work into the queue; gives when that work ends."""
        self.number += 1
        self.add("cuda_runtime", call, at, us, correlation=self.number, **{"External id": self.number})
        start = max(self.free, at + us + 1.0)
        shape = {"grid": [132, 1, 1], "block": [128, 1, 1], "stream": 7} if cat == "kernel" else {"stream": 7}
        self.add(cat, name, start, kernel_us, correlation=self.number, **shape, **args)
        self.free = start + kernel_us
        return self.free

    def wait(self, name: str = "cudaStreamSynchronize") -> None:
        """The host waits until the queue is empty."""
        end = max(self.free, self.now) + self.about(4.0)
        self.add("cuda_runtime", name, self.now, end - self.now, correlation=0)
        self.now = end

    def item(self) -> None:
        """A read-out: a copy of one number, and the wait for it."""
        with self.spanning("cpu_op", "aten::item"), self.spanning("cpu_op", "aten::_local_scalar_dense"):
            if self.cuda:
                self.launch(self.now + 1, 5.0, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 1.2, "cudaMemcpyAsync", bytes=4)
                self.now += 7.0
                self.wait()
            else:
                self.now += self.about(1.2)
        self.now += self.about(1.5)

    def carry(self, way: str, megabytes: float, gbps: float = 10.0) -> None:
        """A large copy over the bus from or to pageable memory: the host waits in it."""
        words = {"HtoD": "Memcpy HtoD (Pageable -> Device)", "DtoH": "Memcpy DtoH (Device -> Pageable)"}[way]
        with self.spanning("cpu_op", "aten::copy_"):
            end = self.launch(
                self.now + 2, 6.0, "gpu_memcpy", words, megabytes * 1e3 / gbps, "cudaMemcpyAsync", bytes=int(megabytes * 1e6)
            )
            self.now += 9.0
            self.wait()
            assert self.now >= end
        self.now += 1.5

    def memory(self, us: float, call: str = "cudaMalloc") -> None:
        took = self.about(us)
        self.add("cuda_runtime", call, self.now, took)
        self.now += took + 1.0

    def compile(self, us: float) -> None:
        """A compilation, with the thousand ops that it runs on shapes alone inside."""
        took = self.about(us)
        for name, edge in (("dynamo", 0.0), ("_compile.compile_inner (dynamo_timed)", 0.01), ("backend_compile", 0.4)):
            self.add("cpu_op", name, self.now + edge * took, took * (1 - 1.2 * edge))
        for i in range(30):
            self.add("cpu_op", "aten::mul", self.now + took * (0.05 + 0.01 * i), took * 0.008)
        self.now += took

    def capture(self, ops: int, instantiate_us: float = 900.0) -> None:
        """A CUDA graph recorded: the ops are issued, nothing runs, the graph is made."""
        self.add("cuda_runtime", "cudaStreamBeginCapture", self.now, 5.0)
        self.now += 6.0
        for _ in range(ops):
            with self.spanning("cpu_op", "aten::mul"):
                self.add("cuda_runtime", "cudaLaunchKernel", self.now + 2, 3.0)
                self.now += self.about(8.0)
        self.add("cuda_runtime", "cudaStreamEndCapture", self.now, 20.0)
        self.add("cuda_runtime", "cudaGraphInstantiate", self.now + 22, instantiate_us)
        self.now += 25 + instantiate_us

    def replay(self, kernels: int, kernel_us: float, kernel: str = ELEMENTWISE) -> None:
        """One call that starts all the kernels of a graph: they share its number."""
        self.number += 1
        self.add("cuda_runtime", "cudaGraphLaunch", self.now, self.about(9.0), correlation=self.number)
        start = max(self.free, self.now + 10)
        for _ in range(kernels):
            us = self.about(kernel_us)
            self.add("kernel", kernel, start, us, correlation=self.number, stream=7)
            start += us + 0.8
        self.free = start
        self.now += 10.0

    def events(self) -> list[dict]:
        out = list(self.made)
        self.rng.shuffle(out)
        return out


def small(t: Made, n: int = 60, kernel_us: float = 2.0) -> None:
    """Many ops on a few numbers."""
    for _ in range(n):
        t.op("aten::add", kernel=ELEMENTWISE, kernel_us=kernel_us if t.cuda else 0.3, dims=[[64], [64], []])


def product(
    t: Made, us: float = 4000.0, kernel: str = BF16, dtype: str = "c10::BFloat16", rows: int = 4096, name="aten::mm"
) -> None:
    t.op(name, 12.0, kernel=kernel, kernel_us=us, dims=[[rows, 4096], [4096, 4096]], types=[dtype, dtype])


def chain(t: Made, n: int = 8, us: float = 400.0) -> None:
    """Elementwise ops on large tensors."""
    for _ in range(n):
        t.op("aten::mul", kernel=ELEMENTWISE, kernel_us=us, dims=[[1 << 24], []])


def loader(t: Made, us: float = 6000.0) -> None:
    with t.spanning("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        t.python(us / 2)
        t.op("aten::stack", 30.0, dims=[[4096], [4096]])
        t.python(us / 2)


def transposing(t: Made, n: int = 4, us: float = 500.0) -> None:
    for _ in range(n):
        with t.spanning("cpu_op", "aten::contiguous"), t.spanning("cpu_op", "aten::clone"):
            t.op("aten::copy_", kernel=COPY, kernel_us=us, dims=[[4096, 4096], [4096, 4096], []])


def filling(t: Made, n: int = 3, us: float = 600.0) -> None:
    for _ in range(n):
        with t.spanning("cpu_op", "aten::zeros"):
            t.op("aten::fill_", kernel=FILL, kernel_us=us, dims=[[1 << 24], []])


def _two(first, second):
    def both(t: Made) -> None:
        first(t)
        second(t)

    return both


def _read_outs(t: Made) -> None:
    for _ in range(24):
        if t.cuda:
            t.op("aten::mean", kernel=REDUCE, kernel_us=3.0, dims=[[64]])
        t.item()


def _wide(t: Made) -> None:
    if t.cuda:
        product(t, kernel=SGEMM, dtype="float")
    else:
        product(t, dtype="double")


def _captures(t: Made) -> None:
    if t.cuda:  # as torch.cuda.graph does it: wait, collect garbage, empty the cache, and only then capture
        t.wait("cudaDeviceSynchronize")
        t.python(1500.0)
        t.memory(200.0, "cudaFree")
        t.memory(300.0)
        t.capture(13)
        t.replay(13, 3.0)
    else:
        for _ in range(13):
            with t.spanning("cpu_op", "aten::mul"):
                t.python(9.0)
                with t.spanning("cpu_op", "PythonDispatchMode"):
                    t.python(700.0)
                    t.op("aten::mul", 8.0, dims=[[64], []])
                t.python(4.0)


def _few_rows(t: Made) -> None:
    for _ in range(4):
        product(t, us=300.0, rows=1, dtype="c10::BFloat16" if t.cuda else "float")


def _waits_outside(t: Made) -> None:
    t.python(5000.0)
    small(t, 6)


def _carries(t: Made) -> None:
    for _ in range(4):
        t.op("aten::mul", kernel=ELEMENTWISE, kernel_us=8.0, dims=[[1 << 22], []])
        t.carry("DtoH", 16.0)
        t.carry("HtoD", 16.0)


def _drivers_memory(t: Made) -> None:
    for _ in range(3):
        t.memory(400.0)
        t.op("aten::mul", kernel=ELEMENTWISE, kernel_us=60.0, dims=[[1 << 20], []])
        t.memory(300.0, "cudaFree")


# Diagnosis → what one step of a program with it does, on (CPU, CUDA); None where it does not exist there.
ILL = {
    "launch_bound": (small, small),
    "reads_out": (_read_outs, _read_outs),
    "waits_for_data": (_two(loader, small), _two(loader, small)),
    "outside_torch": (_waits_outside, _waits_outside),
    "compute_bound": (lambda t: product(t, dtype="float"), product),
    "bandwidth_bound": (chain, chain),
    "recompiles": (None, None),  # its shapes differ from step to step: `a_trace` makes it
    "recaptures": (_captures, _captures),
    "wide_dtype": (_wide, _wide),
    "needless_copies": (transposing, transposing),
    "crosses_the_bus": (None, _carries),
    "allocates_anew": (filling, _drivers_memory),
    "small_batch": (_few_rows, _few_rows),
}


def a_trace(diagnosis: str, device: str = "cuda", seed: int = 0, steps: int = 3) -> list[dict] | None:
    """The events of a program with this illness; None where it does not exist on the device."""
    t = Made(device, seed)
    body = ILL[diagnosis][device == "cuda"]
    if body is None and diagnosis != "recompiles":
        return None
    for number in range(steps):
        with t.step():
            if diagnosis == "recompiles":
                t.compile(90_000.0)
                t.op("aten::mul", kernel=ELEMENTWISE, kernel_us=3.0, dims=[[64 + number], []])
            else:
                body(t)
    if t.cuda:
        t.now += 50.0
        t.wait("cudaDeviceSynchronize")  # closes the recording, outside the steps
    return t.events()
