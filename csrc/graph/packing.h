// For whom a pack hook runs.
#pragma once

#include <utility>

namespace tapegrad {

class Node;

// The entry whose value is being packed on this thread, or null.
inline thread_local const Node* packing_for = nullptr;

class PackingScope {
 public:
  explicit PackingScope(const Node& entry) : outer_(std::exchange(packing_for, &entry)) {}
  ~PackingScope() { packing_for = outer_; }
  PackingScope(const PackingScope&) = delete;
  PackingScope& operator=(const PackingScope&) = delete;

 private:
  const Node* outer_;
};

}  // namespace tapegrad
