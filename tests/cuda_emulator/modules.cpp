// Modules, functions and launches.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator.h"

namespace tapegrad::cuda {

namespace {

using tapegrad_emulator::Kernel;
using tapegrad_emulator::Parameter;

constexpr unsigned kDefaultShared = 49152, kMaxShared = 232448, kMaxParameters = 32764;

// The driver is told where an image begins, and not how long it is: that is in the image.
size_t image_size(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  if (!image || std::memcmp(bytes, ELFMAG, SELFMAG) != 0 || bytes[EI_CLASS] != ELFCLASS64) return 0;
  const auto& header = *static_cast<const Elf64_Ehdr*>(image);
  size_t end = header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes + header.e_shoff);
  for (size_t i = 0; i < header.e_shnum; ++i)
    if (sections[i].sh_type != SHT_NOBITS)
      end = std::max<size_t>(end, sections[i].sh_offset + sections[i].sh_size);
  return end;
}

// A name for a file that has none, under which the dynamic linker has not seen another one: it takes
// equal names for equal files, and numbers of files are used again.
std::string unique_path(int file) {
  static unsigned count = 0;
  std::string path = "/proc/self/fd";
  for (unsigned bits = ++count; bits != 0; bits >>= 1) path += bits & 1 ? "/." : "/";
  return path + "/" + std::to_string(file);
}

void* load_library(const std::string& image) {
  const int file = image.empty() ? -1 : memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  size_t written = 0;
  while (written < image.size()) {
    const ssize_t count = write(file, image.data() + written, image.size() - written);
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  void* library = nullptr;
  if (written == image.size()) library = dlopen(unique_path(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) std::fprintf(stderr, "CUDA emulator: %s\n", dlerror());
  close(file);
  return library;
}

// Notes where the variables of a module lie if a loaded library is it; returns whether it is.
bool note_if_found(const dl_phdr_info& library, ModuleTag& module) {
  const auto inside = reinterpret_cast<uintptr_t>(module.state);
  uintptr_t first = UINTPTR_MAX, last = 0;
  size_t tls_nbytes = 0;
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const auto& part = library.dlpi_phdr[i];
    if (part.p_type == PT_TLS) tls_nbytes = part.p_memsz;
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t start = library.dlpi_addr + part.p_vaddr;
    first = std::min(first, start);
    last = std::max(last, start + part.p_memsz);
  }
  if (inside < first || inside >= last) return false;
  module.variables = {first, last - first};
  module.tls_module = library.dlpi_tls_modid;
  module.tls_nbytes = tls_nbytes;
  return true;
}

// Finds the variables of a module, and its thread-local storage, which is its static shared memory.
void find_variables(ModuleTag& module) {
  dl_iterate_phdr([](dl_phdr_info* library, size_t, void* module) {
    return static_cast<int>(note_if_found(*library, *static_cast<ModuleTag*>(module)));
  }, &module);
}

// Reads the parameters of a launch, given in either way, into one buffer; empty if they do not fit.
std::vector<unsigned char> read_parameters(const Kernel& kernel, void** parameters, void** extra) {
  enum : uintptr_t { kEnd, kBuffer, kSize };
  constexpr size_t kSlack = 16;  // a struct's size is a multiple of its alignment
  std::vector<unsigned char> buffer(kernel.nbytes + kSlack);
  if (parameters) {
    for (unsigned i = 0; i < kernel.parameter_count; ++i) {
      const Parameter& each = kernel.parameters[i];
      std::memcpy(buffer.data() + each.offset, parameters[i], each.nbytes);
    }
    return buffer;
  }
  const void* data = nullptr;
  size_t nbytes = 0;
  for (void** word = extra; word && reinterpret_cast<uintptr_t>(*word) != kEnd; word += 2) {
    if (reinterpret_cast<uintptr_t>(*word) == kBuffer) data = word[1];
    else if (reinterpret_cast<uintptr_t>(*word) == kSize) nbytes = *static_cast<size_t*>(word[1]);
    else return {};
  }
  if (nbytes < kernel.nbytes || nbytes >= kernel.nbytes + kSlack) return {};
  if (nbytes) std::memcpy(buffer.data(), data, nbytes);
  return buffer;
}

bool is_launchable(const FunctionTag& function, const tapegrad_emulator::Index& grid,
                   const tapegrad_emulator::Index& block, unsigned shared_bytes) {
  const bool has_grid =
      grid.x && grid.y && grid.z && grid.x <= 2147483647u && grid.y <= 65535 && grid.z <= 65535;
  const bool has_block = block.x && block.y && block.z && block.x <= 1024 && block.y <= 1024 &&
                         block.z <= 64 && block.x * block.y * block.z <= 1024;
  // What a kernel declares counts as well, unless more was asked for; a module has one kernel mostly.
  const size_t declared = function.module->tls_nbytes;
  const bool has_shared =
      function.shared_limit
          ? shared_bytes <= function.shared_limit && shared_bytes + declared <= kMaxShared
          : shared_bytes + declared <= kDefaultShared || shared_bytes == 0;
  return has_grid && has_block && has_shared && function.kernel->nbytes <= kMaxParameters;
}

}  // namespace

extern "C" {

Result cuModuleLoadData(ModuleHandle* module, const void* image) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  if (const Result result = check_unsafe()) return result;
  auto made = std::make_unique<ModuleTag>();
  made->context = current();
  made->image.assign(static_cast<const char*>(image), image_size(image));
  made->library = load_library(made->image);
  if (!made->library) return kInvalidImage;
  void* get_state = dlsym(made->library, "tapegrad_emulator_context");
  if (!get_state) return kInvalidImage;
  made->state = reinterpret_cast<tapegrad_emulator::Context* (*)()>(get_state)();
  find_variables(*made);
  *module = made.release();  // there is no function that unloads it
  return kSuccess;
}

Result cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  const Inside inside;
  if (!module) return kInvalidHandle;
  auto& made = module->functions[name];
  if (!made) {
    void* entry = dlsym(module->library, (std::string("tapegrad_entry_") + name).c_str());
    if (!entry) return kNotFound;
    const Kernel* kernel = reinterpret_cast<const Kernel* (*)()>(entry)();
    made.reset(new FunctionTag{module, name, kernel, 0});
  }
  *function = made.get();
  return kSuccess;
}

Result cuFuncSetAttribute(FunctionHandle function, int attribute, int value) {
  constexpr int kMaxDynamicShared = 8, kCarveout = 9;
  const Inside inside;
  if (!function) return kInvalidHandle;
  if (attribute == kCarveout) return kSuccess;
  if (attribute != kMaxDynamicShared || value < 0 || static_cast<unsigned>(value) > kMaxShared)
    return kInvalidValue;
  function->shared_limit = static_cast<unsigned>(value);
  return kSuccess;
}

Result cuLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      StreamHandle handle, void** parameters, void** extra) {
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!current()) return kInvalidContext;
  if (!stream || !function || function->module->context != current()) return kInvalidHandle;
  const tapegrad_emulator::Index grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
  if (!is_launchable(*function, grid, block, shared_bytes)) return kInvalidValue;
  if (parameters && extra) return kInvalidValue;
  auto buffer = read_parameters(*function->kernel, parameters, extra);
  if (buffer.empty()) return kInvalidValue;
  if (const Result result = check_work(*stream)) return result;
  const DriverCall call(kLaunchCall);
  auto run = [=, arguments = std::move(buffer)] {
    std::string message;
    const Launch launch{function, grid, block, shared_bytes, arguments.data(), arguments.size()};
    const Result error = run_grid(launch, &message);
    const std::string culprit = "kernel '" + function->name + "'";
    if (error != kSuccess) report(*stream->context, error, culprit + ", " + message);
    if (has_few_allocations()) check_bounds(culprit);
  };
  const Reported what{kKernelRecord, function->name.c_str()};
  enqueue(*stream, call.reported(what, *stream, std::move(run)));
  return kSuccess;
}

// Work is in the order of its stream here: a kernel that may start early does not.
Result cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** parameters,
                        void** extra) {
  constexpr int kStartEarly = 6;
  if (!config || (config->attribute_count && !config->attributes)) return kInvalidValue;
  for (unsigned k = 0; k < config->attribute_count; ++k)
    if (config->attributes[k].id != kStartEarly) return kInvalidValue;
  return cuLaunchKernel(function, config->grid_x, config->grid_y, config->grid_z, config->block_x,
                        config->block_y, config->block_z, config->shared_bytes, config->stream,
                        parameters, extra);
}

}  // extern "C"

}  // namespace tapegrad::cuda
