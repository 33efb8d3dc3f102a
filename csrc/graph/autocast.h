// Autocast: where it is on, and what it makes of each function.
//
// Note [Where autocast stands]
// Between a function that is called and its record. A function that autocast knows has a CastRule, a global
// beside its op, and asks for it before it looks at its operands: `autocast_devices` is one word, and zero
// in most programs. Where it is not, the operands are cast with recorded ops (ops/autocast.h), and the
// function runs again on what they became, with autocast lifted. So all that comes after (the tape, vmap,
// forward mode, budgets, programs) sees ordinary ops on ordinary tensors, and what a function is made
// of is not cast a second time.
//
// The state belongs to a thread. It is not in force while a sweep runs or a tangent is computed:
// derivatives take operands as they are. A checkpoint that runs again brings its state back
// (tapegrad/utils/_replay.py). Functions that write into given memory, in place or with out=, are not cast.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"

namespace tapegrad {

// What autocast does with the operands of a function. Only floating ones on the device that it is on for are
// meant, and none of float64.
enum class Cast : uint8_t {
  None,
  Lower,    // to the dtype of the block
  Float32,  // to float32
  Total,    // it has a dtype= of its own, which is float32 unless the caller says otherwise
  Widest,   // to float32 if one of them is of that dtype, else to that of the block
  Refused,
};
const char* name(Cast cast);

struct CastRule {
  CastRule(const char* function, Cast cpu, Cast cuda);
  CastRule(const CastRule&) = delete;
  CastRule& operator=(const CastRule&) = delete;

  Cast on(DeviceType device) const { return casts[static_cast<int>(device)]; }

  const char* function;      // as PyTorch calls it
  Cast casts[kDeviceTypes];  // none on the meta device, as in PyTorch
};
// All that there are, those of functions written in Python included.
const std::vector<const CastRule*>& all_cast_rules();

// For which devices autocast is in force, by bit.
inline thread_local uint8_t autocast_devices = 0;
constexpr uint8_t device_bit(DeviceType type) {
  return static_cast<uint8_t>(1 << static_cast<int>(type));
}

struct AutocastSettings {
  DType dtypes[kDeviceTypes] = {DType::BFloat16, DType::Float16, DType::Float32};
  bool caches = true;
  int nesting = 0;
  DType dtype(DeviceType type) const { return dtypes[static_cast<int>(type)]; }
};
inline thread_local AutocastSettings autocast_settings;

// Lifts autocast while it lives, or leaves it alone.
class WithoutAutocast {
 public:
  explicit WithoutAutocast(bool lift = true) : before_(autocast_devices) {
    if (lift) autocast_devices = 0;
  }
  ~WithoutAutocast() { autocast_devices = before_; }
  WithoutAutocast(const WithoutAutocast&) = delete;
  WithoutAutocast& operator=(const WithoutAutocast&) = delete;

 private:
  const uint8_t before_;
};

}  // namespace tapegrad
