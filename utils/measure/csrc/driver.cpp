// Runs a list of steps, pass after pass, and holds the clock around those that are to be timed.
//
// The clock is the CPU's time-stamp counter, read without waiting for what is still under way, so that a step overlaps its
// neighbours as it would without a clock. The counter is set against steady_clock over the whole block, so prices are in ns.
#include "step.h"

#include <chrono>

namespace {
constexpr int MOST_STEPS = 24;

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
  bool opens[MOST_STEPS], closes[MOST_STEPS];
  int count = 0;
  uint64_t spent = 0, start_ticks = 0;
  double start_ns = 0;

  void pass() {
    for (int i = 0; i < count; ++i) {
      if (opens[i]) spent -= ticks();
      steps[i]->run();
      if (closes[i]) spent += ticks();
    }
  }
};

struct Nothing final : Step {
  explicit Nothing(const Inputs&) {}
  void run() override {}
};
} // namespace

// A step that does nothing: what reading the clock twice costs, where it stands.
EXPORT_STEP(nothing, Nothing)

extern "C" {

Plan* plan_new() { return new Plan; }

// Appends a step, which the plan then owns. `opens` starts the clock before it, `closes` stops it after it.
int plan_add(Plan* plan, Step* step, int opens, int closes) {
  if (plan->count == MOST_STEPS) {
    PyErr_SetString(PyExc_RuntimeError, "too many steps in a plan");
    return -1;
  }
  plan->steps[plan->count] = step;
  plan->opens[plan->count] = opens;
  plan->closes[plan->count] = closes;
  return plan->count++;
}

int plan_free(Plan* plan) {
  while (plan->count > 0) delete plan->steps[--plan->count];
  delete plan;
  return 0;
}

int plan_start(Plan* plan) {
  for (int i = 0; i < plan->count; ++i) plan->steps[i]->begin();
  plan->spent = 0;
  plan->start_ns = now();
  plan->start_ticks = ticks();
  return 0;
}

// Nanoseconds that the timed steps took since plan_start, all passes together.
double plan_stop(Plan* plan) {
  const double per_tick = (now() - plan->start_ns) / static_cast<double>(ticks() - plan->start_ticks);
  for (int i = plan->count; i > 0; --i) plan->steps[i - 1]->end();
  return static_cast<double>(plan->spent) * per_tick;
}

// One pass, as a plain function: what the Python boundary calls inside its own `+`.
void plan_pass(void* plan) { static_cast<Plan*>(plan)->pass(); }

// n passes in a C++ loop (between plan_start and plan_stop); nanoseconds of the whole loop.
double plan_loop(Plan* plan, int64_t n) {
  const double start = now();
  for (int64_t i = 0; i < n; ++i) plan->pass();
  return now() - start;
}

} // extern "C"
