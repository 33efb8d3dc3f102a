// Codings: saved values kept in fewer bytes than they had.
//
// Note [What a coded value is]
// A payload holds the codes of a run of memory: one or a few tensors of bytes that nobody else sees, and
// the op that makes values of them again. A coded value is a payload and a geometry over it. While the
// memory that was coded lives unchanged, further values that show the same run share the payload:
// the input of three projections is coded once. The payload does not keep that memory alive; the
// storage tells when it goes (Storage::kCoded).
//
// Which values are coded, and how, is decided by ops/compress.cpp, behind `coding_hooks`.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/op.h"
#include "core/tensor.h"

namespace tapegrad {

class Node;

enum class Codec : uint8_t {
  Whole,     // as it is
  Exact,     // only those that lose nothing
  BFloat16,  // rounded to the nearest
  Int8,      // quantised in blocks
  Int4,
  Bits,    // of two values
  Narrow,  // integers of a small range
  Places,  // places of maxima in their windows
};
inline constexpr int kCodecs = 8;
const char* name(Codec codec);

class Payload {
 public:
  Payload(Codec codec, const Op& decoder, DType dtype, int64_t count)
      : codec(codec), decoder(decoder), dtype(dtype), count(count) {}
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  ~Payload();

  // Adds a tensor that nobody else holds; the decoder's inputs in order.
  void add(Tensor tensor);
  int64_t nbytes() const;

  const Codec codec;
  const Op& decoder;
  const DType dtype;
  const int64_t count;  // of elements
  std::vector<Scalar> attributes;
  std::vector<Tensor> parts;

  void retain() { ++references_; }
  void release() noexcept {
    if (--references_ == 0) delete this;
  }

 private:
  friend class Payloads;
  uint32_t references_ = 1;
  Storage* origin_ = nullptr;  // what was coded, while it lives
  bool is_shared_ = false;
  uint32_t version_ = 0;
  int64_t offset_ = 0;
};

// The payloads of storages that live.
class Payloads {
 public:
  // The payload of these elements of the storage, as they are now, in that codec and block; null if there
  // is none.
  static Ref<Payload> find(const Tensor& run, Codec codec, int64_t block);
  // Notes where a payload comes from, and whether other values may share it.
  static void add(const Tensor& run, Payload& payload, bool is_shared);
  // Whether anything of the storage, as it is now, is coded.
  static bool any(const Storage& storage);
  static void forget(Storage& storage) noexcept;
  static void forget(Payload& payload) noexcept;
};

// What a saved value holds.
struct Coded {
  Ref<Payload> payload;
  DimVector sizes, strides;  // of elements of the payload
};

struct CodingCounts {
  int64_t values = 0;  // saved values, shared ones included
  int64_t saved = 0;   // bytes
};

// What compress() asked for.
struct CodingPolicy {
  Codec codec = Codec::Int8;
  int64_t min_bytes = 1024;
  int64_t block[2] = {256, 64};  // of 8 and of 4 bits
  bool inputs = false;           // whether floats without history that the program holds are coded
  // By what the tape calls the op.
  std::unordered_map<std::string, Codec> ops;

  // What was saved: bytes of the distinct storages, and what they have become.
  int64_t full_bytes = 0;
  int64_t saved_bytes = 0;
  std::array<CodingCounts, kCodecs> counts{};
};

// What is in force on this thread, or null.
inline thread_local CodingPolicy* coding = nullptr;

// Set by the ops layer.
struct CodingHooks {
  // Null where the value is better kept as it is. `index` is the value's number in the entry.
  Coded* (*encode)(const Tensor& value, const Node& owner, size_t index,
                   bool has_history) = nullptr;
  Tensor (*decode)(const Coded& coded) = nullptr;
};
inline CodingHooks coding_hooks;

}  // namespace tapegrad
