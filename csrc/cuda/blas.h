// cuBLASLt, NVIDIA's library of matrix products, loaded at run time: no header of it is needed to build.
#pragma once

#include <string>
#include <vector>

#include "cuda/product.h"

namespace tapegrad::cuda {

// Set by the binding layer: where the library may lie, the best place first. Empty where there is none.
inline std::vector<std::string> (*find_blas)() = nullptr;

// Whether products go to the library where it is there and has them.
inline bool uses_blas = true;

// Whether the library could be loaded. Throws RuntimeError if it is there and cannot be used.
bool has_blas();
// Its version, such as 120904; zero where there is none.
size_t blas_version();

// False if the library has no such product, or is not there: nothing is done then.
bool multiply_with_blas(const Product& product, int device);

}  // namespace tapegrad::cuda
