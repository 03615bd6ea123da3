#include "ppsim/verifier/verify.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <type_traits>

#include "ppsim/core/ir/check.hpp"
#include "properties/properties.hpp"

namespace ppsim::verifier {
namespace {

bool is_asked(const PropertyInfo& info, const VerifyOptions& options) {
  if (info.property == Property::memory && options.memory_limit) return true;
  if (info.property == Property::makespan && options.makespan_limit) return true;
  if (!options.properties.empty())
    return std::ranges::find(options.properties, info.property) != options.properties.end();
  if (info.property == Property::memory) return options.sizes.has_value();
  return info.by_default && info.property != Property::makespan;
}

/// Decides properties of one Program within the time and memory that `options` give to all of them.
class Decider {
 public:
  /// Time runs from here on.
  Decider(const AnalyzedProgram& analyzed, const VerifyOptions& options)
      : analyzed_(analyzed), options_(options), deadline_(options.timeout_s, options.stopped) {}

  [[nodiscard]] const Deadline& deadline() const { return deadline_; }
  /// Makes what all properties read. Errors: throws LimitReached, as decide does.
  bool prepare() const;
  /// Puts the figures that the answer comes with into `report`.
  Answer decide(Property property, VerifyReport& report) const;

 private:
  [[nodiscard]] Limits limits() const { return {deadline_, options_.memory_budget}; }

  const AnalyzedProgram& analyzed_;
  const VerifyOptions& options_;
  Deadline deadline_;
};

bool Decider::prepare() const {
  constexpr std::size_t kBytesPerInstruction = 100;  // of the execution graph and a run order
  limits().need(analyzed_.program().size(), kBytesPerInstruction);
  static_cast<void>(analyzed_.graph());
  limits().poll();
  if (analyzed_.finishes()) static_cast<void>(analyzed_.guaranteed_graph());
  return true;
}

Answer Decider::decide(Property property, VerifyReport& report) const {
  limits().poll();
  switch (property) {
    case Property::well_formed:
      return check_well_formed(analyzed_);
    case Property::matched:
      return check_matched(analyzed_);
    case Property::deadlock_free:
      return check_deadlock_free(analyzed_, options_, deadline_);
    case Property::collective_order:
      return check_collective_order(analyzed_);
    case Property::ascending_accumulation:
      return check_ascending_accumulation(analyzed_);
    case Property::weight_versions:
      return check_weight_versions(analyzed_);
    case Property::tensor_use:
      return check_tensor_use(analyzed_, limits());
    case Property::memory:
      return check_memory(analyzed_, options_, limits(), report.memory);
    case Property::makespan:
      return check_makespan(analyzed_, options_, report.makespan);
  }
  PPSIM_CHECK(false, "unknown property");
}

/// The result of `work`, or why it did not finish.
template <class Work>
tl::expected<std::invoke_result_t<Work>, std::string> within_limits(Work work) {
  try {
    return work();
  } catch (const LimitReached& limit) {
    return tl::unexpected(std::string(limit.what()));
  } catch (const std::bad_alloc&) {
    return tl::unexpected(std::string(kMemoryLimit));
  }
}

}  // namespace

std::string_view verdict_name(const Verdict& verdict) {
  if (std::holds_alternative<Proved>(verdict)) return "proved";
  return std::holds_alternative<Refuted>(verdict) ? "refuted" : "unknown";
}

const PropertyResult* VerifyReport::find(Property property) const {
  const auto result = std::ranges::find(results, property, &PropertyResult::property);
  return result == results.end() ? nullptr : &*result;
}

bool VerifyReport::proved(Property property) const {
  const PropertyResult* result = find(property);
  return result != nullptr && std::holds_alternative<Proved>(result->verdict);
}

bool VerifyReport::all_proved() const {
  return std::ranges::all_of(
      results, [](const PropertyResult& r) { return std::holds_alternative<Proved>(r.verdict); });
}

namespace {

/// The properties that are asked, in the order of deciding: a search through all states comes last, since it
/// may take all the time.
std::vector<PropertyInfo> asked(const VerifyOptions& options) {
  std::vector<PropertyInfo> result;
  std::ranges::copy_if(property_registry(), std::back_inserter(result),
                       [&](const PropertyInfo& info) { return is_asked(info, options); });
  const auto searches = [&](const PropertyInfo& info) {
    return info.property == Property::deadlock_free && options.capabilities.residency;
  };
  std::stable_partition(result.begin(), result.end(),
                        [&](const PropertyInfo& info) { return !searches(info); });
  return result;
}

}  // namespace

VerifyReport verify(const Program& program, const VerifyOptions& options) {
  return verify(AnalyzedProgram(program, options.capabilities), options);
}

VerifyReport verify(const AnalyzedProgram& analyzed, const VerifyOptions& options) {
  PPSIM_CHECK(analyzed.capabilities() == options.capabilities, "analyzed for another transport");
  const Decider decider(analyzed, options);
  const auto prepared = within_limits([&] { return decider.prepare(); });
  VerifyReport report;
  report.preparation_seconds = options.timeout_s - decider.deadline().remaining_s();
  for (const PropertyInfo& info : asked(options)) {
    const Deadline clock(0);
    auto decided = within_limits([&] {
      if (!prepared) throw LimitReached(prepared.error());
      return decider.decide(info.property, report);
    });
    Answer answer = decided ? *std::move(decided) : Answer{Unknown{decided.error()}};
    report.results.push_back({info.property, std::move(answer.verdict), std::move(answer.method),
                              -clock.remaining_s(), std::move(answer.notes)});
    if (options.decided) options.decided(report.results.back());
  }
  std::ranges::sort(report.results, {}, &PropertyResult::property);
  return report;
}

}  // namespace ppsim::verifier
