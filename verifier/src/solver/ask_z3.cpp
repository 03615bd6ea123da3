#include "ask_z3.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "smt2_text.hpp"

namespace ppsim::verifier {
namespace {

bool holds_more_than(Bytes budget) {
  return Z3_get_estimated_alloc_size() > static_cast<std::uint64_t>(budget);
}

/// Interrupts Z3 as soon as it holds more memory than the budget, or its answer is no longer wanted. Z3 has
/// limits of memory of its own, but they are of the whole process and stay.
class Watch {
 public:
  Watch(z3::context& context, const SolverOptions& limits)
      : context_(context), limits_(limits), thread_([this] { watch(); }) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  /// Why Z3 was interrupted; empty: it was not.
  [[nodiscard]] std::string reason() const { return stopped_ ? kTimeLimit : tripped_ ? kMemoryLimit : ""; }

 private:
  void watch() {
    constexpr auto kBetweenLooks = std::chrono::milliseconds(2);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBetweenLooks, [this] { return done_; })) {
      if (limits_.memory_budget && holds_more_than(*limits_.memory_budget)) tripped_ = true;
      if (limits_.stopped && limits_.stopped()) stopped_ = true;
      if (!tripped_ && !stopped_) continue;
      context_.interrupt();  // again and again: an interrupt that comes before a check begins is lost
    }
  }

  z3::context& context_;
  const SolverOptions& limits_;
  std::atomic<bool> tripped_ = false;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

std::string reason_of(const z3::solver& solver, bool late) {
  return late ? kTimeLimit : "Z3: " + solver.reason_unknown();
}

SolverReply check(z3::solver& solver, double timeout_s) {
  const auto start = std::chrono::steady_clock::now();
  solver.set(parameters_of_question(solver.ctx(), timeout_s));
  switch (solver.check()) {
    case z3::unsat:
      return {SolverQuery::Answer::unsat, ""};
    case z3::sat:
      return {SolverQuery::Answer::sat, ""};
    case z3::unknown:
      break;
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return {SolverQuery::Answer::unknown, reason_of(solver, taken.count() >= timeout_s)};
}

}  // namespace

z3::params parameters_of_question(z3::context& context, double timeout_s) {
  z3::params params(context);
  params.set("timeout", static_cast<unsigned>(std::clamp(timeout_s * 1000, 1.0, 4e9)));
  params.set("ctrl_c", false);
  return params;
}

SolverReply check_within(z3::solver& solver, const SolverOptions& limits) {
  if (limits.timeout_s <= 0) return {SolverQuery::Answer::unknown, kTimeLimit};
  try {
    if (!limits.memory_budget && !limits.stopped) return check(solver, limits.timeout_s);
    if (limits.memory_budget && holds_more_than(*limits.memory_budget))
      return {SolverQuery::Answer::unknown, kMemoryLimit};
    const Watch watch(solver.ctx(), limits);
    SolverReply reply = check(solver, limits.timeout_s);
    const std::string reason = watch.reason();
    if (reply.answer == SolverQuery::Answer::unknown && !reason.empty()) reply.reason = reason;
    return reply;
  } catch (const z3::exception& error) {
    return {SolverQuery::Answer::unknown, std::string("Z3: ") + error.msg()};
  } catch (const std::bad_alloc&) {
    return {SolverQuery::Answer::unknown, "Z3: out of memory"};
  } catch (const std::system_error& error) {
    return {SolverQuery::Answer::unknown, std::string("Z3: ") + error.what()};
  }
}

SolverReply ask_z3(z3::solver& solver, const QueryTitle& title, const SolverOptions& options) {
  SolverReply reply = check_within(solver, options);
  if (options.queries && options.timeout_s > 0)
    options.queries(query_of(title, reply.answer, smt2_text(solver.assertions())));
  return reply;
}

}  // namespace ppsim::verifier
