// Stage dispatcher_hop: an operator of our own with add's signature whose kernels do nothing, called from C++.
//
// One call crosses the dispatcher twice, as add does: once to the Autograd kernel (key set of the arguments, RecordFunction
// check, table, indirect call), once from there to the backend kernel.
#include "tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace {
at::Tensor ready; // the result, made once; it travels by move, so that no handle is counted

using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Scalar&);

const c10::TypedOperatorHandle<Signature>& hop() {
  static auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("one_add_priced::hop", "").typed<Signature>();
  return handle;
}

at::Tensor backend_kernel(const at::Tensor&, const at::Tensor&, const at::Scalar&) { return std::move(ready); }

at::Tensor autograd_kernel(c10::DispatchKeySet ks, const at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha) {
  return hop().redispatch(ks & c10::after_autograd_keyset, a, b, alpha);
}
} // namespace

TORCH_LIBRARY_FRAGMENT(one_add_priced, m) { m.def("hop(Tensor self, Tensor other, Scalar alpha) -> Tensor"); }
TORCH_LIBRARY_IMPL(one_add_priced, CompositeExplicitAutograd, m) { m.impl("hop", TORCH_FN(backend_kernel)); }
TORCH_LIBRARY_IMPL(one_add_priced, Autograd, m) { m.impl("hop", TORCH_FN(autograd_kernel)); }

namespace {
struct Hop final : Step {
  Borrowed a, b;
  at::Scalar alpha{1};
  explicit Hop(const Inputs& in) : a(in.a_impl), b(in.b_impl) {
    ready = static_cast<const at::Tensor&>(a).detach();
    hop();
  }
  ~Hop() override { ready.reset(); }
  void run() override { ready = hop().call(a, b, alpha); }
};
} // namespace

EXPORT_STEP(hops, Hop)
