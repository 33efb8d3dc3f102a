// Loans both ways: somebody outside knows the address of a storage's bytes for a while, or a storage shows the bytes of
// somebody else on a device.
#pragma once

#include <utility>

#include "core/storage.h"

namespace tapegrad {

// Keeps the storage, and lets it know. See Note [Memory that is written unseen].
class Loan {
 public:
  explicit Loan(Ref<Storage> storage) : storage_(std::move(storage)) { storage_->lend(); }
  ~Loan() { storage_->end_loan(); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Storage& storage() const { return *storage_; }

 private:
  Ref<Storage> storage_;
};

// Storage::borrow() for bytes on any device.
Ref<Storage> borrow_on(Device device, void* data, size_t nbytes, void* owner,
                       void (*free_owner)(void*));

}  // namespace tapegrad
