// Stage arg_parser: the call matched against add's two method signatures, and the alpha and tensor taken out of it.
//
// The copy of `other`'s handle that follows in THPVariable_add is priced in handle_copies_gil, not here.
#include "clock.h"

#include <torch/csrc/utils/python_arg_parser.h>

ARM(arg_parser) {
  static torch::PythonArgParser parser({"add(Scalar alpha, Tensor other)|deprecated", "add(Tensor other, *, Scalar alpha=1)"}, false);
  py::tuple args = py::make_tuple(py::handle(in.b));
  return timed(n, [&](int64_t) {
    torch::ParsedArgs<2> parsed;
    auto r = parser.parse(in.a, args.ptr(), nullptr, parsed);
    if (r.idx != 1 || r.has_torch_function() || !THPVariable_CheckExact(r.args[0])) throw std::runtime_error("add() was parsed otherwise");
    keep(THPVariable_Unpack(r.args[0]));
    keep(r.scalar(1));
  });
}
