// The out= of public functions, beside into_out() of binding.h, which wants the result's own dtype.
#pragma once

#include "python/binding.h"

namespace tapegrad::python {

// As into_out(), for functions whose result may be converted to another dtype of out=.
Tensor into_castable_out(const char* op, Tensor result, const std::optional<Tensor>& out,
                         std::initializer_list<const Tensor*> operands = {});
// As into_out(), for creation functions: they resize out= without a warning.
Tensor into_creation_out(const char* op, Tensor result, const std::optional<Tensor>& out);

// Warns that out= held elements of another shape before.
void warn_resized(Sizes before, const Tensor& out);

}  // namespace tapegrad::python
