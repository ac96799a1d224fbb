// A structured kernel that says what output it would make, whatever the signature is: older releases pass names as a fifth argument.
#pragma once
#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include <type_traits>

template <class Base, class Signature = decltype(&at::impl::MetaBase::set_output_raw_strided)>
struct Bridge;

template <class Base, class... Names>
struct Bridge<Base, void (at::impl::MetaBase::*)(int64_t, at::IntArrayRef, at::IntArrayRef, at::TensorOptions, Names...)> : public Base {
  // Called with what meta() found, before the iterator (where the kernel is one) asks for its output.
  virtual void take_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) = 0;
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options, Names... names) final {
    take_output(sizes, strides, options);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Base>) Base::set_output_raw_strided(i, sizes, strides, options, names...);
  }
};
