// Named tuples that ops return, such as torch.return_types.max(values, indices).
#pragma once

#include <utility>

#include "python/binding.h"

namespace tapegrad::python {

// A tuple type with named fields, made once and kept for the life of the process.
class ReturnType {
 public:
  // Also published as _C._return_types.<name>, where tapegrad/return_types.py finds it.
  ReturnType(Binder& b, const char* name, const char* first = "values",
             const char* second = "indices");
  nb::object operator()(std::pair<Tensor, Tensor> results) const;

 private:
  PyTypeObject* type_;
};

}  // namespace tapegrad::python
