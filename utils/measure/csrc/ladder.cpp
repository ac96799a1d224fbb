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
// From Python's side: GIL held, the result a Python object.
struct PythonRung : Step {
  PyObject* a;
  PyObject* b;
  PyObject* kept = nullptr;
  explicit PythonRung(const Inputs& in) : a(in.a), b(in.b) {}
  ~PythonRung() override { Py_XDECREF(kept); }
  virtual PyObject* call() = 0;
  void run() override {
    PyObject* fresh = call();
    if (!fresh) std::terminate();
    Py_XDECREF(kept);
    kept = fresh;
  }
};

struct NumberAdd final : PythonRung {
  using PythonRung::PythonRung;
  PyObject* call() override { return PyNumber_Add(a, b); }
};

// The C function behind torch.Tensor.__add__, without slot, descriptor and argument tuple.
struct Method final : PythonRung {
  PyObject* args;
  PyCFunctionWithKeywords function;
  explicit Method(const Inputs& in) : PythonRung(in) {
    PyObject* descriptor = PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(a)), "__add__");
    if (!descriptor || !PyObject_TypeCheck(descriptor, &PyMethodDescr_Type)) throw std::runtime_error("Tensor.__add__ is no method of C");
    function = reinterpret_cast<PyCFunctionWithKeywords>(
        reinterpret_cast<void (*)()>(reinterpret_cast<PyMethodDescrObject*>(descriptor)->d_method->ml_meth));
    Py_DECREF(descriptor);
    args = PyTuple_Pack(1, b);
  }
  ~Method() override { Py_DECREF(args); }
  PyObject* call() override { return function(a, args, nullptr); }
};

// Below Python: GIL free (the plan has given it back), the result a C++ handle.
struct TensorRung : Step {
  Borrowed a, b;
  at::Scalar alpha{1};
  at::Tensor kept;
  explicit TensorRung(const Inputs& in) : a(in.a_impl), b(in.b_impl) {}
};

struct Call final : TensorRung {
  using TensorRung::TensorRung;
  void run() override { kept = at::_ops::add_Tensor::call(a, b, alpha); }
};

struct BelowAutograd final : TensorRung {
  at::AutoDispatchBelowADInplaceOrView guard;
  using TensorRung::TensorRung;
  void run() override { kept = at::_ops::add_Tensor::call(a, b, alpha); }
};

struct KernelEntry final : TensorRung {
  using TensorRung::TensorRung;
  void run() override { kept = backend::add(a, b, alpha); }
};

// The output made for real, memory and tensor together.
struct Empty final : TensorRung {
  at::TensorOptions options;
  explicit Empty(const Inputs& in) : TensorRung(in), options(a->options()) {}
  void run() override {
    const int64_t size = 1;
#ifdef ONE_ADD_CUDA
    kept = at::Tensor(at::detail::empty_cuda(at::IntArrayRef(&size, 1), options));
#else
    kept = at::Tensor(at::detail::empty_cpu(at::IntArrayRef(&size, 1), options));
#endif
  }
};
} // namespace

EXPORT_STEP(number_add, NumberAdd)
EXPORT_STEP(method, Method)
EXPORT_STEP(call, Call)
EXPORT_STEP(below_autograd, BelowAutograd)
EXPORT_STEP(kernel_entry, KernelEntry)
EXPORT_STEP(empty, Empty)
