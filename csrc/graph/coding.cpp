#include "graph/coding.h"

#include "graph/budget.h"
#include "graph/write_log.h"

namespace tapegrad {

namespace {

// Never freed: payloads may outlive static objects.
auto& by_storage = *new std::unordered_map<const Storage*, std::vector<Payload*>>();

void forget(Storage& storage) noexcept { Payloads::forget(storage); }

[[maybe_unused]] const bool installed = add_storage_listener(
    {Storage::kCoded, forget, nullptr, [](Storage& storage) { forget(storage); }});

}  // namespace

const char* name(Codec codec) {
  static constexpr const char* kNames[kCodecs] = {"whole", "exact", "bf16",   "int8",
                                                  "int4",  "bits",  "narrow", "places"};
  return kNames[static_cast<int>(codec)];
}

void Payload::add(Tensor tensor) {
  if (is_intercepted_here(Interceptor::Budget)) [[unlikely]]
    Budget::admit(tensor->storage());
  add_saver(*tensor.impl());
  parts.push_back(std::move(tensor));
}

int64_t Payload::nbytes() const {
  int64_t total = 0;
  for (const Tensor& part : parts) total += static_cast<int64_t>(part->storage().nbytes());
  return total;
}

Payload::~Payload() {
  if (origin_) Payloads::forget(*this);
  for (const Tensor& part : parts) remove_saver(*part.impl());
}

Ref<Payload> Payloads::find(const Tensor& run, Codec codec, int64_t block) {
  const Storage& storage = run->storage();
  if (!storage.is_coded()) return {};
  auto found = by_storage.find(&storage);
  if (found == by_storage.end()) return {};
  for (Payload* payload : found->second) {
    const bool same_run = payload->version_ == storage.version() &&
                          payload->offset_ == run->offset() && payload->count == run.numel() &&
                          payload->dtype == run.dtype();
    if (payload->is_shared_ && payload->codec == codec && same_run &&
        (block == 0 || payload->attributes[1].as_int() == block))
      return Ref<Payload>(payload);
  }
  return {};
}

void Payloads::add(const Tensor& run, Payload& payload, bool is_shared) {
  Storage& storage = run->storage();
  payload.origin_ = &storage;
  payload.version_ = storage.version();
  payload.offset_ = run->offset();
  payload.is_shared_ = is_shared;
  storage.set_coded();
  by_storage[&storage].push_back(&payload);
}

bool Payloads::any(const Storage& storage) {
  if (!storage.is_coded()) return false;
  auto found = by_storage.find(&storage);
  if (found == by_storage.end()) return false;
  for (const Payload* payload : found->second)
    if (payload->version_ == storage.version()) return true;
  return false;
}

void Payloads::forget(Storage& storage) noexcept {
  auto found = by_storage.find(&storage);
  if (found == by_storage.end()) return;
  for (Payload* payload : found->second) payload->origin_ = nullptr;
  by_storage.erase(found);
}

void Payloads::forget(Payload& payload) noexcept {
  auto found = by_storage.find(payload.origin_);
  if (found == by_storage.end()) return;
  std::erase(found->second, &payload);
  if (found->second.empty()) by_storage.erase(found);
}

}  // namespace tapegrad
