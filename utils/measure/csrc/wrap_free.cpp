// Stage wrap_free: the Python object around a result, and its deallocation.
//
// A result must be fresh to be wrapped anew, so an output tensor is made each time (memory free of charge) and
// `output_base`, the same loop without the wrapping, is taken off.
#include "output.h"

// Declared here, not included: the header takes 20 s to compile. Weak, because releases differ in which of them they have.
__attribute__((weak)) PyObject* THPVariable_Wrap(at::TensorBase&& var);
__attribute__((weak)) PyObject* THPVariable_Wrap(at::TensorBase var);
__attribute__((weak)) PyObject* THPVariable_Wrap(const at::TensorBase& var);

namespace {
template <class Wrap>
double wrapping(const Inputs& in, int64_t n, Wrap wrap) {
  Borrowed a(in.a_impl);
  OutputMaker make(a);
  PyObject* kept = wrap(make());
  const double ns = timed(n, [&](int64_t) {
    PyObject* fresh = wrap(make());
    Py_DECREF(kept);
    kept = fresh;
  });
  Py_DECREF(kept);
  return ns;
}
} // namespace

ARM(wrap_free_total) {
  constexpr auto by_move = static_cast<PyObject* (*)(at::TensorBase&&)>(&THPVariable_Wrap);
  constexpr auto by_value = static_cast<PyObject* (*)(at::TensorBase)>(&THPVariable_Wrap);
  constexpr auto by_reference = static_cast<PyObject* (*)(const at::TensorBase&)>(&THPVariable_Wrap);
  if (by_move) return wrapping(in, n, [=](at::Tensor t) { return by_move(std::move(t)); });
  if (by_value) return wrapping(in, n, [=](at::Tensor t) { return by_value(std::move(t)); });
  if (by_reference) return wrapping(in, n, [=](const at::Tensor& t) { return by_reference(t); });
  throw std::runtime_error("this torch exports no THPVariable_Wrap that the probe knows");
}

ARM(output_base) {
  Borrowed a(in.a_impl);
  OutputMaker make(a);
  at::Tensor kept = make();
  return timed(n, [&](int64_t) { kept = make(); });
}
