// Blocks of a segment, the free ones by size, and all of them by address. See cuda/allocator.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "cuda/allocator.h"

namespace tapegrad::cuda {

inline constexpr size_t kUnit = 512;  // sizes and addresses of blocks are multiples of it

struct StreamBlocks;

struct Block {
  char* address;
  size_t size;
  size_t requested = 0;
  StreamBlocks* owner;  // of the stream it belongs to
  PoolKind pool;
  Block *before, *after;  // neighbours in the segment; the first block stays the first
  Block *previous = nullptr, *next = nullptr;  // in the list of free blocks of one size
  bool is_live = false;                        // handed out
  bool is_shared = false;                      // used on other streams
  bool is_recorded = false;                    // and the program said so
  uint32_t waits = 0;                          // for so many events, after it was freed

  bool is_kept =
      false;  // freed last: neither joined with its neighbours nor among the free ones yet

  bool is_free() const { return !is_live && waits == 0 && !is_kept; }
  bool is_whole_segment() const { return !before && !after; }
};

// Free blocks by size. Those of up to 2 MiB have a list for each size. A bit for each list says whether it
// is empty, and a bit for each word of those bits, so that the best fit is found by looking at three words. The
// few larger ones are sorted.
class FreeBlocks {
 public:
  void add(Block* block) {
    const size_t list = block->size / kUnit;
    if (list >= kLists) {
      large_.insert(block);
      return;
    }
    block->previous = nullptr;
    block->next = lists_[list];
    if (block->next) block->next->previous = block;
    lists_[list] = block;
    words_[list / 64] |= bit(list);
    filled_[list / 64 / 64] |= bit(list / 64);
  }
  void remove(Block* block) {
    const size_t list = block->size / kUnit;
    if (list >= kLists) {
      large_.erase(block);
      return;
    }
    if (block->next) block->next->previous = block->previous;
    if (block->previous) block->previous->next = block->next;
    else lists_[list] = block->next;
    if (lists_[list]) return;
    words_[list / 64] &= ~bit(list);
    if (!words_[list / 64]) filled_[list / 64 / 64] &= ~bit(list / 64);
  }
  // The smallest block of at least a size, or null.
  Block* find(size_t size) const {
    const size_t list = size / kUnit;
    if (list < kLists) {
      if (const uint64_t rest = words_[list / 64] & from(list))
        return lists_[list / 64 * 64 + first_of(rest)];
      const size_t word = list / 64 + 1;
      for (size_t at = word / 64; at < kSummaries; ++at)
        if (const uint64_t rest = at == word / 64 ? filled_[at] & from(word) : filled_[at]) {
          const size_t found = at * 64 + first_of(rest);
          return lists_[found * 64 + first_of(words_[found])];
        }
    }
    auto found = large_.lower_bound(size);
    return found == large_.end() ? nullptr : *found;
  }

 private:
  static constexpr size_t kLists = (size_t{2} << 20) / kUnit + 64, kWords = kLists / 64;
  static constexpr size_t kSummaries = kWords / 64 + 1;

  static uint64_t bit(size_t number) { return uint64_t{1} << number % 64; }
  static uint64_t from(size_t number) { return ~uint64_t{0} << number % 64; }
  static size_t first_of(uint64_t word) { return static_cast<size_t>(std::countr_zero(word)); }

  struct BySize {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
    bool operator()(const Block* a, size_t size) const { return a->size < size; }
  };

  Block* lists_[kLists] = {};
  uint64_t words_[kWords] = {}, filled_[kSummaries] = {};
  std::set<Block*, BySize> large_;
};

struct PrivatePool;

// The free blocks that belong to a stream.
struct StreamBlocks {
  StreamHandle stream;
  PrivatePool* owner = nullptr;  // of captured work
  FreeBlocks free[kPoolKinds];

  FreeBlocks& of(PoolKind pool) { return free[static_cast<int>(pool)]; }
};

// See Note [Memory of captured work].
struct PrivatePool {
  PoolId id;
  int users = 0;  // graphs, and the capture that is going on
  std::unordered_map<StreamHandle, std::unique_ptr<StreamBlocks>> streams;
};

// Blocks that are handed out, by address: a table with open addressing, as it is used for every tensor.
class BlockTable {
 public:
  BlockTable() : slots_(64) {}

  void add(Block* block) {
    if (2 * ++count_ > slots_.size()) grow();
    put(block);
  }
  // The block that begins at an address, or null.
  Block* find(const void* address) const {
    for (size_t at = home(address);; at = next(at))
      if (!slots_[at] || slots_[at]->address == address) return slots_[at];
  }
  Block* take(const void* address) {
    size_t at = home(address);
    while (slots_[at] && slots_[at]->address != address) at = next(at);
    Block* found = slots_[at];
    if (!found) return nullptr;
    --count_;
    close_gap(at);
    return found;
  }

 private:
  size_t home(const void* address) const {
    const uint64_t units = reinterpret_cast<uintptr_t>(address) / kUnit;
    return static_cast<size_t>(units * 0x9E3779B97F4A7C15u >> 32) & (slots_.size() - 1);
  }
  size_t next(size_t at) const { return (at + 1) & (slots_.size() - 1); }
  void put(Block* block) {
    size_t at = home(block->address);
    while (slots_[at]) at = next(at);
    slots_[at] = block;
  }
  // Moves up what would no longer be found behind an empty slot.
  void close_gap(size_t gap) {
    for (size_t at = next(gap); slots_[at]; at = next(at)) {
      const size_t wanted = home(slots_[at]->address);
      const size_t mask = slots_.size() - 1;
      if (((at - wanted) & mask) < ((at - gap) & mask)) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = nullptr;
  }
  void grow() {
    std::vector<Block*> old(slots_.size() * 2);
    old.swap(slots_);
    for (Block* block : old)
      if (block) put(block);
  }

  std::vector<Block*> slots_;  // a power of two, at most half full
  size_t count_ = 0;
};

}  // namespace tapegrad::cuda
