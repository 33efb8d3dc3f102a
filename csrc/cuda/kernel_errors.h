// Note [Errors of kernels]
// A kernel cannot throw, and the host does not wait for it. A thread that meets an element it cannot use, such as
// an index out of range, touches no memory with it, and writes which call it belongs to and what it saw into
// a word of page-locked memory that each device has. Whenever the host has waited for the device it looks at the
// word, and throws there what the CPU's kernel would have thrown at once, with the line of the program that launched
// the kernel. One word is written whole, so that no thread has to take turns: of several errors one is
// told. The device goes on working. Calls that can report take their line when they are launched, others
// pay nothing. Calls that are captured in a graph may report whenever the graph runs: they have numbers of their own
// while it lives.
#pragma once

#include <cstdint>
#include <vector>

namespace tapegrad::cuda {

// As in tapegrad/cuda/prelude.cuh: where a call reports to, and its number in the upper bits.
struct ErrorPlace {
  uint64_t* word;
  uint64_t call;
};

// What is to be thrown, given the element. An op's name stays; numbers are those of the call.
struct KernelError {
  const char* op;
  int64_t dim = 0, size = 0;
  [[noreturn]] void (*fail)(const KernelError& error, int64_t element) = nullptr;
};

// A place for the calls of one launch. Calls are told apart as long as there are fewer than 2^15 between two waits.
ErrorPlace error_place(int device, const KernelError& error);

// Of what is captured from now on the numbers are put here, until it is null: they are given back when the graph is gone.
void list_captured_calls(std::vector<uint32_t>* calls);
void release_captured_calls(int device, const std::vector<uint32_t>& calls);

// "op: index 7 is out of bounds for dimension 0 with size 5", as IndexError or as RuntimeError.
[[noreturn]] void fail_index(const KernelError& error, int64_t element);
[[noreturn]] void fail_index_at_run_time(const KernelError& error, int64_t element);

// Throws what a kernel has reported. To be called when the host has waited.
void throw_kernel_errors(int device);

}  // namespace tapegrad::cuda
