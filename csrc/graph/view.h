// Views and in-place writes in the graph. The rules and their reasons are told once, in
// ops/view_history.cpp, Note [In-place on views]; the functions are declared in this layer because
// the graph itself must call them.
#pragma once

#include "graph/node.h"

namespace tapegrad {

// Makes `view` a view of `x` (or of what x itself is a view of).
void mark_view(const Tensor& view, const Tensor& x);

// Brings the history of a view up to date after its base was written in place.
void update_view_history(const Tensor& view);

// Before a recorded in-place write to `tensor`: refuses the views that cannot be followed.
void check_view_write(const char* op, const Tensor& tensor, bool recording);

// The last act of a recorded in-place write to `tensor`: an output of `node` becomes its history, and,
// when it is a view, the history of its base is rewritten so that all other views see the write.
// Until then every tensor, views of the written one included, has the history it had before.
void rebase_history(const Tensor& tensor, Ref<Node> node, uint32_t output_number = 0);

}  // namespace tapegrad
