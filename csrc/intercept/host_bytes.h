// A tensor's elements as bytes on the host, in order, whatever the strides.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace tapegrad {

std::vector<char> bytes_of(const TensorImpl& x);
// As many bytes as there are elements.
void put_bytes(const TensorImpl& x, const std::vector<char>& bytes);

// A tensor of the bytes of a storage, or of some of them.
Tensor whole_storage(const Ref<Storage>& storage);
Tensor part_of_storage(const Ref<Storage>& storage, int64_t begin, int64_t end);

}  // namespace tapegrad
