// What every unit of the probe shares: the clock, the arguments of an arm, and how an arm reports an error.
//
// An arm is `double NAME(const Inputs*, int64_t n)`: it runs its piece n times in a C++ loop and returns the nanoseconds that
// the loop took (all n together), or -1 with a Python exception set. It is called with the GIL held, through ctypes.PyDLL.
#pragma once
#include <Python.h>

#include <chrono>
#include <cstdint>
#include <exception>

// `a` and `b` are the two addends as Python holds them; `a_impl` and `b_impl` are their TensorImpl addresses.
// Nothing here owns a reference: an extra one would change what a handle copy costs.
struct Inputs {
  PyObject* a;
  PyObject* b;
  void* a_impl;
  void* b_impl;
};

template <class Piece>
inline double timed(int64_t n, Piece&& piece) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < n; ++i) piece(i);
  const auto stop = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::nano>(stop - start).count();
}

// Keeps the compiler from dropping a value that nothing else reads.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

// The GIL given back for the whole of a loop, as the dispatcher and everything below it run in a program.
struct WithoutGil {
  PyThreadState* state = PyEval_SaveThread();
  ~WithoutGil() { PyEval_RestoreThread(state); }
};

#define ARM(name)                                                    \
  static double name##_body(const Inputs& in, int64_t n);            \
  extern "C" double name(const Inputs* in, int64_t n) {              \
    try {                                                            \
      return name##_body(*in, n);                                    \
    } catch (const std::exception& e) {                              \
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what()); \
      return -1;                                                     \
    }                                                                \
  }                                                                  \
  static double name##_body([[maybe_unused]] const Inputs& in, int64_t n)
