// A recorded call baked: meta() once, on static tensors, and at every replay the kernel alone, on the iterator that is there.
//
// No dispatch, no allocation, no shape or type is looked at again: so the addresses, shapes and types must stay what they were.
#include "bridge.h"
#include "recorded_call.h"

#include <ATen/ops/add_native.h>
#include <ATen/ops/addmm_native.h>
#include <ATen/ops/clamp_min_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/gelu_native.h>
#include <ATen/ops/mm_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/sigmoid_native.h>
#include <ATen/ops/sub_native.h>
#include <ATen/ops/tanh_native.h>

#include <functional>
#include <unordered_map>

namespace {
namespace native = at::native;

// The kernel with its output given. Raises when the output is not what the kernel would have made itself.
template <class Kernel>
struct WithOutput final : public Bridge<Kernel> {
  explicit WithOutput(at::Tensor output) : output_(std::move(output)) {}
  void take_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) override {
    const bool fits = output_.sizes() == sizes && output_.scalar_type() == c10::typeMetaToScalarType(options.dtype()) &&
        (strides.empty() ? output_.is_contiguous() : output_.strides() == strides);
    if (!fits) throw std::runtime_error("the static output is not what the kernel would have made");
  }
  const at::Tensor& maybe_get_output(int64_t) override { return output_; }

 private:
  at::Tensor output_;
};

template <class Kernel, class... Arguments>
struct Baked final : Step {
  at::Tensor output;
  std::tuple<Arguments...> arguments;
  WithOutput<Kernel> kernel;
  Baked(at::Tensor out, Arguments... given) : output(out), arguments(std::move(given)...), kernel(std::move(out)) {
    std::apply([&](const auto&... each) { kernel.meta(each...); }, arguments);
  }
  void run() override {
    std::apply([&](const auto&... each) { kernel.impl(each..., output); }, arguments);
  }
};

template <class Kernel, class... Arguments>
Step* bake(const RecordedCall& call, Arguments... arguments) {
  return new Baked<Kernel, Arguments...>(call.results[0], std::move(arguments)...);
}

using Tensor = at::Tensor;
using Make = std::function<Step*(const RecordedCall&, const torch::jit::Stack&)>;

template <class Kernel>
Make one() {
  return [](const RecordedCall& call, const torch::jit::Stack& s) { return bake<Kernel, Tensor>(call, s[0].toTensor()); };
}
template <class Kernel>
Make two() {
  return [](const RecordedCall& call, const torch::jit::Stack& s) {
    return bake<Kernel, Tensor, Tensor>(call, s[0].toTensor(), s[1].toTensor());
  };
}
template <class Kernel>
Make scaled() { // self, other, alpha
  return [](const RecordedCall& call, const torch::jit::Stack& s) {
    return bake<Kernel, Tensor, Tensor, at::Scalar>(call, s[0].toTensor(), s[1].toTensor(), s[2].toScalar());
  };
}

const std::unordered_map<std::string, Make>& table() {
  static const std::unordered_map<std::string, Make> known = {
      {"aten::add.Tensor", scaled<native::structured_ufunc_add_CPU>()},
      {"aten::sub.Tensor", scaled<native::structured_sub_out>()},
      {"aten::mul.Tensor", two<native::structured_mul_out>()},
      {"aten::div.Tensor", two<native::structured_div_out>()},
      {"aten::mm", two<native::structured_mm_out_cpu>()},
      {"aten::sigmoid", one<native::structured_sigmoid_out>()},
      {"aten::tanh", one<native::structured_tanh_out>()},
      {"aten::relu",
       [](const RecordedCall& call, const torch::jit::Stack& s) { // as the op itself does it
         return bake<native::structured_clamp_min_out, Tensor, at::Scalar>(call, s[0].toTensor(), at::Scalar(0));
       }},
      {"aten::gelu",
       [](const RecordedCall& call, const torch::jit::Stack& s) {
         return bake<native::structured_gelu_out_cpu, Tensor, std::string>(call, s[0].toTensor(), s[1].toStringRef());
       }},
      {"aten::addmm",
       [](const RecordedCall& call, const torch::jit::Stack& s) {
         return bake<native::structured_addmm_out_cpu, Tensor, Tensor, Tensor, at::Scalar, at::Scalar>(
             call, s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), s[3].toScalar(), s[4].toScalar());
       }},
  };
  return known;
}

bool on_cpu(const torch::jit::Stack& stack) {
  for (const auto& value : stack)
    if (value.isTensor() && value.toTensor().defined() && !value.toTensor().device().is_cpu()) return false;
  return true;
}
} // namespace

extern "C" {

// A step, or null: without an exception where the op is none of the table's, with one where it cannot be baked.
Step* replay_baked(const RecordedCall* call) {
  const auto found = table().find(call->name);
  if (found == table().end() || call->results.size() != 1 || !on_cpu(call->arguments)) return nullptr;
  try {
    return found->second(*call, call->arguments);
  } catch (const std::exception& e) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

} // extern "C"
