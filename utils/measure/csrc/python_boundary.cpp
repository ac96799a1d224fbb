// Stage python_boundary: what `a + b` pays before and after anything of torch's own work.
//
// A heap type with a METH_VARARGS | METH_KEYWORDS `__add__` that returns an object it keeps. Subclassed in Python (as
// torch.Tensor subclasses torch._C.TensorBase), its `+` goes the way of a tensor's: slot_nb_add, method descriptor, argument
// tuple, wrapper, entry glue. The loop around it is Python's, since the interpreter's share belongs to this stage. Inside, it
// runs the other stages (a plan of driver.cpp), so that the boundary too is priced where it stands.
#include "step.h"

namespace torch {
// Declared here, not included: its header takes 14 s to compile. Only its constructor and destructor are called; the real
// object is smaller than the room given to it.
struct PyWarningHandler {
  alignas(16) char room[512];
  PyWarningHandler() noexcept(true);
  ~PyWarningHandler() noexcept(false);
};
} // namespace torch

namespace {
PyObject* kept = nullptr;
void (*inner)(void*) = nullptr;
void* inner_plan = nullptr;

PyObject* entry(PyObject* self, PyObject* args, PyObject*) {
  try {
    torch::PyWarningHandler enforce_warning_buffer;
    if (PyTuple_GET_SIZE(args) != 1 || Py_TYPE(PyTuple_GET_ITEM(args, 0)) != Py_TYPE(self)) {
      PyErr_SetString(PyExc_TypeError, "add() takes one more of the same type");
      return nullptr;
    }
    if (inner) inner(inner_plan);
    Py_INCREF(kept);
    return kept;
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

// As torch's TypeError_to_NotImplemented: binary operators answer NotImplemented to a type they do not know.
PyObject* add(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* result = entry(self, args, kwargs);
  if (!result && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    Py_INCREF(Py_NotImplemented);
    result = Py_NotImplemented;
  }
  return result;
}

PyMethodDef methods[] = {
    {"__add__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&add)), METH_VARARGS | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
PyType_Spec spec = {"one_add_priced.AddendBase", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
} // namespace

extern "C" PyObject* boundary_type(PyObject* result) {
  Py_INCREF(result);
  Py_XSETREF(kept, result);
  return PyType_FromSpec(&spec);
}

// What `+` runs inside; nullptr: nothing.
extern "C" int boundary_inside(void (*pass)(void*), void* plan) {
  inner = pass;
  inner_plan = plan;
  return 0;
}

// The C function alone, called from C: what the entry glue is without slot, descriptor and tuple. For the ladder.
namespace {
struct EntryGlue final : Step {
  PyObject* self;
  PyObject* args;
  explicit EntryGlue(const Inputs& in) : self(in.a), args(PyTuple_Pack(1, in.b)) {}
  ~EntryGlue() override { Py_DECREF(args); }
  void run() override {
    void (*const outer)(void*) = inner; // this runs inside the boundary's own `+`
    inner = nullptr;
    Py_DECREF(add(self, args, nullptr));
    inner = outer;
  }
};
} // namespace

EXPORT_STEP(entry_glue, EntryGlue)
