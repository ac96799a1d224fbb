"""Small CUDA kernels that stamp the device's own clock, compiled at run time, and the C++ loop that launches them.

`Launcher` is the one door: it finds the compiler for kernels (NVRTC, through torch), the driver's launch function and the C++
loop of the probe (`csrc/launcher.cpp`), and says in words what is missing. Times are nanoseconds: the device's from its
%globaltimer, the host's from its monotonic clock.
"""

from __future__ import annotations

import ctypes
from functools import cache

from utils.measure import seams
from utils.measure.device_clock import MeasurementError
from utils.measure.probe import Probe, ProbeError, Unit, build_probe

UNIT = Unit("launcher")

# Every loop on the device ends by a number of rounds or by its own clock, so that no kernel runs on for ever.
_TIMER = """
__device__ __forceinline__ unsigned long long device_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) : : "memory");
  return t;
}
"""
SOURCES = {
    # Nothing: the price of the launch alone.
    "empty": 'extern "C" __global__ void empty() {}',
    # Its begin and its end, spinning for `ns` between them.
    "stamp": """extern "C" __global__ void stamp(unsigned long long* out, long long row, long long ns) {
  const unsigned long long start = device_ns();
  unsigned long long now = start;
  while ((long long)(now - start) < ns) now = device_ns();
  out[2 * row] = start;
  out[2 * row + 1] = device_ns();
}""",
    # One add of one element between two stamps.
    "add": """extern "C" __global__ void add(unsigned long long* out, long long row, const float* a, const float* b, float* c) {
  const unsigned long long start = device_ns();
  *(volatile float*)c = *(const volatile float*)a + *(const volatile float*)b;
  __threadfence();
  out[2 * row] = start;
  out[2 * row + 1] = device_ns();
}""",
    # The next `n` values of the device's clock that differ from the one before: how coarsely it ticks.
    "ticks": """extern "C" __global__ void ticks(unsigned long long* out, long long n) {
  unsigned long long last = device_ns();
  for (long long i = 0; i < n; ++i) {
    unsigned long long now = device_ns();
    for (int again = 0; again < 1000000 && now == last; ++again) now = device_ns();
    out[i] = last = now;
  }
}""",
    # Answers the host's questions for the time; gives up after `limit` ns without one.
    "answer": """extern "C" __global__ void answer(volatile long long* line, long long rounds, long long limit) {
  const unsigned long long start = device_ns();
  for (long long i = 1; i <= rounds; ++i) {
    while (line[0] < i)
      if ((long long)(device_ns() - start) > limit) return;
    line[8] = (long long)device_ns();
    __threadfence_system();
    line[9] = i;
  }
}""",
    # `n` pairs of (device clock in ns, cycles of the SM), one every `every` ns.
    "clocks": """extern "C" __global__ void clocks(unsigned long long* out, long long n, long long every) {
  const unsigned long long start = device_ns();
  for (long long i = 0; i < n; ++i) {
    unsigned long long now = device_ns();
    while ((long long)(now - start) < i * every) now = device_ns();
    out[2 * i] = now;
    out[2 * i + 1] = (unsigned long long)clock64();
  }
}""",
    # For each block: the SM that it ran on, its begin and its end; it spins for `ns` between them.
    "residents": """extern "C" __global__ void residents(unsigned long long* out, long long ns) {
  if (threadIdx.x == 0) {
    unsigned int sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    const unsigned long long start = device_ns();
    unsigned long long now = start;
    while ((long long)(now - start) < ns) now = device_ns();
    out[3 * blockIdx.x] = sm;
    out[3 * blockIdx.x + 1] = start;
    out[3 * blockIdx.x + 2] = now;
  }
}""",
    # For each block: its begin and its end, with `rounds` of eight independent multiply-adds a thread between them.
    "fixed_work": """extern "C" __global__ void fixed_work(unsigned long long* out, long long rounds, float* sink) {
  __shared__ unsigned long long start;
  if (threadIdx.x == 0) start = device_ns();
  __syncthreads();
  float a[8];
  for (int i = 0; i < 8; ++i) a[i] = threadIdx.x * 0.001f + i;
  for (long long r = 0; r < rounds; ++r)
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i] = fmaf(a[i], 0.999f, 0.5f);
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) sum += a[i];
  if (sum == -1.0f) sink[0] = sum;  // never so: it keeps the arithmetic from being left out
  __syncthreads();
  if (threadIdx.x == 0) {
    out[2 * blockIdx.x] = start;
    out[2 * blockIdx.x + 1] = device_ns();
  }
}""",
}


class Job(ctypes.Structure):
    """`Job` of csrc/launcher.cpp."""

    _fields_ = [
        ("launch", ctypes.c_void_p),
        ("wait", ctypes.c_void_p),
        ("function", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("row", ctypes.POINTER(ctypes.c_int64)),
        ("blocks", ctypes.c_uint),
        ("threads", ctypes.c_uint),
    ]


_POINTER, _INT64, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_FUNCTIONS = {
    "job_once": (_INT, (_POINTER,)),
    "job_loop": (ctypes.c_double, (_POINTER, _INT64, _INT, _INT64)),
    "job_stamped": (_INT, (_POINTER, _INT64, _INT64, _POINTER, _POINTER)),
    "call_loop": (ctypes.c_double, (_POINTER, _INT64, _INT64)),
    "ask_clock": (_INT64, (_POINTER, _INT64, _INT64, _POINTER, _POINTER, _POINTER)),
}


@cache
def loops() -> dict:
    """The C++ loops by name, compiled on first use. Raises MeasurementError, in words, without a compiler."""
    try:
        build_probe("cpu", only=(UNIT,))
        probe = Probe((UNIT,))
        return {name: probe.function(UNIT.source, name, result, args) for name, (result, args) in _FUNCTIONS.items()}
    except ProbeError as error:
        raise MeasurementError(f"the loop that launches kernels could not be built here: {error}") from None


class Kernel:
    """One kernel with its arguments, ready to be launched from the C++ loop.

    `arguments` are ints (64 bit) or tensors (their address). An argument named by `row` (its place) is set to the number of
    the launch by `stamped`. Everything that the launch points to lives as long as this object. `call` are the loops (`loops()`).
    """

    def __init__(
        self, function: int, arguments=(), *, launch: int, wait: int, call: dict, row=None, blocks=1, threads=1, stream=0
    ):
        self._call = call
        self._kept = tuple(arguments)
        values = [ctypes.c_int64(v if isinstance(v, int) else v.data_ptr()) for v in arguments]
        self._values = values
        self._pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(v) for v in values))
        self.job = Job(
            launch,
            wait,
            function,
            stream,
            ctypes.cast(self._pointers, ctypes.POINTER(ctypes.c_void_p)),
            ctypes.pointer(values[row]) if row is not None else None,
            blocks,
            threads,
        )

    def once(self) -> None:
        """One launch. Raises MeasurementError when the driver refuses it."""
        _check(self._call["job_once"](ctypes.addressof(self.job)))

    def loop(self, n: int, *, waiting: bool = False, pause_ns: int = 0) -> float:
        """Nanoseconds of n launches in a row: with a wait for the device after each, or with `pause_ns` of host work."""
        ns = self._call["job_loop"](ctypes.addressof(self.job), n, int(waiting), pause_ns)
        _check(round(-ns) if ns < 0 else 0)
        return ns

    def stamped(self, n: int, every: int = 0) -> tuple[list[int], list[int]]:
        """(the host's clock before, after) each of n launches; waits for the device after every `every` launches (0: never)."""
        before, after = (ctypes.c_int64 * n)(), (ctypes.c_int64 * n)()
        _check(self._call["job_stamped"](ctypes.addressof(self.job), n, every, ctypes.addressof(before), ctypes.addressof(after)))
        return list(before), list(after)


def _check(error: int) -> None:
    if error:
        raise MeasurementError(f"the CUDA driver refused a kernel (error {error})")


class Launcher:
    """Kernels of `SOURCES` on the current device, and the C++ loops to launch them.

    Raises MeasurementError, in words, without a CUDA device, a C++ compiler, or torch's run-time compiler.
    """

    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise MeasurementError("no CUDA device here, so nothing can be launched on one: the recordings hold a GPU's numbers")
        self.call = loops()
        torch.cuda.synchronize()  # makes the context current on this thread, which the driver's launch needs
        self._torch = torch
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
            self._launch, self._wait = (ctypes.cast(getattr(self._driver, n), ctypes.c_void_p).value for n in _DRIVER)
        except (OSError, AttributeError) as error:
            raise MeasurementError(f"the CUDA driver's library cannot be called here: {error}") from None
        self._compiled: dict[str, object] = {}

    def compiled(self, name: str):
        """torch's callable for the kernel `name` of SOURCES: launching it from Python is one of the prices."""
        if name not in self._compiled:
            try:
                self._compiled[name] = seams.cuda_kernel(_TIMER + SOURCES[name], name)
            except Exception as error:  # NVRTC, its library, the toolkit's headers: each fails in its own way
                said = " ".join(str(error).split())[:200]
                raise MeasurementError(f"the kernel {name!r} cannot be compiled at run time here: {said}") from None
        return self._compiled[name]

    def _handle(self, name: str) -> int:
        try:
            return seams.cuda_kernel_handle(self.compiled(name))
        except RuntimeError as error:
            raise MeasurementError(str(error)) from None

    def kernel(self, name: str, *arguments, row: int | None = None, blocks: int = 1, threads: int = 1, stream: int = 0) -> Kernel:
        """The kernel `name` with its arguments, on the legacy default stream (torch's own) unless `stream` is given."""
        return Kernel(
            self._handle(name),
            arguments,
            launch=self._launch,
            wait=self._wait,
            call=self.call,
            row=row,
            blocks=blocks,
            threads=threads,
            stream=stream,
        )

    def poisoned(self, *shape: int):
        """A device buffer of 64-bit numbers, all -1, so that a row which no kernel wrote is seen."""
        return self._torch.full(shape, -1, dtype=self._torch.int64, device="cuda")

    def read(self, buffer) -> list:
        """The buffer as nested lists once the device is done. Raises MeasurementError when a row was not written."""
        self._torch.cuda.synchronize()
        if bool((buffer == -1).any()):
            raise MeasurementError("a kernel left part of its stamps unwritten")
        return buffer.tolist()

    def blocks_that_fit(self, name: str, threads: int) -> int:
        """How many blocks of so many threads one SM can hold of this kernel, by the driver's own calculation."""
        out = ctypes.c_int(0)
        fit = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        _check(fit(ctypes.byref(out), ctypes.c_void_p(self._handle(name)), ctypes.c_int(threads), ctypes.c_size_t(0)))
        return out.value

    def timer_resolution_ns(self) -> int:
        """The smallest step that the device's clock was seen to make, ns (32 on Hopper, about 1,000 on older parts)."""
        out = self.poisoned(256)
        self.kernel("ticks", out, 256).once()
        ticks = self.read(out)
        return min(b - a for a, b in zip(ticks, ticks[1:], strict=False))


_DRIVER = ("cuLaunchKernel", "cuCtxSynchronize")
