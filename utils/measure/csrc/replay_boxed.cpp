// A recorded call through the dispatcher, its arguments in boxes: what any list of ops can be replayed with.
#include "recorded_call.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

namespace {
struct Boxed final : Step {
  const RecordedCall call;
  explicit Boxed(RecordedCall given) : call(std::move(given)) {}
  void run() override {
    torch::jit::Stack stack = call.arguments;
    call.op.callBoxed(stack);
    for (size_t i = 0; i < call.results.size(); ++i) call.results[i].copy_(stack[i].toTensor());
  }
};
} // namespace

extern "C" {

// From the Python objects (name "aten::add", overload "Tensor", a tuple, a dict, a tuple of tensors); null with an exception set.
RecordedCall* recorded_call(PyObject* name, PyObject* overload, PyObject* args, PyObject* kwargs, PyObject* results) {
  try {
    namespace py = pybind11;
    const auto symbol = py::cast<std::string>(name), which = py::cast<std::string>(overload);
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(symbol.c_str(), which.c_str());
    const torch::jit::ToIValueAllowNumbersAsTensors numbers(true); // x * 2: as the op itself takes it
    auto stack = torch::jit::createStackForSchema(
        op.schema(),
        torch::jit::tuple_slice(py::reinterpret_borrow<py::tuple>(args)),
        py::kwargs(py::reinterpret_borrow<py::dict>(kwargs)),
        std::nullopt);
    std::vector<at::Tensor> into;
    for (const auto& one : py::reinterpret_borrow<py::tuple>(results)) into.push_back(THPVariable_Unpack(one.ptr()));
    return new RecordedCall{which.empty() ? symbol : symbol + "." + which, op, std::move(stack), std::move(into)};
  } catch (const std::exception& e) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

int recorded_free(RecordedCall* call) {
  delete call;
  return 0;
}

Step* replay_boxed(const RecordedCall* call) { return new Boxed(*call); }

} // extern "C"
