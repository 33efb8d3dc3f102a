#include "core/loan.h"

#include <unordered_map>

namespace tapegrad {

namespace {

// How many borrowers there are. They hold the storages: an address here is not used again. Never freed:
// arrays may outlive static objects.
auto& loans = *new std::unordered_map<const Storage*, uint32_t>();

}  // namespace

void Storage::expose() {
  if (has(kTracked)) tracking.expose(*this);
  if (is_coded()) forget_codings(*this);
  set(kExposed | kWasOut);
}

void Storage::lend() {
  if (has(kTracked)) tracking.expose(*this);
  if (is_coded()) forget_codings(*this);
  ++loans[this];
  set(kLent | kWasOut);
}

void Storage::end_loan() noexcept {
  auto found = loans.find(this);
  if (found == loans.end() || --found->second > 0) return;
  loans.erase(found);
  clear(kLent);
}

}  // namespace tapegrad
