// How PyTorch's messages write dtypes and sizes, where programs look for their words.
#pragma once

#include <string>

#include "core/dtype.h"

namespace tapegrad {

// The names of dtypes from the time of tensor types, torch.FloatTensor.
inline constexpr const char* kTypeNames[kDTypeCount] = {
    "Bool",
    "Byte",
    "Char",
    "Short",
    "Int",
    "Long",
    "Half",
    "BFloat16",
    "Float",
    "Double",
    "ComplexFloat",
    "ComplexDouble",
    "Float8_e4m3fn",
    "Float8_e5m2",
    "Float8_e4m3fnuz",
    "Float8_e5m2fnuz",
    "Float8_e8m0fnu",
    "UInt16",
    "UInt32",
    "UInt64",
};

constexpr const char* type_name(DType dtype) { return kTypeNames[static_cast<int>(dtype)]; }

// "2 x 3" for the sizes [2, 3] and " x ".
template <class Numbers>
std::string joined(const Numbers& numbers, const char* between) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : between) + std::to_string(number);
  return text;
}

}  // namespace tapegrad
