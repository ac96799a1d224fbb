// Stage autograd_node: AddBackward0 made, its edges collected, the history set on a result, and all of it freed.
//
// Two results take turns: while a node is made the previous one is alive, so the inputs' gradient accumulators are found and
// not made anew, as in `c = a + b` with c kept.
#include "tensors.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>

namespace {
using torch::autograd::Node;
using torch::autograd::generated::AddBackward0;

// Older releases hold a node by shared_ptr with a deleter of their own, newer ones by intrusive_ptr.
template <class N>
auto make_node() {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, N>) {
    return c10::make_intrusive<N>();
  } else {
    return std::shared_ptr<N>(new N(), [](N* node) { deleteNode(node); });
  }
}

struct MakeNode final : Step {
  Borrowed a, b;
  at::Scalar alpha{1};
  at::Tensor results[2];
  unsigned turn = 0;
  explicit MakeNode(const Inputs& in) : a(in.a_impl), b(in.b_impl) {
    for (auto& r : results) r = static_cast<const at::Tensor&>(a).detach().clone();
  }
  void run() override {
    const at::Tensor &self = a, &other = b;
    at::Tensor& result = results[turn++ & 1];
    result.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
    auto node = make_node<AddBackward0>();
    node->set_next_edges(torch::autograd::collect_next_edges(self, other));
    node->other_scalar_type = other.scalar_type();
    node->alpha = alpha;
    node->self_scalar_type = self.scalar_type();
    torch::autograd::set_history(result, node);
  }
};
} // namespace

EXPORT_STEP(node, MakeNode)
