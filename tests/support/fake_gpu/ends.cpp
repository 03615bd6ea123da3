#include "support/fake_gpu/ends.hpp"

#include <algorithm>
#include <string_view>

#include "ppsim/core/io/text.hpp"

namespace ppsim::test {
namespace {

/// The rank that a SEND_A or RECV_A names is that of its channel, and left out.
bool meet(const Action& one, const Action& other) {
  if (!is_transfer(one.kind) || !is_transfer(other.kind)) return one == other;
  Action wanted = counterpart(one, RankId(0));
  if (moves_activations(one)) wanted.peer = other.peer;
  return wanted == other;
}

}  // namespace

bool moves_activations(const Action& action) {
  return action.kind == OpKind::send_activation || action.kind == OpKind::recv_activation;
}

EndActions Ends::actions(const std::string& mark) const {
  constexpr std::string_view kPrefix = "PP:";
  if (!pipeline_ || !mark.starts_with(kPrefix)) return {};
  std::string_view rest = std::string_view(mark).substr(kPrefix.size());
  if (rest.starts_with('{')) rest = rest.substr(1, rest.size() - 2);
  EndActions found;
  for (bool more = true; more;) {
    const std::size_t end = rest.find(' ');
    more = end != std::string_view::npos;
    const auto action = parse_action(*pipeline_, rest.substr(0, end));
    if (!action) return {};
    found.push_back(*action);
    rest.remove_prefix(more ? end + 1 : rest.size());
  }
  return found;
}

std::string Ends::text(const EndActions& end) const {
  std::string text;
  for (const Action& action : end) text += (text.empty() ? "" : " or ") + action_text(*pipeline_, action);
  return text;
}

bool Ends::meet(const EndActions& one, const EndActions& other) {
  if (one.empty() || other.empty()) return true;
  return std::any_of(one.begin(), one.end(), [&](const Action& a) {
    return std::any_of(other.begin(), other.end(), [&](const Action& b) { return test::meet(a, b); });
  });
}

}  // namespace ppsim::test
