// Note [Attention as cuDNN knows it]
// The library has engines that compute attention without the matrix of scores. They are asked for by a graph that computes
// it with that matrix, of products, pointwise nodes and reductions, and recognise it by its nodes and what is
// between them: the product of query and transposed key, scale, bias, the causal mask as a comparison of indices,
// softmax as maximum, difference, power, sum and quotient, dropout as a product with random zeros and ones, and the
// product with the value. The logarithms of the sums of rows are a second result. The derivative computes the
// weights again from them. Nothing but the sizes, strides and values of these graphs is free to choose.
//
// A bias may be minus infinity, and a query may see no key at all. Its row is set to zeros afterwards, and its logarithm
// to infinity, as the kernels of our own have them: weights exp(score - infinity) are zero in the derivative.
//
// The derivative of the query is summed up in float32 by blocks that arrive in any order. Where results must not
// depend on that, the library keeps the gradients of all scores instead, as long as there is room for them.
#include "cuda/dnn_attention.h"

#include <bit>
#include <limits>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "cuda/context.h"
#include "cuda/dnn.h"
#include "cuda/launch.h"
#include "cuda/random_source.h"
#include "cuda/settings.h"

namespace tapegrad::cuda {

using namespace dnn;  // NOLINT(google-build-using-namespace): the words of its interface

namespace {

// ---- numbers of the interface that only these graphs need, as cudnn_graph.h has them

enum : int {
  kReshapeX = 2200,
  kReshapeY = 2201,
  kDistribution = 2300,
  kBernoulliProbability = 2305,
  kRandomNodeY = 2310,
  kRandomNodeSeed = 2311,
  kRandomNodeHow = 2312,
  kRandomNodeOffset = 2313
};
constexpr int kBernoulli = 0;

constexpr size_t kOldest = 91002;           // 9.10.2: earlier ones have known mistakes
constexpr size_t kLastWithPadding = 91500;  // up to 9.15 lengths of keys must be multiples of 128
constexpr int64_t kMostWidth = 256;
constexpr int64_t kUnit =
    8;  // elements that are 16 bytes: what widths and strides are multiples of
constexpr int64_t kMostWorkspace = int64_t{1} << 30;
constexpr int64_t kVersion = 1;  // of the graphs: plans on disk are known by it

struct alignas(16) Constant {
  float number;
};
const Constant kOne{1}, kLowest{-std::numeric_limits<float>::infinity()};

// The address of a number that stays, so that a plan's pack of addresses can be used again.
const void* constant(double number) {
  static auto& known = *new std::unordered_map<uint32_t, Constant>;
  const auto value = static_cast<float>(number);
  return &known.try_emplace(std::bit_cast<uint32_t>(value), Constant{value}).first->second;
}

// ---- what a graph is made from

struct Layout {
  int64_t sizes[4], strides[4];

  Layout(Sizes sizes_of, Sizes strides_of) {
    for (size_t i = 0; i < 4; ++i) {
      sizes[i] = sizes_of[i];
      strides[i] = strides_of[i];
    }
    // Strides of dimensions of one element may be any number.
    for (int i = 0; i < 3; ++i)
      if (sizes[i] == 1) strides[i] = kUnit * sizes[1] * sizes[2] * sizes[3];
    if (sizes[3] == 1) strides[3] = 1;
  }
  explicit Layout(const TensorImpl& x) : Layout(x.sizes(), x.strides()) {}
  static Layout heads(Sizes sizes) { return {sizes, heads_strides(sizes)}; }

  bool is_dense_enough() const {
    return strides[3] == 1 && strides[0] % kUnit == 0 && strides[1] % kUnit == 0 &&
           strides[2] % kUnit == 0 && strides[0] > 0 && strides[1] > 0 && strides[2] > 0;
  }
  Layout transposed() const {
    Layout other = *this;
    std::swap(other.sizes[2], other.sizes[3]);
    std::swap(other.strides[2], other.strides[3]);
    return other;
  }
  void put_to(Key& key) const {
    for (int64_t size : sizes) key.put(size);
    put_strides_to(key);
  }
  void put_strides_to(Key& key) const {
    for (int i = 0; i < 3; ++i) key.put(strides[i]);
  }
};

int64_t padded(int64_t row) { return (row + kUnit - 1) / kUnit * kUnit; }

// A mask as it is before it is expanded over batch and heads, with rows of a multiple of 16 bytes. Of a bias of one row
// for all queries the library finds wrong gradients (seen with 9.19).
Layout bias_layout(const TensorImpl& mask) {
  int64_t sizes[4];
  for (size_t i = 0; i < 4; ++i) sizes[i] = i < 2 && mask.stride(i) == 0 ? 1 : mask.size(i);
  const int64_t row = padded(sizes[3]);
  const int64_t strides[4] = {sizes[1] * sizes[2] * row, sizes[2] * row, row, 1};
  return {sizes, strides};
}

// A bias is in float32 where the mask is, else in the query's dtype.
DType bias_dtype(const DnnAttention& call) {
  return call.mask && call.mask->dtype() == DType::Float32 ? DType::Float32 : call.query.dtype();
}

// A mask that is a bias already.
bool is_bias(const DnnAttention& call) {
  const TensorImpl& mask = *call.mask;
  if (mask.dtype() != bias_dtype(call) || alignment_of(mask.data()) < 16) return false;
  const Layout own = bias_layout(mask);
  for (size_t i = 0; i < 4; ++i)
    if (own.sizes[i] > 1 && mask.stride(i) != own.strides[i]) return false;
  return true;
}

struct Problem {
  explicit Problem(const DnnAttention& call)
      : type(data_type(call.query.dtype())),
        query(call.query),
        key(call.key),
        value(call.value),
        out(Layout::heads(
            DimVector{query.sizes[0], query.sizes[1], query.sizes[2], value.sizes[3]})),
        grad(out),
        grad_query(Layout::heads(query.sizes)),
        grad_key(Layout::heads(key.sizes)),
        grad_value(Layout::heads(value.sizes)),
        bias(call.mask ? bias_layout(*call.mask) : out),
        bias_type(data_type(bias_dtype(call))),
        has_bias(call.mask != nullptr),
        causal(call.causal),
        scale(call.scale),
        dropout(call.dropout),
        in_order(deterministic_algorithms || dnn_settings.deterministic) {}

  Key key_of_plan(bool is_backward) const {
    Key numbers;
    numbers.put(kVersion << 8 | int64_t{type} << 4 | int64_t{is_backward} << 3 |
                int64_t{has_bias} << 2 | int64_t{causal} << 1 | int64_t{is_backward && in_order});
    numbers.put(std::bit_cast<int64_t>(scale));
    numbers.put(std::bit_cast<int64_t>(dropout));
    query.put_to(numbers);
    key.put_to(numbers);
    value.put_to(numbers);
    if (has_bias) {
      numbers.put(bias_type);
      bias.put_to(numbers);
    }
    if (is_backward)
      for (const Layout* each : {&grad, &grad_query, &grad_key, &grad_value})
        each->put_strides_to(numbers);
    return numbers;
  }

  DataType type;
  Layout query, key, value, out, grad, grad_query, grad_key, grad_value, bias;
  DataType bias_type;
  bool has_bias, causal;
  double scale, dropout;
  bool in_order;  // no sums in any order
};

// ---- graphs

// Tensors that have addresses are made in the order in which Addresses lists them.
class Builder {
 public:
  explicit Builder(const Problem& problem)
      : problem_(problem),
        batch_(problem.query.sizes[0]),
        heads_(problem.query.sizes[1]),
        queries_(problem.query.sizes[2]),
        keys_(problem.key.sizes[2]) {}

  Graph forward() {
    const int64_t query = given(problem_.query), key = given(problem_.key.transposed());
    const int64_t value = given(problem_.value), out = given(problem_.out);
    const int64_t log_sums = rows(false);
    const int64_t scale = number();
    add_options();
    const int64_t scores = masked(biased(scaled(product(query, key, between()), scale)));
    const int64_t top = reduced(kReduceMax, scores, rows(true));
    const int64_t powers = pointwise(kExp, pointwise(kSub, scores, top));
    const int64_t sum = reduced(kReduceAdd, powers, rows(true));
    graph_.pointwise(kAdd, top, pointwise(kLog, sum, 0, rows(true)), log_sums);
    int64_t weights = between(problem_.dropout > 0 ? kFloat : problem_.type);
    graph_.pointwise(kDiv, powers, sum, weights);
    if (problem_.dropout > 0)
      weights =
          pointwise(kMul, pointwise(kMul, weights, kept()), kept_scale_, between(problem_.type));
    product(weights, value, out);
    return std::move(graph_);
  }

  Graph backward() {
    const int64_t query = given(problem_.query), key = given(problem_.key.transposed());
    const int64_t value = given(problem_.value.transposed()), out = given(problem_.out);
    const int64_t grad = given(problem_.grad), log_sums = rows(false);
    const int64_t grad_query = given(problem_.grad_query);
    const int64_t grad_key = given(problem_.grad_key);
    const int64_t grad_value = given(problem_.grad_value);
    const int64_t deltas = rows(false);
    const Layout& q = problem_.query;
    const int64_t width = q.sizes[3];
    const int64_t sums =
        problem_.in_order ? 0 : of_queries(width, kFloat, queries_ * width, width, false);
    const int64_t scale = number(), whole = number();
    add_options();
    const int64_t mask = problem_.dropout > 0 ? kept() : 0;

    const int64_t value_width = problem_.value.sizes[3];
    const int64_t products =
        of_queries(value_width, kFloat, queries_ * value_width, heads_ * value_width, true);
    graph_.pointwise(kMul, grad, out, products);
    graph_.pointwise(kMul, reduced(kReduceAdd, products, rows(true)), whole, deltas);

    const int64_t scores = biased(scaled(product(query, key, between()), scale));
    const int64_t weights = pointwise(kExp, masked(pointwise(kSub, scores, log_sums)));
    int64_t used = weights;
    if (mask) used = pointwise(kMul, pointwise(kMul, weights, mask), kept_scale_);
    sum_heads(product_of_keys(used, grad, value_width, problem_.value.sizes[1], grad_value),
              grad_value);

    int64_t grads = product(grad, value, between());
    if (mask) grads = pointwise(kMul, grads, mask);
    grads = pointwise(kMul, pointwise(kSub, grads, deltas), weights);
    if (mask) grads = pointwise(kMul, grads, kept_scale_);
    grads = scaled(grads, scale);
    sum_heads(product_of_keys(grads, query, width, problem_.key.sizes[1], grad_key), grad_key);

    const int64_t rows_of_key =
        graph_.tensor(problem_.key.sizes, problem_.key.strides, kFloat, {.is_virtual = true});
    reshape(key, rows_of_key);
    product(grads, rows_of_key, sums ? sums : grad_query);
    if (sums) graph_.pointwise(kIdentity, sums, 0, grad_query);
    return std::move(graph_);
  }

 private:
  int64_t given(const Layout& layout) {
    return graph_.tensor(layout.sizes, layout.strides, problem_.type);
  }
  int64_t number() {
    return graph_.tensor({1, 1, 1, 1}, {1, 1, 1, 1}, kFloat,
                         {.by_value = true, .is_constant = true});
  }
  // One number for each query.
  int64_t rows(bool is_virtual) {
    return graph_.tensor({batch_, heads_, queries_, 1}, {heads_ * queries_, queries_, 1, 1}, kFloat,
                         {.is_virtual = is_virtual});
  }
  int64_t of_queries(int64_t width, DataType type, int64_t head_stride, int64_t row_stride,
                     bool is_virtual) {
    return graph_.tensor({batch_, heads_, queries_, width},
                         {heads_ * queries_ * width, head_stride, row_stride, 1}, type,
                         {.is_virtual = is_virtual});
  }
  // One number for each score.
  int64_t between(DataType type = kFloat) {
    return graph_.tensor({batch_, heads_, queries_, keys_},
                         {heads_ * queries_ * keys_, queries_ * keys_, keys_, 1}, type,
                         {.is_virtual = true});
  }

  void add_options() {
    if (problem_.causal) lowest_ = number();
    if (problem_.has_bias)
      bias_ = graph_.tensor(problem_.bias.sizes, problem_.bias.strides, problem_.bias_type);
    if (problem_.dropout > 0) {
      seed_ = graph_.tensor({1, 1, 1, 1}, {1, 1, 1, 1}, kInt64);
      offset_ = graph_.tensor({1, 1, 1, 1}, {1, 1, 1, 1}, kInt64);
      kept_scale_ = number();
    }
  }

  int64_t pointwise(PointwiseMode mode, int64_t x, int64_t b = 0, int64_t y = 0) {
    if (!y) y = between();
    graph_.pointwise(mode, x, b, y);
    return y;
  }
  int64_t scaled(int64_t scores, int64_t scale) { return pointwise(kMul, scores, scale); }
  int64_t biased(int64_t scores) { return bias_ ? pointwise(kAdd, scores, bias_) : scores; }

  int64_t masked(int64_t scores) {
    if (!problem_.causal) return scores;
    const int64_t rows = index(scores, 2), columns = index(scores, 3);
    const int64_t seen = between(kBoolean), result = between();
    graph_.node(
        kPointwiseNode,
        {{kPointwiseNodeHow,
          dnn::inner(graph_.inner(
              kPointwise, {{kPointwiseMode, choice(Type::PointwiseMode, kCompareGreaterEqual)},
                           {kPointwisePrecision, data_type_value(kBoolean)}}))},
         {kPointwiseNodeX, dnn::tensor(rows)},
         {kPointwiseNodeB, dnn::tensor(columns)},
         {kPointwiseNodeY, dnn::tensor(seen)}});
    graph_.pointwise(kSelect, scores, lowest_, result, seen);
    return result;
  }
  int64_t index(int64_t scores, int64_t axis) {
    const int64_t numbers = between(kInt32);
    graph_.node(kPointwiseNode,
                {{kPointwiseNodeHow,
                  dnn::inner(graph_.inner(kPointwise,
                                          {{kPointwiseMode, choice(Type::PointwiseMode, kIndexOf)},
                                           {kPointwisePrecision, data_type_value(kFloat)},
                                           {kPointwiseAxis, integer(axis)}}))},
                 {kPointwiseNodeX, dnn::tensor(scores)},
                 {kPointwiseNodeY, dnn::tensor(numbers)}});
    return numbers;
  }

  // Random zeros and ones.
  int64_t kept() {
    const int64_t result = between();
    const Value how = dnn::inner(graph_.inner(
        dnn::kRandom, {{kDistribution, choice(Type::RandomDistribution, kBernoulli)},
                       {kBernoulliProbability, real(1 - problem_.dropout, Type::Double)}}));
    graph_.node(kRandomNode, {{kRandomNodeHow, how},
                              {kRandomNodeY, dnn::tensor(result)},
                              {kRandomNodeSeed, dnn::tensor(seed_)},
                              {kRandomNodeOffset, dnn::tensor(offset_)}});
    return result;
  }

  int64_t product(int64_t a, int64_t b, int64_t c) {
    const Value how =
        dnn::inner(graph_.inner(kMatmul, {{kMatmulPrecision, data_type_value(kFloat)}}));
    graph_.node(kMatmulNode, {{kMatmulNodeA, dnn::tensor(a)},
                              {kMatmulNodeB, dnn::tensor(b)},
                              {kMatmulNodeC, dnn::tensor(c)},
                              {kMatmulNodeHow, how}});
    return c;
  }
  int64_t reduced(ReductionOperator op, int64_t x, int64_t y) {
    const Value how = dnn::inner(
        graph_.inner(kReduction, {{kReductionOperator, choice(Type::ReductionOperator, op)},
                                  {kReductionPrecision, data_type_value(kFloat)}}));
    graph_.node(kReductionNode, {{kReductionNodeX, dnn::tensor(x)},
                                 {kReductionNodeY, dnn::tensor(y)},
                                 {kReductionNodeHow, how}});
    return y;
  }
  void reshape(int64_t x, int64_t y) {
    graph_.node(kReshapeNode, {{kReshapeX, dnn::tensor(x)}, {kReshapeY, dnn::tensor(y)}});
  }

  // scores^T x, which has a row for each key: into the gradient, or for heads that share keys each on its own.
  int64_t product_of_keys(int64_t scores, int64_t x, int64_t width, int64_t key_heads,
                          int64_t gradient) {
    const int64_t transposed = graph_.tensor(
        {batch_, heads_, keys_, queries_}, {heads_ * queries_ * keys_, queries_ * keys_, 1, keys_},
        problem_.type, {.is_virtual = true});
    reshape(scores, transposed);
    if (key_heads == heads_) return product(transposed, x, gradient);
    const int64_t of_each = graph_.tensor({batch_, heads_, keys_, width},
                                          {heads_ * keys_ * width, keys_ * width, width, 1},
                                          problem_.type, {.is_virtual = true});
    return product(transposed, x, of_each);
  }
  void sum_heads(int64_t of_each, int64_t gradient) {
    if (of_each != gradient) reduced(kReduceAdd, of_each, gradient);
  }

  const Problem& problem_;
  const int64_t batch_, heads_, queries_, keys_;
  int64_t lowest_ = 0, bias_ = 0, seed_ = 0, offset_ = 0, kept_scale_ = 0;
  Graph graph_;
};

// ---- plans

const Plan& plan_of(const Problem& problem, int device, bool is_backward) {
  static auto& plans = *new PlanCache;
  const Key key = problem.key_of_plan(is_backward);
  return plans.find(device, key, [&] {
    Builder builder(problem);
    const Choice choice{.most_workspace = kMostWorkspace, .family = "attention", .key = &key};
    return make_plan(is_backward ? builder.backward() : builder.forward(), device, choice);
  });
}

// What can be said without asking the library; null where that must be asked.
const char* plain_refusal(const DnnAttention& call) {
  const DType dtype = call.query.dtype();
  if (call.query.device().type != DeviceType::CUDA) return "tensors are not on a CUDA device";
  if (dtype != DType::Float16 && dtype != DType::BFloat16)
    return "the dtype is neither float16 nor bfloat16";
  if (!dnn_settings.enabled) return "torch.backends.cudnn.enabled is False";
  if (!has_dnn()) return "cuDNN was not found";
  if (dnn_version() < kOldest) return "the version of cuDNN is older than 9.10.2";
  if (call.query.storage().is_batched() || call.key.storage().is_batched() ||
      call.value.storage().is_batched())
    return "the tensors differ over a vmap";
  if (call.causal && call.mask) return "there are both a mask and is_causal";
  const int64_t queries = call.query.size(2), keys = call.key.size(2);
  if (call.query.size(0) * call.query.size(1) * queries * keys == 0)
    return "a dimension has no elements";
  if (queries == 1 && keys == 1) return "there is one query and one key";
  const int64_t width = call.query.size(3), value_width = call.value.size(3);
  if (width % kUnit || value_width % kUnit || width > kMostWidth || value_width > kMostWidth ||
      width * value_width == 0)
    return "head sizes are not multiples of 8 up to 256";
  if (dnn_version() <= kLastWithPadding && keys % 128)
    return "cuDNN before 9.16 needs a number of keys that is a multiple of 128";
  for (const TensorImpl* x : {&call.query, &call.key, &call.value})
    if (!lies_for_dnn(*x))
      return "rows of query, key or value do not begin at multiples of 16 bytes";
  return nullptr;
}

// ---- runs

struct SeedArguments {
  void* place;
  RandomSource source;
};
struct BiasArguments {
  const void* mask;
  void* bias;
  int64_t strides[3], sizes[4], row;
};
struct UnseenArguments {
  const void* mask;
  void* out;
  void* log_sums;
  int64_t mask_strides[3], out_strides[3];
  int64_t mask_sizes[3], sizes[3];
  int64_t keys, width, rows;
};

constexpr int kThreads = 256;
int64_t blocks_for(int64_t items, int64_t per_block) { return (items + per_block - 1) / per_block; }

// Seed and offset where a plan reads them.
Tensor seeds_of(const DnnAttention& call) {
  const Device device = call.query.device();
  const Tensor place = empty("attention", DimVector{4}, DType::Int64, device);
  static auto& cache = *new KernelCache;
  const FunctionHandle kernel = cache.find(device.index, 0, [] {
    return std::string("file attention.cu\nSeedArguments\nattention_seed");
  });
  launch_with(kernel, device.index, 1, 32,
              SeedArguments{place->data(), random_source("attention", device.index,
                                                         call.stream.seed, call.stream.offset)});
  return place;
}

// The mask as something to be added, in the layout of bias_layout().
Tensor bias_of(const DnnAttention& call, const Layout& layout) {
  const TensorImpl& mask = *call.mask;
  const Device device = mask.device();
  const int64_t rows = layout.sizes[0] * layout.sizes[1] * layout.sizes[2];
  const Tensor bias =
      empty("attention", DimVector{rows, padded(layout.sizes[3])}, bias_dtype(call), device);
  BiasArguments a{mask.data(), bias->data(), {}, {}, bias.size(1)};
  for (size_t i = 0; i < 4; ++i) a.sizes[i] = layout.sizes[i];
  for (size_t i = 0; i < 3; ++i) a.strides[i] = mask.stride(i);
  static auto& cache = *new KernelCache;
  const uint64_t key =
      static_cast<uint64_t>(bias.dtype()) << 8 | static_cast<uint64_t>(mask.dtype());
  const FunctionHandle kernel = cache.find(device.index, key, [&] {
    return concat("file attention.cu\nBiasArguments\nattention_bias<", kernel_type(bias.dtype()),
                  ", ", kernel_type(mask.dtype()), ">");
  });
  launch_with(kernel, device.index, blocks_for(bias.numel(), kThreads), kThreads, a);
  return bias;
}

// Queries that see no key get zeros.
void clear_unseen(const DnnAttention& call, const TensorImpl& out, const TensorImpl& log_sums) {
  const TensorImpl& mask = *call.mask;
  const int device = out.device().index;
  UnseenArguments a{mask.data(), out.data(), log_sums.data()};
  const Layout own = bias_layout(mask);
  a.rows = 1;
  for (size_t i = 0; i < 3; ++i) {
    a.mask_strides[i] = mask.stride(i);
    a.out_strides[i] = out.stride(i);
    a.mask_sizes[i] = own.sizes[i];
    a.sizes[i] = out.size(i);
    a.rows *= own.sizes[i];
  }
  a.keys = mask.size(3);
  a.width = out.size(3);
  static auto& cache = *new KernelCache;
  const uint64_t key =
      static_cast<uint64_t>(out.dtype()) << 8 | static_cast<uint64_t>(mask.dtype());
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file attention.cu\nUnseenArguments\nattention_unseen<", kernel_type(out.dtype()),
                  ", ", kernel_type(mask.dtype()), ">");
  });
  launch_with(kernel, device, blocks_for(a.rows, kThreads / 32), kThreads, a);
}

// The addresses of a run, in the order in which Builder makes the tensors, and what has to live until it is launched.
struct Addresses {
  std::vector<const void*> all;
  std::vector<Tensor> kept;

  void put(const TensorImpl& x) { all.push_back(x.data()); }
  void put_numbers(std::initializer_list<const void*> numbers) {
    for (const void* number : numbers) all.push_back(number);
  }
  void put_options(const DnnAttention& call, const Problem& problem) {
    if (problem.causal) all.push_back(&kLowest);
    if (problem.has_bias && is_bias(call)) {
      put(*call.mask);
    } else if (problem.has_bias) {
      kept.push_back(bias_of(call, problem.bias));
      put(*kept.back().impl());
    }
    if (problem.dropout > 0) {
      kept.push_back(seeds_of(call));
      auto* const place = static_cast<int64_t*>(kept.back()->data());
      all.push_back(place);
      all.push_back(place + 2);
      all.push_back(constant(1 / (1 - problem.dropout)));
    }
  }
};

}  // namespace

bool lies_for_dnn(const TensorImpl& x) {
  return Layout(x).is_dense_enough() && alignment_of(x.data()) >= 16;
}

DimVector heads_strides(Sizes sizes) {
  const int64_t heads = sizes[1], length = sizes[2], width = sizes[3];
  return {length * heads * width, width, heads * width, 1};
}

std::string dnn_attention_refusal(const DnnAttention& call, bool with_derivative) {
  if (const char* reason = plain_refusal(call)) return reason;
  const Problem problem(call);
  const int device = call.query.device().index;
  const Plan& plan = plan_of(problem, device, false);
  if (!plan.is_usable()) return concat("cuDNN has no plan: ", plan.reason());
  if (!with_derivative) return {};
  const Plan& backward = plan_of(problem, device, true);
  return backward.is_usable() ? std::string()
                              : concat("cuDNN has no plan for the derivative: ", backward.reason());
}

bool run_dnn_attention(const DnnAttention& call, const TensorImpl& out,
                       const TensorImpl& log_sums) {
  if (plain_refusal(call)) return false;
  const Problem problem(call);
  const int device = out.device().index;
  const Plan& plan = plan_of(problem, device, false);
  if (!plan.is_usable()) return false;
  Addresses addresses;
  for (const TensorImpl* x : {&call.query, &call.key, &call.value, &out, &log_sums})
    addresses.put(*x);
  addresses.put_numbers({constant(call.scale)});
  addresses.put_options(call, problem);
  plan.run("attention", device, addresses.all);
  if (call.mask) clear_unseen(call, out, log_sums);
  ++dnn_attention_runs;
  return true;
}

bool run_dnn_attention_backward(const DnnAttention& call, const TensorImpl& grad,
                                const TensorImpl& out, const TensorImpl& log_sums,
                                const TensorImpl& grad_query, const TensorImpl& grad_key,
                                const TensorImpl& grad_value) {
  if (plain_refusal(call)) return false;
  Problem problem(call);
  problem.grad = Layout(grad);
  problem.grad_query = Layout(grad_query);
  problem.grad_key = Layout(grad_key);
  problem.grad_value = Layout(grad_value);
  for (const TensorImpl* x : {&grad, &grad_query, &grad_key, &grad_value})
    if (!lies_for_dnn(*x)) return false;
  const Device device = out.device();
  const Plan& plan = plan_of(problem, device.index, true);
  if (!plan.is_usable()) return false;
  const Tensor deltas = empty("attention", log_sums.sizes(), DType::Float32, device);
  Addresses addresses;
  for (const TensorImpl* x : {&call.query, &call.key, &call.value, &out, &grad, &log_sums,
                              &grad_query, &grad_key, &grad_value})
    addresses.put(*x);
  addresses.put(*deltas.impl());
  Tensor sums;
  if (!problem.in_order) {
    sums = empty("attention", call.query.sizes(), DType::Float32, device);
    addresses.put(*sums.impl());
  }
  addresses.put_numbers(
      {constant(call.scale), problem.dropout > 0 ? constant(1 - problem.dropout) : &kOne});
  addresses.put_options(call, problem);
  plan.run("attention", device.index, addresses.all);
  ++dnn_attention_backward_runs;
  return true;
}

}  // namespace tapegrad::cuda
