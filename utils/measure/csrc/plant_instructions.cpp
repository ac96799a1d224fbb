// Instructions planted in one stage of the real op, to see that its row of the call tree rises by them and no other row does.
// Loaded before torch with its symbols first, so that torch's own calls of these functions arrive here; each spins for as many
// instructions as asked and goes on to torch's. No torch header: what passes through is only what the registers hold.
#include <dlfcn.h>

#include <cstdint>

namespace {
int64_t in_allocator = 0, in_autograd_key = 0, in_tensor_iterator = 0, in_kernel = 0;

// The function that this one stands in front of.
template <typename F>
F* behind(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
} // namespace

// Two instructions a round: a count and a jump.
extern "C" __attribute__((noinline)) void one_add_planted_spin(int64_t instructions) {
  int64_t rounds = instructions / 2;
  if (rounds <= 0) return;
#if defined(__x86_64__)
  asm volatile("1: decq %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
#elif defined(__aarch64__)
  asm volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(rounds) : : "cc");
#else
#error "the planted instructions are counted on x86-64 and arm64"
#endif
}

extern "C" {
void plant_allocator(int64_t instructions) { in_allocator = instructions; }
void plant_autograd_key(int64_t instructions) { in_autograd_key = instructions; }
void plant_tensor_iterator(int64_t instructions) { in_tensor_iterator = instructions; }
void plant_kernel(int64_t instructions) { in_kernel = instructions; }

// c10::alloc_cpu(unsigned long)
void* _ZN3c109alloc_cpuEm(unsigned long bytes) {
  static auto real = behind<void*(unsigned long)>("_ZN3c109alloc_cpuEm");
  one_add_planted_spin(in_allocator);
  return real(bytes);
}

// c10::impl::ExcludeDispatchKeyGuard::ExcludeDispatchKeyGuard(c10::DispatchKeySet): the Autograd kernel's guard
void _ZN3c104impl23ExcludeDispatchKeyGuardC1ENS_14DispatchKeySetE(void* self, uint64_t keys) {
  static auto real = behind<void(void*, uint64_t)>("_ZN3c104impl23ExcludeDispatchKeyGuardC1ENS_14DispatchKeySetE");
  one_add_planted_spin(in_autograd_key);
  real(self, keys);
}

// at::TensorIteratorBase::compute_types(at::TensorIteratorConfig const&)
void _ZN2at18TensorIteratorBase13compute_typesERKNS_20TensorIteratorConfigE(void* self, const void* config) {
  static auto real = behind<void(void*, const void*)>("_ZN2at18TensorIteratorBase13compute_typesERKNS_20TensorIteratorConfigE");
  one_add_planted_spin(in_tensor_iterator);
  real(self, config);
}

// at::TensorIteratorBase::for_each(c10::function_ref<void (char**, long const*, long, long)>, long): inside an add's kernel
void _ZN2at18TensorIteratorBase8for_eachEN3c1012function_refIFvPPcPKlllEEEl(void* self, void* call, intptr_t data, long grain) {
  static auto real = behind<void(void*, void*, intptr_t, long)>(
      "_ZN2at18TensorIteratorBase8for_eachEN3c1012function_refIFvPPcPKlllEEEl");
  one_add_planted_spin(in_kernel);
  real(self, call, data, grain);
}
}
