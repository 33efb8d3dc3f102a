#include "python/callback.h"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace tapegrad::python {

namespace {

// Note [Threads at the end of the interpreter]
// When the interpreter ends, CPython before 3.14 ends every other thread that asks for its lock by
// pthread_exit. That unwinds the thread's stack: through destructors, which would let go of Python
// objects without the lock, and through functions that must not throw, which abort the process. So
// the frames of ours that may wait for the lock stop the unwinding, and the thread sleeps until the
// process is gone, as from CPython 3.14 on. Nothing is destroyed and nobody waits for it.
[[noreturn]] void sleep_until_exit() {
  for (;;) pause();
}

// Such an unwinding throws no object, so the reference that catches it is bound to nothing. Nobody reads it,
// but the sanitizer would report it.
template <class Body>
[[gnu::no_sanitize_undefined]] auto until_exit(Body&& body) {
#if defined(__GLIBCXX__)
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    sleep_until_exit();
  }
#else
  return body();
#endif
}

// Note [Callbacks and the stack]
// A hook may call backward, which calls the hook. Python counts its own frames, but between two of
// them lie those of the sweep and of nanobind, so that on a small stack (a thread's, or under
// ulimit -s) the stack ends before Python's count does. Every such cycle passes through
// call_object, which therefore checks how much room is left.
constexpr size_t kMostRoom = size_t{256} << 10;

// The part of this thread's stack that is too near its end for another callback.
struct StackEnd {
  uintptr_t lowest = 0, limit = 0;

  StackEnd() {
#if defined(__linux__)
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* begin = nullptr;
    size_t size = 0;
    if (pthread_attr_getstack(&attributes, &begin, &size) == 0) {
      lowest = reinterpret_cast<uintptr_t>(begin);
      limit = lowest + std::min(size / 4, kMostRoom);
    }
    pthread_attr_destroy(&attributes);
#endif
  }
  // Frames outside the thread's own stack belong to a coroutine, whose stack we know nothing about.
  bool contains(uintptr_t frame) const { return lowest <= frame && frame < limit; }
};

bool has_room() {
  static thread_local const StackEnd end;
  return !end.contains(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
}

}  // namespace

PyObject* call_object(PyObject* function, PyObject* const* args, size_t count) noexcept {
  if (!has_room()) {
    PyErr_SetString(PyExc_RecursionError,
                    "maximum recursion depth exceeded: the stack of this thread is used up by "
                    "hooks or custom functions that start another backward");
    return nullptr;
  }
  return until_exit([&] {
    return PyObject_Vectorcall(function, args, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  });
}

void take_lock(PyThreadState* state) noexcept {
  until_exit([&] { PyEval_RestoreThread(state); });
}

PyGILState_STATE take_lock_anywhere() noexcept {
  return until_exit([] { return PyGILState_Ensure(); });
}

}  // namespace tapegrad::python
