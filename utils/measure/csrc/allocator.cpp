// Stage allocator: the memory of one element taken from the device's allocator and given back.
//
// Two blocks are alive at a time, as in `c = a + b` with c kept: the new one is taken before the old one is freed.
#include "clock.h"

#ifdef ONE_ADD_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#else
#include <c10/core/CPUAllocator.h>
#endif

ARM(allocator) {
#ifdef ONE_ADD_CUDA
  auto get = [] { return static_cast<c10::Allocator*>(c10::cuda::CUDACachingAllocator::get()); };
#else
  auto get = [] { return c10::GetCPUAllocator(); };
#endif
  c10::DataPtr kept = get()->allocate(4);
  WithoutGil released;
  return timed(n, [&](int64_t) { kept = get()->allocate(4); });
}
