#include "graph/entry_kind.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/registry.h"

namespace tapegrad {

namespace {

// A function, because globals of other files are made before those of this one.
std::vector<const EntryKind*>& kinds() {
  static std::vector<const EntryKind*> list;
  return list;
}

bool is_starred(const SavedName& saved) { return saved.name[std::strlen(saved.name) - 1] == '*'; }

}  // namespace

void EntryKind::enlist() const { kinds().push_back(this); }

std::string EntryKind::usual_name(const std::string& function, int overload) {
  std::string camel;
  bool upper = true;
  for (char c : function) {
    if (c != '_') camel += upper && 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '_';
  }
  return camel + "Backward" + std::to_string(overload);
}

std::string EntryKind::function_of_class(const std::string& name) {
  auto is_upper = [&](size_t i) { return i < name.size() && 'A' <= name[i] && name[i] <= 'Z'; };
  auto is_lower = [&](size_t i) { return i < name.size() && 'a' <= name[i] && name[i] <= 'z'; };
  auto is_digit = [&](size_t i) { return '0' <= name[i] && name[i] <= '9'; };
  std::string snake;
  for (size_t i = 0; i < name.size(); ++i) {
    // A word begins behind a small letter, and with the last of several capitals.
    const bool begins =
        i > 0 && is_upper(i) &&
        (is_lower(i - 1) || is_digit(i - 1) || (is_upper(i - 1) && is_lower(i + 1)));
    if (begins) snake += '_';
    snake += is_upper(i) ? static_cast<char>(name[i] - 'A' + 'a') : name[i];
  }
  return snake;
}

const SavedName& EntryKind::saved_at(size_t i) const {
  const bool goes_on = !saved.empty() && is_starred(saved.back());
  TAPEGRAD_CHECK(i < saved.size() || goes_on, "internal error: ", name,
                 " saves a value without a name");
  return saved[std::min(i, saved.size() - 1)];
}

std::string EntryKind::saved_name(size_t i) const {
  const SavedName& found = saved_at(i);
  if (!is_starred(found)) return found.name;
  return std::string(found.name, std::strlen(found.name) - 1) +
         std::to_string(i + 1 - saved.size());
}

bool EntryKind::may_save(std::string_view wanted) const {
  return std::any_of(saved.begin(), saved.end(),
                     [&](const SavedName& each) { return wanted == each.name; });
}

const char* name(EntryKind::Role role) {
  static constexpr const char* kNames[] = {"derivative", "view", "graph", "custom"};
  return kNames[static_cast<int>(role)];
}

const std::vector<const EntryKind*>& all_entry_kinds() { return kinds(); }

std::vector<const EntryKind*> derivatives_of(const Op& op) {
  std::vector<const EntryKind*> found;
  for (const EntryKind* kind : kinds())
    if (kind->op == &op) found.push_back(kind);
  return found;
}

void check_derivatives() {
  std::vector<const Op*> differentiable;
  for (const EntryKind* kind : kinds())
    if (kind->op) differentiable.push_back(kind->op);
  std::sort(differentiable.begin(), differentiable.end());
  for (const Op* op : all_ops()) {
    const bool has_one = std::binary_search(differentiable.begin(), differentiable.end(), op);
    const bool has_none = op->traits & (kNoDerivative | kUnrecorded);
    TAPEGRAD_CHECK(has_one || has_none, "internal error: the op '", op->name,
                   "' has no derivative; define an EntryKind of it, or give it the trait "
                   "kNoDerivative or kUnrecorded");
    TAPEGRAD_CHECK(!(has_one && has_none), "internal error: the op '", op->name,
                   "' has a derivative, and a trait that says that it has none");
  }
}

}  // namespace tapegrad
