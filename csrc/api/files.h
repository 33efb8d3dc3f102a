// Files as bytes.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace tapegrad::api {

// Throws Error where there is none.
std::string read_file(const std::string& path);

std::array<unsigned char, 32> sha256(std::string_view bytes);

// Eight bytes at the front as a number, the lowest first.
uint64_t length_in_front(std::string_view bytes);

}  // namespace tapegrad::api
