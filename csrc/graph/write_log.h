// Who overwrote what: the record of in-place writes to memory that the tape has saved values of.
//
// Note [Writes to disjoint parts]
// Every write bumps the version of its storage, and a saved value whose version still matches is
// intact: that is the whole cost of the common path. While some saved value shows a storage (the
// storage counts them), each write to it is also logged with its place, op and source line. A
// saved value whose version does not match then reads the log: writes that touch none of its
// elements are harmless, the first that does is named in the error. The log of a storage goes away
// with the last saved value of it, so it does not grow from step to step; it keeps the last
// kMaxWrites, and a write that is no longer in it counts as touching everything.
//
// Note [Writes through .data]
// In PyTorch a write through `x.data` is none that autograd knows of: the gradient is computed with
// what is there then. Programs rely on it, mostly where the change does not matter to them. So such a
// write counts like any other, which costs nothing, but is logged as what it is, and a saved value
// that nothing else touched is used all the same, with a warning that names both lines. Whoever wants
// to be sure makes it an error: autograd.set_data_writes("error").
#pragma once

#include <string>

#include "graph/tape_memory.h"

namespace tapegrad {

void log_write(const char* op, const char* suffix, const Tensor& self);

// To be called after every write to memory that existed before the op, whose name is op + suffix.
inline void note_write(const char* op, const Tensor& self, const char* suffix = "") {
  Storage& storage = self->storage();
  storage.bump_version();
  if (storage.savers() != 0 || storage.is_batched()) [[unlikely]]
    log_write(op, suffix, self);
}

enum class Writes { None, ThroughData, Some };
// What writes after `version` did to the elements of `saved`. If anything, `culprit` says who wrote:
// "mul_ at train.py:12, in step".
Writes writes_since(const Tensor& saved, uint32_t version, std::string& culprit);

// Whether a write through `.data` to a saved value is an error.
inline bool data_writes_are_errors = false;
// Set by the binding: tells the user, who may want it to be an error.
inline void (*warn_user)(const std::string& text) = nullptr;
// Warns, once for each text, of a saved value that was written through `.data`.
void warn_of_data_write(const std::string& text);

// The last saved value of the storage is gone.
void forget_writes(const Storage& storage) noexcept;

// A saved value no longer holds the tensor.
inline void remove_saver(TensorImpl& tensor) noexcept {
  Storage& storage = tensor.storage();
  tensor.set_savers(tensor.savers() - 1);
  remove_saver(storage);
  if (storage.savers() == 0 && storage.version() != 0) [[unlikely]]
    forget_writes(storage);
}
// Points a tensor at other memory; saved values that hold it go with it.
void set_memory(TensorImpl& tensor, Ref<Storage> storage, DType dtype);

}  // namespace tapegrad
