// A recorded add through torch's typed C++ entry points into its static output: with the dispatcher and without it.
#include "recorded_call.h"

#include <ATen/ops/add.h>
#include <ATen/ops/add_cpu_dispatch.h>

namespace {
enum Way { ADD_OUT, CPU_ADD_OUT };

template <Way way>
struct Typed final : Step {
  at::Tensor a, b, out;
  Typed(at::Tensor a, at::Tensor b, at::Tensor out) : a(std::move(a)), b(std::move(b)), out(std::move(out)) {}
  void run() override {
    if constexpr (way == ADD_OUT) at::add_out(out, a, b);
    if constexpr (way == CPU_ADD_OUT) at::cpu::add_out(out, a, b);
  }
};
} // namespace

extern "C" {

// A step of an "aten::add.Tensor" with one result; null, without an exception, for another call.
Step* replay_typed(const RecordedCall* call, int way) {
  if (call->name != "aten::add.Tensor" || call->results.size() != 1) return nullptr;
  const at::Tensor &a = call->arguments[0].toTensor(), &b = call->arguments[1].toTensor(), &out = call->results[0];
  switch (way) {
    case ADD_OUT: return new Typed<ADD_OUT>(a, b, out);
    case CPU_ADD_OUT: return new Typed<CPU_ADD_OUT>(a, b, out);
  }
  return nullptr;
}

} // extern "C"
