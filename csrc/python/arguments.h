// Arguments of the functions that do not go through nanobind because a call must cost next to
// nothing: creation and random functions, views, joining. A Signature names the parameters,
// ParsedArguments sorts the objects of one call by it and reads them with errors that name function and
// parameter.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "python/binding.h"
#include "python/sparse.h"

namespace tapegrad::python {

struct Signature {
  static constexpr int kMax = 12;

  const char* function;
  int positional;           // how many of the names may be given by position
  bool variadic;            // f(2, 3) as well as f((2, 3)): all positions are the first name
  const char* names[kMax];  // ends with the first null
  mutable PyObject* interned[kMax] = {};  // set when the function is defined
};

// The tensors of a list argument.
class TensorList {
 public:
  explicit TensorList(size_t count) : count_(count), many_(count > kInline ? count : 0) {}
  Tensor& operator[](size_t i) { return many_.empty() ? few_[i] : many_[i]; }
  operator std::span<const Tensor>() const { return {many_.empty() ? few_ : many_.data(), count_}; }

 private:
  static constexpr size_t kInline = 8;
  size_t count_;
  Tensor few_[kInline];
  std::vector<Tensor> many_;
};

class ParsedArguments {
 public:
  ParsedArguments(const Signature& signature, PyObject* self, PyObject* const* args,
                  Py_ssize_t count, PyObject* keywords);

  const char* function() const { return signature_.function; }
  const Tensor& self() const { return tensor_of(self_); }
  PyObject* self_object() const { return self_; }

  // None counts as not given.
  bool has(int i) const { return values_[i] && values_[i] != Py_None; }
  PyObject* object(int i) const { return values_[i]; }
  size_t position_count() const { return positions_.size(); }
  PyObject* position(size_t i) const { return positions_[i]; }

  // The first parameter of a variadic signature.
  DimVector sizes() const;
  // A tuple or list of ints; `sizes` alone accepts a bare int as well.
  DimVector int_tuple(int i) const;
  int64_t integer(int i) const;
  std::optional<int64_t> optional_integer(int i) const;
  double real(int i, double otherwise) const;
  Scalar scalar(int i) const;
  bool flag(int i) const;
  DType dtype(int i, DType otherwise) const;
  const Tensor& tensor(int i) const;
  TensorList tensors(int i) const;
  std::optional<Tensor> optional_tensor(int i) const;

  [[noreturn]] void fail_type(int i, const char* expected) const;
  [[noreturn]] void fail_missing(int i) const;

 private:
  int find(PyObject* name) const;
  PyObject* required(int i) const;

  const Signature& signature_;
  PyObject* self_;
  std::span<PyObject* const> positions_;  // of a variadic signature
  PyObject* values_[Signature::kMax] = {};
};

// An int or something with __index__; no bools.
bool read_index(PyObject* object, int64_t* value);

using FastFunction = PyObject* (*)(PyObject* self, PyObject* const* args, Py_ssize_t count,
                                   PyObject* keywords);

// A body takes ParsedArguments and returns a Tensor.
template <const Signature& kSignature, auto kBody>
PyObject* fast_function(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  try {
    return wrap(kBody(ParsedArguments(kSignature, nullptr, args, count, keywords)));
  } catch (...) {
    return failed(kSignature.function, nullptr, args, count, keywords);
  }
}
template <const Signature& kSignature, auto kBody>
PyObject* fast_method(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  try {
    return wrap(kBody(ParsedArguments(kSignature, self, args, count, keywords)));
  } catch (...) {
    return failed(kSignature.function, self, args, count, keywords);
  }
}

void define_fast_function(Binder& b, const Signature& signature, FastFunction function,
                          const char* doc);
void define_fast_method(Binder& b, const Signature& signature, FastFunction function,
                        const char* doc);

template <const Signature& kSignature, auto kBody>
void define_function(Binder& b, const char* doc) {
  define_fast_function(b, kSignature, fast_function<kSignature, kBody>, doc);
}
template <const Signature& kSignature, auto kBody>
void define_method(Binder& b, const char* doc) {
  define_fast_method(b, kSignature, fast_method<kSignature, kBody>, doc);
}

// The parameters that end most signatures of creation functions.
#define TAPEGRAD_CREATION_OPTIONS "dtype", "layout", "device", "pin_memory", "requires_grad"

// Reads them, from parameter `first` on.
struct CreationOptions {
  DType dtype;
  Device device;
  bool has_device = false;  // whether the caller named it
  bool requires_grad;
  bool pin_memory = false;  // in page-locked memory

  CreationOptions(const ParsedArguments& arguments, int first, DType default_dtype)
      : CreationOptions(arguments, first, default_dtype, default_device) {}
  // What is not given is as with `like`.
  CreationOptions(const ParsedArguments& arguments, int first, const Tensor& like)
      : CreationOptions(arguments, first, like.dtype(), like->device()) {}
  CreationOptions(const ParsedArguments& arguments, int first, DType default_dtype, Device device);
  // Where the result goes: parameter `out` decides if it is there, whatever the default device is.
  Device result_device(const ParsedArguments& arguments, int out) const;
  // Sets requires_grad, and moves the tensor to page-locked memory where that was asked for.
  Tensor finish(Tensor tensor) const;
};

// An uninitialised tensor in the shape of x, in the order that parameter `memory_format` asks for,
// else in that of x.
Tensor creation_like(const ParsedArguments& arguments, const Tensor& x, int memory_format,
                     const CreationOptions& options);

// Where a creation function writes: out=, resized and checked, or a fresh tensor.
Tensor creation_target(const ParsedArguments& arguments, int out, Sizes sizes,
                       const CreationOptions& options, bool dtype_given);

}  // namespace tapegrad::python
