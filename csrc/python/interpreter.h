// What the binding reads of CPython's own structures, and the only file that asks for its version.
//
// A source line is taken for every recorded op, so it has to cost a few loads. The public calls make a
// frame object for each frame that they pass (two allocations and more for one op); the structures behind
// them are read here instead. `struct InterpreterFrame` repeats, for each version, the part of the
// interpreter's frame that is read; the layout is frozen within a version. Whether the answers are right is
// not taken on trust: when the library is imported, every frame then on the stack is compared with what the
// public calls say (source_line.cpp), and if one differs, the public calls are used from then on.
//
// 3.10        frames are objects, their structure is public
// 3.11        frames lie on the interpreter's own stack
// 3.12, 3.13  so do shims, where C calls Python: no code of the user's
// 3.14        the low bits of the code's address say who counts it
// later, or without the global lock: the public calls
#pragma once

#include <Python.h>
#include <frameobject.h>

#include <cstddef>
#include <cstdint>

#if PY_VERSION_HEX < 0x030F0000 && !defined(Py_GIL_DISABLED)
#define TAPEGRAD_DIRECT_FRAMES 1
#endif

namespace tapegrad::python {

// From 3.14 on, only an explicit gc.collect() goes over everything at once.
inline constexpr bool kCollectsInIncrements = PY_VERSION_HEX >= 0x030E0000;

// A number that is another one as soon as a class or one of its bases has changed; 0 if it has none.
inline unsigned type_version(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030C0000
  if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
  return type->tp_version_tag;
}
// The same for a class that may not have been asked for anything yet.
inline unsigned assigned_type_version(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030C0000
  // Looking something up gives it one.
  PyObject* found = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__init__");
  Py_XDECREF(found);
  if (!found) PyErr_Clear();
#else
  PyUnstable_Type_AssignVersionTag(type);
#endif
  return type_version(type);
}

// A number that is another one as soon as an item of a dict was set or deleted; 0 where there is none to be read. The
// order of an OrderedDict may change without it.
inline uint64_t dict_version([[maybe_unused]] PyObject* dict) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#else
  return 0;
#endif
}

#if TAPEGRAD_DIRECT_FRAMES

#if PY_VERSION_HEX < 0x030B0000

using InterpreterFrame = PyFrameObject;

inline InterpreterFrame* innermost_frame() { return PyThreadState_Get()->frame; }
inline InterpreterFrame* outer_frame(const InterpreterFrame* frame) { return frame->f_back; }
inline PyCodeObject* code_of(const InterpreterFrame* frame) { return frame->f_code; }
inline int32_t offset_in(const InterpreterFrame* frame, const PyCodeObject*) {
  return static_cast<int32_t>(frame->f_lasti * sizeof(_Py_CODEUNIT));
}

#else

struct InterpreterFrame {
#if PY_VERSION_HEX < 0x030C0000
  void* unread[4];
  uintptr_t code;
  void* frame_object;
  InterpreterFrame* outer;
#else
  uintptr_t code;
  InterpreterFrame* outer;
  void* unread[5];
#endif
  const char* instruction;
#if PY_VERSION_HEX < 0x030E0000
  int stack_top;
#else
  void* stack_top;
#endif
  uint16_t unread_too;
  char owner;
};

inline InterpreterFrame* innermost_frame() {
#if PY_VERSION_HEX < 0x030D0000
  void* frame = PyThreadState_Get()->cframe->current_frame;
#else
  void* frame = PyThreadState_Get()->current_frame;
#endif
  return static_cast<InterpreterFrame*>(frame);
}
inline InterpreterFrame* outer_frame(const InterpreterFrame* frame) { return frame->outer; }

// Null for a shim.
inline PyCodeObject* code_of(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030C0000
  constexpr char kFirstOwnerOfShims = 3;
  if (frame->owner >= kFirstOwnerOfShims) return nullptr;
#endif
#if PY_VERSION_HEX >= 0x030E0000
  constexpr uintptr_t kTag = 3;
#else
  constexpr uintptr_t kTag = 0;
#endif
  return reinterpret_cast<PyCodeObject*>(frame->code & ~kTag);
}
inline int32_t offset_in(const InterpreterFrame* frame, const PyCodeObject* code) {
  return static_cast<int32_t>(frame->instruction - code->co_code_adaptive);
}

#endif
#endif  // TAPEGRAD_DIRECT_FRAMES

inline int32_t offset_by_public_calls(PyFrameObject* frame) {
#if PY_VERSION_HEX < 0x030B0000
  return static_cast<int32_t>(frame->f_lasti * sizeof(_Py_CODEUNIT));
#else
  return PyFrame_GetLasti(frame);
#endif
}

}  // namespace tapegrad::python
