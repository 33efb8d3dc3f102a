// What a trace expects of the tensors that it meets, and of the thread that it runs on.
#pragma once

#include <Python.h>

#include "core/layout.h"
#include "graph/autocast.h"
#include "graph/record.h"

namespace tapegrad::python {

// What a tensor was at a moment, apart from its elements and, for an argument, from whose memory it shows.
class Form {
 public:
  explicit Form(const Tensor& x);

  // Whether a tensor is like this, of this storage or of any, with a gradient like then or with any.
  bool fits(const TensorImpl& x, bool same_storage, bool same_grad) const;
  // Whether it begins at the same place of its storage.
  bool begins_like(const TensorImpl& x) const { return x.offset() == offset_; }
  // Why no trace takes such a tensor, or null.
  const char* refusal() const { return refusal_; }
  // Lets go of the storage: no tensor fits any more if it must be of that one.
  void release() { storage_ = nullptr; }
  bool has_grad() const { return has_grad_; }
  bool is_odd() const;
  bool has_history() const;

 private:
  struct Layout {
    Layout() = default;
    explicit Layout(const TensorImpl& x);
    bool fits(const TensorImpl& x) const;
    DType dtype{};
    DimVector sizes, strides;
  };
  // What is asked of autograd: a bit for each answer.
  static uint32_t traits_of(const TensorImpl& x);

  Ref<Storage> storage_;  // so that no other one gets its address
  Layout layout_, grad_layout_;
  int64_t offset_;
  Device device_;
  Py_ssize_t attributes_;  // of the Python object: how many
  uint32_t traits_;
  bool has_grad_ = false;
  const char* refusal_ = nullptr;
};

// Which kinds of attention may be used, in which order, as a number; 0 for the usual ones.
inline uint64_t attention_choices = 0;

// The modes that decide what a function does, apart from what Python holds.
struct Environment {
  Environment();
  bool operator==(const Environment&) const = default;

  bool grad, inference, caches, deterministic, data_writes_are_errors;
  uint8_t autocast;
  int nesting;
  DType dtypes[kDeviceTypes];
  DType default_dtype;
  Device default_device;
  uint64_t attention;
  uint64_t device_settings;  // of products and convolutions on CUDA devices
};

// Whether something on this thread wants to see each op by itself: no trace runs, and none is captured.
// In a sweep, those who observe sweeps do not count.
bool is_observed(bool in_sweep = false);

}  // namespace tapegrad::python
