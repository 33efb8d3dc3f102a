// How much memory the tape keeps: what saved values add to it.
//
// Note [What the tape is charged]
// The bytes of every storage that a saved value shows, once each, and not those of leaves: a model's
// parameters live whether or not something was recorded. Bytes that are evicted are not there to
// be counted. Each device has a count of its own.
#pragma once

#include "core/tensor.h"

namespace tapegrad {

struct SavedBytes {
  int64_t live = 0;
  int64_t peak = 0;

  void add(size_t nbytes) {
    live += static_cast<int64_t>(nbytes);
    if (live > peak) peak = live;
  }
  void remove(size_t nbytes) { live -= static_cast<int64_t>(nbytes); }
};
inline SavedBytes saved_bytes[kDevicePlaces];  // by device
inline SavedBytes& saved_bytes_on(Device device) { return saved_bytes[place_of(device)]; }
inline SavedBytes& saved_bytes_of(const Storage& storage) {
  static_assert(place_of(Device()) == 0);
  if (storage.has(Storage::kDevice)) [[unlikely]]
    return saved_bytes_on(storage.device());
  return saved_bytes[0];
}
// On all of them.
inline int64_t total_saved_bytes() {
  int64_t total = 0;
  for (const SavedBytes& each : saved_bytes) total += each.live;
  return total;
}

inline bool is_charged(const Storage& storage) {
  return storage.savers() != 0 && !storage.has(Storage::kLeaf | Storage::kEvicted);
}

inline void add_saver(Storage& storage) {
  const uint32_t before = storage.savers();
  storage.set_savers(before + 1);
  if (before == 0 && is_charged(storage)) saved_bytes_of(storage).add(storage.nbytes());
}
inline void remove_saver(Storage& storage) {
  if (storage.savers() == 1 && is_charged(storage))
    saved_bytes_of(storage).remove(storage.nbytes());
  storage.set_savers(storage.savers() - 1);
}
// A leaf shows these bytes.
inline void mark_leaf(Storage& storage) {
  if (is_charged(storage)) saved_bytes_of(storage).remove(storage.nbytes());
  storage.mark_leaf();
}

// A saved value holds this tensor from now on. (remove_saver(): graph/write_log.h)
inline void add_saver(TensorImpl& tensor) {
  tensor.set_savers(tensor.savers() + 1);
  add_saver(tensor.storage());
}

}  // namespace tapegrad
