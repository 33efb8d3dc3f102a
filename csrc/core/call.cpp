#include "core/call.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace tapegrad {

Tensor wrapped_number(Scalar number) {
  Tensor tensor;
  switch (number.kind()) {
    case Scalar::Kind::Float:
      tensor = Tensor(TensorImpl::empty(DType::Float64, {}, 1, Device{}));
      *static_cast<double*>(tensor->address()) = number.as_double();
      break;
    case Scalar::Kind::Int:
      tensor = Tensor(TensorImpl::empty(DType::Int64, {}, 1, Device{}));
      *static_cast<int64_t*>(tensor->address()) = number.as_int();
      break;
    case Scalar::Kind::Bool:
      tensor = Tensor(TensorImpl::empty(DType::Bool, {}, 1, Device{}));
      *static_cast<bool*>(tensor->address()) = number.as_bool();
      break;
  }
  tensor->set_wrapped_number(true);
  return tensor;
}

Tensor wrapped_complex(Complex<double> number) {
  Tensor tensor(TensorImpl::empty(DType::Complex128, {}, 1, Device{}));
  *static_cast<Complex<double>*>(tensor->address()) = number;
  tensor->set_wrapped_number(true);
  return tensor;
}

Scalar number_of(const TensorImpl& wrapped) {
  if (is_complex(wrapped.dtype())) fail_unsupported_dtype("number", wrapped.dtype());
  const void* number = wrapped.address();
  switch (wrapped.dtype()) {
    case DType::Float64:
      return Scalar(*static_cast<const double*>(number));
    case DType::Int64:
      return Scalar(*static_cast<const int64_t*>(number));
    default:
      return Scalar(*static_cast<const bool*>(number));
  }
}

void Call::allocate(const Op* op, size_t inputs, std::span<const Scalar> attributes, size_t outputs,
                    size_t words) {
  const size_t bytes = sizeof(Block) + (inputs + outputs) * sizeof(Operand) +
                       attributes.size() * sizeof(Scalar) + words * sizeof(int64_t);
  TAPEGRAD_CHECK(bytes <= UINT32_MAX, op ? op->name : "call", ": a call of ", inputs + outputs,
                 " operands is too large to be noted");
  block_ = new (pool_allocate(bytes))
      Block{op, static_cast<uint32_t>(bytes), static_cast<uint32_t>(inputs),
            static_cast<uint32_t>(outputs), static_cast<uint32_t>(attributes.size())};
  for (size_t i = 0; i < inputs + outputs; ++i) new (operands() + i) Operand();
  std::uninitialized_copy(attributes.begin(), attributes.end(),
                          const_cast<Scalar*>(this->attributes().data()));
}

Call::~Call() {
  if (block_) pool_free(block_, block_->bytes);
}

void Call::put(Operand& operand, const Placement& placement, uint32_t& at) {
  operand.offset = placement.offset;
  operand.dtype = placement.dtype;
  operand.device = placement.device;
  operand.rank = static_cast<uint8_t>(placement.sizes.size());
  operand.dims = at;
  std::copy(placement.sizes.begin(), placement.sizes.end(), dims() + at);
  std::copy(placement.strides.begin(), placement.strides.end(), dims() + at + operand.rank);
  at += 2 * operand.rank;
}

void Call::put_literal(Operand& operand, DType dtype, Scalar value) {
  operand.memory = Operand::kLiteral;
  operand.dtype = dtype;
  operand.offset = is_floating(dtype) ? std::bit_cast<int64_t>(value.as_double()) : value.as_int();
}

Call::Call(const OpCall& call) {
  size_t words = 0;
  for (const TensorImpl* input : call.inputs) words += 2 * static_cast<size_t>(input->dim());
  for (const TensorImpl* output : call.outputs) words += 2 * static_cast<size_t>(output->dim());
  allocate(&call.op, call.inputs.size(), call.attributes, call.outputs.size(), words);
  uint32_t at = 0;
  Operand* operand = operands();
  for (const TensorImpl* input : call.inputs) {
    if (is_literal(*input)) put_literal(*operand++, input->dtype(), number_of(*input));
    else put(*operand++, placement_of(*input), at);
  }
  for (const TensorImpl* output : call.outputs) put(*operand++, placement_of(*output), at);
}

Call::Call(const Op* op, std::span<const Named> inputs, std::span<const Scalar> attributes,
           std::span<const Named> outputs) {
  size_t words = 0;
  for (const Named& input : inputs) words += 2 * input.placement.sizes.size();
  for (const Named& output : outputs) words += 2 * output.placement.sizes.size();
  allocate(op, inputs.size(), attributes, outputs.size(), words);
  uint32_t at = 0;
  Operand* operand = operands();
  auto add = [&](const Named& named) {
    if (named.memory == Operand::kLiteral) {
      put_literal(*operand++, named.placement.dtype, named.literal);
      return;
    }
    operand->memory = named.memory;
    put(*operand++, named.placement, at);
  };
  for (const Named& input : inputs) add(input);
  for (const Named& output : outputs) add(output);
}

Placement Call::placement(const Operand& operand) const {
  if (operand.is_literal()) return {operand.dtype, operand.device, 0, {}, {}};
  const int64_t* at = dims() + operand.dims;
  return {operand.dtype,
          operand.device,
          operand.offset,
          {at, operand.rank},
          {at + operand.rank, operand.rank}};
}

Scalar Call::literal(const Operand& operand) const {
  if (is_floating(operand.dtype)) return Scalar(std::bit_cast<double>(operand.offset));
  if (operand.dtype == DType::Bool) return Scalar(operand.offset != 0);
  return Scalar(operand.offset);
}

Ref<TensorImpl> Call::tensor(const Operand& operand, Ref<Storage> storage, int64_t shift) const {
  if (!operand.is_literal()) {
    const Placement placement = this->placement(operand);
    return TensorImpl::create(std::move(storage), operand.dtype, placement.sizes, placement.strides,
                              operand.offset + shift);
  }
  return Ref<TensorImpl>(wrapped_number(literal(operand)).impl());
}

bool operator==(const Call& a, const Call& b) {
  auto same_number = [](Scalar x, Scalar y) {
    return x.kind() == y.kind() && (x.is_float() ? std::bit_cast<int64_t>(x.as_double()) ==
                                                       std::bit_cast<int64_t>(y.as_double())
                                                 : x.as_int() == y.as_int());
  };
  auto same_operand = [&](const Call::Operand& x, const Call::Operand& y) {
    if (x.memory != y.memory || x.dtype != y.dtype) return false;
    return x.is_literal() ? x.offset == y.offset : a.placement(x) == b.placement(y);
  };
  return a.op() == b.op() && a.inputs().size() == b.inputs().size() &&
         std::ranges::equal(a.attributes(), b.attributes(), same_number) &&
         std::ranges::equal(a.all(), b.all(), same_operand);
}

}  // namespace tapegrad
