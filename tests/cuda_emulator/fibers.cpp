// Runs a grid: blocks one after another, the threads of a block as fibers.
//
// A fiber runs until it waits or ends. Warps go on until all their lanes wait for the block; then
// the barrier opens. When threads wait for each other and none can go on, the launch has failed.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "emulator.h"
#include "fiber_switch.h"
#include "races.h"

// What the dynamic linker resolves accesses to thread-local variables with.
struct TlsIndex {
  unsigned long module, offset;
};
extern "C" void* __tls_get_addr(TlsIndex*);

namespace tapegrad::cuda {

namespace {

using tapegrad_emulator::Combine;
using tapegrad_emulator::Index;
using tapegrad_emulator::Vote;

constexpr unsigned kLanes = 32, kMaxThreads = 1024, kAllLanes = 0xffffffffu;
constexpr size_t kStackSize = 256 * 1024, kMaxShared = 232448;
constexpr unsigned char kPoison = 0xCB;
// Rounds in which threads only yield, after which they are taken to wait for ever.
constexpr int kMaxIdleRounds = 100000;

std::string format(const char* text, ...) {
  char buffer[400];
  va_list values;
  va_start(values, text);
  std::vsnprintf(buffer, sizeof buffer, text, values);
  va_end(values);
  return buffer;
}

// ---- the order in which threads, warps and blocks run

// Ascending, or as TAPEGRAD_EMULATOR_ORDER says: "descending", or a number that seeds a shuffle.
class Order {
 public:
  Order() {
    const char* text = std::getenv("TAPEGRAD_EMULATOR_ORDER");
    if (!text || !*text || std::string(text) == "ascending") return;
    if (std::string(text) == "descending") is_descending_ = true;
    else state_ = std::strtoull(text, nullptr, 0) * 2 + 1;
  }
  // A permutation of 0 ... count - 1: i -> at(i, count) until the next call of shuffle.
  uint64_t at(uint64_t i, uint64_t count) const {
    if (is_descending_) return count - 1 - i;
    if (state_ == 0) return i;
    uint64_t stride = state_ % count | 1;
    while (std::gcd(stride, count) != 1) stride += 2;
    return (i * stride + (state_ >> 32)) % count;
  }
  void shuffle() {
    if (state_ == 0) return;
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
  }

 private:
  bool is_descending_ = false;
  uint64_t state_ = 0;
};

// ---- threads and the stacks they run on

enum class State : unsigned char { kNew, kReady, kAtBarrier, kAtWarpOperation, kDone };

struct Stack {
  unsigned char* top = nullptr;
  void* pointer = nullptr;  // where its fiber goes on; null: it has to be prepared
};

struct Thread {
  State state = State::kNew;
  Stack* stack = nullptr;
  Index index;
  // What it waits for, and what comes of it.
  int line = 0, argument = 0, predicate = 0;
  Vote vote = Vote::kNone;
  unsigned mask = 0;
  Combine combine = nullptr;
  unsigned long long value = 0, result = 0;
};

// All there is of a launch. Static, because only one runs at a time, and fibers have to find it.
struct Running {
  const Launch* launch = nullptr;
  tapegrad_emulator::Context* context = nullptr;
  unsigned thread_count = 0;
  Thread* thread = nullptr;  // that runs now
  void* scheduler = nullptr;
  Order* order = nullptr;
  Result error = kSuccess;
  std::string message;
  const void* failed_at = nullptr;  // in the code of the kernel, if known
  Thread threads[kMaxThreads];
  Stack stacks[kMaxThreads];
  std::vector<Stack*> free_stacks;
  unsigned char* shared_end = nullptr;
  unsigned char* static_shared = nullptr;
  int next_range = 0;
  Races races;
};

Running& running() {
  static Running& only = *new Running;
  return only;
}

unsigned char* map_with_guard(size_t nbytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapping = mmap(nullptr, nbytes + 2 * page, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* start = static_cast<unsigned char*>(mapping) + page;
  if (mapping == MAP_FAILED || mprotect(start, nbytes, PROT_READ | PROT_WRITE) != 0) {
    std::perror("CUDA emulator: no memory for stacks");
    std::abort();
  }
  return start + nbytes;
}

void fail(Result error, std::string message) {
  if (running().error != kSuccess) return;
  running().error = error;
  running().message = std::move(message);
}

void to_scheduler() {
  Thread& thread = *running().thread;
  tapegrad_switch_stack(&thread.stack->pointer, running().scheduler);
}

// A fiber runs one thread after another, so that threads which never wait share a stack.
void fiber() {
  for (;;) {
    Running& now = running();
    now.launch->function->kernel->run(now.launch->arguments);
    now.thread->state = State::kDone;
    to_scheduler();
  }
}

void resume(unsigned id) {
  Running& now = running();
  Thread& thread = now.threads[id];
  if (thread.state == State::kNew) {
    thread.stack = now.free_stacks.back();
    now.free_stacks.pop_back();
    Stack& stack = *thread.stack;
    if (!stack.top) stack.top = map_with_guard(kStackSize);
    if (!stack.pointer) stack.pointer = prepare_stack(stack.top, fiber);
    thread.state = State::kReady;
  }
  now.thread = &thread;
  now.context->thread = thread.index;
  now.context->lane = id % kLanes;
  now.context->stack = {reinterpret_cast<uintptr_t>(thread.stack->top) - kStackSize, kStackSize};
  tapegrad_switch_stack(&now.scheduler, thread.stack->pointer);
  if (thread.state == State::kDone) now.free_stacks.push_back(thread.stack);
}

// ---- what a kernel calls

int wait_for_block(Vote vote, int predicate, int line) {
  Thread& thread = *running().thread;
  thread.vote = vote;
  thread.predicate = predicate;
  thread.line = line;
  thread.state = State::kAtBarrier;
  to_scheduler();
  return static_cast<int>(thread.result);
}

void fail_in_kernel(int error, const char* message, int line) {
  fail(error, format("line %d: %s", line, message));
  to_scheduler();
  std::abort();  // nobody resumes a thread of a launch that has failed
}

std::string describe_place(const void* address) {
  Running& now = running();
  if (address >= now.shared_end - kMaxShared && address < now.shared_end + 4096)
    return format("byte %td of %u of dynamic shared memory",
                  static_cast<const unsigned char*>(address) - now.context->shared,
                  now.launch->shared_nbytes);
  return describe_address(address);
}

void check_access(const void* address, unsigned long long nbytes, bool writes, const void* code) {
  Running& now = running();
  const tapegrad_emulator::Range memory =
      find_memory(address, *now.launch->function->module->context);
  const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - memory.start;
  if (memory.nbytes == 0 || offset + nbytes > memory.nbytes) {
    const char* what = writes ? "a write of" : "a read of";
    fail(kIllegalAddress, format("%s %llu bytes at ", what, nbytes) + describe_place(address));
    now.failed_at = code;
    to_scheduler();
  }
  using tapegrad_emulator::Context;
  constexpr int kCount = Context::kRanges - Context::kFixedRanges;
  now.next_range = (now.next_range + 1) % kCount;
  now.context->ranges[Context::kFixedRanges + now.next_range] = memory;
}

void check_race(const void* address, unsigned long long nbytes, bool writes, const void* code) {
  Running& now = running();
  const auto number = reinterpret_cast<uintptr_t>(address);
  const auto* ranges = now.context->ranges;
  const int kind = number - ranges[0].start < ranges[0].nbytes ? 0 : 1;
  const auto thread = static_cast<unsigned>(now.thread - now.threads);
  std::string race = now.races.note(kind, number - ranges[kind].start, nbytes, thread, writes);
  if (race.empty()) return;
  fail(kLaunchFailed, std::move(race));
  now.failed_at = code;
  to_scheduler();
}

unsigned long long wait_for_lanes(unsigned mask, unsigned long long value, Combine combine,
                                  int argument, int line) {
  Thread& thread = *running().thread;
  const unsigned lane = running().context->lane;
  if (!(mask >> lane & 1))
    fail_in_kernel(kLaunchFailed,
                   format("lane %u calls a warp operation with the mask 0x%08x, in which it is not",
                          lane, mask)
                       .c_str(),
                   line);
  thread.mask = mask;
  thread.value = value;
  thread.combine = combine;
  thread.argument = argument;
  thread.line = line;
  thread.state = State::kAtWarpOperation;
  to_scheduler();
  return thread.result;
}

// ---- scheduling

bool is_live(const Thread& thread) { return thread.state != State::kDone; }
bool can_run(const Thread& thread) {
  return thread.state == State::kReady || thread.state == State::kNew;
}
bool is_same_operation(const Thread& a, const Thread& b) {
  return b.state == State::kAtWarpOperation && a.mask == b.mask && a.combine == b.combine &&
         a.line == b.line;
}

// The lanes of a warp that are in the mask and have not ended: those that an operation waits for.
unsigned live_lanes(const Thread* warp, unsigned lane_count, unsigned mask) {
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < lane_count; ++lane)
    if ((mask >> lane & 1) && is_live(warp[lane])) lanes |= 1u << lane;
  return lanes;
}

// Completes an operation for which all its lanes are there.
bool complete(Thread* warp, unsigned lane_count, const Thread& first) {
  const unsigned lanes = live_lanes(warp, lane_count, first.mask);
  unsigned long long values[kLanes] = {};
  for (unsigned lane = 0; lane < lane_count; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    if (!is_same_operation(first, warp[lane])) return false;
    values[lane] = warp[lane].value;
  }
  running().races.pass_warp_operation(static_cast<unsigned>(warp - running().threads) / kLanes);
  for (unsigned lane = 0; lane < lane_count; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    Thread& thread = warp[lane];
    thread.result = thread.combine(values, lanes, static_cast<int>(lane), thread.argument);
    thread.state = State::kReady;
  }
  return true;
}

bool complete_operations(Thread* warp, unsigned lane_count) {
  bool any = false;
  for (unsigned lane = 0; lane < lane_count; ++lane)
    if (warp[lane].state == State::kAtWarpOperation) any |= complete(warp, lane_count, warp[lane]);
  return any;
}

// Runs a warp until its lanes have ended or wait for others; returns whether some only yielded.
bool run_warp(unsigned first) {
  Running& now = running();
  Thread* warp = now.threads + first;
  const unsigned lane_count = std::min(kLanes, now.thread_count - first);
  bool has_yielded;
  do {
    now.order->shuffle();
    has_yielded = false;
    for (unsigned i = 0; i < lane_count; ++i) {
      const auto lane = static_cast<unsigned>(now.order->at(i, lane_count));
      if (!can_run(warp[lane])) continue;
      resume(first + lane);
      if (now.error != kSuccess) return false;
      has_yielded |= can_run(warp[lane]);
    }
  } while (complete_operations(warp, lane_count));
  return has_yielded;
}

std::string describe_deadlock() {
  Running& now = running();
  std::string text = "threads wait for each other and none can go on:";
  std::map<std::string, unsigned> places;
  for (unsigned i = 0; i < now.thread_count; ++i) {
    const Thread& thread = now.threads[i];
    if (thread.state == State::kAtBarrier)
      ++places[format("at the barrier of line %d", thread.line)];
    else if (thread.state == State::kAtWarpOperation)
      ++places[format("for the lanes 0x%08x in line %d", thread.mask, thread.line)];
    else ++places["have ended"];
  }
  for (const auto& [place, count] : places)
    text += format(" %u of %u %s;", count, now.thread_count, place.c_str());
  text.pop_back();
  return text;
}

// Opens the barrier for which all live threads wait; fails when they do not.
bool open_barrier() {
  Running& now = running();
  const Thread* first = nullptr;
  unsigned live = 0, votes = 0;
  for (unsigned i = 0; i < now.thread_count; ++i) {
    const Thread& thread = now.threads[i];
    if (!is_live(thread)) continue;
    if (!first) first = &thread;
    const bool is_there = thread.state == State::kAtBarrier && thread.line == first->line &&
                          thread.vote == first->vote;
    if (!is_there) {
      fail(kLaunchFailed, describe_deadlock());
      return false;
    }
    ++live;
    votes += thread.predicate != 0;
  }
  const Vote vote = first->vote;
  const unsigned result = vote == Vote::kAnd  ? votes == live
                          : vote == Vote::kOr ? votes > 0
                                              : votes;
  now.races.pass_barrier();
  for (unsigned i = 0; i < now.thread_count; ++i) {
    if (!is_live(now.threads[i])) continue;
    now.threads[i].result = result;
    now.threads[i].state = State::kReady;
  }
  return true;
}

bool all_have_ended() {
  Running& now = running();
  for (unsigned i = 0; i < now.thread_count; ++i)
    if (is_live(now.threads[i])) return false;
  return true;
}

void run_block() {
  Running& now = running();
  const unsigned warps = (now.thread_count + kLanes - 1) / kLanes;
  int idle_rounds = 0;
  while (now.error == kSuccess) {
    bool has_yielded = false;
    now.order->shuffle();
    const Order order = *now.order;  // the lanes are shuffled meanwhile
    for (unsigned i = 0; i < warps && now.error == kSuccess; ++i)
      has_yielded |= run_warp(static_cast<unsigned>(order.at(i, warps)) * kLanes);
    if (now.error != kSuccess) return;
    if (has_yielded) {
      if (++idle_rounds > kMaxIdleRounds) fail(kLaunchFailed, "threads yield for ever");
      continue;
    }
    if (all_have_ended() || !open_barrier()) return;
  }
}

// Shared memory begins as garbage in every block.
void poison_shared_memory() {
  Running& now = running();
  const ModuleTag& module = *now.launch->function->module;
  std::memset(now.context->shared, kPoison, now.launch->shared_nbytes);
  if (module.tls_nbytes == 0) return;
  std::memset(now.static_shared, kPoison, module.tls_nbytes);
}

void run_blocks() {
  Running& now = running();
  const Index grid = now.launch->grid;
  const uint64_t count = uint64_t{grid.x} * grid.y * grid.z;
  const Order blocks = *now.order;
  for (uint64_t i = 0; i < count && now.error == kSuccess; ++i) {
    const uint64_t id = blocks.at(i, count);
    now.context->block = {static_cast<unsigned>(id % grid.x),
                          static_cast<unsigned>(id / grid.x % grid.y),
                          static_cast<unsigned>(id / grid.x / grid.y)};
    for (unsigned t = 0; t < now.thread_count; ++t) now.threads[t].state = State::kNew;
    poison_shared_memory();
    now.races.pass_barrier();
    run_block();
  }
}

// ---- accesses that the CPU refuses, as a GPU would

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE};
struct sigaction previous_actions[3];
sigjmp_buf after_fault;
pthread_t kernel_thread;
volatile sig_atomic_t kernel_runs = 0;
volatile int fault_signal;
void* volatile fault_address;

void on_fault(int signal, siginfo_t* info, void*) {
  if (!kernel_runs || !pthread_equal(pthread_self(), kernel_thread)) {
    // Not ours: it happens again when this returns, and then finds the action that was there.
    for (int i = 0; i < 3; ++i)
      if (kSignals[i] == signal) sigaction(signal, &previous_actions[i], nullptr);
    return;
  }
  fault_signal = signal;
  fault_address = info->si_addr;
  siglongjmp(after_fault, 1);
}

// Catches faults of the kernel that runs in its scope, on a stack of its own.
class FaultHandler {
 public:
  FaultHandler() {
    static unsigned char* const memory = map_with_guard(kStackSize) - kStackSize;
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = kStackSize;
    sigaltstack(&stack, &previous_stack_);
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &action, &previous_actions[i]);
    kernel_thread = pthread_self();
    kernel_runs = 1;
  }
  ~FaultHandler() {
    kernel_runs = 0;
    for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &previous_actions[i], nullptr);
    sigaltstack(&previous_stack_, nullptr);
  }
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;

 private:
  stack_t previous_stack_{};
};

bool is_below_stack(const void* address, const Stack& stack) {
  const auto* byte = static_cast<const unsigned char*>(address);
  const auto* bottom = stack.top - kStackSize;
  return byte < bottom && byte >= bottom - sysconf(_SC_PAGESIZE);
}

void report_fault() {
  Running& now = running();
  const void* address = fault_address;
  if (fault_signal == SIGFPE)
    fail(kLaunchFailed, "an integer was divided by zero, or the least one by -1");
  else if (is_below_stack(address, *now.thread->stack))
    fail(kLaunchFailed, format("a thread needs more than %zu bytes of stack", kStackSize));
  else fail(kIllegalAddress, "an illegal access to " + describe_place(address));
}

// What kernels of the module find when they run.
void prepare_context() {
  Running& now = running();
  const Launch& launch = *now.launch;
  const ModuleTag& module = *launch.function->module;
  TlsIndex start{module.tls_module, 0};
  if (module.tls_nbytes) now.static_shared = static_cast<unsigned char*>(__tls_get_addr(&start));
  now.context = module.state;
  auto& context = *now.context = {};
  context.block_size = launch.block;
  context.grid_size = launch.grid;
  context.wait_for_block = wait_for_block;
  context.wait_for_lanes = wait_for_lanes;
  context.yield = to_scheduler;
  context.check_access = check_access;
  context.fail = fail_in_kernel;
  // Its end lies at a page that nobody may touch.
  context.shared = now.shared_end - (launch.shared_nbytes + 15) / 16 * 16;
  context.ranges[0] = {reinterpret_cast<uintptr_t>(now.static_shared), module.tls_nbytes};
  context.ranges[1] = {reinterpret_cast<uintptr_t>(context.shared), launch.shared_nbytes};
  context.ranges[2] = {reinterpret_cast<uintptr_t>(launch.arguments), launch.arguments_nbytes};
  context.ranges[3] = module.variables;
  if (Races::are_asked_for()) context.check_race = check_race;
}

void prepare(const Launch& launch, Order& order) {
  Running& now = running();
  now.launch = &launch;
  now.order = &order;
  now.error = kSuccess;
  now.failed_at = nullptr;
  const Index size = launch.block;
  now.thread_count = size.x * size.y * size.z;
  for (unsigned i = 0; i < now.thread_count; ++i)
    now.threads[i].index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
  if (now.free_stacks.empty())
    for (Stack& stack : now.stacks) now.free_stacks.push_back(&stack);
  if (!now.shared_end) now.shared_end = map_with_guard((kMaxShared + 4095) / 4096 * 4096);
  prepare_context();
}

// Fibers that did not end are left where they are; their stacks begin anew.
void abandon_fibers() {
  Running& now = running();
  now.free_stacks.clear();
  for (Stack& stack : now.stacks) stack.pointer = nullptr;
}

}  // namespace

Result run_grid(const Launch& launch, std::string* message) {
  Running& now = running();
  Order order;
  prepare(launch, order);
  {
    const FaultHandler handler;
    if (sigsetjmp(after_fault, 1) == 0) run_blocks();
    else report_fault();
  }
  if (now.error == kSuccess) return kSuccess;
  abandon_fibers();
  const Index block = now.context->block, thread = now.thread->index;
  *message = format("block (%u, %u, %u), thread (%u, %u, %u): ", block.x, block.y, block.z,
                    thread.x, thread.y, thread.z) +
             now.message;
  if (!now.failed_at) return now.error;
  const std::string line = describe_code(*launch.function->module, now.failed_at);
  if (!line.empty()) *message += "; " + line;
  return now.error;
}

}  // namespace tapegrad::cuda
