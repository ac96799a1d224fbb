// Stage tensor_iterator: the iterator built for a + b (promotion, broadcasting, strides), its output given, and torn down.
#include "structured.h"

namespace {
struct Build final : Step {
  Borrowed a, b;
  at::Scalar alpha{1};
  at::Tensor spare;
  explicit Build(const Inputs& in) : a(in.a_impl), b(in.b_impl), spare(static_cast<const at::Tensor&>(a).detach().clone()) {}
  void run() override {
    AddWithOutput op(spare);
    op.meta(a, b, alpha);
    spare = std::move(op.output);
  }
};
} // namespace

EXPORT_STEP(iterator, Build)
