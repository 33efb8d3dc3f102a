// Mistakes that a CPU forgives and a GPU does not, or answers differently: the compiler finds them
// with -fsanitize, and calls the functions below where it would call its own library's.
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
