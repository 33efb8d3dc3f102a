// The file of a program, read without Python. The format is told in tapegrad/tape/_program_file.py, which writes it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "intercept/program.h"

namespace tapegrad::api {

// An input or output of a program: elements of a value.
struct NamedPlace {
  std::string name;
  uint32_t value;
  int64_t offset;
  DimVector sizes, strides;
  tapegrad::DType dtype;
  bool is_read, is_written;

  Placement placement() const { return {dtype, {}, offset, sizes, strides}; }
};

struct ProgramFile {
  std::unique_ptr<tapegrad::Program> program;
  std::vector<NamedPlace> inputs, outputs;
};

// Throws ValueError with what is wrong about the bytes.
ProgramFile parse_program(const std::string& content);

}  // namespace tapegrad::api
