// Stage dispatcher_hop: an operator of our own with add's signature whose kernels do nothing, called from C++.
//
// One call crosses the dispatcher twice, as add does: once to the Autograd kernel (key set of the arguments, RecordFunction
// check, table, indirect call), once from there to the backend kernel.
#include "tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <optional>
#include <string>

namespace {
using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Scalar&);
using Handle = c10::TypedOperatorHandle<Signature>;

at::Tensor ready; // the result, made once; it travels by move, so that no handle is counted
const Handle* op = nullptr;

at::Tensor backend_kernel(const at::Tensor&, const at::Tensor&, const at::Scalar&) { return std::move(ready); }

at::Tensor autograd_kernel(c10::DispatchKeySet ks, const at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha) {
  return op->redispatch(ks & c10::after_autograd_keyset, a, b, alpha);
}

// The operator, registered on first use. Its name holds an address, since a process may load this unit twice (CPU and CUDA).
struct Registered {
  std::string name = "hop_" + std::to_string(reinterpret_cast<uintptr_t>(&op));
  torch::Library library{torch::Library::FRAGMENT, "one_add_priced", std::nullopt, __FILE__, __LINE__};
  std::optional<Handle> handle;
  Registered() {
    library.def((name + "(Tensor self, Tensor other, Scalar alpha) -> Tensor").c_str());
    library.impl(name.c_str(), torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(backend_kernel)));
    library.impl(name.c_str(), torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(autograd_kernel)));
    handle = c10::Dispatcher::singleton().findSchemaOrThrow(("one_add_priced::" + name).c_str(), "").typed<Signature>();
    op = &*handle;
  }
};

struct Hop final : Step {
  Borrowed a, b;
  at::Scalar alpha{1};
  explicit Hop(const Inputs& in) : a(in.a_impl), b(in.b_impl) {
    static Registered registered;
    ready = static_cast<const at::Tensor&>(a).detach();
  }
  ~Hop() override { ready.reset(); }
  void run() override { ready = op->call(a, b, alpha); }
};
} // namespace

EXPORT_STEP(hops, Hop)
