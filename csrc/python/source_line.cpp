// The running Python line, for the tape: the code object and instruction offset of the innermost
// frame that is not the library's own.
#include "python/source_line.h"

#include <Python.h>
#include <frameobject.h>

#include <cstring>

#include "graph/source.h"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030D0000
// The interpreter's own frame is a few loads away; the public call would make a frame object.
#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#define TAPEGRAD_DIRECT_FRAMES 1
#endif

namespace tapegrad::python {

namespace {

std::string package_folder;  // with a trailing slash

// Whether code belongs to the library. Most calls ask about the file the last one asked about.
bool is_own(PyCodeObject* code) {
  static PyObject* last_name = nullptr;  // counted, so that the address stays this string's
  static bool last_answer = false;
  PyObject* name = code->co_filename;
  if (name == last_name) return last_answer;
  Py_XSETREF(last_name, Py_NewRef(name));
  last_answer = PyUnicode_IS_COMPACT_ASCII(name) &&
                std::strncmp(static_cast<const char*>(PyUnicode_DATA(name)), package_folder.c_str(),
                             package_folder.size()) == 0;
  return last_answer;
}

#if TAPEGRAD_DIRECT_FRAMES
void* capture(int32_t* offset) {
  _PyInterpreterFrame* frame = PyThreadState_Get()->cframe->current_frame;
  while (frame && (!frame->f_code || is_own(frame->f_code))) frame = frame->previous;
  if (!frame) return nullptr;
  *offset = static_cast<int32_t>(_PyInterpreterFrame_LASTI(frame) * sizeof(_Py_CODEUNIT));
  return Py_NewRef(frame->f_code);
}
#else
void* capture(int32_t* offset) {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (!is_own(code)) {
#if PY_VERSION_HEX >= 0x030B0000
      *offset = PyFrame_GetLasti(frame);
#else
      *offset = PyFrame_GetLineNumber(frame);
#endif
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
#endif

void* retain(void* code) { return Py_NewRef(static_cast<PyObject*>(code)); }
void release(void* code) noexcept { Py_DECREF(static_cast<PyObject*>(code)); }

std::string resolve(void* pointer, int32_t offset) {
  auto* code = static_cast<PyCodeObject*>(pointer);
#if PY_VERSION_HEX >= 0x030B0000
  int line = PyCode_Addr2Line(code, offset);
#else
  int line = offset;
#endif
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
  source_hooks = {capture, retain, release, resolve};
}

}  // namespace tapegrad::python
