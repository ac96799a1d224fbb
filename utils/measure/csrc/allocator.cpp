// Stage allocator: the memory of one element taken from the device's allocator and given back.
//
// Two blocks are alive at a time, as in `c = a + b` with c kept: the new one is taken before the old one is freed.
#include "step.h"

#ifdef ONE_ADD_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#else
#include <c10/core/CPUAllocator.h>
#endif

namespace {
struct Memory final : Step {
#ifdef ONE_ADD_CUDA
  c10::Allocator* allocator = c10::cuda::CUDACachingAllocator::get();
#else
  c10::Allocator* allocator = c10::GetCPUAllocator();
#endif
  c10::DataPtr kept = allocator->allocate(4);
  explicit Memory(const Inputs&) {}
  void run() override { kept = allocator->allocate(4); }
};
} // namespace

EXPORT_STEP(memory, Memory)
