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

at::Tensor other; // THPVariable_add's copy: alive from `release` to `take`
PyThreadState* thread = nullptr;

struct Release final : Step {
  Borrowed b;
  explicit Release(const Inputs& in) : b(in.b_impl) {}
  void run() override {
    other = b;
    thread = PyEval_SaveThread();
  }
};

struct Take final : Step {
  explicit Take(const Inputs&) {}
  void run() override {
    PyEval_RestoreThread(thread);
    other.reset();
  }
};

struct Copies final : Step {
  Borrowed a, b;
  at::Tensor hold_a, hold_b;
  // `held`: C++ holds both inputs as well, so that a copy is a plain count and takes no GIL.
  Copies(const Inputs& in, bool held) : a(in.a_impl), b(in.b_impl) {
    if (held) {
      hold_a = a;
      hold_b = b;
    }
  }
  void run() override { keep(asks_forward_gradient(a) || asks_forward_gradient(b)); }
};
} // namespace

EXPORT_STEP(gil_release, Release)
EXPORT_STEP(gil_take, Take)
extern "C" Step* copies(const Inputs* in) { return made<Copies>(in, false); }
extern "C" Step* copies_held(const Inputs* in) { return made<Copies>(in, true); }
