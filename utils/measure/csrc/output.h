// One output tensor as add makes it, around memory that costs nothing.
#pragma once
#include "tensors.h"

#include <ATen/EmptyTensor.h>
#ifdef ONE_ADD_CUDA
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/core/DeviceGuard.h>
#else
#include <c10/core/CPUAllocator.h>
#endif

#ifdef ONE_ADD_CUDA
// at::detail::empty_cuda with the allocator as an argument: the same checks and guard around the same empty_generic.
class OutputMaker {
 public:
  explicit OutputMaker(const at::Tensor& like)
      : options_(like.options()),
        blocks_(c10::cuda::CUDACachingAllocator::get()->allocate(256)),
        fake_(c10::cuda::CUDACachingAllocator::get(), blocks_.get(), like.device()) {}
  void begin() {}
  void end() {}
  at::Tensor operator()() {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    const auto device = c10::device_or_default(options_.device_opt());
    const c10::DeviceGuard guard(device);
    constexpr c10::DispatchKeySet ks(c10::DispatchKey::CUDA);
    const int64_t size = 1;
    return at::Tensor(at::detail::empty_generic(
        at::IntArrayRef(&size, 1), &fake_, ks, c10::dtype_or_default(c10::optTypeMetaToScalarType(options_.dtype_opt())), options_.memory_format_opt()));
  }

 private:
  at::TensorOptions options_;
  c10::DataPtr blocks_;
  FreeOfCharge fake_;
};
#else
// at::detail::empty_cpu itself; between begin() and end() the process's CPU allocator is exchanged.
class OutputMaker {
 public:
  explicit OutputMaker(const at::Tensor& like)
      : options_(like.options()), real_(c10::GetCPUAllocator()), fake_(real_, blocks_, c10::Device(c10::DeviceType::CPU)) {}
  void begin() { c10::SetCPUAllocator(&fake_); }
  void end() { c10::SetCPUAllocator(real_); }
  at::Tensor operator()() {
    const int64_t size = 1;
    return at::Tensor(at::detail::empty_cpu(at::IntArrayRef(&size, 1), options_));
  }

 private:
  alignas(64) char blocks_[256];
  at::TensorOptions options_;
  c10::Allocator* real_;
  FreeOfCharge fake_;
};
#endif
