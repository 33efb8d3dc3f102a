// Mistakes that a CPU forgives and a GPU does not, or answers differently: the compiler finds them
// with -fsanitize, and calls the functions below where it would call its own library's.
//
// Every access to memory is checked: -fsanitize=thread is there for this alone, because it calls a
// function for each of them and does nothing else.
#pragma once

namespace tapegrad_emulator {

// What the compiler says about the place, in the layout of its library.
struct Place {
  const char* file;
  unsigned line, column;
};
struct Type {
  unsigned short kind, info;
  char name[1];  // with quotation marks
};
struct TypeMismatch {
  Place place;
  const Type* type;
  unsigned char log_of_alignment, kind;
};
struct OutOfBounds {
  Place place;
  const Type *array, *index;
};

}  // namespace tapegrad_emulator

extern "C" {

int snprintf(char* text, size_t length, const char* format, ...) noexcept;

__attribute__((used)) inline void __ubsan_handle_type_mismatch_v1_abort(
    tapegrad_emulator::TypeMismatch* found, void* address) {
  char text[200];
  snprintf(text, sizeof text, "an access to a %s at %p, which is no multiple of %d",
           found->type->name, address, 1 << found->log_of_alignment);
  // CUDA_ERROR_MISALIGNED_ADDRESS
  tapegrad_emulator::context.fail(716, text, static_cast<int>(found->place.line));
}

// Large indices come by reference, and would have to be read by their type.
__attribute__((used)) inline void __ubsan_handle_out_of_bounds_abort(
    tapegrad_emulator::OutOfBounds* found, void* index) {
  char text[200];
  snprintf(text, sizeof text, "the index %d of an array of type %s",
           static_cast<int>(reinterpret_cast<size_t>(index)), found->array->name);
  // CUDA_ERROR_ILLEGAL_ADDRESS
  tapegrad_emulator::context.fail(700, text, static_cast<int>(found->place.line));
}

// A GPU shifts everything out, a CPU takes the count modulo the width; C++ has neither.
__attribute__((used)) inline void __ubsan_handle_shift_out_of_bounds_abort(
    tapegrad_emulator::Place* place, void*, void*) {
  tapegrad_emulator::context.fail(719, "a shift by the width or more, or by a negative count",
                                  static_cast<int>(place->line));
}

__attribute__((used)) inline void __ubsan_handle_divrem_overflow_abort(
    tapegrad_emulator::Place* place, void*, void*) {
  tapegrad_emulator::context.fail(719, "an integer was divided by zero",
                                  static_cast<int>(place->line));
}

}  // extern "C"

namespace tapegrad_emulator {

TAPEGRAD_EMULATOR_OWN inline bool is_inside(const Range& range, size_t address, size_t nbytes) {
  const size_t offset = address - range.start;
  return offset < range.nbytes && nbytes <= range.nbytes - offset;
}

// `code` is the place in the kernel. Not inlined: every text contains the functions that call it.
TAPEGRAD_EMULATOR_OWN __attribute__((noinline)) inline void check_access(const void* address,
                                                                         size_t nbytes, bool writes,
                                                                         const void* code,
                                                                         bool is_atomic = false) {
  const auto number = reinterpret_cast<size_t>(address);
  if (is_inside(context.stack, number, nbytes)) return;
  for (int i = 0; i < Context::kRanges; ++i) {
    if (!is_inside(context.ranges[i], number, nbytes)) continue;
    if (i < Context::kSharedRanges && context.check_race && !is_atomic)
      context.check_race(address, nbytes, writes, code);
    return;
  }
  context.check_access(address, nbytes, writes, code);
}

}  // namespace tapegrad_emulator

#define TAPEGRAD_CALLER __builtin_return_address(0)
#define TAPEGRAD_HOOK extern "C" __attribute__((used, no_sanitize("thread"))) inline
#define TAPEGRAD_ACCESS(NAME, NBYTES, WRITES)                                  \
  TAPEGRAD_HOOK void __tsan_##NAME(void* address) {                            \
    tapegrad_emulator::check_access(address, NBYTES, WRITES, TAPEGRAD_CALLER); \
  }
#define TAPEGRAD_ACCESSES(SUFFIX, NBYTES)      \
  TAPEGRAD_ACCESS(read##SUFFIX, NBYTES, false) \
  TAPEGRAD_ACCESS(write##SUFFIX, NBYTES, true) \
  TAPEGRAD_ACCESS(read_write##SUFFIX, NBYTES, true)
TAPEGRAD_ACCESSES(1, 1)
TAPEGRAD_ACCESSES(2, 2)
TAPEGRAD_ACCESSES(4, 4)
TAPEGRAD_ACCESSES(8, 8)
TAPEGRAD_ACCESSES(16, 16)
#define TAPEGRAD_UNALIGNED(NBYTES)                       \
  TAPEGRAD_ACCESS(unaligned_read##NBYTES, NBYTES, false) \
  TAPEGRAD_ACCESS(unaligned_write##NBYTES, NBYTES, true) \
  TAPEGRAD_ACCESS(unaligned_read_write##NBYTES, NBYTES, true)
TAPEGRAD_UNALIGNED(2)
TAPEGRAD_UNALIGNED(4)
TAPEGRAD_UNALIGNED(8)
TAPEGRAD_UNALIGNED(16)
#undef TAPEGRAD_UNALIGNED
#undef TAPEGRAD_ACCESSES
#undef TAPEGRAD_ACCESS
TAPEGRAD_HOOK void __tsan_read_range(void* address, size_t nbytes) {
  tapegrad_emulator::check_access(address, nbytes, false, TAPEGRAD_CALLER);
}
TAPEGRAD_HOOK void __tsan_write_range(void* address, size_t nbytes) {
  tapegrad_emulator::check_access(address, nbytes, true, TAPEGRAD_CALLER);
}
TAPEGRAD_HOOK void* __tsan_memcpy(void* to, const void* from, size_t nbytes) {
  tapegrad_emulator::check_access(from, nbytes, false, TAPEGRAD_CALLER);
  tapegrad_emulator::check_access(to, nbytes, true, TAPEGRAD_CALLER);
  return memcpy(to, from, nbytes);
}
TAPEGRAD_HOOK void* __tsan_memmove(void* to, const void* from, size_t nbytes) {
  tapegrad_emulator::check_access(from, nbytes, false, TAPEGRAD_CALLER);
  tapegrad_emulator::check_access(to, nbytes, true, TAPEGRAD_CALLER);
  return __builtin_memmove(to, from, nbytes);
}
TAPEGRAD_HOOK void* __tsan_memset(void* to, int value, size_t nbytes) {
  tapegrad_emulator::check_access(to, nbytes, true, TAPEGRAD_CALLER);
  return memset(to, value, nbytes);
}
TAPEGRAD_HOOK void __tsan_init() {}
TAPEGRAD_HOOK void __tsan_func_entry(void*) {}
TAPEGRAD_HOOK void __tsan_func_exit() {}
#undef TAPEGRAD_HOOK
