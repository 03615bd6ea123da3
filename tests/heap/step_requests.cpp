#include "heap/step_requests.hpp"

#include <string_view>

#include "heap/uncounted_libraries.hpp"

namespace ppsim::test {

StepWatch::StepWatch(int steps) { begins_.reserve(static_cast<std::size_t>(steps)); }

void StepWatch::watch(GpuApi& api) {
  leave_out(api.cuda);
  leave_out(api.nccl);
  leave_out(api.clock.now);
  leave_out(api.clock.pause);
  leave_out(api.marks.push);
  leave_out(api.marks.pop);
  thread_ = std::this_thread::get_id();
  api.marks.push = [this, push = api.marks.push](const char* name) {
    push(name);
    if (std::this_thread::get_id() == thread_) pushed(name);
  };
  api.marks.pop = [this, pop = api.marks.pop] {
    if (std::this_thread::get_id() == thread_) popped();
    pop();
  };
}

void StepWatch::pushed(const char* name) {
  ++open_;
  if (name == std::string_view("PP:prepare")) begins_.push_back({.preparation = heap_requests()});
  step_ = step_ || name == std::string_view("PP:step");
  if (name == std::string_view("PP:step")) begins_.back().step = heap_requests();
}

void StepWatch::popped() {
  if (--open_ > 0 || !step_) return;
  step_ = false;
  begins_.back().end = heap_requests();
}

std::vector<StepRequests> StepWatch::steps() const {
  std::vector<StepRequests> steps;
  for (std::size_t s = 0; s + 1 < begins_.size(); ++s) {
    const Begin& begin = begins_[s];
    steps.push_back({begin.end - begin.step, begins_[s + 1].preparation - begin.preparation});
  }
  return steps;
}

}  // namespace ppsim::test
