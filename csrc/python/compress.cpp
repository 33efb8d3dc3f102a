// Coding policies in Python: what tapegrad/tape/compress.py is built on.
#include "ops/compress.h"

#include "python/binding.h"

namespace tapegrad::python {

namespace {

Codec codec_from(const std::string& text) {
  for (Codec codec : {Codec::Whole, Codec::Exact, Codec::BFloat16, Codec::Int8, Codec::Int4})
    if (text == name(codec)) return codec;
  fail<ValueError>(
      "compress: expected a codec \"int8\", \"int4\", \"bf16\" or \"exact\", or None, got '", text,
      "'");
}

// The Python object that owns the policy in force, on each thread.
thread_local PyObject* current = nullptr;

// Puts a policy in force, or none, and returns the one before.
nb::object set_coding(nb::object policy) {
  coding = policy.is_none() ? nullptr : nb::cast<CodingPolicy*>(policy);
  PyObject* before = std::exchange(current, policy.is_none() ? nullptr : policy.release().ptr());
  return before ? nb::steal(before) : nb::none();
}

nb::dict counts_of(const CodingPolicy& policy) {
  nb::dict result;
  for (int i = 0; i < kCodecs; ++i) {
    const CodingCounts& counts = policy.counts[static_cast<size_t>(i)];
    if (counts.values != 0)
      result[name(static_cast<Codec>(i))] = nb::make_tuple(counts.values, counts.saved);
  }
  return result;
}

}  // namespace

void bind_compress(Binder& b) {
  nb::class_<CodingPolicy>(b.module(), "_CodingPolicy", "How saved values are coded.")
      .def("__init__",
           [](CodingPolicy* self, const std::string& codec, int64_t min_bytes, int64_t block8,
              int64_t block4, bool inputs,
              const std::vector<std::pair<std::string, std::string>>& ops) {
    new (self) CodingPolicy();
    self->codec = codec_from(codec);
    self->min_bytes = min_bytes;
    self->block[0] = block8;
    self->block[1] = block4;
    self->inputs = inputs;
    for (const auto& [op, each] : ops) self->ops[op] = codec_from(each);
  },
           "codec"_a, "min_bytes"_a, "block8"_a, "block4"_a, "inputs"_a, "ops"_a)
      .def_prop_rw(
          "codec", [](const CodingPolicy& self) { return name(self.codec); },
          [](CodingPolicy& self, const std::string& codec) { self.codec = codec_from(codec); })
      .def_ro("full_bytes", &CodingPolicy::full_bytes)
      .def_ro("saved_bytes", &CodingPolicy::saved_bytes)
      .def("counts", counts_of, "{codec: (values, bytes)} of what was saved.");
  b.function("_set_coding", set_coding, "policy"_a.none(),
             "Puts a policy in force on this thread, or none; returns the one before.");
  b.function("_coded_and_decoded", coded_and_decoded, "input"_a, "policy"_a,
             "What becomes of a tensor that is saved under a policy.");
}

}  // namespace tapegrad::python
