#include "report_texts.hpp"

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "writers/timeline_rows.hpp"

namespace ppsim::simulator {
namespace {

using Json = nlohmann::ordered_json;

bool has_microbatch(const Action& action) { return info(action.kind).microbatch == MicrobatchUse::required; }

/// The text of an instruction with # for the microbatches of its actions.
std::string with_holes(const Pipeline& pipeline, InstructionForm form, std::span<const Action> actions) {
  std::string text = actions_text(pipeline, form, actions);
  std::size_t at = 0;
  for (const Action& action : actions) {
    const std::string own = action_text(pipeline, action);
    at = text.find(own, at);
    PPSIM_CHECK(at != std::string::npos, "an action is missing in the text of its instruction");
    if (has_microbatch(action)) {
      const std::string number = std::to_string(action.microbatch);
      const std::size_t before = std::to_string(action.subject).size() + info(action.kind).text.size();
      text.replace(at + before, number.size(), "#");
      at += own.size() - number.size() + 1;
    } else {
      at += own.size();
    }
  }
  return text;
}

}  // namespace

int ReportTexts::text_of(InstructionForm form, std::span<const Action> actions) {
  std::string text = with_holes(program_.pipeline(), form, actions);
  std::vector<bool> padding;
  for (const Action& action : actions) padding.push_back(is_padding(program_.pipeline(), action));
  const Text fresh{static_cast<int>(texts_.size()), {actions.begin(), actions.end()}};
  return texts_.try_emplace({std::move(text), std::move(padding)}, fresh).first->second.index;
}

std::vector<int> ReportTexts::microbatches_of(std::span<const Action> actions) const {
  std::vector<int> numbers;
  for (const Action& action : actions) {
    if (has_microbatch(action)) numbers.push_back(action.microbatch);
  }
  return numbers;
}

Json ReportTexts::json() const {
  std::vector<Json> list(texts_.size());
  for (const auto& [key, entry] : texts_) {
    const auto& [text, padding] = key;
    Json parts = Json::array();
    int hole = 0;
    for (std::size_t i = 0; i < entry.actions.size(); ++i) {
      const Action& action = entry.actions[i];
      const bool stage = info(action.kind).subject == Subject::stage;
      const RankId rank = stage ? program_.pipeline().rank_of(action.stage()) : RankId(0);
      parts.push_back({static_cast<int>(action.kind), chunk_of(program_, rank, action),
                       has_microbatch(action) ? hole++ : -1});
      if (padding[i]) parts.back().push_back(1);
    }
    list[as_size(entry.index)] = {{"text", text}, {"parts", std::move(parts)}};
  }
  return list;
}

void TextColumns::add(InstructionForm form, std::span<const Action> actions) {
  const int text = texts_.text_of(form, actions);
  text_.add(text + 1);
  const std::vector<int> numbers = texts_.microbatches_of(actions);
  std::vector<int>& last = last_.try_emplace(text, numbers.size(), -1).first->second;
  for (std::size_t i = 0; i < numbers.size(); ++i) microbatch_.add(numbers[i] - last[i]);
  last = numbers;
}

Json TextColumns::json() const { return {{"text", text_.text()}, {"microbatch", microbatch_.text()}}; }

}  // namespace ppsim::simulator
