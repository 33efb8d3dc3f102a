// How the CUDA back end asks for kernels, which tapegrad/cuda/_kernels.py writes and compiles, and for
// cuBLASLt.
#include <chrono>
#include <utility>

#include "cuda/blas.h"
#include "cuda/launch.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

std::string compile(const std::string& description, int device) {
  nb::object image = nb::module_::import_("tapegrad.cuda._kernels").attr("image");
  nb::bytes bytes = nb::cast<nb::bytes>(image(description, device));
  return {bytes.c_str(), bytes.size()};
}

// What the driver takes for a launch, as seen from the host: one that starts when what came before is done, as
// programs launch kernels, or one that starts early.
double time_launches(int device, int count, bool early) {
  const cuda::FunctionHandle kernel = cuda::load_kernel("empty ", device);
  const bool usual = std::exchange(cuda::starts_early[device], early && cuda::starts_early[device]);
  auto run = [&] {
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < count; ++k) cuda::launch_with(kernel, device, 1, 32, int64_t{0});
    cuda::synchronize(device);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count;
  };
  run();
  const double seconds = run();
  cuda::starts_early[device] = usual;
  return seconds;
}

std::vector<std::string> find_blas() {
  nb::object find = nb::module_::import_("tapegrad.cuda._blas").attr("find_cublaslt");
  return nb::cast<std::vector<std::string>>(find());
}

}  // namespace

void bind_cuda_kernels(Binder& b) {
  cuda::compile_kernel = compile;
  b.function("_cuda_time_launches", time_launches, "device"_a, "count"_a, "early"_a = false,
             "The seconds that a launch of an empty kernel takes.");
  cuda::find_blas = find_blas;
  b.function("_cuda_blas_version", cuda::blas_version,
             "The version of cuBLASLt, such as 120904; zero where there is none.");
  b.function("_cuda_use_blas", [](bool use) { return std::exchange(cuda::uses_blas, use); },
             "use"_a, "Whether matrix products go to cuBLASLt; returns whether they did.");
}

}  // namespace tapegrad::python
