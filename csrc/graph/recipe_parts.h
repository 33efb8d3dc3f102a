// What recipe.cpp, where calls are noted, and remake.cpp, where they are made again, share.
#pragma once

#include "graph/recipe.h"

namespace tapegrad {

// An overwritten value that takes so many calls is given up, or the history of a buffer that a loop
// adds to would grow with the loop.
inline constexpr size_t kFar = 64;

// Values that a search has come to have its number.
extern uint64_t visit_number;

// Bytes that the program holds as well cost nothing until it lets go of them. `ours` references are
// those of the caller.
void hold(Value& value, uint32_t ours = 0);
void let_go(Value& value) noexcept;
// The inputs of a value are needed from now on: it is wanted, and absent.
void need_inputs(Value& first);
// They are no longer: it is present again, or nobody wants it.
void release_inputs(Value& first) noexcept;

// The storage has the value's bytes, or waits for them.
void attach(Value& value, Storage& storage);
void copy_bytes(const Tensor& to, const Tensor& from);
void copy_bytes(const Ref<Storage>& to, const Ref<Storage>& from);

// Lets a lane wait for a value, and its memory for the lane.
inline void await(const Value& value, Lane lane) {
  if (value.lane == lane) [[likely]]
    return;
  // What is recorded cannot wait for what is not, and runs later anyway.
  if (!lanes_are_captured || lane_calls.is_captured(value.lane)) lane_calls.order(value.lane, lane);
  lane_calls.note_use(*value.storage, lane);
}

}  // namespace tapegrad
