// Programs for Python (tapegrad/tape/program.py): capturing, what they are made of, running them.
//
// An operand is a number, which is a literal, or a tuple (value, offset, shape, strides, dtype, device).
#include "intercept/program.h"

#include <nanobind/stl/variant.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "core/registry.h"
#include "core/source.h"
#include "engine/sweep.h"
#include "graph/forward.h"
#include "graph/write_log.h"
#include "intercept/batch.h"
#include "intercept/host_bytes.h"
#include "ops/autocast.h"
#include "ops/copy.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

using Place = std::tuple<uint32_t, int64_t, IntList, IntList, DType, std::string>;
using PlaceOrNumber = std::variant<Place, Scalar>;
using NumberOrDType = std::variant<DType, Scalar>;

IntList list_of(Sizes sizes) {
  IntList list;
  list.values = DimVector(sizes);
  return list;
}

// ---- to Python

nb::object operand_object(const Call& call, const Call::Operand& operand) {
  if (operand.is_literal()) return nb::cast(call.literal(operand));
  const Placement placement = call.placement(operand);
  return nb::make_tuple(operand.memory, placement.offset, list_of(placement.sizes),
                        list_of(placement.strides), placement.dtype, to_string(placement.device));
}

nb::tuple operand_objects(const Call& call, std::span<const Call::Operand> operands) {
  nb::list list;
  for (const Call::Operand& operand : operands) list.append(operand_object(call, operand));
  return nb::tuple(list);
}

// Whether an attribute is a dtype: it has that name.
bool is_dtype(const Op& op, size_t attribute) {
  return attribute < op.attributes.size() && std::string_view(op.attributes[attribute]) == "dtype";
}

nb::tuple attribute_objects(const Call& call) {
  nb::list list;
  const std::span<const Scalar> attributes = call.attributes();
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (is_dtype(*call.op(), i)) list.append(attributes[i].as_dtype());
    else list.append(attributes[i]);
  }
  return nb::tuple(list);
}

nb::tuple step_object(const Program::Step& step) {
  const Call& call = step.call;
  nb::object bytes = nb::none();
  if (!call.op()) bytes = nb::bytes(step.bytes.data(), step.bytes.size());
  return nb::make_tuple(step.name(), operand_objects(call, call.inputs()), attribute_objects(call),
                        operand_objects(call, call.outputs()), bytes, step.line);
}

nb::list steps(const Program& program) {
  nb::list list;
  for (const Program::Step& step : program.steps()) list.append(step_object(step));
  return list;
}

nb::list values(const Program& program) {
  nb::list list;
  for (const Program::Value& value : program.values()) {
    nb::object memory = nb::none();
    if (value.storage) memory = nb::cast(whole_storage(value.storage));
    list.append(nb::make_tuple(memory, value.nbytes, to_string(value.device), value.is_made,
                               value.is_read, value.is_written,
                               nb::make_tuple(value.used.begin, value.used.end)));
  }
  return list;
}

// What the last call gave, where that is still held.
nb::object result(const Program& program) {
  for (auto step = program.steps().rbegin(); step != program.steps().rend(); ++step) {
    if (!step->call.op()) continue;
    const Call::Operand& output = step->call.outputs()[0];
    const Ref<Storage>& storage = program.values()[output.memory].storage;
    // In a vmap it may be that of one element alone.
    if (!storage || Batches::owner(*storage).is_batched()) break;
    return nb::cast(Tensor(step->call.tensor(output, storage)));
  }
  return nb::none();
}

// ---- from Python

Device device_named(const std::string& text) {
  if (text == "cpu") return {};
  if (text == "meta") return {DeviceType::Meta, 0};
  TAPEGRAD_CHECK_AS(ValueError, text.starts_with("cuda:"),
                    "program: expected device 'cpu', 'meta' or one such as 'cuda:0', got '", text,
                    "'");
  return device_of(nb::str(text.c_str()));
}

Call::Named named(const Place& place) {
  const auto& [value, offset, sizes, strides, dtype, device] = place;
  TAPEGRAD_CHECK_AS(ValueError,
                    sizes.values.size() <= kMaxRank && sizes.values.size() == strides.values.size(),
                    "program: expected an operand of at most ", kMaxRank,
                    " dimensions with as many strides, got ", sizes.values.size(), " and ",
                    strides.values.size());
  TAPEGRAD_CHECK_AS(ValueError, value != Call::Operand::kLiteral, "program: value ", value,
                    " is not one of the program's");
  return {value, {dtype, device_named(device), offset, sizes.values, strides.values}};
}

Call::Named named(const PlaceOrNumber& operand) {
  if (const auto* place = std::get_if<Place>(&operand)) return named(*place);
  const Scalar number = std::get<Scalar>(operand);
  const DType dtype = number.is_float()  ? DType::Float64
                      : number.is_bool() ? DType::Bool
                                         : DType::Int64;
  return {Call::Operand::kLiteral, {dtype, {}, 0, {}, {}}, number};
}

void add_step(Program& program, const std::string& name, const std::vector<PlaceOrNumber>& inputs,
              const std::vector<NumberOrDType>& attributes, const std::vector<Place>& outputs,
              const std::optional<nb::bytes>& bytes, const std::string& line) {
  const Op* op = nullptr;
  if (!bytes) {
    op = find_op(name);
    TAPEGRAD_CHECK_AS(ValueError, op, "program: there is no op '", name, "' in this build");
  }
  std::vector<Call::Named> read, written;
  for (const PlaceOrNumber& input : inputs) read.push_back(named(input));
  for (const Place& output : outputs) written.push_back(named(output));
  std::vector<Scalar> numbers;
  for (size_t i = 0; i < attributes.size(); ++i) {
    const auto* dtype = std::get_if<DType>(&attributes[i]);
    TAPEGRAD_CHECK_AS(ValueError, (dtype != nullptr) == (op && is_dtype(*op, i)), "program: ", name,
                      ": attribute ", i, " is of the wrong kind");
    numbers.push_back(dtype ? Scalar(*dtype) : std::get<Scalar>(attributes[i]));
  }
  Program::Step step{Call(op, read, numbers, written)};
  if (bytes) step.bytes.assign(bytes->c_str(), bytes->c_str() + bytes->size());
  step.line = line;
  program.add_step(std::move(step));
}

// Where an operand lies that is an input or an output of the whole program.
void check_place(const Program& program, const Place& place) {
  const Call::Named wanted = named(place);
  TAPEGRAD_CHECK_AS(ValueError, wanted.memory < program.values().size(), "program: value ",
                    wanted.memory, " is not one of the program's");
  const Program::Value& value = program.values()[wanted.memory];
  checked_numel("program", wanted.placement.sizes);
  TAPEGRAD_CHECK_AS(
      ValueError,
      wanted.placement.device == value.device && lies_within(wanted.placement, value.nbytes),
      "program: a tensor of shape ", to_string(wanted.placement.sizes), " does not lie within the ",
      value.nbytes, " bytes of value ", wanted.memory);
}

// For what is no call of the program and changes no version: elements of another tensor, of the same dtype and
// shape and on the same device.
void copy_elements_unseen(const Tensor& to, const Tensor& from) {
  TAPEGRAD_CHECK_AS(ValueError,
                    to.dtype() == from.dtype() && to->device() == from->device() &&
                        same_sizes(to.sizes(), from.sizes()),
                    "program: expected tensors of one dtype, shape and device, got ",
                    to_string(to.sizes()), " and ", to_string(from.sizes()));
  if (to->device().is_meta())
    fail("replay: expected tensors with elements, got one on the meta device");
  if (captures) {
    TensorImpl* const read[] = {from.impl()};
    TensorImpl* const written[] = {to.impl()};
    Program::note_elsewhere(read, written);
  }
  to->storage().use();  // and their recipe, if there is one, is no longer how they were computed
  copy_unseen(from, to);
}

// Elements of the memory that another tensor shows.
Tensor tensor_at(const Tensor& memory, DType dtype, const IntList& sizes, const IntList& strides,
                 int64_t offset) {
  const Placement placement{dtype, memory->device(), offset, sizes, strides};
  TAPEGRAD_CHECK_AS(ValueError,
                    sizes.values.size() == strides.values.size() &&
                        lies_within(placement, memory->storage().nbytes()),
                    "program: a tensor of shape ", to_string(Sizes(sizes)),
                    " does not lie within its memory");
  return Tensor(TensorImpl::create(memory->storage_ref(), dtype, sizes, strides, offset));
}

// ---- running

using Given = std::tuple<uint32_t, Tensor, int64_t>;  // a value, its tensor now, its offset then

class Binding {
 public:
  Binding(const Program& program, const std::vector<Given>& given)
      : program_(program), memory(program.values().size()) {
    for (const auto& [value, tensor, offset] : given) bind(value, tensor, offset);
    for (size_t i = 0; i < memory.size(); ++i) check_apart(i);
  }

 private:
  void bind(uint32_t number, const Tensor& tensor, int64_t offset) {
    TAPEGRAD_CHECK_AS(ValueError, number < memory.size(), "run: there is no value ", number);
    const auto item = static_cast<int64_t>(itemsize(tensor.dtype()));
    const int64_t shift = (tensor->offset() - offset) * item;
    const ByteRange used = program_.values()[number].used;
    TAPEGRAD_CHECK_AS(
        ValueError,
        used.begin + shift >= 0 &&
            used.end + shift <= static_cast<int64_t>(tensor->storage().nbytes()),
        "run: the program uses more memory around the tensor given for value ", number,
        " than there is; pass one that shows as much of its memory as the recorded one did");
    Program::Bound& bound = memory[number];
    TAPEGRAD_CHECK_AS(
        ValueError,
        !bound.storage || (bound.storage == tensor->storage_ref() && bound.shift == shift),
        "run: tensors that shared memory when value ", number,
        " was recorded must share it in the same way");
    bound = {tensor->storage_ref(), shift};
  }

  ByteRange range_of(size_t i) const {
    const ByteRange used = program_.values()[i].used;
    return {used.begin + memory[i].shift, used.end + memory[i].shift};
  }
  // What is written must be nobody else's.
  void check_apart(size_t written) const {
    if (!memory[written].storage || !program_.values()[written].is_written) return;
    for (size_t i = 0; i < memory.size(); ++i) {
      if (i == written || !memory[i].storage) continue;
      const Storage &a = *memory[written].storage, &b = *memory[i].storage;
      const auto begin = [](const Storage& s) { return reinterpret_cast<intptr_t>(s.data()); };
      const auto moved = [](ByteRange range, intptr_t by) {
        return ByteRange{range.begin + by, range.end + by};
      };
      const bool meets =
          &a == &b ? range_of(written).meets(range_of(i))
                   : begin(a) && begin(b) &&
                         moved(range_of(written), begin(a)).meets(moved(range_of(i), begin(b)));
      TAPEGRAD_CHECK_AS(ValueError, !meets, "run: values ", written, " and ", i,
                        " are given the same memory, and the program writes it; pass a clone");
    }
  }

  const Program& program_;

 public:
  std::vector<Program::Bound> memory;
};

std::vector<Tensor> run(const Program& program, const std::vector<Given>& given,
                        const std::vector<Place>& outputs) {
  Binding binding(program, given);
  std::vector<uint32_t> kept;
  for (const Place& output : outputs) {
    check_place(program, output);
    kept.push_back(std::get<0>(output));
  }
  std::vector<Tensor> written;
  for (const auto& [value, tensor, offset] : given) {
    TAPEGRAD_CHECK(!has_tangent(tensor), "run: the tensor given for value ", value,
                   " carries a tangent, and a program computes none; call the recorded function "
                   "itself in forward mode");
    if (program.values()[value].is_written) written.push_back(tensor);
  }
  for (const Tensor& tensor : written) check_write("run", tensor, false);
  auto note_all = [&] {
    for (const Tensor& tensor : written) note_write("run", tensor);
  };
  std::vector<Program::Bound> memory;
  try {
    memory = program.run("run", std::move(binding.memory), kept);
  } catch (...) {
    note_all();
    throw;
  }
  note_all();
  std::vector<Tensor> results;
  for (const Place& output : outputs) {
    const Call::Named place = named(output);
    const auto& [storage, shift] = memory[place.memory];
    TAPEGRAD_CHECK_AS(ValueError, storage, "run: value ", place.memory,
                      " is an output that the program neither computes nor is given");
    const Placement& placement = place.placement;
    const auto item = static_cast<int64_t>(itemsize(placement.dtype));
    results.emplace_back(TensorImpl::create(storage, placement.dtype, placement.sizes,
                                            placement.strides, placement.offset + shift / item));
  }
  return results;
}

// The line that runs, or that recorded the entry of a sweep that does; empty where none is known.
std::string line_of_now() {
  if (std::string line = line_of_running_entry(); !line.empty()) return line + ", backward";
  const SourceLine line = SourceLine::here();
  return line.known() ? line.text() : std::string();
}

}  // namespace

void bind_program(Binder& b) {
  nb::class_<Program>(b.module(), "Program", "Calls, captured as they ran.")
      .def(nb::init<>())
      .def("__len__", [](const Program& program) { return program.steps().size(); })
      .def("__enter__",
           [](Program& program) -> Program& {
    program.start();
    return program;
  }, nb::rv_policy::reference)
      .def("__exit__",
           [](Program& program, nb::args) {
    program.stop();
    drop_captured_casts();
  })
      .def("replay", &Program::replay, "Executes every call again, on the same tensors.")
      .def(
          "steps", steps,
          "(op, inputs, attributes, outputs, bytes, line) of each step. Op \"read\" where a value was "
          "looked at, \"constant\" where one came from Python.")
      .def(
          "values", values,
          "(memory, bytes, device, is made inside, is read, is written, bytes that are used) of each "
          "value.")
      .def("used",
           [](const Program& program) {
    nb::list list;
    for (const auto& [tensor, alias] : program.used()) list.append(nb::make_tuple(tensor, alias));
    return list;
  }, "(tensor, what it was then) of those from outside that calls read.")
      .def("foreign",
           [](const Program& program) {
    nb::list found;
    for (const auto& [storage, foreign] : program.foreign())
      found.append(nb::make_tuple(foreign.tensor, foreign.is_written));
    return found;
  }, "(tensor, whether it was written) of memory that other threads used meanwhile.")
      .def("result", result, "What the last call gave, or None.")
      .def_prop_ro("has_guards",
                   [](const Program& program) {
    return std::ranges::any_of(program.steps(), &Program::Step::is_guard);
  }, "Whether values were looked at.")
      .def_prop_ro("refusal", [](const Program& program) { return program.refusal(); },
                   "Why the program must not run again, or an empty string.")
      .def("keep_lines", [](Program& program) { program.keep_lines(line_of_now); },
           "Notes the line that runs with each step; of a derivative, the line of what it is of.")
      .def("place_guards", &Program::place_guards, "first"_a, "line"_a,
           "Says at which line values were looked at, from a step on.")
      .def("drop_temporaries", &Program::drop_temporaries,
           "Lets go of memory that nobody else can see.")
      .def("add_value",
           [](Program& program, size_t nbytes, const std::string& device, bool is_made) {
    return program.add_value(nbytes, device_named(device), is_made);
  }, "nbytes"_a, "device"_a, "is_made"_a, "Adds a value to a program from its parts.")
      .def("add_step", add_step, "name"_a, "inputs"_a, "attributes"_a, "outputs"_a,
           "bytes"_a.none(), "line"_a, "Adds a step to a program from its parts.")
      .def("check_place", check_place, "place"_a, "Refuses one that no value has.")
      .def("run", run, "given"_a, "outputs"_a,
           "Executes every call on (value, tensor, former offset); returns tensors at the places.")
      .def("is_same", [](const Program& a, const Program& b) { return a == b; }, "other"_a,
           "Whether it has the same steps.");
  b.function("_tensor_at", tensor_at, "memory"_a, "dtype"_a, "size"_a, "stride"_a,
             "storage_offset"_a, "A tensor of any dtype over the memory of another.");
  b.function("_copy_unseen", copy_elements_unseen, "to"_a, "source"_a,
             "Copies elements between tensors of one dtype, shape and device; no version changes.");
}

}  // namespace tapegrad::python
