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
} // namespace

ARM(autograd_node) {
  Borrowed a(in.a_impl), b(in.b_impl);
  at::Tensor results[2] = {at::Tensor(a).detach().clone(), at::Tensor(a).detach().clone()};
  const at::Scalar alpha(1);
  WithoutGil released;
  return timed(n, [&](int64_t i) {
    at::Tensor& result = results[i & 1];
    result.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
    auto node = make_node<AddBackward0>();
    node->set_next_edges(torch::autograd::collect_next_edges(static_cast<const at::Tensor&>(a), static_cast<const at::Tensor&>(b)));
    node->other_scalar_type = b->scalar_type();
    node->alpha = alpha;
    node->self_scalar_type = a->scalar_type();
    torch::autograd::set_history(result, node);
  });
}
