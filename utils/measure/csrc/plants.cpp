// Costs planted on purpose, to see that exactly one row of the receipt rises. No stage: built only when asked for.
#include "tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <chrono>
#include <memory>

namespace {
double autograd_ns = 0, allocator_ns = 0;

void spin(double ns) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(ns));
  while (std::chrono::steady_clock::now() < until) {
  }
}

using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Scalar&);

// Spins, then runs torch's own Autograd kernel, which is registered for AutogradOther as well.
at::Tensor slow_autograd(c10::DispatchKeySet ks, const at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha) {
  static auto add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor").typed<Signature>();
  spin(autograd_ns);
  const auto below = ks & c10::after_autograd_keyset;
  return add.redispatch(below | c10::DispatchKeySet(c10::DispatchKey::AutogradOther), a, b, alpha);
}

class SlowAllocator final : public c10::Allocator {
 public:
  explicit SlowAllocator(c10::Allocator* real) : real_(real) {}
  c10::DataPtr allocate(size_t bytes) override {
    spin(allocator_ns);
    return real_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return real_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { real_->copy_data(to, from, bytes); }

 private:
  c10::Allocator* real_;
};

std::unique_ptr<torch::Library> library;
c10::Allocator* real_allocator = nullptr;
} // namespace

// ns > 0: the Autograd kernel of add on CPU and CUDA spins for that long before its work; 0: as torch has it.
extern "C" int plant_autograd(double ns) {
  autograd_ns = ns;
  library.reset();
  if (ns > 0) {
    library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", std::nullopt, __FILE__, __LINE__);
    library->impl("add.Tensor", torch::dispatch(c10::DispatchKey::AutogradCPU, TORCH_FN(slow_autograd)));
    library->impl("add.Tensor", torch::dispatch(c10::DispatchKey::AutogradCUDA, TORCH_FN(slow_autograd)));
  }
  return 0;
}

// ns > 0: the CPU allocator spins for that long in each allocation; 0: as torch has it.
extern "C" int plant_allocator(double ns) {
  allocator_ns = ns;
  if (ns > 0 && !real_allocator) {
    real_allocator = c10::GetCPUAllocator();
    c10::SetCPUAllocator(new SlowAllocator(real_allocator)); // never freed: tensors made meanwhile may still name it
  } else if (ns == 0 && real_allocator) {
    c10::SetCPUAllocator(real_allocator);
    real_allocator = nullptr;
  }
  return 0;
}
