#include "engine/events.h"

#include <algorithm>

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

}  // namespace tapegrad
