#include "support/budget.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <z3.h>

#include <iostream>

namespace ppsim::test {
namespace {

/// Counts the undecided cases of the test that runs.
class Undecided final : public testing::EmptyTestEventListener {
 public:
  int add(const std::string& why) {
    why_ = why;
    return ++count_;
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (count_ > 0)
      std::cout << test.test_suite_name() << '.' << test.name() << ": " << count_
                << " cases ended early, the last one: " << why_ << '\n';
    count_ = 0;
  }

 private:
  int count_ = 0;
  std::string why_;
};

/// Of this process; gtest deletes it.
Undecided& undecided() {
  static Undecided* const listener = [] {
    auto* made = new Undecided;
    testing::UnitTest::GetInstance()->listeners().Append(made);
    return made;
  }();
  return *listener;
}

}  // namespace

SolverBudget::SolverBudget(unsigned units) { Z3_global_param_set("rlimit", std::to_string(units).c_str()); }
SolverBudget::~SolverBudget() { Z3_global_param_set("rlimit", "0"); }

void leave_undecided(const std::string& why) {
  if (undecided().add(why) > kMaxUndecided) RC_FAIL("too many cases ended early: " + why);
  RC_DISCARD(why);
}

}  // namespace ppsim::test
