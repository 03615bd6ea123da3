#include "ppsim/workload/model.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "ppsim/core/ir/units.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim::workload {
namespace {

using Field = std::int64_t ModelDescription::*;

/// The fields that `name:key=value` may override.
constexpr auto kFields = std::to_array<std::pair<std::string_view, Field>>({
    {"layers", &ModelDescription::layers},
    {"hidden", &ModelDescription::hidden},
    {"heads", &ModelDescription::heads},
    {"kv_heads", &ModelDescription::kv_heads},
    {"head_dim", &ModelDescription::head_dim},
    {"ffn", &ModelDescription::ffn},
    {"vocab", &ModelDescription::vocab},
    {"sequence", &ModelDescription::sequence},
    {"experts", &ModelDescription::experts},
    {"shared_experts", &ModelDescription::shared_experts},
    {"top_k", &ModelDescription::top_k},
    {"moe_ffn", &ModelDescription::moe_ffn},
    {"first_dense_layers", &ModelDescription::first_dense_layers},
    {"window", &ModelDescription::window},
    {"full_attention_every", &ModelDescription::full_attention_every},
    {"q_lora", &ModelDescription::q_lora},
    {"kv_lora", &ModelDescription::kv_lora},
    {"qk_nope", &ModelDescription::qk_nope},
    {"qk_rope", &ModelDescription::qk_rope},
    {"v_head", &ModelDescription::v_head},
});

std::string field_names() { return joined(keys_in(kFields)); }

/// The fields that a name has overridden so far, with their values.
using Overridden = std::map<std::string_view, std::int64_t>;

Expected<void> override_field(ModelDescription& model, std::string_view assignment, Overridden& said) {
  const std::size_t equals = assignment.find('=');
  const std::string_view key = assignment.substr(0, equals);
  for (const auto& [name, field] : kFields) {
    if (name != key || equals == std::string_view::npos) continue;
    const auto value = parse_number<std::int64_t>(assignment.substr(equals + 1));
    if (!value) {
      return make_error(ErrorCode::bad_argument, "model field " + std::string(key) + " needs a whole number",
                        {.found = std::string(assignment.substr(equals + 1)), .expected = "a whole number"});
    }
    const auto [before, is_new] = said.emplace(name, *value);
    if (!is_new && before->second != *value) {
      return make_error(ErrorCode::bad_argument,
                        "model field " + std::string(key) + " is given twice, and differs",
                        {.found = std::to_string(before->second) + " and " + std::to_string(*value),
                         .expected = "the same number, or one of the two"});
    }
    model.*field = *value;
    return {};
  }
  return make_error(ErrorCode::bad_argument, "unknown model field",
                    {.found = std::string(assignment), .expected = "key=value with one of " + field_names()});
}

std::int64_t cross_attention_layers(const ModelDescription& model) {
  return model.encoder_layers > 0 ? model.layers - model.encoder_layers : 0;
}

bool is_moe_layer(const ModelDescription& model, std::int64_t layer) {
  return model.experts > 0 && layer >= model.first_dense_layers;
}

std::int64_t latent_attention_parameters(const ModelDescription& m) {
  const std::int64_t queries = m.heads * (m.qk_nope + m.qk_rope);
  const std::int64_t query = m.q_lora > 0 ? m.hidden * m.q_lora + m.q_lora * queries : m.hidden * queries;
  const std::int64_t key_value =
      m.hidden * (m.kv_lora + m.qk_rope) + m.kv_lora * m.heads * (m.qk_nope + m.v_head);
  return query + key_value + m.heads * m.v_head * m.hidden + 2 * m.hidden + m.q_lora + m.kv_lora;
}

std::int64_t mixture_parameters(const ModelDescription& m, std::int64_t chosen_experts) {
  return m.hidden * m.experts + (chosen_experts + m.shared_experts) * mlp_parameters(m, m.moe_ffn);
}

/// Latent attention has its widths, and other attention has none that it would not use.
Expected<void> check_latent_attention(const ModelDescription& m) {
  const bool latent = m.architecture == Architecture::moe_mla;
  if (latent && m.kv_lora > 0 && m.qk_nope + m.qk_rope > 0 && m.v_head > 0) return {};
  if (!latent && m.q_lora == 0 && m.kv_lora == 0 && m.qk_nope == 0 && m.qk_rope == 0 && m.v_head == 0)
    return {};
  const auto field = [](const char* name, std::int64_t value) { return name + std::to_string(value); };
  return make_error(
      ErrorCode::bad_argument,
      "model " + m.name +
          (latent ? ": latent attention needs its widths"
                  : ": its attention has no latents, which these would be of"),
      {.found = field("q_lora=", m.q_lora) + field(", kv_lora=", m.kv_lora) + field(", qk_nope=", m.qk_nope) +
                field(", qk_rope=", m.qk_rope) + field(", v_head=", m.v_head),
       .expected = latent ? "kv_lora, qk_nope + qk_rope and v_head above 0" : "0 of each"});
}

}  // namespace

std::string_view architecture_name(Architecture architecture) {
  switch (architecture) {
    case Architecture::decoder:
      return "decoder";
    case Architecture::moe:
      return "moe";
    case Architecture::moe_mla:
      return "moe-mla";
    case Architecture::encoder_decoder:
      return "encoder-decoder";
    case Architecture::encoder:
      return "encoder";
    case Architecture::vit:
      return "vit";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, const ModelDescription& model) {
  return out << model.name << ": " << model.layers << " layers, hidden " << model.hidden << ", "
             << static_cast<double>(parameter_count(model)) / 1e9 << "B parameters";
}

Expected<void> check_model(const ModelDescription& model) {
  constexpr std::int64_t kLargest = 1 << 24;
  for (const auto& [name, field] : kFields) {
    const std::int64_t value = model.*field;
    constexpr auto kNeeded = std::to_array<std::string_view>(
        {"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "sequence"});
    const bool may_be_zero = std::ranges::find(kNeeded, name) == kNeeded.end();
    const int least = may_be_zero ? 0 : 1;
    if (value < least || value > kLargest) {
      return make_error(ErrorCode::bad_argument,
                        "model " + model.name + ": " + std::string(name) + " is out of range",
                        {.found = std::to_string(value),
                         .expected = std::to_string(least) + " to " + std::to_string(kLargest)});
    }
  }
  if (model.heads % model.kv_heads != 0) {
    return make_error(
        ErrorCode::bad_argument,
        "model " + model.name + ": groups of heads that share keys and values must be equally large",
        {.found = "heads=" + std::to_string(model.heads) + ", kv_heads=" + std::to_string(model.kv_heads),
         .expected = "kv_heads that divide heads"});
  }
  if (model.top_k > model.experts || (model.experts > 0 && (model.top_k < 1 || model.moe_ffn < 1))) {
    return make_error(
        ErrorCode::bad_argument, "model " + model.name + ": experts need 1 <= top_k <= experts and moe_ffn",
        {.found = "experts=" + std::to_string(model.experts) + ", top_k=" + std::to_string(model.top_k),
         .expected = "top_k within the experts"});
  }
  return check_latent_attention(model);
}

Expected<ModelDescription> with_fields(const ModelDescription& model, std::string_view assignments) {
  ModelDescription changed = model;
  Overridden said;
  while (!assignments.empty()) {
    const std::size_t comma = assignments.find(',');
    PPSIM_RETURN_IF_ERROR(override_field(changed, assignments.substr(0, comma), said));
    assignments = comma == std::string_view::npos ? std::string_view() : assignments.substr(comma + 1);
  }
  // If each head has its own keys and values, so do additional heads.
  if (model.kv_heads == model.heads && !said.contains("kv_heads")) changed.kv_heads = changed.heads;
  // With latent attention every head passes values on.
  if (said.contains("v_head") && !said.contains("head_dim")) changed.head_dim = changed.v_head;
  PPSIM_RETURN_IF_ERROR(check_model(changed));
  return changed;
}

Expected<ModelDescription> model_from_name(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (const ModelDescription& preset : model_presets()) {
    if (preset.name != name) continue;
    return with_fields(preset, colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1));
  }
  return tl::unexpected(unknown_name("unknown model", name, names_in(model_presets())));
}

bool is_windowed(const ModelDescription& model, std::int64_t layer) {
  if (model.window == 0) return false;
  return model.full_attention_every == 0 || (layer + 1) % model.full_attention_every != 0;
}

std::int64_t attention_parameters(const ModelDescription& m) {
  if (m.architecture == Architecture::moe_mla) return latent_attention_parameters(m);
  return 2 * m.hidden * m.heads * m.head_dim + 2 * m.hidden * m.kv_heads * m.head_dim + 2 * m.hidden;
}

std::int64_t mlp_parameters(const ModelDescription& m, std::int64_t channels) {
  return (m.gated_mlp ? 3 : 2) * m.hidden * channels;
}

std::int64_t layer_parameters(const ModelDescription& m, std::int64_t layer) {
  const std::int64_t cross =
      layer >= m.encoder_layers && cross_attention_layers(m) > 0 ? attention_parameters(m) : 0;
  const std::int64_t mlp =
      is_moe_layer(m, layer) ? mixture_parameters(m, m.experts) : mlp_parameters(m, m.ffn);
  return attention_parameters(m) + cross + mlp;
}

std::int64_t active_layer_parameters(const ModelDescription& m, std::int64_t layer) {
  if (!is_moe_layer(m, layer)) return layer_parameters(m, layer);
  return attention_parameters(m) + mixture_parameters(m, m.top_k);
}

std::int64_t parameter_count(const ModelDescription& m) {
  std::int64_t total = checked_multiply(m.vocab * m.hidden, m.tied_embeddings ? 1 : 2) + m.hidden;
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    total = checked_add(total, layer_parameters(m, layer));
  return total;
}

}  // namespace ppsim::workload
