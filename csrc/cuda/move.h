// Bytes on their way between places.
#pragma once

#include <cstddef>

namespace tapegrad::cuda {

// On the current stream of the device.
void copy_bytes(void* to, const void* from, size_t nbytes, int device);
void fill_with_zeros(void* to, size_t nbytes, int device);

}  // namespace tapegrad::cuda
