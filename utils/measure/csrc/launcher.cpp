// Launches a kernel over and over from a C++ loop, with or without a stamp of the host's clock around each launch.
//
// It knows no CUDA: what launches, what waits and what is launched are function pointers and handles that Python found. So it
// is compiled without CUDA's headers, and its tests give it functions of their own.
#include <chrono>
#include <cstdint>

namespace {
using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
using Wait = int (*)();

// steady_clock is CLOCK_MONOTONIC on Linux: the clock of Python's time.perf_counter_ns.
int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
} // namespace

extern "C" {

struct Job {
  Launch launch;   // cuLaunchKernel
  Wait wait;       // cuCtxSynchronize
  void* function;  // the kernel's handle
  void* stream;
  void** arguments;
  int64_t* row;    // the kernel's argument that counts its launches; may be null
  unsigned blocks;
  unsigned threads;
};

int job_once(Job* job) {
  return job->launch(job->function, job->blocks, 1, 1, job->threads, 1, 1, 0, job->stream, job->arguments, nullptr);
}

// n launches; waits for the device after each when `waiting`; `pause_ns` of the host's own work after each. Returns the
// nanoseconds of the loop, or minus the driver's error code.
double job_loop(Job* job, int64_t n, int waiting, int64_t pause_ns) {
  const int64_t start = now();
  for (int64_t i = 0; i < n; ++i) {
    if (int error = job_once(job)) return -error;
    if (waiting)
      if (int error = job->wait()) return -error;
    if (pause_ns > 0)
      for (const int64_t until = now() + pause_ns; now() < until;) {
      }
  }
  return static_cast<double>(now() - start);
}

// n launches, launch i told its number; the host's clock before and after each. Waits for the device after every `every`
// launches (0: never), outside the stamps. Returns 0 or the driver's error code.
int job_stamped(Job* job, int64_t n, int64_t every, int64_t* before, int64_t* after) {
  for (int64_t i = 0; i < n; ++i) {
    if (job->row) *job->row = i;
    before[i] = now();
    const int error = job_once(job);
    after[i] = now();
    if (error) return error;
    if (every && (i + 1) % every == 0)
      if (int failed = job->wait()) return failed;
  }
  return 0;
}

// n calls of a function that takes one number; the nanoseconds of the loop. With a null function, of the empty loop.
double call_loop(void (*f)(int64_t), int64_t argument, int64_t n) {
  const int64_t start = now();
  for (int64_t i = 0; i < n; ++i) {
    asm volatile("" : : : "memory");
    if (f) f(argument);
  }
  return static_cast<double>(now() - start);
}

// Asks a running kernel for its clock, `rounds` times, through one line of memory that both see: line[0] is the question,
// line[8] the answer, line[9] says which question it answers. `before` and `after` enclose each answer on the host's clock.
// Returns the rounds that were answered before `limit_ns` had passed.
int64_t ask_clock(volatile int64_t* line, int64_t rounds, int64_t limit_ns, int64_t* before, int64_t* after, int64_t* answers) {
  const int64_t deadline = now() + limit_ns;
  for (int64_t i = 0; i < rounds; ++i) {
    before[i] = now();
    line[0] = i + 1;
    while (line[9] != i + 1)
      if (now() > deadline) return i;
    after[i] = now();
    answers[i] = line[8];
  }
  return rounds;
}

} // extern "C"
