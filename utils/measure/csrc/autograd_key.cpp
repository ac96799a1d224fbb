// Stage autograd_key: the Autograd kernel that is registered for add, run for real over a backend kernel that does nothing.
//
// The call is redispatched with the key set {Autograd of the device, FPGA}. FPGA is a key no ordinary tensor carries; while an
// arm runs, add has a kernel there that hands back a result made beforehand. So the registered Autograd kernel runs, whatever
// it is (a planted slow one too), and nothing below it. `key_base` is the same with an Autograd kernel of ours that only
// redispatches: what both share is hops. `key_copies` are the copies of handles inside it, which handle_copies_gil prices.
// Both inputs are held by C++ here, so that the copies are plain counts and do not take the GIL.
#include "tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>
#include <torch/version.h>

#include <memory>
#include <optional>

namespace {
at::Tensor ready;

using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Scalar&);
using Handle = c10::TypedOperatorHandle<Signature>;

at::Tensor nothing_below(const at::Tensor&, const at::Tensor&, const at::Scalar&) { return std::move(ready); }

Handle find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

const Handle& base() {
  static auto handle = find("one_add_priced::key_base", "");
  return handle;
}

at::Tensor only_redispatches(c10::DispatchKeySet ks, const at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha) {
  return base().redispatch(ks & c10::after_autograd_keyset, a, b, alpha);
}

// The kernel at FPGA lives as long as this object does.
struct Stub {
  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::FPGA, __FILE__, __LINE__};
  Stub() { library.impl("add.Tensor", TORCH_FN(nothing_below)); }
};

c10::DispatchKeySet keys(const at::Tensor& a) {
  const auto backend = a.is_cuda() ? c10::DispatchKey::AutogradCUDA : c10::DispatchKey::AutogradCPU;
  return c10::DispatchKeySet(backend) | c10::DispatchKeySet(c10::DispatchKey::FPGA);
}

double run(const Inputs& in, int64_t n, const Handle& op) {
  Borrowed a(in.a_impl), b(in.b_impl);
  at::Tensor hold_a(a), hold_b(b);
  const at::Scalar alpha(1);
  const auto ks = keys(a);
  // Two results take turns, as in `c = a + b` with c kept. What an Autograd kernel attached to a result is dropped when its
  // turn comes again: by then the next one exists, so the inputs' gradient accumulators stay alive throughout.
  at::Tensor results[2] = {at::Tensor(a).detach().clone(), at::Tensor(a).detach().clone()};
  Stub stub;
  WithoutGil released;
  return timed(n, [&](int64_t i) {
    ready = std::move(results[i & 1]);
    ready.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
    results[i & 1] = op.redispatch(ks, a, b, alpha);
  });
}
} // namespace

TORCH_LIBRARY_FRAGMENT(one_add_priced, m) { m.def("key_base(Tensor self, Tensor other, Scalar alpha) -> Tensor"); }
TORCH_LIBRARY_IMPL(one_add_priced, FPGA, m) { m.impl("key_base", TORCH_FN(nothing_below)); }
TORCH_LIBRARY_IMPL(one_add_priced, Autograd, m) { m.impl("key_base", TORCH_FN(only_redispatches)); }

// Grad mode off: what the kernel does for an add that records nothing.
ARM(key_real) {
  at::NoGradGuard no_grad;
  return run(in, n, find("aten::add", "Tensor"));
}

ARM(key_base) {
  at::NoGradGuard no_grad;
  return run(in, n, base());
}

// Grad mode on: with inputs that need grad this is key_real plus the node, so the difference is the node.
ARM(key_real_grad) { return run(in, n, find("aten::add", "Tensor")); }

ARM(key_copies) {
  Borrowed a(in.a_impl), b(in.b_impl);
  at::Tensor hold_a(a), hold_b(b);
  WithoutGil released;
  return timed(n, [&](int64_t) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 14
    std::optional<at::Tensor> first(a);
    keep(first->_fw_grad(0).defined());
    std::optional<at::Tensor> second(b);
    keep(second->_fw_grad(0).defined());
#else
    keep(a->_fw_grad(0).defined());
    keep(b->_fw_grad(0).defined());
#endif
  });
}
