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

/// Interrupts Z3 as soon as it holds more memory than the budget. Z3 has limits of its own, but they are of
/// the whole process and stay.
class MemoryWatch {
 public:
  MemoryWatch(z3::context& context, Bytes budget)
      : context_(context), budget_(static_cast<std::uint64_t>(budget)), thread_([this] { watch(); }) {}
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  ~MemoryWatch() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  [[nodiscard]] bool tripped() const { return tripped_; }

 private:
  void watch() {
    constexpr auto kBetweenLooks = std::chrono::milliseconds(2);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBetweenLooks, [this] { return done_; })) {
      if (Z3_get_estimated_alloc_size() <= budget_) continue;
      tripped_ = true;
      context_.interrupt();  // again and again: an interrupt that comes before a check begins is lost
    }
  }

  z3::context& context_;
  const std::uint64_t budget_;
  std::atomic<bool> tripped_ = false;
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
    if (!limits.memory_budget) return check(solver, limits.timeout_s);
    if (Z3_get_estimated_alloc_size() > static_cast<std::uint64_t>(*limits.memory_budget))
      return {SolverQuery::Answer::unknown, kMemoryLimit};
    const MemoryWatch watch(solver.ctx(), *limits.memory_budget);
    SolverReply reply = check(solver, limits.timeout_s);
    if (reply.answer == SolverQuery::Answer::unknown && watch.tripped()) reply.reason = kMemoryLimit;
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
