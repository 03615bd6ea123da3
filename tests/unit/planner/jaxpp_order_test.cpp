#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/planner/targets.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/tests_folder.hpp"

// The issue lists of JaxPP 0.9.2. tests/data/jaxpp_issue_lists.txt holds lists that it compiled, its int32
// microbatch index aside: the cells of each rank in order, and for every instruction a letter (F B I W, s and
// r for SEND_F and RECV_F, t and u for SEND_B and RECV_B), of which the n-th of a kind is of the n-th cell
// that has one.

namespace ppsim {
namespace {

using Cells = std::vector<std::pair<int, int>>;  ///< stage and microbatch

struct CompiledRank {
  std::map<std::string, Cells> cells;  ///< "forward", "backward", "weights"
  std::string order;
};

struct CompiledProgram {
  std::string name;
  ScheduleParameters parameters;
  std::vector<CompiledRank> ranks;
};

int number_behind(const std::string& word) { return std::stoi(word.substr(word.find('=') + 1)); }

/// "4:0-3 0:7" as cells.
Cells cells_of(std::istringstream& words) {
  Cells cells;
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':');
    const std::size_t dash = word.find('-');
    const int first = std::stoi(word.substr(colon + 1));
    const int last = dash == std::string::npos ? first : std::stoi(word.substr(dash + 1));
    for (int m = first; m <= last; ++m) cells.emplace_back(std::stoi(word.substr(0, colon)), m);
  }
  return cells;
}

std::vector<CompiledProgram> compiled_programs() {
  std::ifstream file(test::tests_folder() / "data/jaxpp_issue_lists.txt");
  std::vector<CompiledProgram> programs;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "program") {
      CompiledProgram& program = programs.emplace_back();
      std::string ranks, microbatches, chunks;
      words >> program.name >> ranks >> microbatches >> chunks;
      program.parameters = {.ranks = number_behind(ranks),
                            .microbatches = number_behind(microbatches),
                            .chunks = number_behind(chunks)};
    } else if (word == "rank") {
      programs.back().ranks.emplace_back();
    } else if (word == "order") {
      std::string letters;
      words >> letters;
      programs.back().ranks.back().order += letters;
    } else {
      programs.back().ranks.back().cells[word] = cells_of(words);
    }
  }
  return programs;
}

/// The instructions of a rank as a Program has them, communicators aside.
std::vector<std::string> issued_by(const CompiledRank& rank, int stages) {
  struct Letter {
    std::string kind, cells;
    int first, last;  ///< stages that have it
  };
  const int end = stages - 1;
  const std::map<char, Letter> letters = {
      {'F', {"F", "forward", 0, end}},          {'B', {"B", "backward", 0, end}},
      {'I', {"I", "backward", 0, end}},         {'W', {"W", "weights", 0, end}},
      {'s', {"SEND_F", "forward", 0, end - 1}}, {'r', {"RECV_F", "forward", 1, end}},
      {'t', {"SEND_B", "backward", 1, end}},    {'u', {"RECV_B", "backward", 0, end - 1}}};
  std::map<char, std::size_t> next;
  std::vector<std::string> issued;
  for (const char c : rank.order) {
    const Letter& letter = letters.at(c);
    const Cells& cells = rank.cells.at(letter.cells);
    std::size_t& at = next[c];
    while (cells.at(at).first < letter.first || cells.at(at).first > letter.last) ++at;
    issued.push_back(std::to_string(cells[at].first) + letter.kind + std::to_string(cells[at].second));
    ++at;
  }
  return issued;
}

std::vector<std::string> issued_by(const Program& program, RankId rank) {
  std::vector<std::string> issued;
  for (InstructionId id = program.first(rank); id < program.last(rank); id = InstructionId(id.value() + 1)) {
    const auto actions = program.actions(id);
    EXPECT_EQ(actions.size(), 1U);
    EXPECT_TRUE(program.after(id).empty());
    issued.push_back(action_text(program.pipeline(), actions.front()));
  }
  return issued;
}

Target jaxpp() { return target_named("jaxpp-0.9.2").value(); }

Expected<Program> for_jaxpp(const Schedule& schedule,
                            CommunicatorPolicy policy = CommunicatorPolicy::per_pair) {
  return lower_for(jaxpp(), schedule, usual_lowering(jaxpp(), policy));
}

TEST(JaxppOrder, IsThatOfCompiledPrograms) {
  const auto programs = compiled_programs();
  ASSERT_EQ(programs.size(), 4U);
  for (const CompiledProgram& compiled : programs) {
    SCOPED_TRACE(compiled.name + " " + std::to_string(compiled.parameters.microbatches));
    const auto program = for_jaxpp(test::generated(compiled.name, compiled.parameters));
    ASSERT_TRUE(program.has_value()) << program.error();
    const int stages = program->pipeline().stages();
    for (int r = 0; r < compiled.parameters.ranks; ++r) {
      EXPECT_EQ(issued_by(*program, RankId(r)),
                issued_by(compiled.ranks[static_cast<std::size_t>(r)], stages))
          << "rank " << r;
    }
    EXPECT_EQ(program->send_done_delay(), kUntilStepEnd);
  }
}

TEST(JaxppOrder, IsSafeOnEveryTransport) {
  const char* const names[] = {"gpipe", "1f1b",       "eager-1f1b", "interleaved-1f1b", "kimi-k2",
                               "zb-h1", "dualpipe-v", "zb-v",       "looped-bfs",       "hanayo"};
  for (const char* name : names) {
    for (const CommunicatorPolicy policy :
         {CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair, CommunicatorPolicy::per_edge}) {
      SCOPED_TRACE(name);
      const Schedule schedule = test::generated(name, {.ranks = 4, .microbatches = 8});
      LoweringOptions options;
      options.order = IssueOrder::jaxpp;
      options.communicators = policy;
      options.reduce_grad = true;
      options.optimizer = true;
      const auto program = lower(schedule, options);
      ASSERT_TRUE(program.has_value()) << program.error();
      for (const char* transport_name : {"any", "nccl", "nccl-one-queue"}) {
        VerifyOptions asked;
        asked.capabilities = transport(transport_name).value();
        const AnalyzedProgram analyzed(*program, asked.capabilities);
        const VerifyReport report = verify(analyzed, asked);
        EXPECT_TRUE(report.all_proved()) << transport_name;
        const auto certificate = make_certificate(analyzed, asked, report);
        ASSERT_TRUE(certificate.has_value());
        EXPECT_TRUE(check_certificate(*certificate, *program, nullptr).has_value());
      }
    }
  }
}

TEST(JaxppOrder, HasUpdatesBehindAllTasks) {
  LoweringOptions options;
  options.order = IssueOrder::jaxpp;
  options.optimizer = true;
  const Schedule schedule = test::generated("interleaved-1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2});
  const Program program = lower(schedule, options).value();
  const std::vector<std::string> issued = issued_by(program, RankId(0));
  EXPECT_EQ(issued.at(issued.size() - 2), "2OPT0");
  EXPECT_EQ(issued.back(), "0OPT0");
}

TEST(JaxppOrder, RefusesWhatJaxppDoesNotHave) {
  const auto refusal = [](std::string_view name, const ScheduleParameters& parameters) {
    LoweringOptions options;
    options.order = IssueOrder::jaxpp;
    const auto program = lower(test::generated(std::string(name), parameters), options);
    return program ? Error{} : program.error();
  };
  EXPECT_NE(to_string(refusal("pipedream", {.ranks = 2, .microbatches = 4})).find("one update a step"),
            std::string::npos);
  EXPECT_NE(to_string(refusal("bpipe", {.ranks = 4, .microbatches = 8})).find("no such action"),
            std::string::npos);
  LoweringOptions options;
  options.order = IssueOrder::jaxpp;
  options.receive_buffers = 1;
  EXPECT_FALSE(lower(test::generated("1f1b", {.ranks = 2, .microbatches = 4}), options).has_value());
}

TEST(JaxppTarget, RunsTheFirstStagesBackwardWhole) {
  const Schedule run = as_run(jaxpp(), test::generated("zb-h1", {.ranks = 4, .microbatches = 8})).value();
  for (const Cell& cell : run.row(RankId(0))) {
    for (const Action& action : cell.actions()) EXPECT_NE(action.kind, OpKind::backward_input);
  }
  const Schedule own =
      test::generated("dualpipe-v", {.ranks = 4, .microbatches = 8, .settings = {{"variant", "jaxpp"}}});
  EXPECT_EQ(as_run(jaxpp(), own).value(), own);
  EXPECT_TRUE(for_jaxpp(own).has_value());
  const auto late = for_jaxpp(test::generated("v-half", {.ranks = 4, .microbatches = 8}));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::refused);
  EXPECT_NE(to_string(late.error()).find("cannot split the backward of its first stage"), std::string::npos);
}

TEST(JaxppTarget, HasItsOwnOrderAndNoFilesOfPyTorch) {
  LoweringOptions options;
  options.order = IssueOrder::timed;
  const Schedule schedule = test::generated("1f1b", {.ranks = 2, .microbatches = 4});
  EXPECT_EQ(lower_for(jaxpp(), schedule, options).error().place.expected, "jaxpp");
  EXPECT_EQ(text_for(jaxpp(), schedule, "x.csv").error().code, ErrorCode::refused);
  EXPECT_TRUE(text_for(jaxpp(), for_jaxpp(schedule).value(), "x.json").has_value());
}

}  // namespace
}  // namespace ppsim
