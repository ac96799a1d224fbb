// The ladder: the same addition entered from ever further down, the result kept each time.
#include "tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DispatchKeySet.h>
#include <ATen/ops/add_ops.h>
#ifdef ONE_ADD_CUDA
#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/add_cuda_dispatch.h>
namespace backend = at::cuda;
#else
#include <ATen/ops/add_cpu_dispatch.h>
namespace backend = at::cpu;
#endif

namespace {
template <class Call>
double python_calls(int64_t n, Call call) {
  PyObject* kept = nullptr;
  const double ns = timed(n, [&](int64_t) {
    PyObject* fresh = call();
    if (!fresh) throw std::runtime_error("the addition failed");
    Py_XDECREF(kept);
    kept = fresh;
  });
  Py_XDECREF(kept);
  return ns;
}

template <class Call>
double tensor_calls(const Inputs& in, int64_t n, Call call) {
  Borrowed a(in.a_impl), b(in.b_impl);
  const at::Scalar alpha(1);
  at::Tensor other(b); // THPVariable_add holds a copy of `other`, and only a reference to `self`
  WithoutGil released;
  at::Tensor kept;
  return timed(n, [&](int64_t) { kept = call(a, other, alpha); });
}
} // namespace

ARM(rung_number_add) {
  return python_calls(n, [&] { return PyNumber_Add(in.a, in.b); });
}

// The C function behind torch.Tensor.__add__, without slot, descriptor and argument tuple.
ARM(rung_method) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(in.a));
  PyObject* descriptor = PyObject_GetAttrString(type, "__add__");
  if (!descriptor || !PyObject_TypeCheck(descriptor, &PyMethodDescr_Type)) throw std::runtime_error("Tensor.__add__ is no method of C");
  auto function = reinterpret_cast<PyCFunctionWithKeywords>(
      reinterpret_cast<void (*)()>(reinterpret_cast<PyMethodDescrObject*>(descriptor)->d_method->ml_meth));
  PyObject* args = PyTuple_Pack(1, in.b);
  const double ns = python_calls(n, [&] { return function(in.a, args, nullptr); });
  Py_DECREF(args);
  Py_DECREF(descriptor);
  return ns;
}

ARM(rung_call) {
  return tensor_calls(in, n, [](const at::Tensor& a, const at::Tensor& b, const at::Scalar& s) { return at::_ops::add_Tensor::call(a, b, s); });
}

ARM(rung_below_autograd) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return tensor_calls(in, n, [](const at::Tensor& a, const at::Tensor& b, const at::Scalar& s) { return at::_ops::add_Tensor::call(a, b, s); });
}

ARM(rung_kernel_entry) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return tensor_calls(in, n, [](const at::Tensor& a, const at::Tensor& b, const at::Scalar& s) { return backend::add(a, b, s); });
}

// The output made for real, memory and tensor together.
ARM(rung_empty) {
  Borrowed a(in.a_impl);
  const at::TensorOptions options = a->options();
  const int64_t size = 1;
  WithoutGil released;
  at::Tensor kept;
#ifdef ONE_ADD_CUDA
  return timed(n, [&](int64_t) { kept = at::Tensor(at::detail::empty_cuda(at::IntArrayRef(&size, 1), options)); });
#else
  return timed(n, [&](int64_t) { kept = at::Tensor(at::detail::empty_cpu(at::IntArrayRef(&size, 1), options)); });
#endif
}
