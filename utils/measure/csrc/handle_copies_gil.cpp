// Stage handle_copies_gil: the GIL given back and taken again, and the copies of the two tensor handles.
//
// Where the copies are: THPVariable_add copies `other` out of the parsed arguments (GIL held); the Autograd kernel asks both
// inputs for a forward gradient through std::optional<Tensor>, which copies each (GIL free, so that a handle which only
// Python held takes the GIL to keep the Python object alive). From torch 2.14 that question takes a reference.
#include "tensors.h"

#include <torch/version.h>

#include <optional>

namespace {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14
inline bool asks_forward_gradient(const at::Tensor& t) { return t.defined() && t._fw_grad(0).defined(); }
#else
inline bool asks_forward_gradient(const std::optional<at::Tensor>& t) {
  return t.has_value() && t->defined() && t->_fw_grad(0).defined();
}
#endif
} // namespace

ARM(handle_copies_gil) {
  Borrowed a(in.a_impl), b(in.b_impl);
  return timed(n, [&](int64_t) {
    at::Tensor other(b);
    WithoutGil released;
    keep(asks_forward_gradient(a) || asks_forward_gradient(other));
  });
}

// The part of it that THPVariable_add does: for the ladder's front-end step.
ARM(front_end_part) {
  Borrowed b(in.b_impl);
  return timed(n, [&](int64_t) {
    at::Tensor other(b);
    WithoutGil released;
    keep(other);
  });
}

// The part of it that the Autograd kernel does, `other` being held: for the ladder's dispatch step.
ARM(autograd_part) {
  Borrowed a(in.a_impl), b(in.b_impl);
  at::Tensor other(b);
  WithoutGil released;
  return timed(n, [&](int64_t) { keep(asks_forward_gradient(a) || asks_forward_gradient(other)); });
}
