#include "python/return_types.h"
#include "python/text.h"

#include <structseq.h>

namespace tapegrad::python {

namespace {

// One field per line, as PyTorch prints them.
PyObject* repr(PyObject* self) {
  nb::handle object(self);
  std::string text = str_of(object.type().attr("__module__")) + "." +
                     str_of(object.type().attr("__name__")) + "(\n";
  nb::tuple names = nb::borrow<nb::tuple>(object.type().attr("__match_args__"));
  for (size_t i = 0; i < names.size(); ++i) {
    text += str_of(names[i]) + "=";
    text += repr_of(object[i]);
    text += i + 1 < names.size() ? ",\n" : ")";
  }
  return nb::cast(text).release().ptr();
}

nb::object registry(Binder& b) {
  if (!nb::hasattr(b.module(), "_return_types"))
    b.module().attr("_return_types") = nb::module_::import_("types").attr("SimpleNamespace")();
  return b.module().attr("_return_types");
}

}  // namespace

ReturnType::ReturnType(Binder& b, const char* name, const char* first, const char* second) {
  const std::string qualified = std::string("torch.return_types.") + name;
  PyStructSequence_Field fields[] = {{first, nullptr}, {second, nullptr}, {nullptr, nullptr}};
  PyStructSequence_Desc description = {qualified.c_str(), "The results of an op.", fields, 2};
  type_ = PyStructSequence_NewType(&description);
  if (!type_) nb::raise_python_error();
  type_->tp_repr = repr;
  nb::setattr(registry(b), name, nb::handle(reinterpret_cast<PyObject*>(type_)));
}

nb::object ReturnType::operator()(std::pair<Tensor, Tensor> results) const {
  nb::object tuple = nb::steal(PyStructSequence_New(type_));
  if (!tuple.is_valid()) nb::raise_python_error();
  PyStructSequence_SetItem(tuple.ptr(), 0, wrap(std::move(results.first)));
  PyStructSequence_SetItem(tuple.ptr(), 1, wrap(std::move(results.second)));
  return tuple;
}

}  // namespace tapegrad::python
