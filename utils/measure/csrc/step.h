// What every unit of the probe shares: the inputs, a step, and how a unit hands its steps out.
//
// A step is one piece of `c = a + b`, ready to be run over and over; `driver.cpp` runs a list of them and reads the clock between them.
// A unit exports each of its steps as `Step* NAME(const Inputs*)`; nullptr with a Python exception set when it cannot be made.
#pragma once
#include <Python.h>

#include <cstdint>
#include <exception>
#include <stdexcept>

// `a` and `b` are the two addends as Python holds them; `a_impl` and `b_impl` are their TensorImpl addresses.
// Nothing here owns a reference: an extra one would change what a handle copy costs.
struct Inputs {
  PyObject* a;
  PyObject* b;
  void* a_impl;
  void* b_impl;
};

struct Step {
  virtual ~Step() = default;
  virtual void run() = 0;
  // Around a block of passes: what a step exchanges in the process or the thread, and puts back.
  virtual void begin() {}
  virtual void end() {}
};

// Keeps the compiler from dropping a value that nothing else reads.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

template <class S, class... More>
Step* made(const Inputs* in, More... more) {
  try {
    return new S(*in, more...);
  } catch (const std::exception& e) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

#define EXPORT_STEP(name, ...) \
  extern "C" Step* name(const Inputs* in) { return made<__VA_ARGS__>(in); }
