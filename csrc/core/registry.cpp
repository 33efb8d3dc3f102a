#include "core/registry.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace tapegrad {

namespace {

struct ListedKernel {
  DeviceType device;
  const char* op;
  Kernel kernel;
};

// Functions, because globals of other files are made before those of this one.
std::vector<const Op*>& ops() {
  static std::vector<const Op*> list;
  return list;
}
std::vector<ListedKernel>& kernels() {
  static std::vector<ListedKernel> list;
  return list;
}

bool by_name(const Op* a, const Op* b) { return std::strcmp(a->name, b->name) < 0; }
bool by_op(const ListedKernel& a, const ListedKernel& b) { return std::strcmp(a.op, b.op) < 0; }

auto kernels_named(const char* name) {
  return std::equal_range(kernels().begin(), kernels().end(), ListedKernel{{}, name, nullptr},
                          by_op);
}

}  // namespace

void Op::enlist() const { ops().push_back(this); }

size_t Op::attribute(std::string_view wanted) const {
  for (size_t i = 0; i < attributes.size(); ++i)
    if (wanted == attributes[i]) return i;
  fail(name, ": internal error: expected an attribute '", wanted, "'");
}

bool Op::takes(size_t count) const {
  size_t starred = 0;
  for (const char* each : attributes) starred += each[std::strlen(each) - 1] == '*';
  const size_t plain = attributes.size() - starred;
  return starred == 0 ? count == plain : count >= plain && (count - plain) % starred == 0;
}

void list_kernels(DeviceType device, std::initializer_list<NamedKernel> list) {
  for (const NamedKernel& named : list) kernels().push_back({device, named.op, named.kernel});
}

void link_kernels() {
  std::sort(ops().begin(), ops().end(), by_name);
  std::sort(kernels().begin(), kernels().end(), by_op);
  std::vector<const char*> used;
  for (size_t i = 0; i < ops().size(); ++i) {
    const Op& op = *ops()[i];
    TAPEGRAD_CHECK(i == 0 || std::strcmp(ops()[i - 1]->name, op.name) != 0,
                   "internal error: two ops are named '", op.name, "'");
    const auto [begin, end] = kernels_named(op.kernel_name);
    for (auto it = begin; it != end; ++it) op.kernels[static_cast<int>(it->device)] = it->kernel;
    if (begin != end) used.push_back(op.kernel_name);
  }
  auto is_less = [](const char* a, const char* b) { return std::strcmp(a, b) < 0; };
  std::sort(used.begin(), used.end(), is_less);
  for (const ListedKernel& kernel : kernels())
    TAPEGRAD_CHECK(std::binary_search(used.begin(), used.end(), kernel.op, is_less),
                   "internal error: no op is named '", kernel.op, "', for which there is a kernel");
}

const std::vector<const Op*>& all_ops() { return ops(); }

const Op* find_op(std::string_view name) {
  auto it =
      std::lower_bound(ops().begin(), ops().end(), name,
                       [](const Op* op, std::string_view wanted) { return op->name < wanted; });
  return it != ops().end() && (*it)->name == name ? *it : nullptr;
}

}  // namespace tapegrad
