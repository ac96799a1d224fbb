// A list of steps, run one after the other: the whole of what a replay does. Knows nothing of torch.
#include "step.h"

#include <chrono>
#include <memory>
#include <vector>

namespace {
struct List {
  std::vector<std::unique_ptr<Step>> steps;
};
// A step that is no op of torch: a C function that does its job once.
struct Foreign final : Step {
  double (*const function)(void*, int64_t);
  void* const job;
  Foreign(double (*f)(void*, int64_t), void* j) : function(f), job(j) {}
  void run() override {
    if (function(job, 1) < 0) throw std::runtime_error("a step of the list refused its job");
  }
};
double now() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
} // namespace

extern "C" {

List* replay_new() { return new List; }

// Appends a step, which the list then owns; how many there are.
int replay_push(List* list, Step* step) {
  list->steps.emplace_back(step);
  return static_cast<int>(list->steps.size());
}

Step* replay_foreign(double (*function)(void*, int64_t), void* job) { return new Foreign(function, job); }

// n replays; nanoseconds of them all, or -1 with a Python exception set when a step threw.
double replay_run(List* list, int64_t n) {
  try {
    const double start = now();
    for (int64_t i = 0; i < n; ++i)
      for (const auto& step : list->steps) step->run();
    return now() - start;
  } catch (const std::exception& e) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
    return -1;
  }
}

int replay_free(List* list) {
  delete list;
  return 0;
}

} // extern "C"
