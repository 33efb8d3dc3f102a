// Bytes on their way between places.
#pragma once

#include <cstddef>

#include "core/tensor.h"
#include "cuda/driver.h"

namespace tapegrad::cuda {

// On the current stream of the device.
void copy_bytes(void* to, const void* from, size_t nbytes, int device);
// On another stream, between page-locked memory and the device's, behind what is now in the stream `after`. Neither
// memory is used for something else before that is done, whoever lets go of it.
void copy_aside(const TensorImpl& to, const TensorImpl& from, StreamHandle stream,
                StreamHandle after);
void fill_with_zeros(void* to, size_t nbytes, int device);

}  // namespace tapegrad::cuda
