// Borrowed tensors (no reference taken), and an allocator that costs nothing.
#pragma once
#include "step.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <thread>

// A handle on a tensor that only Python holds. It takes no reference, so that copies made from it cost in the loop what
// they cost in a program, where the first C++ copy (1 to 2) is the dear one.
class Borrowed {
 public:
  explicit Borrowed(void* impl)
      : handle_(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(static_cast<c10::TensorImpl*>(impl))) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() { handle_.unsafeReleaseTensorImpl(); }
  operator const at::Tensor&() const { return handle_; }
  const at::Tensor* operator->() const { return &handle_; }

 private:
  at::Tensor handle_;
};

// An allocator that hands out blocks it already has, so that a tensor can be made without the price of its memory. Two
// tensors are alive at a time (the result kept, the next one being made); it has four blocks. Other threads get the real one.
class FreeOfCharge final : public c10::Allocator {
 public:
  FreeOfCharge(c10::Allocator* real, void* blocks, c10::Device device)
      : real_(real), blocks_(static_cast<char*>(blocks)), device_(device), owner_(std::this_thread::get_id()) {}
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes > 64 || std::this_thread::get_id() != owner_) return real_->allocate(bytes);
    return {blocks_ + 64 * (next_++ & 3), device_};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { real_->copy_data(to, from, bytes); }

 private:
  c10::Allocator* real_;
  char* blocks_;
  c10::Device device_;
  std::thread::id owner_;
  unsigned next_ = 0;
};
