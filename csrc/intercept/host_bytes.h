// Bytes that are read, put and copied beside the calls of the program.
#pragma once

#include <vector>

#include "core/op.h"

namespace tapegrad {

// A tensor's elements in order, whatever the strides. Waits for those on another device.
std::vector<char> bytes_of(const Tensor& x);
// As many bytes as there are elements. They may be gone when this returns.
void put_bytes(const Tensor& x, const std::vector<char>& bytes);

// A tensor of the bytes of a storage, or of some of them.
Tensor whole_storage(const Ref<Storage>& storage);
Tensor part_of_storage(const Ref<Storage>& storage, int64_t begin, int64_t end);

// Set by the graph layer: bytes that a budget knows are about to be read beside calls, in the thread's lane.
inline void (*before_unseen_read)(const Storage& storage) = nullptr;

// The op that copies elements, and its kernel alone: for copies that are no call of the program. Both tensors
// are on one device.
const Op& registered_copy();
void copy_unseen(const Tensor& from, const Tensor& to);

}  // namespace tapegrad
