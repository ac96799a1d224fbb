// Stage arg_parser: the call matched against add's two method signatures, and the alpha and tensor taken out of it.
//
// The copy of `other`'s handle that follows in THPVariable_add is priced in handle_copies_gil, not here.
#include "step.h"

#include <torch/csrc/utils/python_arg_parser.h>

namespace {
struct Parse final : Step {
  PyObject* self;
  py::tuple args;
  torch::PythonArgParser parser{{"add(Scalar alpha, Tensor other)|deprecated", "add(Tensor other, *, Scalar alpha=1)"}, false};
  explicit Parse(const Inputs& in) : self(in.a), args(py::make_tuple(py::handle(in.b))) {
    if (!parses()) throw std::runtime_error("the parser matches add's arguments otherwise than the probe expects");
  }
  bool parses() {
    torch::ParsedArgs<2> parsed;
    auto r = parser.parse(self, args.ptr(), nullptr, parsed);
    if (r.has_torch_function() || r.idx != 1 || !THPVariable_CheckExact(r.args[0])) return false;
    keep(THPVariable_Unpack(r.args[0]));
    keep(r.scalar(1));
    return true;
  }
  void run() override { keep(parses()); }
};
} // namespace

EXPORT_STEP(parse, Parse)
