// Copying, casting, filling, and the checks that every op which writes existing memory makes.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "core/layout.h"
#include "core/op.h"
#include "core/tensor.h"

namespace tapegrad {

extern const Op copy_op;
// Elements of `from`, broadcast and converted, into `to`. Neither bumped nor recorded.
void copy_into(const Tensor& to, const Tensor& from, bool non_blocking = false);

// A recorded copy.
Tensor clone(const Tensor& x, MemoryFormat format = MemoryFormat::Preserve);
// x itself if it is contiguous (in that format), else a recorded copy.
Tensor contiguous(const Tensor& x);
Tensor contiguous(const Tensor& x, MemoryFormat format);
// A fresh result with its channels last where those of x are; y itself otherwise.
Tensor in_format_of(const Tensor& y, const Tensor& x);
// x itself if it has these strides, else a recorded copy that has them, whose gradient goes back into the
// order of x.
Tensor rearranged(const Tensor& x, Sizes strides);
// x itself if it has that dtype and looks like that format.
Tensor cast(const Tensor& x, DType dtype, MemoryFormat format = MemoryFormat::Preserve);
// The same for contiguous tensors of one dtype, of one device, in one call that is not recorded...
std::vector<Tensor> cast_together(std::span<const Tensor> tensors, DType dtype);
// ... and what makes one of the results the cast of x: its record.
void record_cast(const Tensor& x, const Tensor& result);
// x itself if it is there and looks like that format.
Tensor to_device(const Tensor& x, Device device, bool non_blocking = false,
                 MemoryFormat format = MemoryFormat::Preserve);
// A number may meet any device: a 0-d tensor on the CPU moved to the device of x. Other tensors as they are.
Tensor beside(const Tensor& number, const Tensor& x);
// A copy made outside the tape that stands at the same place in the graph as x.
Tensor clone_with_history(const Tensor& x);

// Public in-place writes, recorded.
void copy_(const Tensor& self, const Tensor& from, bool non_blocking = false);
void fill_(const Tensor& self, Scalar value);
void fill_(const Tensor& self, const Tensor& value);
void zero_(const Tensor& self);

bool has_zero(const Tensor& x);

// Called before a tensor is written in place, where somebody asked for it on any thread
// (allow_mutation_on_saved_tensors).
inline void (*before_write)(const Tensor& self) = nullptr;
// Before writing `self`: refuses a leaf that requires grad (when recording), and memory in which
// two elements share a place.
void check_inplace(const char* op, const Tensor& self, bool recording);
// The same for an op to which it does not matter that elements share a place.
void check_write(const char* op, const Tensor& self, bool recording);
// That what an op reads in another order than it writes does not share memory with what it writes.
void check_apart(const char* op, const Tensor& self, std::initializer_list<const Tensor*> operands);
// That the result of an in-place op fits the tensor: shape, dtype, no half-way overlap.
void check_inplace_result(const char* op, const Tensor& self, Sizes sizes, DType dtype,
                          std::span<const Tensor* const> operands);
// Makes `out` of out= take a result: resizes it when the shape differs, checks dtype and overlap.
void prepare_out(const char* op, const Tensor& out, Sizes sizes, DType dtype,
                 std::span<const Tensor* const> operands);
// Gives the tensor another shape; new memory when the old is too small.
void resize_(const Tensor& self, Sizes sizes, MemoryFormat format = MemoryFormat::Contiguous);

}  // namespace tapegrad
