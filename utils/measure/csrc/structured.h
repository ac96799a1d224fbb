// The structured add kernel of the device with its output given: meta() is the iterator's set-up, impl() the addition.
#pragma once
#include "bridge.h"
#include "tensors.h"

#include <ATen/ops/add_native.h>
#ifdef ONE_ADD_CUDA
#include <c10/cuda/CUDAGuard.h>
using Structured = at::native::structured_ufunc_add_CUDA;
#else
using Structured = at::native::structured_ufunc_add_CPU;
#endif

// As the generated functional wrapper, except that the output is taken from `spare` and not made.
struct AddWithOutput final : public Bridge<Structured> {
  explicit AddWithOutput(at::Tensor& spare) : spare_(spare) {}
  void take_output(at::IntArrayRef, at::IntArrayRef, [[maybe_unused]] const at::TensorOptions& options) override {
#ifdef ONE_ADD_CUDA
    if (!guard_.current_device().has_value()) guard_.reset_device(options.device());
#endif
    output = std::move(spare_);
  }
  const at::Tensor& maybe_get_output(int64_t) override { return output; }
  at::Tensor output;

 private:
  at::Tensor& spare_;
#ifdef ONE_ADD_CUDA
  c10::cuda::OptionalCUDAGuard guard_;
#endif
};
