// A loan: somebody outside knows the address of a storage's bytes, for a while.
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

}  // namespace tapegrad
