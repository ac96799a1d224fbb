// Runs a list of steps, pass after pass, either plainly or taking laps.
//
// The laps' clock is the CPU's time-stamp counter, read without waiting for what is still under way, so that a step overlaps
// its neighbours as it would without a clock. The counter is set against steady_clock over the block, so laps are in ns.
#include "step.h"

#include <chrono>

namespace {
constexpr int MOST_STEPS = 18;

inline uint64_t ticks() {
#if defined(__x86_64__)
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
  return static_cast<uint64_t>(high) << 32 | low;
#elif defined(__aarch64__)
  uint64_t t;
  asm volatile("mrs %0, cntvct_el0" : "=r"(t) : : "memory");
  return t;
#else
  return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

double now() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Plan {
  Step* steps[MOST_STEPS];
  bool ends_lap[MOST_STEPS];
  uint64_t laps[MOST_STEPS] = {};
  int count = 0;
  uint64_t start_ticks = 0;
  double start_ns = 0;

  // Unrolled, so that each step has a call site of its own: one indirect call that goes elsewhere each time would be
  // mispredicted again and again, and the op has no such call.
  template <bool timed, int i = 0>
  void pass(uint64_t before) {
    if constexpr (i < MOST_STEPS) {
      if (i == count) return;
      steps[i]->run();
      if constexpr (timed) {
        if (ends_lap[i]) {
          const uint64_t after = ticks();
          laps[i] += after - before;
          before = after;
        }
      }
      pass<timed, i + 1>(before);
    }
  }
};

struct Nothing final : Step {
  explicit Nothing(const Inputs&) {}
  void run() override {}
};
} // namespace

// A step that does nothing: what running a step costs by itself.
EXPORT_STEP(nothing, Nothing)

extern "C" {

Plan* plan_new() { return new Plan; }

// Appends a step, which the plan then owns; `ends_lap`: the clock is read after it.
int plan_add(Plan* plan, Step* step, int ends_lap) {
  if (plan->count == MOST_STEPS) {
    PyErr_SetString(PyExc_RuntimeError, "too many steps in a plan");
    return -1;
  }
  plan->steps[plan->count] = step;
  plan->ends_lap[plan->count] = ends_lap;
  return plan->count++;
}

int plan_free(Plan* plan) {
  while (plan->count > 0) delete plan->steps[--plan->count];
  delete plan;
  return 0;
}

// Around a block: what steps exchange in the process is exchanged, and put back in reverse order.
int plan_begin(Plan* plan) {
  for (int i = 0; i < plan->count; ++i) plan->steps[i]->begin();
  return 0;
}
int plan_end(Plan* plan) {
  for (int i = plan->count; i > 0; --i) plan->steps[i - 1]->end();
  return 0;
}

// From here on laps count: called after some passes, so that a fresh plan's first touch of its memory is in no lap.
int plan_start(Plan* plan) {
  for (auto& lap : plan->laps) lap = 0;
  plan->start_ns = now();
  plan->start_ticks = ticks();
  return 0;
}

// Writes the nanoseconds since plan_start of the lap that each step ends, all passes together, to `laps` (one a step; 0 where
// a step ends none).
int plan_stop(Plan* plan, double* laps) {
  const double per_tick = (now() - plan->start_ns) / static_cast<double>(ticks() - plan->start_ticks);
  for (int i = 0; i < plan->count; ++i) laps[i] = static_cast<double>(plan->laps[i]) * per_tick;
  return 0;
}

// One pass, plainly or with laps, as a function: what the Python boundary calls inside its own `+`.
void plan_pass(void* plan) { static_cast<Plan*>(plan)->pass<false>(0); }
void plan_timed_pass(void* plan) { static_cast<Plan*>(plan)->pass<true>(ticks()); }

// n passes in a C++ loop, plainly or with laps; nanoseconds of the whole loop.
double plan_loop(Plan* plan, int64_t n, int timed) {
  const auto pass = timed ? plan_timed_pass : plan_pass;
  const double start = now();
  for (int64_t i = 0; i < n; ++i) pass(plan);
  return now() - start;
}

} // extern "C"
