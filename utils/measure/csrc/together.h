// Work on several threads from a common start, timed to the last one's end; and the fence behind stores past the caches.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

inline void fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Seconds from the common start to the last thread's end; `work(i)` is the share of thread i, and the caller's thread is one of them.
template <class Work>
double together(int n, const Work& work) {
  using Clock = std::chrono::steady_clock;
  std::atomic<int> ready{0};
  std::vector<Clock::time_point> begun(n), ended(n);
  auto share = [&](int i) {
    ready.fetch_add(1);
    while (ready.load(std::memory_order_acquire) < n) std::this_thread::yield();
    begun[i] = Clock::now();
    work(i);
    ended[i] = Clock::now();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < n; ++i) others.emplace_back(share, i);
  share(0);
  for (auto& other : others) other.join();
  auto start = begun[0], end = ended[0];
  for (int i = 1; i < n; ++i) {
    start = begun[i] < start ? begun[i] : start;
    end = ended[i] > end ? ended[i] : end;
  }
  return std::chrono::duration<double>(end - start).count();
}
