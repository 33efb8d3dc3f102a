// Groups of a plan: steps that run in tiles.
//
// Note [Steps that run in tiles]
// Each step of a group gives some rows of its results from the same rows of its operands. So a tile of rows goes
// through all steps while it is in the cache, and threads take tiles. Kernels are those of whole calls: they get
// tensors that show a tile. How an operand is cut stands in a Cut: its rows are `stride` elements apart and have `sizes`
// and `strides`; a tile of it has `lead` ones, as many rows times `multiple`, and the sizes. All rows see the same where
// the stride is zero, and `part` rows have one line together where sums over rows are taken. Whole operands are shown
// as they are. Which steps can do so, with which rows, is known to tapegrad/compiler/passes/rows.py.
#include <algorithm>
#include <atomic>
#include <bit>

#include "core/error.h"
#include "core/parallel.h"
#include "intercept/plan.h"

namespace tapegrad {

namespace {

constexpr size_t kMostAttributes = 16;

// How far the last element lies behind the first.
int64_t reach_of(Sizes sizes, Sizes strides) {
  int64_t reach = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    TAPEGRAD_CHECK_AS(ValueError, sizes[d] > 0 && strides[d] >= 0,
                      "plan: an operand of a group has no elements, or strides below zero");
    reach += (sizes[d] - 1) * strides[d];
  }
  return reach;
}

bool is_random(const Op& op) { return op.traits & kRandom; }

}  // namespace

Plan::TileOperand Plan::tile_operand(const Call::Operand& named, TensorImpl* shown, const Cut& cut,
                                     const GroupRows& rows) const {
  TileOperand operand{.value = named.memory, .offset = named.offset, .dtype = named.dtype};
  if (cut.is_whole || named.is_literal()) {
    operand.whole = shown;
    return operand;
  }
  const bool fits = cut.stride >= 0 && cut.part > 0 && cut.multiple > 0 &&
                    cut.sizes.size() == cut.strides.size() &&
                    (cut.multiple == 1 || (cut.stride == cut.multiple && cut.sizes.empty()));
  TAPEGRAD_CHECK_AS(ValueError, fits, "plan: an operand of a group is cut in a way that is none");
  const int64_t lines = (rows.rows + cut.part - 1) / cut.part;
  const int64_t reach =
      (lines - 1) * cut.stride + cut.multiple - 1 + reach_of(cut.sizes, cut.strides);
  TAPEGRAD_CHECK_AS(ValueError, reach <= reach_of(shown->sizes(), shown->strides()),
                    "plan: rows of a group lie outside of the operand that they are cut from");
  operand.stride = cut.stride;
  operand.multiple = cut.multiple;
  operand.part = cut.part;
  operand.lead = cut.lead;
  operand.sizes = DimVector(cut.lead + 1, 1);
  operand.strides = DimVector(cut.lead + 1, cut.multiple > 1 ? 1 : cut.stride);
  for (size_t d = 0; d < cut.sizes.size(); ++d) {
    operand.sizes.push_back(cut.sizes[d]);
    operand.strides.push_back(cut.strides[d]);
  }
  return operand;
}

void Plan::add_group(const GroupRows& rows, std::span<const Cut> cuts,
                     std::span<const std::pair<uint32_t, int64_t>> inner) {
  const bool fits = rows.begin < rows.end && rows.end <= instructions_.size() && rows.tile > 0 &&
                    rows.rows > 0 && rows.together > 0 && rows.together % rows.tile == 0;
  TAPEGRAD_CHECK_AS(ValueError, fits, "plan: a group of steps ", rows.begin, " to ", rows.end,
                    " is none");
  Group group{rows};
  for (size_t i = rows.begin; i < rows.end; ++i) {
    const Call& call = program_.steps()[i].call;
    TAPEGRAD_CHECK_AS(ValueError, call.op() && call.attributes().size() < kMostAttributes,
                      "plan: expected calls in a group, got ", program_.steps()[i].name());
    group.told.push_back(is_random(*call.op()) ? Told::Element : Told::Nothing);
    size_t place = instructions_[i].operands;
    for (const Call::Operand& each : call.all()) {
      TAPEGRAD_CHECK_AS(ValueError, group.operands.size() < cuts.size(),
                        "plan: expected a cut for each operand of a group");
      TileOperand operand =
          tile_operand(each, operands_[place++], cuts[group.operands.size()], rows);
      auto found = std::ranges::find(inner, each.memory, &std::pair<uint32_t, int64_t>::first);
      if (!operand.whole && found != inner.end()) {
        operand.is_inner = true;
        operand.offset = found->second / static_cast<int64_t>(itemsize(each.dtype));
      }
      if (operand.part > 1) {
        TAPEGRAD_CHECK_AS(ValueError, rows.together == operand.part,
                          "plan: expected a group that takes the rows of a part in order");
        group.told.back() = Told::RowOfPart;
        group.part = operand.part;
      }
      group.operands.push_back(std::move(operand));
    }
  }
  group_at_.resize(instructions_.size());
  groups_.push_back(std::move(group));
  group_at_[rows.begin] = static_cast<uint32_t>(groups_.size());
}

const Ref<Storage>& Plan::tile_memory(size_t thread) {
  size_t most = 0;
  for (const Group& group : groups_) most = std::max(most, group.rows.tile_bytes);
  while (tile_memory_.size() <= thread) tile_memory_.push_back(Storage::allocate(most));
  return tile_memory_[thread];
}

void Plan::add_worker(Group& group) {
  Worker worker;
  const Ref<Storage>& bytes = tile_memory(group.workers.size());
  for (const TileOperand& operand : group.operands) {
    Ref<TensorImpl> tensor;
    if (!operand.whole)
      tensor = TensorImpl::create(operand.is_inner ? bytes : nowhere_, operand.dtype, operand.sizes,
                                  operand.strides, operand.offset);
    worker.operands.push_back(operand.whole ? operand.whole : tensor.get());
    worker.tensors.push_back(std::move(tensor));
  }
  group.workers.push_back(std::move(worker));
}

// Lets the operands show so many rows from one on.
void Plan::show_rows(const Group& group, Worker& worker, int64_t begin, int64_t count) const {
  for (size_t i = 0; i < group.operands.size(); ++i) {
    const TileOperand& operand = group.operands[i];
    if (operand.whole || (operand.is_inner && worker.count == count)) continue;
    int64_t offset = operand.offset;
    if (!operand.is_inner)
      offset += begin / operand.part * operand.stride +
                shifts_[operand.value] / static_cast<int64_t>(itemsize(operand.dtype));
    DimVector sizes = operand.sizes;
    if (operand.has_rows()) sizes[operand.lead] = count * operand.multiple;
    worker.tensors[i]->set_geometry(sizes, operand.strides, offset);
  }
  worker.count = count;
}

void Plan::run_tile(const Group& group, Worker& worker, int64_t begin, int64_t count) const {
  show_rows(group, worker, begin, count);
  TensorImpl* const* operands = worker.operands.data();
  for (size_t i = group.rows.begin; i < group.rows.end; ++i) {
    const Instruction& instruction = instructions_[i];
    std::span<const Scalar> attributes{attributes_.data() + instruction.attributes,
                                       instruction.attribute_count};
    Scalar with_place[kMostAttributes];
    if (const Told told = group.told[i - group.rows.begin]; told != Told::Nothing) {
      std::ranges::copy(attributes, with_place);
      with_place[attributes.size()] =
          told == Told::Element ? begin * group.rows.length : begin % group.part;
      attributes = {with_place, attributes.size() + 1};
    }
    instruction.kernel({*instruction.step->call.op(),
                        {operands, instruction.inputs},
                        attributes,
                        {operands + instruction.inputs, instruction.outputs}});
    operands += instruction.inputs + instruction.outputs;
  }
}

// Lets the operands show the memory of their values, or none.
void Plan::show_memory(Group& group, bool is_nowhere) {
  for (Worker& worker : group.workers)
    for (size_t i = 0; i < group.operands.size(); ++i) {
      const TileOperand& operand = group.operands[i];
      if (operand.whole || operand.is_inner) continue;
      worker.tensors[i]->set_storage(is_nowhere ? nowhere_ : memory_[operand.value], operand.dtype);
    }
}

void Plan::run_group(Group& group) {
  const auto threads = static_cast<size_t>(std::min(num_threads(), 64));
  while (group.workers.size() < threads) add_worker(group);
  show_memory(group, false);
  const int64_t rows = group.rows.rows, tile = group.rows.tile, together = group.rows.together;
  std::atomic<uint64_t> free_workers = threads == 64 ? ~uint64_t{0} : (uint64_t{1} << threads) - 1;
  try {
    const KernelScope scope;
    const BlockingSection blocking;
    parallel_for(0, (rows + together - 1) / together, 1, [&](int64_t begin, int64_t end) {
      uint64_t mask = free_workers.load();
      while (!free_workers.compare_exchange_weak(mask, mask & (mask - 1))) {
      }
      const auto which = static_cast<size_t>(std::countr_zero(mask));
      const int64_t last = std::min(rows, end * together);
      for (int64_t first = begin * together; first < last; first += tile)
        run_tile(group, group.workers[which], first, std::min(tile, last - first));
      free_workers |= uint64_t{1} << which;
    });
  } catch (...) {
    show_memory(group, true);
    throw;
  }
  show_memory(group, true);
}

}  // namespace tapegrad
