// From a place in compiled code to the line of the kernel's text, for messages.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulator.h"

namespace tapegrad::cuda {

namespace {

// Writes an image to a file of its own; returns its path, or nothing.
std::string write_image(const std::string& image) {
  char path[] = "/tmp/tapegrad-emulator-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return {};
  const bool written =
      write(file, image.data(), image.size()) == static_cast<ssize_t>(image.size());
  close(file);
  if (written) return path;
  unlink(path);
  return {};
}

// "folder/name.cu:12 (discriminator 3)\n" -> "name.cu:12"
std::string shorten(std::string place) {
  place = place.substr(0, place.find_first_of(" \n"));
  const size_t slash = place.rfind('/');
  return slash == std::string::npos ? place : place.substr(slash + 1);
}

}  // namespace

std::string describe_code(const ModuleTag& module, const void* code) {
  const std::string path = write_image(module.image);
  if (path.empty()) return {};
  // The address is where a call returns to: the call is before it.
  const auto offset = reinterpret_cast<uintptr_t>(code) - 1 - module.variables.start;
  char command[200];
  std::snprintf(command, sizeof command, "addr2line -i -e %s 0x%zx 2>/dev/null", path.c_str(),
                static_cast<size_t>(offset));
  std::string places;
  if (FILE* output = popen(command, "r")) {
    char line[1000];
    while (std::fgets(line, sizeof line, output)) {
      const std::string place = shorten(line);
      const bool is_known = place.find('?') == std::string::npos;
      // What device.h is made of says nothing about the text.
      if (!is_known || place.rfind("device", 0) == 0) continue;
      places += places.empty() ? place : ", from " + place;
    }
    pclose(output);
  }
  unlink(path.c_str());
  return places;
}

}  // namespace tapegrad::cuda
