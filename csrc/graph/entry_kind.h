// The kinds of entries that there are: what each is called, the op whose derivative it is, what it saves.
//
// Note [Entries and ops find each other]
// A kind is a global of the file that defines its entries, beside the op's record, and puts itself on a
// list as ops do. So an entry knows its op (Node::kind), and an op its derivatives (derivatives_of).
// Whatever is asked of an entry by name, by people or by tests, is asked of this list: there is no
// other. check_derivatives() refuses to load a library in which an op has not said whether it has a
// derivative: one of them is forgotten, or the trait that says that there is none.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "core/op.h"

namespace tapegrad {

// The name of a value that an entry saves: "self" for _saved_self. One with a star stands for any
// number of them. `inputs` are those whose gradients are computed from it, where not all are.
struct SavedName {
  SavedName(const char* name) : name(name) {}
  SavedName(const char* name, std::initializer_list<int> inputs) : name(name), inputs(0) {
    for (int i : inputs) this->inputs |= static_cast<uint8_t>(1 << i);
  }
  const char* name;
  uint8_t inputs = 0xff;  // by bit
};

struct EntryKind {
  enum class Role : uint8_t {
    Derivative,  // of an op
    View,        // the same memory under other sizes: no op ran
    Graph,       // a part of the graph itself: where it begins, where two of its parts are joined
    Custom,      // a function written in Python
  };

  // To be filled in, and then enlisted.
  EntryKind() = default;
  // `function` is the public function that records it, by PyTorch's name. PyTorch numbers the
  // overloads of a function: "SumBackward1".
  EntryKind(const char* function, const Op& op, std::initializer_list<SavedName> saved = {},
            int overload = 0)
      : EntryKind(function, &op, Role::Derivative, saved, usual_name(function, overload)) {}
  // Of an op that has the function's name and is of the same file.
  EntryKind(const Op& op, std::initializer_list<SavedName> saved = {}, int overload = 0)
      : EntryKind(op.name, op, saved, overload) {}
  EntryKind(const char* function, Role role)
      : EntryKind(function, nullptr, role, {}, usual_name(function, 0)) {}
  // Those that PyTorch names in another way.
  EntryKind(const char* function, const Op* op, Role role, std::initializer_list<SavedName> saved,
            std::string name)
      : name(std::move(name)), function(function), op(op), role(role), saved(saved) {
    enlist();
  }
  EntryKind(const EntryKind&) = delete;
  EntryKind& operator=(const EntryKind&) = delete;

  void enlist() const;
  const SavedName& saved_at(size_t i) const;
  std::string saved_name(size_t i) const;
  bool may_save(std::string_view name) const;
  // "log_softmax" gives "LogSoftmaxBackward0".
  static std::string usual_name(const std::string& function, int overload);
  // "MyFunction" gives "my_function".
  static std::string function_of_class(const std::string& name);

  std::string name;      // "MulBackward0"
  std::string function;  // "mul": what the tape calls it
  const Op* op = nullptr;
  Role role = Role::Derivative;
  std::vector<SavedName> saved;  // what its entries may save, in their order
};

const char* name(EntryKind::Role role);

const std::vector<const EntryKind*>& all_entry_kinds();
std::vector<const EntryKind*> derivatives_of(const Op& op);
// Fails, naming the op, where one has neither a derivative nor a trait that says why.
void check_derivatives();

}  // namespace tapegrad
