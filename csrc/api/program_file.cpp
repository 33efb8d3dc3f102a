#include "api/program_file.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "api/files.h"
#include "api/json.h"
#include "core/error.h"
#include "core/registry.h"

namespace tapegrad::api {

namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kDigest = 32;

tapegrad::DType dtype_named(const std::string& text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<tapegrad::DType>(i);
    if (text == tapegrad::name(dtype) && !is_limited(dtype)) return dtype;
  }
  fail<ValueError>("there is no dtype '", text, "'");
}

DimVector numbers(const Json& list) {
  TAPEGRAD_CHECK_AS(ValueError, list.list().size() <= kMaxRank, "expected at most ", kMaxRank,
                    " dimensions, got ", list.list().size());
  DimVector found;
  for (const Json& each : list.list()) found.push_back(each.integer());
  return found;
}

// Sizes and strides of operands, which calls refer to while they are made.
class Reader {
 public:
  Reader(tapegrad::Program& program, std::string_view data) : program_(program), data_(data) {}

  void add_step(const Json& step) {
    kept_.clear();
    if (const Json* op = step.find("op")) return add_call(step, op->string());
    const Json* read = step.find("read");
    const Call::Named operand[] = {named(read ? *read : step.at("constant"))};
    const int64_t begin = step.at("bytes").at(0).integer(), end = step.at("bytes").at(1).integer();
    TAPEGRAD_CHECK_AS(ValueError,
                      0 <= begin && begin <= end && end <= static_cast<int64_t>(data_.size()),
                      "expected bytes among ", data_.size(), ", got ", begin, " to ", end);
    tapegrad::Program::Step made{read ? Call(nullptr, operand, {}, {})
                                      : Call(nullptr, {}, {}, operand)};
    made.bytes.assign(data_.begin() + begin, data_.begin() + end);
    if (read) made.line = step.at("line").string();
    program_.add_step(std::move(made));
  }

  NamedPlace argument(const Json& argument) {
    kept_.clear();
    const Call::Named place = named(argument.at(1));
    const Placement& at = place.placement;
    NamedPlace result{argument.at(0).string(),
                      place.memory,
                      at.offset,
                      DimVector(at.sizes),
                      DimVector(at.strides),
                      at.dtype,
                      argument.at(2).boolean(),
                      argument.at(3).boolean()};
    checked_numel("program", result.sizes);
    const size_t nbytes = program_.values()[place.memory].nbytes;
    TAPEGRAD_CHECK_AS(ValueError, lies_within(result.placement(), nbytes), "'", result.name,
                      "' does not lie within the ", nbytes, " bytes of value ", place.memory);
    return result;
  }

 private:
  void add_call(const Json& step, const std::string& name) {
    const Op* op = find_op(name);
    TAPEGRAD_CHECK_AS(ValueError, op, "there is no op '", name, "' in this build");
    std::vector<Call::Named> inputs, outputs;
    for (const Json& each : step.at("inputs").list())
      inputs.push_back(each.kind() == Json::Kind::List ? named(each) : literal(each));
    for (const Json& each : step.at("outputs").list()) outputs.push_back(named(each));
    std::vector<Scalar> attributes;
    const std::vector<Json>& given = step.at("attributes").list();
    TAPEGRAD_CHECK_AS(ValueError, given.size() == op->attributes.size(), name, ": expected ",
                      op->attributes.size(), " attributes, got ", given.size());
    for (size_t i = 0; i < given.size(); ++i)
      add_attribute(*op, op->attributes[i], given[i], attributes);
    program_.add_step({Call(op, inputs, attributes, outputs)});
  }

  static void add_attribute(const Op& op, std::string_view name, const Json& given,
                            std::vector<Scalar>& attributes) {
    const bool has_several = name.ends_with('*');
    if (has_several) name.remove_suffix(1);
    TAPEGRAD_CHECK_AS(ValueError, given.at(0).string() == name, op.name, ": expected attribute '",
                      name, "', got '", given.at(0).string(), "'");
    const Json& value = given.at(1);
    if (has_several) {
      for (const Json& each : value.at("each").list()) attributes.push_back(number(each, false));
    } else {
      attributes.push_back(number(value, name == "dtype"));
    }
  }

  static Scalar number(const Json& value, bool is_dtype) {
    if (is_dtype) return Scalar(dtype_named(value.at("dtype").string()));
    if (value.kind() == Json::Kind::Bool) return Scalar(value.boolean());
    if (value.kind() == Json::Kind::Int) return Scalar(value.integer());
    if (value.kind() != Json::Kind::Object) return Scalar(value.number());
    const std::string& text = value.at("float").string();
    if (text == "nan") return Scalar(std::nan(""));
    TAPEGRAD_CHECK_AS(ValueError, text == "inf" || text == "-inf", "expected a number, got '", text,
                      "'");
    const double infinity = std::numeric_limits<double>::infinity();
    return Scalar(text == "inf" ? infinity : -infinity);
  }

  static Call::Named literal(const Json& value) {
    const Scalar scalar = number(value, false);
    const tapegrad::DType dtype = scalar.is_float()  ? tapegrad::DType::Float64
                                  : scalar.is_bool() ? tapegrad::DType::Bool
                                                     : tapegrad::DType::Int64;
    return {Call::Operand::kLiteral, {dtype, {}, 0, {}, {}}, scalar};
  }

  Call::Named named(const Json& operand) {
    const int64_t value = operand.at(0).integer();
    TAPEGRAD_CHECK_AS(ValueError,
                      0 <= value && value < static_cast<int64_t>(program_.values().size()),
                      "expected one of ", program_.values().size(), " values, got ", value);
    kept_.push_back(std::make_unique<DimVector>(numbers(operand.at(2))));
    const DimVector& sizes = *kept_.back();
    kept_.push_back(std::make_unique<DimVector>(numbers(operand.at(3))));
    const DimVector& strides = *kept_.back();
    TAPEGRAD_CHECK_AS(ValueError, sizes.size() == strides.size(),
                      "expected as many strides as sizes");
    return {static_cast<uint32_t>(value),
            {dtype_named(operand.at(4).string()), {}, operand.at(1).integer(), sizes, strides}};
  }

  tapegrad::Program& program_;
  std::string_view data_;
  std::vector<std::unique_ptr<DimVector>> kept_;
};

// The header and the bytes behind it, after making sure that the file is whole.
std::pair<std::string_view, std::string_view> split(std::string_view content) {
  const uint64_t length = length_in_front(content);
  TAPEGRAD_CHECK_AS(ValueError,
                    content.size() >= 8 + kDigest && length <= content.size() - 8 - kDigest,
                    "expected a program, got a file that is cut short or another one");
  const std::string_view body = content.substr(0, content.size() - kDigest);
  TAPEGRAD_CHECK_AS(ValueError,
                    std::memcmp(sha256(body).data(), content.data() + body.size(), kDigest) == 0,
                    "the file is damaged: its bytes are not those that were saved");
  return {body.substr(8, length), body.substr(8 + length)};
}

// Everything that is read from outside has a name, and no name stands twice.
void check_arguments(const ProgramFile& file) {
  std::set<uint32_t> given;
  for (const std::vector<NamedPlace>* listed : {&file.inputs, &file.outputs}) {
    std::set<std::string> names;
    for (const NamedPlace& each : *listed)
      TAPEGRAD_CHECK_AS(ValueError, names.insert(each.name).second, "two inputs or outputs are '",
                        each.name, "'");
  }
  for (const NamedPlace& each : file.inputs)
    if (each.is_read) given.insert(each.value);
  const auto& values = file.program->values();
  for (size_t i = 0; i < values.size(); ++i)
    TAPEGRAD_CHECK_AS(
        ValueError,
        values[i].is_made || !values[i].is_read || given.contains(static_cast<uint32_t>(i)),
        "value ", i, " is read and is no input");
  for (const NamedPlace& each : file.outputs)
    TAPEGRAD_CHECK_AS(ValueError, !values[each.value].is_made || values[each.value].is_written,
                      "output '", each.name, "' is never computed");
}

}  // namespace

ProgramFile parse_program(const std::string& content) {
  const auto [text, data] = split(content);
  const Json header = Json::parse(text);
  const Json* format = header.find("format");
  TAPEGRAD_CHECK_AS(ValueError, format && format->string() == "tapegrad program",
                    "expected a program that Program.save wrote, got another file");
  TAPEGRAD_CHECK_AS(ValueError, header.at("version").integer() == kVersion,
                    "expected a program of version ", kVersion, ", got version ",
                    header.at("version").integer(), "; record and save it with this release");
  ProgramFile file{std::make_unique<tapegrad::Program>(), {}, {}};
  for (const Json& value : header.at("values").list()) {
    const std::string& device = value.at(1).string();
    TAPEGRAD_CHECK_AS(ValueError, device == "cpu", "the program runs on device '", device,
                      "'; record it on the CPU");
    const int64_t nbytes = value.at(0).integer();
    TAPEGRAD_CHECK_AS(ValueError, nbytes >= 0, "a value has ", nbytes, " bytes");
    file.program->add_value(static_cast<size_t>(nbytes), {}, value.at(2).boolean());
  }
  Reader reader(*file.program, data);
  for (const Json& step : header.at("steps").list()) reader.add_step(step);
  for (const Json& each : header.at("inputs").list()) file.inputs.push_back(reader.argument(each));
  for (const Json& each : header.at("outputs").list())
    file.outputs.push_back(reader.argument(each));
  check_arguments(file);
  return file;
}

}  // namespace tapegrad::api
