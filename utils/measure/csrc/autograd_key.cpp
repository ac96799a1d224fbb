// Stage autograd_key: the Autograd kernel that is registered for add, run for real over a backend kernel that does nothing.
//
// FPGA is a dispatch key that no ordinary tensor carries. While a block of this unit runs, add has a kernel there that hands
// back a result made beforehand, and the thread adds FPGA to the key set of every call. So `_ops::add_Tensor::call` takes its
// two hops and runs the registered Autograd kernel, whatever it is (a planted slow one too), and nothing below it. The hops are
// dispatcher_hop's to price, the copies of handles in the kernel handle_copies_gil's: both are taken off.
#include "tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>

namespace {
at::Tensor ready;

at::Tensor nothing_below(const at::Tensor&, const at::Tensor&, const at::Scalar&) { return std::move(ready); }

// The kernel at FPGA: there as long as this object is.
struct Stub {
  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::FPGA, __FILE__, __LINE__};
  Stub() { library.impl("add.Tensor", TORCH_FN(nothing_below)); }
};

struct Key final : Step {
  Borrowed a, b;
  at::Tensor hold_a, hold_b;
  at::Scalar alpha{1};
  // Two results take turns, as in `c = a + b` with c kept. What the Autograd kernel attached to a result is dropped when its
  // turn comes again: by then the next one exists, so the inputs' gradient accumulators stay alive throughout.
  at::Tensor results[2];
  unsigned turn = 0;
  const bool held;
  std::optional<Stub> stub;
  std::optional<c10::impl::IncludeDispatchKeyGuard> include;
  std::optional<at::NoGradGuard> no_grad;

  // `held`: C++ holds both inputs, so that copies of handles take no GIL, and grad mode is off: the checks alone.
  Key(const Inputs& in, bool held) : a(in.a_impl), b(in.b_impl), held(held) {
    for (auto& r : results) r = static_cast<const at::Tensor&>(a).detach().clone();
    if (held) {
      hold_a = a;
      hold_b = b;
    }
  }
  void begin() override {
    stub.emplace();
    include.emplace(c10::DispatchKey::FPGA);
    if (held) no_grad.emplace();
  }
  void end() override {
    no_grad.reset();
    include.reset();
    stub.reset();
  }
  void run() override {
    at::Tensor& result = results[turn++ & 1];
    ready = std::move(result);
    ready.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
    result = at::_ops::add_Tensor::call(a, b, alpha);
  }
};
} // namespace

extern "C" Step* autograd_real(const Inputs* in) { return made<Key>(in, false); }
extern "C" Step* autograd_checks(const Inputs* in) { return made<Key>(in, true); }
