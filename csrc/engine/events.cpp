#include "engine/events.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace tapegrad {

namespace {

// Copied before it is iterated over: a listener may add and remove others.
auto& listeners = *new std::vector<std::shared_ptr<SweepListener>>();

}  // namespace

void add_listener(std::shared_ptr<SweepListener> listener) {
  listeners.push_back(std::move(listener));
  watch_sweeps(kWatchListeners, true);
}

void remove_listener(const SweepListener* listener) {
  auto found = std::find_if(listeners.begin(), listeners.end(),
                            [&](const auto& each) { return each.get() == listener; });
  if (found == listeners.end()) return;
  std::shared_ptr<SweepListener> gone = std::move(*found);  // its destructor may run anything
  listeners.erase(found);
  watch_sweeps(kWatchListeners, !listeners.empty());
}

void Notification::sweep_begins(const SweepStart& start) {
  for (const auto& listener : std::vector(listeners))
    if (SweepListener::Finish finish = listener->sweep_begins(start))
      finish_.push_back(std::move(finish));
}

void Notification::entry_runs(Node& node) {
  for (const auto& listener : std::vector(listeners))
    if (SweepListener::Finish finish = listener->entry_runs(node))
      finish_.push_back(std::move(finish));
}

void Notification::finish_next() {
  SweepListener::Finish next = std::move(finish_.back());
  finish_.pop_back();
  next();
}

namespace {

thread_local std::vector<std::function<void()>> after_sweeps;

}  // namespace

void call_after_sweeps(std::function<void()> call) {
  TAPEGRAD_CHECK(sweeps_running > 0,
                 "autograd: expected to be called from a hook while backward runs");
  after_sweeps.push_back(std::move(call));
}

bool calls_wait_for_sweeps() { return !after_sweeps.empty(); }

void run_calls_after_sweeps() {
  // A call may run a sweep of its own, with calls after that.
  for (const std::function<void()>& call : std::exchange(after_sweeps, {})) call();
}

void drop_calls_after_sweeps() { after_sweeps.clear(); }

}  // namespace tapegrad
