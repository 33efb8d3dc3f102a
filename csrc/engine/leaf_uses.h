// Which leaves a sweep is done with before its end.
//
// The order of a sweep, newest first, lets a leaf wait until nothing older than its first use is left. A leaf's
// entry may be as old as a graph that somebody still holds; all of them would then run at the end. While somebody
// asks for it (`early_leaves`), a sweep counts beforehand how many edges lead to each leaf, and a leaf runs after
// the entry with the last of them. Where an entry does not run, since no gradient comes to it, its leaves run in the
// order of the sweep.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>

#include "engine/targets.h"

namespace tapegrad {

// How many want leaves to run as soon as they can.
inline uint32_t early_leaves = 0;

class LeafUses {
 public:
  explicit LeafUses(std::span<const Tensor> roots);

  // Whether this was the last edge to the leaf.
  bool is_last(const Node* leaf);

  // The uses for a sweep, or null where nobody wants to know.
  static std::unique_ptr<LeafUses> wanted(std::span<const Tensor> roots) {
    return early_leaves ? std::make_unique<LeafUses>(roots) : nullptr;
  }

 private:
  std::unordered_map<const Node*, uint32_t> left_;
};

}  // namespace tapegrad
