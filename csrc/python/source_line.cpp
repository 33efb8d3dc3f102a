// The running Python line, for the tape: the code object and instruction offset of the innermost
// frame that is not the library's own.
#include "python/source_line.h"

#include <string_view>
#include <utility>

#include "core/source.h"
#include "python/interpreter.h"

namespace tapegrad::python {

namespace {

std::string package_folder;  // with a trailing slash
bool direct = false;         // frames are read without making objects of them

// Whether code belongs to the library. Most calls ask about the file the last one asked about.
bool is_own(PyCodeObject* code) {
  static PyObject* last_name = nullptr;  // counted, so that the address stays this string's
  static bool last_answer = false;
  PyObject* name = code->co_filename;
  if (name == last_name) return last_answer;
  Py_XSETREF(last_name, Py_NewRef(name));
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) PyErr_Clear();
  last_answer = text && std::string_view(text).starts_with(package_folder);
  return last_answer;
}

void* capture_by_public_calls(int32_t* offset) {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (!is_own(code)) {
      *offset = offset_by_public_calls(frame);
      Py_DECREF(frame);
      return code;
    }
    Py_DECREF(code);
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  return nullptr;
}

#if TAPEGRAD_DIRECT_FRAMES
void* capture(int32_t* offset) {
  for (auto* frame = innermost_frame(); frame; frame = outer_frame(frame)) {
    PyCodeObject* code = code_of(frame);
    if (!code || is_own(code)) continue;
    *offset = offset_in(frame, code);
    return Py_NewRef(code);
  }
  return nullptr;
}

InterpreterFrame* skip_shims(InterpreterFrame* frame) {
  while (frame && !code_of(frame)) frame = outer_frame(frame);
  return frame;
}

// Whether the frames now on the stack look the same both ways.
bool direct_frames_agree() {
  InterpreterFrame* frame = skip_shims(innermost_frame());
  PyFrameObject* expected = PyThreadState_GetFrame(PyThreadState_Get());
  bool agree = frame && expected;
  while (agree && frame && expected) {
    PyCodeObject* code = PyFrame_GetCode(expected);
    agree = code_of(frame) == code && offset_in(frame, code) == offset_by_public_calls(expected);
    Py_DECREF(code);
    frame = skip_shims(outer_frame(frame));
    Py_SETREF(expected, PyFrame_GetBack(expected));
  }
  agree = agree && !frame && !expected;
  Py_XDECREF(expected);
  return agree;
}
#else
constexpr auto capture = capture_by_public_calls;
bool direct_frames_agree() { return false; }
#endif

void* retain(void* code) { return Py_NewRef(static_cast<PyObject*>(code)); }
void release(void* code) noexcept { Py_DECREF(static_cast<PyObject*>(code)); }

std::string resolve(void* pointer, int32_t offset) {
  auto* code = static_cast<PyCodeObject*>(pointer);
  int line = PyCode_Addr2Line(code, offset);
  auto text = [](PyObject* string) {
    const char* utf8 = PyUnicode_AsUTF8(string);
    if (!utf8) PyErr_Clear();
    return std::string(utf8 ? utf8 : "?");
  };
  return text(code->co_filename) + ":" + std::to_string(line) + ", in " + text(code->co_name);
}

}  // namespace

void install_source_lines(const std::string& own_folder) {
  package_folder = own_folder + "/";
  direct = direct_frames_agree();
  source_hooks = {direct ? capture : capture_by_public_calls, retain, release, resolve};
}

bool reads_frames_directly() { return direct; }

std::pair<nb::object, nb::object> running_line_both_ways() {
  auto taken = [](void* (*take)(int32_t*)) -> nb::object {
    int32_t offset = 0;
    nb::object code = nb::steal(static_cast<PyObject*>(take(&offset)));
    if (!code.is_valid()) return nb::none();
    return nb::make_tuple(code, offset);
  };
  return {taken(source_hooks.capture), taken(capture_by_public_calls)};
}

}  // namespace tapegrad::python
