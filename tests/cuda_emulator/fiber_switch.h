// Changing from one stack to another: what a call preserves is pushed, the stack pointer exchanged.
#pragma once

#include <cstdint>
#include <cstring>

namespace tapegrad::cuda {

// Saves where the caller is in *from, and goes on at `to`.
extern "C" __attribute__((visibility("hidden"))) void tapegrad_switch_stack(void** from, void* to);

#if defined(__x86_64__)
__asm__(R"(
.text
.p2align 4
.hidden tapegrad_switch_stack
.globl tapegrad_switch_stack
.type tapegrad_switch_stack, @function
tapegrad_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tapegrad_switch_stack, .-tapegrad_switch_stack
)");
// The words that the switch pops: six registers, the return address, and one for the alignment
// that a function expects when it is called.
inline constexpr int kSavedWords = 8, kReturnWord = 6;
#elif defined(__aarch64__)
__asm__(R"(
.text
.p2align 4
.hidden tapegrad_switch_stack
.globl tapegrad_switch_stack
.type tapegrad_switch_stack, %function
tapegrad_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size tapegrad_switch_stack, .-tapegrad_switch_stack
)");
inline constexpr int kSavedWords = 20, kReturnWord = 11;
#else
#error "the emulator of CUDA knows x86-64 and aarch64"
#endif

// Makes a stack on which a switch begins to run `start`, which never returns.
inline void* prepare_stack(unsigned char* top, void (*start)()) {
  auto* words = reinterpret_cast<uintptr_t*>(top) - kSavedWords;
  std::memset(words, 0, kSavedWords * sizeof(uintptr_t));
  words[kReturnWord] = reinterpret_cast<uintptr_t>(start);
  return words;
}

}  // namespace tapegrad::cuda
