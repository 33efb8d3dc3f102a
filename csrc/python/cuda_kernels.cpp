// How the CUDA back end asks for kernels, which tapegrad/cuda/_kernels.py writes and compiles, and for
// cuBLASLt and cuDNN.
#include <chrono>
#include <utility>

#include "cuda/blas.h"
#include "cuda/conv_dnn.h"
#include "cuda/depthwise.h"
#include "cuda/dnn.h"
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

std::vector<std::string> find_dnn() {
  nb::object find = nb::module_::import_("tapegrad.cuda._dnn").attr("find_cudnn");
  return nb::cast<std::vector<std::string>>(find());
}

void warn_of_dnn(const std::string& reason) {
  nb::module_::import_("tapegrad.cuda._dnn").attr("warn")(reason);
}

std::string read_dnn_plan(const std::string& name) {
  nb::object read = nb::module_::import_("tapegrad.cuda._dnn").attr("read_plan");
  nb::bytes text = nb::cast<nb::bytes>(read(name));
  return {text.c_str(), text.size()};
}

void keep_dnn_plan(const std::string& name, const std::string& text) {
  nb::object keep = nb::module_::import_("tapegrad.cuda._dnn").attr("keep_plan");
  keep(name, nb::bytes(text.data(), text.size()));
}

nb::dict dnn_settings() {
  const cuda::DnnSettings& s = cuda::dnn_settings;
  nb::dict result;
  result["enabled"] = s.enabled;
  result["benchmark"] = s.benchmark;
  result["benchmark_limit"] = s.benchmark_limit;
  result["deterministic"] = s.deterministic;
  result["allow_tf32"] = s.allow_tf32;
  return result;
}

void set_dnn_settings(bool enabled, bool benchmark, int64_t benchmark_limit, bool deterministic,
                      bool allow_tf32) {
  cuda::dnn_settings = {enabled, benchmark, benchmark_limit, deterministic, allow_tf32};
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
  cuda::find_dnn = find_dnn;
  cuda::warn_of_dnn = warn_of_dnn;
  cuda::read_dnn_plan = read_dnn_plan;
  cuda::keep_dnn_plan = keep_dnn_plan;
  b.function("_cuda_dnn_version", cuda::dnn_version,
             "The version of cuDNN, such as 91900; zero where there is none.");
  b.function("_cuda_dnn_convolutions", [] { return cuda::dnn_convolutions; },
             "How many convolutions cuDNN has computed.");
  b.function("_cuda_dnn_add_bias", [](bool add) { return std::exchange(cuda::dnn_adds_bias, add); },
             "add"_a, "Whether plans of cuDNN add biases; returns whether they did.");
  b.function("_cuda_use_depthwise", [](bool use) {
    return std::exchange(cuda::uses_depthwise, use);
  }, "use"_a, "Whether depthwise convolutions go to kernels of our own; returns whether they did.");
  b.function("_cuda_depthwise_many", [](int64_t many) {
    return std::exchange(cuda::depthwise_many, many);
  }, "many"_a, "How many elements are worth a kernel for their channels; returns how many were.");
  b.function("_cuda_depthwise_convolutions", [] { return cuda::depthwise_convolutions; },
             "How many convolutions the kernels for depthwise ones have computed.");
  b.function("_cuda_dnn_plans", [] {
    return cuda::dnn::plans_made;
  }, "How many plans cuDNN was asked for: one for each kind of call that none was kept for.");
  b.function("_cuda_dnn_forget_plans", [] { cuda::dnn::PlanCache::forget(); },
             "Plans are made again, or read where they were kept on disk.");
  b.function("_cuda_dnn_refusal", [] { return cuda::dnn_refusal; },
             "Why the last convolution was not computed by cuDNN; empty where it was not asked.");
  b.function("_cuda_dnn_settings", dnn_settings, "The settings of torch.backends.cudnn.");
  b.function("_cuda_set_dnn_settings", set_dnn_settings, "enabled"_a, "benchmark"_a,
             "benchmark_limit"_a, "deterministic"_a, "allow_tf32"_a, "Set all of them.");
}

}  // namespace tapegrad::python
