// NVRTC: "compiles" a kernel text with the C++ compiler; the shared object is the cubin.
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// Given by the build: the folder of device.h, the compiler, and a hash of the two.
#if !defined(EMULATOR_FOLDER) || !defined(EMULATOR_COMPILER) || !defined(EMULATOR_HASH)
#error "built by tests/cuda_emulator/__init__.py"
#endif

extern char** environ;

struct NvrtcProgram {
  std::string text, name, log, binary;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
};

namespace {

enum { kSuccess = 0, kInvalidInput = 3, kInvalidProgram = 4, kCompilation = 6, kInternal = 11 };

// -O1 compiles quickly and runs well enough; contraction is off as in the options for NVRTC.
const char* const kOptions[] = {
    "-std=c++20", "-O1", "-g1", "-fPIC", "-shared", "-w", "-fno-strict-aliasing",
    "-ffp-contract=off", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-math-errno",
    "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-nostdlib",
    // Reported by device_checks.h.
    "-fsanitize=thread,alignment,bounds,shift-exponent,integer-divide-by-zero",
    "-fno-sanitize-recover=all", "-x", "c++"};
const char* const kLibraries[] = {"-x", "none", "-lm", "-lc", "-lgcc"};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c != ' ') words.back() += c;
    else if (!words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// The definitions of macros among the options; the rest says nothing to a CPU.
std::vector<std::string> definitions(int count, const char* const* options) {
  std::vector<std::string> found;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    const std::string long_form = "--define-macro";
    std::string value;
    if (option == "-D" || option == long_form) value = i + 1 < count ? options[++i] : "";
    else if (option.rfind(long_form + "=", 0) == 0) value = option.substr(long_form.size() + 1);
    else if (option.rfind("-D", 0) == 0) value = option.substr(2);
    if (!value.empty()) found.push_back("-D" + value);
  }
  return found;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The names of the kernels that are written out as `extern "C" __global__ void name(`: those of
// TAPEGRAD_KERNEL make their entries themselves. Lines of macros are not looked at.
std::vector<std::string> kernel_names(const std::string& text) {
  const std::string start = "extern \"C\" __global__ void ", bounds = "__launch_bounds__(";
  std::vector<std::string> names;
  bool is_macro = false;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const bool continues = !line.empty() && line.back() == '\\';
    const size_t content = line.find_first_not_of(" \t");
    is_macro = is_macro || (content != std::string::npos && line[content] == '#');
    size_t at = is_macro ? std::string::npos : line.find(start);
    is_macro = is_macro && continues;
    if (at == std::string::npos) continue;
    at += start.size();
    if (line.compare(at, bounds.size(), bounds) == 0) at = line.find(')', at) + 1;
    while (at < line.size() && line[at] == ' ') ++at;
    size_t stop = at;
    while (stop < line.size() && is_word(line[stop])) ++stop;
    if (stop > at) names.push_back(line.substr(at, stop - at));
  }
  return names;
}

std::string source(const NvrtcProgram& program) {
  std::string text = "#line 1 \"" + program.name + "\"\n" + program.text + "\n";
  for (const std::string& name : kernel_names(program.text))
    text += "TAPEGRAD_EMULATOR_ENTRY(" + name + ")\n";
  return text;
}

// ---- files

bool read_file(const std::string& path, std::string* content) {
  FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return false;
  content->clear();
  char buffer[65536];
  size_t count;
  while ((count = std::fread(buffer, 1, sizeof buffer, file)) > 0) content->append(buffer, count);
  std::fclose(file);
  return true;
}

bool write_file(const std::string& path, const std::string& content) {
  FILE* file = std::fopen(path.c_str(), "wb");
  if (!file) return false;
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  return std::fclose(file) == 0 && written;
}

// Where results are kept; processes share it.
std::string cache_folder() {
  const char* chosen = std::getenv("TAPEGRAD_EMULATOR_CACHE");
  const char* temporary = std::getenv("TMPDIR");
  const std::string folder = chosen && *chosen
                                 ? chosen
                                 : std::string(temporary && *temporary ? temporary : "/tmp") +
                                       "/tapegrad-emulator-" + std::to_string(getuid());
  mkdir(folder.c_str(), 0700);
  return folder;
}

uint64_t hash(const std::string& text, uint64_t seed) {  // FNV-1a
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return seed;
}

std::string cache_key(const std::vector<std::string>& parts) {
  uint64_t low = 0xcbf29ce484222325, high = 0x9ae16a3b2f90404f;
  for (const std::string& part : parts) {
    const std::string sized = std::to_string(part.size()) + ":" + part;
    low = hash(sized, low);
    high = hash(sized, high) ^ high >> 29;
  }
  char key[40];
  std::snprintf(key, sizeof key, "%016llx%016llx", static_cast<unsigned long long>(low),
                static_cast<unsigned long long>(high));
  return key;
}

// Held while a result is made, so that processes that want the same wait for the first.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : file_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

// ---- running the compiler

// Runs a command with its messages in a file; returns whether it succeeded.
bool run(const std::vector<std::string>& command, const std::string& messages) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, messages.c_str(), O_CREAT | O_TRUNC | O_WRONLY,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t process;
  const int failed = posix_spawnp(&process, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  return !failed && waitpid(process, &status, 0) == process && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

// file.cu:12:5: error  ->  file.cu(12): error, as NVRTC writes it
std::string as_nvrtc_writes(const std::string& log, const std::string& name) {
  std::string result;
  for (size_t at = 0; at < log.size();) {
    const bool is_line_start = at == 0 || log[at - 1] == '\n';
    size_t digits = at + name.size() + 1;
    if (is_line_start && log.compare(at, name.size() + 1, name + ":") == 0 && digits < log.size() &&
        std::isdigit(static_cast<unsigned char>(log[digits]))) {
      const size_t end = log.find(':', digits);
      result += name + "(" + log.substr(digits, end - digits) + ")";
      at = end;
      if (at + 1 < log.size() && std::isdigit(static_cast<unsigned char>(log[at + 1])))
        at = log.find(':', at + 1);
    } else {
      result += log[at++];
    }
  }
  return result;
}

int compile(NvrtcProgram& program, const std::vector<std::string>& macros, const std::string& text,
            const std::string& target) {
  const std::string folder = target + "." + std::to_string(getpid());
  mkdir(folder.c_str(), 0700);
  const std::string input = folder + "/kernels.cpp", output = folder + "/kernels.so",
                    messages = folder + "/messages";
  std::vector<std::string> command = split(EMULATOR_COMPILER), files{input, output, messages};
  command.insert(command.end(), std::begin(kOptions), std::end(kOptions));
  command.insert(command.end(), macros.begin(), macros.end());
  for (const auto& [name, content] : program.headers) {
    files.push_back(folder + "/" + name);
    write_file(files.back(), content);
  }
  for (const char* word : {"-I", folder.c_str(), "-include", EMULATOR_FOLDER "/device.h",
                           input.c_str(), "-o", output.c_str()})
    command.emplace_back(word);
  command.insert(command.end(), std::begin(kLibraries), std::end(kLibraries));
  const bool compiled = write_file(input, text) && run(command, messages);
  std::string log;
  read_file(messages, &log);
  program.log = as_nvrtc_writes(log, program.name);
  if (compiled) {
    read_file(output, &program.binary);
    std::rename(output.c_str(), target.c_str());
  }
  for (const std::string& file : files) unlink(file.c_str());
  rmdir(folder.c_str());
  if (!compiled && program.log.empty())
    program.log = "the compiler could not be run: " EMULATOR_COMPILER;
  return compiled ? kSuccess : kCompilation;
}

void copy_out(const std::string& from, char* to) { std::memcpy(to, from.data(), from.size()); }

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 8;
  return kSuccess;
}

int nvrtcCreateProgram(NvrtcProgram** program, const char* text, const char* name, int header_count,
                       const char* const* headers, const char* const* header_names) {
  if (!program || !text || header_count < 0) return kInvalidInput;
  *program = new NvrtcProgram{text, name && *name ? name : "default_program", {}, {}, {}};
  for (int i = 0; i < header_count; ++i)
    (*program)->headers.emplace_back(header_names[i], headers[i]);
  return kSuccess;
}

int nvrtcCompileProgram(NvrtcProgram* program, int option_count, const char* const* options) {
  if (!program) return kInvalidProgram;
  program->log.clear();
  program->binary.clear();
  const std::vector<std::string> macros = definitions(option_count, options);
  const std::string text = source(*program);
  std::vector<std::string> parts{EMULATOR_HASH, text};
  parts.insert(parts.end(), macros.begin(), macros.end());
  for (const auto& [name, content] : program->headers) {
    parts.push_back(name);
    parts.push_back(content);
  }
  const std::string target = cache_folder() + "/" + cache_key(parts) + ".so";
  if (read_file(target, &program->binary)) return kSuccess;
  const FileLock guard(target + ".lock");
  if (read_file(target, &program->binary)) return kSuccess;
  return compile(*program, macros, text, target);
}

int nvrtcGetCUBINSize(NvrtcProgram* program, size_t* nbytes) {
  if (!program) return kInvalidProgram;
  *nbytes = program->binary.size();
  return kSuccess;
}
int nvrtcGetCUBIN(NvrtcProgram* program, char* cubin) {
  if (!program) return kInvalidProgram;
  copy_out(program->binary, cubin);
  return kSuccess;
}
int nvrtcGetPTXSize(NvrtcProgram* program, size_t* nbytes) {
  return nvrtcGetCUBINSize(program, nbytes);
}
int nvrtcGetPTX(NvrtcProgram* program, char* ptx) { return nvrtcGetCUBIN(program, ptx); }

// With the zero at its end.
int nvrtcGetProgramLogSize(NvrtcProgram* program, size_t* nbytes) {
  if (!program) return kInvalidProgram;
  *nbytes = program->log.size() + 1;
  return kSuccess;
}
int nvrtcGetProgramLog(NvrtcProgram* program, char* log) {
  if (!program) return kInvalidProgram;
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return kSuccess;
}

int nvrtcDestroyProgram(NvrtcProgram** program) {
  if (!program || !*program) return kInvalidProgram;
  delete *program;
  *program = nullptr;
  return kSuccess;
}

const char* nvrtcGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "NVRTC_SUCCESS";
    case kInvalidInput:
      return "NVRTC_ERROR_INVALID_INPUT";
    case kInvalidProgram:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case kCompilation:
      return "NVRTC_ERROR_COMPILATION";
    case kInternal:
      return "NVRTC_ERROR_INTERNAL_ERROR";
    default:
      return "NVRTC_ERROR unknown";
  }
}

}  // extern "C"
