// The structured add kernel of the device with its output given: meta() is the iterator's set-up, impl() the addition.
#pragma once
#include "tensors.h"

#include <ATen/ops/add_native.h>
#ifdef ONE_ADD_CUDA
#include <c10/cuda/CUDAGuard.h>
using Structured = at::native::structured_ufunc_add_CUDA;
#else
using Structured = at::native::structured_ufunc_add_CPU;
#endif

// Overrides set_output_raw_strided whatever its signature is: older releases pass names as a fifth argument.
template <class Signature>
struct Bridge;

template <class... Names>
struct Bridge<void (at::impl::MetaBase::*)(int64_t, at::IntArrayRef, at::IntArrayRef, at::TensorOptions, Names...)> : public Structured {
  virtual void take_output(const at::TensorOptions& options) = 0;
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options, Names... names) final {
    take_output(options);
    Structured::set_output_raw_strided(i, sizes, strides, options, names...);
  }
};

// As the generated functional wrapper, except that the output is taken from `spare` and not made.
struct AddWithOutput final : public Bridge<decltype(&at::impl::MetaBase::set_output_raw_strided)> {
  explicit AddWithOutput(at::Tensor& spare) : spare_(spare) {}
  void take_output([[maybe_unused]] const at::TensorOptions& options) override {
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
