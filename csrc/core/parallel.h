// Data parallelism for kernels: one loop primitive on a pool of threads that the process keeps.
//
//   parallel_for(0, numel, kGrain, [&](int64_t begin, int64_t end) { ... });
//
// The range is cut into one contiguous block per thread, always at the same places for the same
// range and thread count, so results do not depend on timing. The design of the pool is described
// at the top of parallel.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace tapegrad {

// A reference to a callable, two words wide. It owns nothing: the callable must outlive the call
// it is passed to, which a lambda written as an argument always does.
template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <class Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
             std::is_invocable_r_v<Result, Callable&, Arguments...>)
  FunctionRef(Callable&& callable) noexcept  // NOLINT: implicit on purpose, like std::function
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        invoke_([](void* object, Arguments... arguments) -> Result {
          using Target = std::remove_reference_t<Callable>;
          return (*static_cast<Target*>(object))(std::forward<Arguments>(arguments)...);
        }) {}

  Result operator()(Arguments... arguments) const {
    return invoke_(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* object_;
  Result (*invoke_)(void*, Arguments...);
};

// How many threads a parallel_for may use, the calling thread included. The first answer comes
// from TAPEGRAD_NUM_THREADS, else OMP_NUM_THREADS, else the cores this process may run on.
int num_threads();

// Throws ValueError when count < 1. Takes effect at the next parallel_for.
void set_num_threads(int count);

// True inside the body of a parallel_for that was cut into blocks: there a nested parallel_for
// runs inline.
bool in_parallel_region();

using RangeBody = FunctionRef<void(int64_t begin, int64_t end)>;

namespace detail {
void parallel_for_blocks(int64_t begin, int64_t end, int64_t grain, RangeBody body);
}

// Calls body(block_begin, block_end) for blocks that cover [begin, end) exactly once, and returns
// when all are done. `grain` is the size above which a second thread pays: a range of at most
// `grain` runs inline without touching any shared state, larger ones use up to one thread per
// `grain` elements. An empty range calls nothing. When bodies throw, the exception of the
// lowest-numbered block is rethrown here after every block has ended. Threads of the program may
// call this at the same time: one has the pool, the others run inline.
template <class Body>
inline void parallel_for(int64_t begin, int64_t end, int64_t grain, Body&& body) {
  if (begin >= end) return;
  if (end - begin <= grain) {
    body(begin, end);
  } else {
    detail::parallel_for_blocks(begin, end, grain, body);
  }
}

// What surrounds a long computation so that the rest of the program can go on: the binding layer
// sets hooks that release and retake Python's lock. `enter` returns a state that `leave` gets back.
struct BlockingHooks {
  void* (*enter)() = nullptr;
  void (*leave)(void* state) = nullptr;
};

// Call once, before other threads use the library.
void set_blocking_hooks(BlockingHooks hooks);

// Marks a scope as long-running: calls the hooks on the way in and out. Sections nest: only the
// outermost one on a thread calls them. Inside the body of a parallel_for it does nothing, since
// the pool's threads hold no lock that could be released.
class BlockingSection {
 public:
  BlockingSection();
  ~BlockingSection();
  BlockingSection(const BlockingSection&) = delete;
  BlockingSection& operator=(const BlockingSection&) = delete;

 private:
  void (*leave_)(void*) = nullptr;
  void* state_ = nullptr;
};

// While one lives, BlockingSection does nothing on this thread: for code that must not lose the
// lock half-way.
class NoBlockingSection {
 public:
  NoBlockingSection();
  ~NoBlockingSection();
  NoBlockingSection(const NoBlockingSection&) = delete;
  NoBlockingSection& operator=(const NoBlockingSection&) = delete;
};

}  // namespace tapegrad
