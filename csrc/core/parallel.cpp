// The thread pool.
//
// Kernels come one after another, often only microseconds long, so handing work over must cost
// about as much as two cache misses. Each worker therefore owns a *slot*, an atomic word on its own
// cache line. To start a job the caller writes the job once and marks the slots of the workers it
// wants as offered; a worker that is still spinning takes its block within a fraction of a
// microsecond, and one that sleeps in the kernel is woken. Waking can take hundreds of microseconds
// (a halted virtual core), longer than most kernels. So nobody waits for it: a caller that has
// finished its own block takes back every block whose worker has not begun and runs it itself, and
// a late worker finds nothing offered. Workers spin for kWorkerSpin before they sleep; an idle pool
// uses no time. A sleeping worker is woken on another core than the caller's (Sleeper).
//
// Invariants:
//  - A slot goes idle -> offered (caller) -> taken (worker) -> idle (worker), or back from offered
//    to idle (caller). Both ways out of offered are compare-and-swaps, so exactly one side runs a
//    block.
//  - Only the holder of `busy_` writes `job_` and offers. A second caller finds `busy_` set and
//    runs its loop inline: never a wait, so never a deadlock.
//  - A worker reads `job_` only while its slot is taken, and the caller leaves only when no slot
//    is: no worker ever reads a job that is being replaced, however long it was away.
//  - The bounds of the blocks depend on the range and their number only, whoever runs them.
//
// The pool is never destroyed and its threads are detached: at process exit there is no order of
// destruction to get wrong and nothing to wait for. After fork() the child has no workers, so
// the child's handler drops the inherited pool (its memory included: the threads that would have to
// let go of it do not exist) and the next parallel_for makes a new one.

#include "core/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <system_error>
#include <thread>

#include "core/denormals.h"
#include "core/error.h"

namespace tapegrad {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int kMostThreads = 1024;

// About what waking costs at its worst, so that spinning at most doubles the price of a gap, and
// enough to bridge the gaps between the kernels of one training step.
constexpr std::chrono::microseconds kWorkerSpin{200};
// The caller has nothing else to do; it sleeps only when a worker has lost its core.
constexpr std::chrono::microseconds kCallerSpin{500};

thread_local bool inside_region = false;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

enum SlotState : uint32_t { kIdle, kOffered, kTaken };

// Spins until `word` differs from `old`, or for a time. Returns whether it differs.
bool changes_within(const std::atomic<uint32_t>& word, uint32_t old,
                    std::chrono::microseconds spin) {
  constexpr int kPollsPerClock = 16;
  const auto deadline = std::chrono::steady_clock::now() + spin;
  do {
    for (int poll = 0; poll < kPollsPerClock; ++poll) {
      if (word.load(std::memory_order_acquire) != old) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

// A thread that sleeps until a word changes, and wakes anywhere but on the core of its waker.
//
// Linux often wakes a thread on the core of the thread that wakes it. A worker would wait there for
// the caller's own blocks, kernel after kernel, until a timer moves it, while another core idles. A
// virtual machine does so nearly always, as a halted virtual core does not look idle: 99 of 100
// wakes on two cores, with 0.9 ms until the worker ran, beside 0.07 ms on the other core. So the
// waker takes its core out of the sleeper's set, and the sleeper puts it back when it is awake,
// unless somebody else has changed the set.
class Sleeper {
 public:
  void sleep_until_change(const std::atomic<uint32_t>& word, uint32_t old) {
    state_.store(kAsleep, std::memory_order_release);
    word.wait(old, std::memory_order_acquire);
    if (state_.exchange(kAwake, std::memory_order_acq_rel) == kKeptOff) return_home();
  }
  // The waker says this before it changes the word. `thread` is that of the sleeper.
  void keep_off_this_core(pthread_t thread) {
    if (state_.load(std::memory_order_acquire) == kAsleep) [[unlikely]]
      send_elsewhere(thread);
  }
  // The waker has changed the word back before the sleeper looked at it, so that it sleeps on.
  void let_back(pthread_t thread) {
    if (state_.load(std::memory_order_acquire) == kKeptOff) [[unlikely]]
      send_home(thread);
  }

 private:
  enum State : uint32_t { kAwake, kAsleep, kKeptOff };

  void send_elsewhere(pthread_t thread);
  void send_home(pthread_t thread);
  void return_home();

  std::atomic<uint32_t> state_{kAwake};
#if defined(__linux__)
  cpu_set_t home_, elsewhere_;  // written by the waker of a sleeper, read by one that was kept off
#endif
};

#if defined(__linux__)
void Sleeper::send_elsewhere(pthread_t thread) {
  const int here = sched_getcpu();
  if (here < 0 || pthread_getaffinity_np(thread, sizeof home_, &home_) != 0) return;
  elsewhere_ = home_;
  CPU_CLR(here, &elsewhere_);
  if (CPU_EQUAL(&elsewhere_, &home_) || CPU_COUNT(&elsewhere_) == 0) return;
  if (pthread_setaffinity_np(thread, sizeof elsewhere_, &elsewhere_) != 0) return;
  uint32_t asleep = kAsleep;
  if (!state_.compare_exchange_strong(asleep, kKeptOff, std::memory_order_acq_rel))
    pthread_setaffinity_np(thread, sizeof home_, &home_);  // it has woken in the meantime
}

void Sleeper::send_home(pthread_t thread) {
  uint32_t kept_off = kKeptOff;
  if (state_.compare_exchange_strong(kept_off, kAsleep, std::memory_order_acq_rel))
    pthread_setaffinity_np(thread, sizeof home_, &home_);
}

void Sleeper::return_home() {
  cpu_set_t now;
  if (sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &elsewhere_))
    sched_setaffinity(0, sizeof home_, &home_);
}
#else
void Sleeper::send_elsewhere(pthread_t) {}
void Sleeper::send_home(pthread_t) {}
void Sleeper::return_home() {}
#endif

struct Job {
  int64_t begin, end;
  int blocks;
  RangeBody body;
  uint32_t denormals;  // the caller's mode

  // Sizes differ by at most one element.
  int64_t boundary(int block) const {
    const int64_t size = end - begin;
    return begin + size / blocks * block + std::min<int64_t>(block, size % blocks);
  }

  std::exception_ptr run(int block) const noexcept {
    std::exception_ptr error;
    inside_region = true;
    try {
      body(boundary(block), boundary(block + 1));
    } catch (...) {
      error = std::current_exception();
    }
    inside_region = false;
    return error;
  }
};

class Pool {
 public:
  // False when another thread has the pool, or no second thread can be had: the caller then does
  // the work itself.
  bool try_run(int64_t begin, int64_t end, int blocks, RangeBody body);

 private:
  struct alignas(kCacheLine) Worker {
    std::atomic<uint32_t> slot{kIdle};
    std::exception_ptr error;
    pthread_t thread;
    Sleeper sleeper;
    Sleeper caller;  // who sleeps until the worker is done

    bool move_slot(uint32_t from, uint32_t to) {
      return slot.compare_exchange_strong(from, to, std::memory_order_acq_rel);
    }
  };

  void grow(size_t workers);
  [[noreturn]] void work(Worker& self, int block);
  std::exception_ptr run(const Job& job);

  std::atomic<bool> busy_{false};
  std::deque<Worker> workers_;  // grows without moving what workers refer to
  const Job* job_ = nullptr;
  pthread_t caller_;
};

bool Pool::try_run(int64_t begin, int64_t end, int blocks, RangeBody body) {
  if (busy_.exchange(true, std::memory_order_acquire)) return false;
  if (workers_.size() + 1 < static_cast<size_t>(blocks)) grow(blocks - 1);
  const int most = static_cast<int>(workers_.size()) + 1;
  const Job job{begin, end, std::min(blocks, most), body, denormal_mode()};
  std::exception_ptr error;
  const bool possible = job.blocks > 1;
  if (possible) error = run(job);
  busy_.store(false, std::memory_order_release);
  if (error) std::rethrow_exception(error);
  return possible;
}

// Ends with fewer workers than asked for when the system refuses more threads.
void Pool::grow(size_t workers) {
  while (workers_.size() < workers) {
    Worker& worker = workers_.emplace_back();
    const int block = static_cast<int>(workers_.size());
    try {
      std::thread thread([this, &worker, block] { work(worker, block); });
      worker.thread = thread.native_handle();
      thread.detach();
    } catch (const std::system_error&) {
      workers_.pop_back();
      return;
    }
  }
}

void Pool::work(Worker& self, int block) {
  uint32_t denormals = denormal_mode();
  for (;;) {
    if (!changes_within(self.slot, kIdle, kWorkerSpin))
      self.sleeper.sleep_until_change(self.slot, kIdle);
    if (!self.move_slot(kOffered, kTaken)) continue;
    if (job_->denormals != denormals) set_denormal_mode(denormals = job_->denormals);
    self.error = job_->run(block);
    self.caller.keep_off_this_core(caller_);
    self.slot.store(kIdle, std::memory_order_release);
    self.slot.notify_one();
  }
}

std::exception_ptr Pool::run(const Job& job) {
  job_ = &job;
  caller_ = pthread_self();
  for (int block = 1; block < job.blocks; ++block) {
    Worker& worker = workers_[block - 1];
    worker.sleeper.keep_off_this_core(worker.thread);
    worker.slot.store(kOffered, std::memory_order_release);
    worker.slot.notify_one();
  }
  std::exception_ptr error = job.run(0);
  for (int block = 1; block < job.blocks; ++block) {
    Worker& worker = workers_[block - 1];
    if (!worker.move_slot(kOffered, kIdle)) continue;
    worker.sleeper.let_back(worker.thread);
    worker.error = job.run(block);
  }
  for (int block = 1; block < job.blocks; ++block) {
    Worker& worker = workers_[block - 1];
    if (!changes_within(worker.slot, kTaken, kCallerSpin))
      worker.caller.sleep_until_change(worker.slot, kTaken);
    std::exception_ptr worker_error = std::move(worker.error);
    if (!error) error = std::move(worker_error);
  }
  return error;
}

// ---- the process's pool and its size ------------------------------------------------------------

std::atomic<Pool*> the_pool{nullptr};

void forget_pool_in_child() { the_pool.store(nullptr, std::memory_order_relaxed); }

Pool& pool() {
  Pool* existing = the_pool.load(std::memory_order_acquire);
  if (existing) return *existing;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool_in_child);
  static_cast<void>(registered);
  Pool* fresh = new Pool;
  if (the_pool.compare_exchange_strong(existing, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;  // another thread was first; this one has no workers yet
  return *existing;
}

int available_cores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// A positive number at the start of the variable ("4", and OpenMP's "4,2"), else 0.
int threads_from_environment(const char* name) {
  const char* text = std::getenv(name);
  const long count = text ? std::strtol(text, nullptr, 10) : 0;
  return count >= 1 && count <= kMostThreads ? static_cast<int>(count) : 0;
}

int default_threads() {
  if (const int count = threads_from_environment("TAPEGRAD_NUM_THREADS")) return count;
  if (const int count = threads_from_environment("OMP_NUM_THREADS")) return count;
  return available_cores();
}

std::atomic<int>& thread_count() {
  static std::atomic<int> count{default_threads()};
  return count;
}

BlockingHooks blocking_hooks;
thread_local int blocking_refused = 0;  // open BlockingSections and NoBlockingSections

}  // namespace

int num_threads() { return thread_count().load(std::memory_order_relaxed); }

void set_num_threads(int count) {
  TAPEGRAD_CHECK_AS(ValueError, count >= 1 && count <= kMostThreads,
                    "set_num_threads: expected a count from 1 to ", kMostThreads, ", got ", count);
  thread_count().store(count, std::memory_order_relaxed);
}

bool in_parallel_region() { return inside_region; }

void detail::parallel_for_blocks(int64_t begin, int64_t end, int64_t grain, RangeBody body) {
  const int64_t size = end - begin;
  const int64_t useful = grain > 0 ? (size - 1) / grain + 1 : size;
  const int blocks = static_cast<int>(std::min<int64_t>(num_threads(), useful));
  if (blocks == 1 || inside_region || !pool().try_run(begin, end, blocks, body)) body(begin, end);
}

void set_blocking_hooks(BlockingHooks hooks) { blocking_hooks = hooks; }

BlockingSection::BlockingSection() {
  if (!blocking_hooks.enter || blocking_refused || inside_region) return;
  state_ = blocking_hooks.enter();
  leave_ = blocking_hooks.leave;
  ++blocking_refused;
}

BlockingSection::~BlockingSection() {
  if (!leave_) return;
  --blocking_refused;
  leave_(state_);
}

NoBlockingSection::NoBlockingSection() { ++blocking_refused; }
NoBlockingSection::~NoBlockingSection() { --blocking_refused; }

}  // namespace tapegrad
