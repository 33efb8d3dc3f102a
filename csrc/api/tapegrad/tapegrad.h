// Programs that tapegrad has saved, in C++: load one, give it tensors, run it. Neither Python nor the model's
// source is needed.
//
//   tapegrad::api::Program program = tapegrad::api::Program::load("model.program");
//   program.bind(tapegrad::api::load_tensors("model.safetensors"));
//   tapegrad::api::Tensor x({2, 4}, std::vector<float>(8));
//   tapegrad::api::Tensors results = program.run({{"x", x}});
//
// Everything that goes wrong is thrown as tapegrad::api::Error. Functions may be called from any thread; they run one
// at a time, and each uses the library's threads. A program is code: run only those of people whom you trust.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#define TAPEGRAD_API __attribute__((visibility("default")))

namespace tapegrad::api {

class TAPEGRAD_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64
};
TAPEGRAD_API const char* name(DType dtype);  // "float32"
TAPEGRAD_API size_t itemsize(DType dtype);

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return DType::Bool;
  else if constexpr (std::is_same_v<T, uint8_t>) return DType::UInt8;
  else if constexpr (std::is_same_v<T, int8_t>) return DType::Int8;
  else if constexpr (std::is_same_v<T, int16_t>) return DType::Int16;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::Int32;
  else if constexpr (std::is_same_v<T, int64_t>) return DType::Int64;
  else if constexpr (std::is_same_v<T, float>) return DType::Float32;
  else {
    static_assert(std::is_same_v<T, double>, "no dtype has these elements");
    return DType::Float64;
  }
}

// Elements in order, on the CPU. Copies of a handle show the same elements.
class TAPEGRAD_API Tensor {
 public:
  Tensor() = default;
  // Zeros.
  Tensor(DType dtype, const std::vector<int64_t>& shape);
  template <class T>
  Tensor(const std::vector<int64_t>& shape, const std::vector<T>& elements)
      : Tensor(dtype_of<T>(), shape) {
    fill(elements.data(), elements.size());
  }

  bool defined() const { return impl_ != nullptr; }
  DType dtype() const;
  const std::vector<int64_t>& shape() const;
  size_t numel() const;
  void* data() const;
  // The elements, which must be of this type.
  template <class T>
  std::span<T> elements() const {
    check(dtype_of<T>());
    return {static_cast<T*>(data()), numel()};
  }

  struct Impl;

 private:
  friend struct Access;

  template <class T>
  void fill(const T* from, size_t count) {
    check_count(count);
    for (size_t i = 0; i < count; ++i) static_cast<T*>(data())[i] = from[i];
  }
  void check(DType dtype) const;
  void check_count(size_t count) const;

  std::shared_ptr<Impl> impl_;
};
using Tensors = std::map<std::string, Tensor>;

// The tensors of a file in the format of safetensors, such as `tapegrad.save` writes of a state_dict.
TAPEGRAD_API Tensors load_tensors(const std::string& path);

// How many threads a call may use; by default as many as there are cores.
TAPEGRAD_API void set_num_threads(int count);

// An input or output of a program.
struct Argument {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  bool is_read, is_written;  // by the program
};

class TAPEGRAD_API Program {
 public:
  // What `Program.save` of tapegrad.tape wrote. Refuses files that are damaged, of another version, that name ops which
  // are not there, or operands that do not lie within their memory.
  static Program load(const std::string& path);

  const std::vector<Argument>& inputs() const;
  const std::vector<Argument>& outputs() const;

  // Keeps tensors for the inputs of their names, such as parameters; others are not looked at.
  void bind(const Tensors& tensors);
  // Runs on the tensors that are given and on those that are bound. What the program writes to inputs is written to
  // these tensors; results are new ones.
  Tensors run(const Tensors& inputs) const;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace tapegrad::api
