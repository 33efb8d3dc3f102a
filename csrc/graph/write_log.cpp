#include "graph/write_log.h"

#include <deque>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/source.h"
#include "intercept/batch.h"

namespace tapegrad {

namespace {

constexpr size_t kMaxWrites = 4096;
// Up to here elements are compared one by one; beyond, by the range of memory they lie in.
constexpr int64_t kExactLimit = int64_t{1} << 24;

struct Place {
  DimVector sizes;
  DimVector strides;
  int64_t offset;  // in elements, as the strides
  int64_t item;    // bytes of an element
};

struct Write {
  uint32_t version;  // the storage's, once the write was done
  const char* op;
  const char* suffix;
  SourceLine line;
  Place place;
  bool through_data;
};

// Never freed: at the end of the process the interpreter is gone before it.
auto& logs = *new std::unordered_map<const Storage*, std::deque<Write>>();

Place place_of(const Tensor& x) {
  return {DimVector(x.sizes()), DimVector(x.strides()), x->offset(),
          static_cast<int64_t>(itemsize(x.dtype()))};
}

struct Range {
  int64_t begin;
  int64_t end;
};

// In bytes of the storage.
Range range_of(const Place& place) {
  int64_t low = place.offset, high = place.offset;
  for (size_t d = 0; d < place.sizes.size(); ++d) {
    if (place.sizes[d] == 0) return {0, 0};
    int64_t reach = (place.sizes[d] - 1) * place.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  return {low * place.item, (high + 1) * place.item};
}

// Calls visit(byte offset of an element) until it returns false; false if it did.
template <class Visit>
bool each_element(const Place& place, Visit&& visit) {
  size_t rank = place.sizes.size();
  DimVector index(rank);
  for (int64_t size : place.sizes)
    if (size == 0) return true;
  int64_t at = place.offset;
  while (true) {
    if (!visit(at * place.item)) return false;
    size_t d = rank;
    while (d > 0) {
      --d;
      at += place.strides[d];
      if (++index[d] < place.sizes[d]) break;
      at -= place.strides[d] * place.sizes[d];
      index[d] = 0;
      if (d == 0) return true;
    }
    if (rank == 0) return true;
  }
}

// Whether the strides alone keep the places apart: two columns of a matrix, the even and the odd
// elements of a row.
bool interleaved(const Place& a, const Place& b) {
  if (a.item != b.item) return false;
  int64_t step = 0;  // all elements of a place are a multiple of this apart
  for (const Place* place : {&a, &b})
    for (size_t d = 0; d < place->sizes.size(); ++d)
      if (place->sizes[d] > 1) step = std::gcd(step, place->strides[d]);
  return step != 0 && (a.offset - b.offset) % step != 0;
}

bool overlap(const Place& a, const Place& b) {
  Range x = range_of(a), y = range_of(b);
  int64_t begin = std::max(x.begin, y.begin), end = std::min(x.end, y.end);
  if (begin >= end || interleaved(a, b)) return false;
  if (end - begin > kExactLimit) return true;
  std::vector<bool> touched(static_cast<size_t>(end - begin));
  each_element(a, [&](int64_t byte) {
    for (int64_t k = std::max(byte, begin); k < std::min(byte + a.item, end); ++k)
      touched[static_cast<size_t>(k - begin)] = true;
    return true;
  });
  return !each_element(b, [&](int64_t byte) {
    for (int64_t k = std::max(byte, begin); k < std::min(byte + b.item, end); ++k)
      if (touched[static_cast<size_t>(k - begin)]) return false;
    return true;
  });
}

}  // namespace

void log_write(const char* op, const char* suffix, const Tensor& self) {
  Storage& storage = self->storage();
  if (Storage* parent = Batches::parent(storage)) parent->bump_version();
  if (storage.savers() == 0) return;
  std::deque<Write>& log = logs[&storage];
  log.push_back(
      {storage.version(), op, suffix, SourceLine::here(), place_of(self), self->is_data_alias()});
  if (log.size() > kMaxWrites) log.pop_front();
}

Writes writes_since(const Tensor& saved, uint32_t version, std::string& culprit) {
  const Storage& storage = saved->storage();
  uint32_t now = storage.version();
  Writes found_so_far = Writes::None;
  if (version == now) return found_so_far;
  auto found = logs.find(&storage);
  uint32_t expected = version + 1;
  if (found != logs.end()) {
    Place place = place_of(saved);
    for (const Write& write : found->second) {
      if (write.version <= version) continue;
      if (write.version != expected++) break;  // a write that was not logged
      if (!overlap(place, write.place)) continue;
      culprit = std::string(write.op) + write.suffix + " at " + write.line.text();
      if (!write.through_data) return Writes::Some;
      found_so_far = Writes::ThroughData;
    }
  }
  if (expected == now + 1) return found_so_far;
  culprit = "a write that was not recorded";
  return Writes::Some;
}

void warn_of_data_write(const std::string& text) {
  constexpr size_t kMostTexts = 1000;
  static auto& said = *new std::unordered_set<std::string>();
  if (said.size() < kMostTexts && said.insert(text).second && warn_user) warn_user(text);
}

void forget_writes(const Storage& storage) noexcept { logs.erase(&storage); }

void set_memory(TensorImpl& tensor, Ref<Storage> storage, DType dtype) {
  uint32_t savers = tensor.savers();
  Ref<Storage> before = tensor.storage_ref();
  for (uint32_t i = 0; i < savers; ++i) remove_saver(*before);
  tensor.set_storage(std::move(storage), dtype);
  if (before != tensor.storage_ref()) before->set_left();
  for (uint32_t i = 0; i < savers; ++i) add_saver(tensor.storage());
  if (savers > 0 && before->savers() == 0) forget_writes(*before);
}

}  // namespace tapegrad
