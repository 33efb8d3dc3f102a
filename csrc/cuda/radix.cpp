#include "cuda/radix.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"
#include "cuda/launch.h"

namespace tapegrad::cuda {

namespace {

constexpr int kDigits = 256;  // as in radix.cu, like the next two
constexpr int kThreads = 512;
constexpr int kFewChunks = 32;
constexpr int64_t kBlocks = 264;  // that run at a time; more work makes longer chunks

// As radix.cu has it.
struct RadixArguments {
  const void* keys;
  const void* items;
  void* keys_out;
  void* items_out;
  void* counts;
  void* totals;
  int64_t length;
  int64_t chunk_length;
  int32_t chunks;
  int32_t shift;
  int32_t descending;
};

const char* item_text(int nbytes) {
  return nbytes == 1   ? "unsigned char"
         : nbytes == 2 ? "unsigned short"
         : nbytes == 4 ? "unsigned"
                       : "uint64";
}

// `describe` gives the function.
template <class Describe>
FunctionHandle find_kernel(int device, uint64_t key, const Describe& describe) {
  static auto& cache = *new KernelCache;
  return cache.find(device, key, [&] {
    return concat("file radix.cu\nRadixArguments\n", describe(), "\n512, 2");
  });
}

class Passes {
 public:
  Passes(const RadixSort& sort, Device device) : sort_(sort), device_(device) {
    const int64_t tile = kThreads * (std::max(sort.type.nbytes, sort.item_nbytes) <= 4 ? 12 : 6);
    shared_bytes_ = std::max(static_cast<int>(tile) * (sort.type.nbytes + sort.item_nbytes),
                             kThreads / 32 * kDigits * 4);
    const int64_t tiles = sort.rows * ((sort.length + tile - 1) / tile);
    chunk_length_ = tile * ((tiles + kBlocks - 1) / kBlocks);
    chunks_ = (sort.length + chunk_length_ - 1) / chunk_length_;
    counts_ = scratch(sort.rows * chunks_ * kDigits * 4, device);
    if (chunks_ > kFewChunks) totals_ = scratch(sort.rows * kDigits * 4, device);
  }

  void run() {
    const int passes = std::max(1, (sort_.bits + 7) / 8);
    const int64_t count = sort_.rows * sort_.length;
    Tensor keys[2], items[2];
    for (int i = 0; i < std::min(2, passes - 1); ++i) {
      keys[i] = scratch(count * sort_.type.nbytes, device_);
      items[i] = scratch(count * sort_.item_nbytes, device_);
    }
    RadixArguments arguments = first_arguments();
    for (int pass = 0; pass < passes; ++pass) {
      const bool last = pass + 1 == passes;
      arguments.shift = 8 * pass;
      arguments.keys_out = last ? sort_.keys_out : keys[pass % 2]->data();
      arguments.items_out = last ? sort_.items_out : items[pass % 2]->data();
      run_pass(arguments, pass == 0 && !sort_.items, last && sort_.wide_numbers);
      arguments.keys = arguments.keys_out;
      arguments.items = arguments.items_out;
    }
  }

 private:
  RadixArguments first_arguments() const {
    RadixArguments arguments{};
    arguments.keys = sort_.keys;
    arguments.items = sort_.items;
    arguments.counts = counts_->data();
    arguments.totals = totals_.defined() ? totals_->data() : nullptr;
    arguments.length = sort_.length;
    arguments.chunk_length = chunk_length_;
    arguments.chunks = static_cast<int32_t>(chunks_);
    arguments.descending = sort_.descending;
    return arguments;
  }

  void run_pass(const RadixArguments& arguments, bool numbers, bool widens) const {
    const int device = device_.index;
    const uint64_t type = static_cast<uint64_t>(sort_.type.code) << 8;
    const int64_t blocks = sort_.rows * chunks_;
    const char* key_text = sort_.type.text;
    launch_with(
        find_kernel(device, type | 1, [&] { return concat("radix_count<", key_text, ">"); }),
        device, blocks, kThreads, arguments);
    if (chunks_ > kFewChunks)
      launch_with(find_kernel(device, 2, [] { return "radix_scan"; }), device, sort_.rows * kDigits,
                  kDigits, arguments);
    const uint64_t items = static_cast<uint64_t>(sort_.item_nbytes) << 4 | uint64_t{numbers} << 3 |
                           uint64_t{widens} << 2;
    const FunctionHandle move = find_kernel(device, type | items | 3, [&] {
      const char* item = item_text(sort_.item_nbytes);
      return concat("radix_move<", key_text, ", ", numbers ? "Numbered" : item, ", ",
                    widens ? "int64" : item, ">");
    });
    launch_with(move, device, blocks, kThreads, arguments, shared_bytes_);
  }

  const RadixSort& sort_;
  Device device_;
  int64_t chunk_length_, chunks_;
  int shared_bytes_;  // of radix_move: a tile, or the masks of the warps
  Tensor counts_, totals_;
};

}  // namespace

KeyType KeyType::of(DType dtype) {
  return {kernel_type(dtype), static_cast<int>(dtype), static_cast<int>(itemsize(dtype))};
}

Tensor scratch(int64_t nbytes, Device device) {
  return empty("cuda", std::array{nbytes}, DType::UInt8, device);
}

void radix_sort(const char* op, Device device, const RadixSort& sort) {
  TAPEGRAD_CHECK(sort.length < std::numeric_limits<uint32_t>::max(), op,
                 ": rows of more than 2^32 elements are not supported");
  if (sort.rows > 0 && sort.length > 0) Passes(sort, device).run();
}

}  // namespace tapegrad::cuda
