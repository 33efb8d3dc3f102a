// Runs a saved program:
//
//   run_program model.program weights.safetensors inputs.safetensors
//
// Prints the program's inputs and outputs, and what it computes from the given tensors. See docs/cpp.md.
#include <tapegrad/tapegrad.h>

#include <cstdio>
#include <string>

namespace tg = tapegrad::api;

namespace {

std::string described(const std::string& name, tg::DType dtype, const std::vector<int64_t>& shape) {
  std::string text = name + " " + tg::name(dtype) + "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

template <class T>
void print_elements(const tg::Tensor& x) {
  for (const T element : x.elements<T>()) std::printf(" %.9g", static_cast<double>(element));
  std::printf("\n");
}

void print(const std::string& name, const tg::Tensor& x) {
  std::printf("%s =", described(name, x.dtype(), x.shape()).c_str());
  if (x.dtype() == tg::DType::Float32) print_elements<float>(x);
  else if (x.dtype() == tg::DType::Float64) print_elements<double>(x);
  else if (x.dtype() == tg::DType::Int64) print_elements<int64_t>(x);
  else std::printf(" ...\n");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: run_program PROGRAM WEIGHTS INPUTS\n");
    return 2;
  }
  try {
    tg::Program program = tg::Program::load(arguments[1]);
    for (const tg::Argument& each : program.inputs())
      std::printf("input %s\n", described(each.name, each.dtype, each.shape).c_str());
    program.bind(tg::load_tensors(arguments[2]));
    const tg::Tensors inputs = tg::load_tensors(arguments[3]);
    program.run(inputs);  // a second run gives the same
    for (const auto& [name, tensor] : program.run(inputs)) print(name, tensor);
  } catch (const tg::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
