// Stage wrap_free: the Python object around a result, and its deallocation.
//
// A result must be fresh to be wrapped anew, so the step makes an output tensor as well (memory free of charge); what
// output_tensor prices is taken off.
#include "output.h"

// Declared here, not included: the header takes 20 s to compile. Weak, because releases differ in which of them they have.
__attribute__((weak)) PyObject* THPVariable_Wrap(at::TensorBase&& var);
__attribute__((weak)) PyObject* THPVariable_Wrap(at::TensorBase var);
__attribute__((weak)) PyObject* THPVariable_Wrap(const at::TensorBase& var);

namespace {
constexpr auto by_move = static_cast<PyObject* (*)(at::TensorBase&&)>(&THPVariable_Wrap);
constexpr auto by_value = static_cast<PyObject* (*)(at::TensorBase)>(&THPVariable_Wrap);
constexpr auto by_reference = static_cast<PyObject* (*)(const at::TensorBase&)>(&THPVariable_Wrap);

struct Wrapped final : Step {
  Borrowed a;
  OutputMaker make;
  PyObject* kept;
  const bool exchange;
  // `exchange`: memory free of charge; else from the process's own allocator.
  Wrapped(const Inputs& in, bool exchange) : a(in.a_impl), make(a), exchange(exchange) {
    if (!by_move && !by_value && !by_reference) throw std::runtime_error("this torch exports no THPVariable_Wrap that the probe knows");
    kept = wrap();
  }
  ~Wrapped() override { Py_DECREF(kept); }
  PyObject* wrap() {
    if (by_move) return by_move(make());
    if (by_value) return by_value(make());
    return by_reference(make());
  }
  void begin() override {
    if (exchange) make.begin();
  }
  void end() override {
    if (exchange) make.end();
  }
  void run() override {
    PyObject* fresh = wrap();
    Py_DECREF(kept);
    kept = fresh;
  }
};
} // namespace

extern "C" Step* wrapped_output(const Inputs* in) { return made<Wrapped>(in, true); }
// The same with real memory: stands in a replica whose other steps need the process's own allocator.
extern "C" Step* wrapped_real_output(const Inputs* in) { return made<Wrapped>(in, false); }
