// AccumulateGrad: the entry at which a leaf's gradient arrives.
#pragma once

#include "graph/node.h"

namespace tapegrad {

// The leaf's accumulating entry, made on first use in a graph. The leaf points to it without owning
// it, so it lives as long as some graph leads to it.
Ref<Node> accumulator_of(const Tensor& leaf);

// Set by the binding layer: whether a tensor holds any Python object.
inline bool (*holds_objects)(const Tensor& tensor) = nullptr;

// The leaf behind an entry with is_accumulator().
const Tensor& leaf_of(const Node& node);

}  // namespace tapegrad
