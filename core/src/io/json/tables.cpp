#include <algorithm>
#include <nlohmann/json.hpp>

#include "file.hpp"
#include "layout.hpp"
#include "ppsim/core/io/json.hpp"

namespace ppsim {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kTablesFormat = "ppsim-tables";

void put(ordered_json& object, const char* key, std::int32_t value) {
  if (value >= 0) object[key] = value;
}

ordered_json cost_json(const CostClass& key, Nanoseconds duration) {
  ordered_json object = {{"kind", info(key.kind).text}};
  put(object, subject_name(info(key.kind).subject), key.subject);
  put(object, "peer", key.peer);
  put(object, "slice", key.slice);
  object["ns"] = duration;
  return object;
}

constexpr const char* kBesideTransfers = "ns_beside_transfers";

ordered_json size_json(const SizeClass& key, Bytes size) {
  ordered_json object = {{"tensor", info(key.kind).name}};
  put(object, subject_name(info(key.kind).subject), key.subject);
  put(object, "peer", key.peer);
  put(object, "slice", key.slice);
  if (key.op != OpKind::forward) object["op"] = info(key.op).text;
  object["bytes"] = size;
  return object;
}

void add_spread(ordered_json& entry, const CostSpreads& spreads, const CostClass& key) {
  const auto found = spreads.find(key);
  if (found == spreads.end()) return;
  entry["samples"] = found->second.samples;
  entry["lower_quartile_ns"] = found->second.lower_quartile;
  entry["median_ns"] = found->second.median;
  entry["upper_quartile_ns"] = found->second.upper_quartile;
}

/// An action that transfers do not slow down needs no entry.
void add_beside_transfers(ordered_json& entry, const Tables& tables, const CostClass& key) {
  const auto found = tables.beside_transfers.entries().find(key);
  if (found == tables.beside_transfers.entries().end() || found->second == tables.costs(key)) return;
  entry[kBesideTransfers] = found->second;
}

/// The subject of an entry, under the key that its kind calls for; absent: -1.
Expected<std::int32_t> read_subject(const JsonFile& file, const json& entry, Subject subject,
                                    const JsonPath& path) {
  for (const Subject other : {Subject::stage, Subject::block, Subject::collective}) {
    if (other != subject && entry.contains(subject_name(other))) {
      JsonPath at = path;
      at.emplace_back(subject_name(other));
      return file.error_at(at, "a key that this kind does not have", subject_name(other),
                           subject_name(subject));
    }
  }
  return entry.value(subject_name(subject), -1);
}

/// Adds the entries under `key` to a table: `read_key` makes the class of an entry from it and its subject.
template <class Table, class ReadKey>
Expected<void> read_entries(const JsonFile& file, const std::string& key, Table& table, ReadKey read_key) {
  const json entries = file.root().value(key, json::array());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const JsonPath path = {key, std::to_string(i)};
    PPSIM_ASSIGN_OR_RETURN(const auto entry, read_key(entries[i], path));
    const auto& [table_key, amount] = entry;
    if (table.entries().contains(table_key))
      return file.error_at(path, "an entry given twice", entries[i].dump(), "each once");
    table.set(table_key, amount);
  }
  return {};
}

Expected<std::pair<CostClass, Nanoseconds>> read_cost(const JsonFile& file, const json& entry,
                                                      const JsonPath& path) {
  // The schema lists the kinds.
  const OpKind kind = op_kind_from_text(entry.at("kind").get_ref<const std::string&>()).value();
  PPSIM_ASSIGN_OR_RETURN(const auto subject, read_subject(file, entry, info(kind).subject, path));
  return std::pair(CostClass{kind, subject, entry.value("peer", -1), entry.value("slice", -1)},
                   entry.at("ns").get<Nanoseconds>());
}

/// Adds what an entry says of computation beside transfers; nothing: as long as without.
Expected<void> read_beside_transfers(const JsonFile& file, const json& entry, const JsonPath& path,
                                     Tables& tables) {
  const auto [key, duration] = *read_cost(file, entry, path);
  const Nanoseconds beside = entry.value(kBesideTransfers, duration);
  JsonPath at = path;
  at.emplace_back(kBesideTransfers);
  if (beside < duration)
    return file.error_at(at, "faster beside transfers than without", std::to_string(beside),
                         std::to_string(duration) + " or more");
  if (beside > duration && info(key.kind).resource != Resource::compute)
    return file.error_at(at, "transfers slow down computation alone", std::string(info(key.kind).text),
                         "F, B, I, W, R, OVERLAP_F_B or OPT");
  tables.beside_transfers.set(key, beside);
  return {};
}

/// Keeps the table empty where no entry says anything.
Expected<void> read_beside_transfers(const JsonFile& file, Tables& tables) {
  const json entries = file.root().value("costs", json::array());
  if (std::ranges::none_of(entries, [](const json& one) { return one.contains(kBesideTransfers); }))
    return {};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    PPSIM_RETURN_IF_ERROR(read_beside_transfers(file, entries[i], {"costs", std::to_string(i)}, tables));
  }
  return {};
}

void read_spread(const json& entry, const CostClass& key, CostSpreads& spreads) {
  if (!entry.contains("samples")) return;  // the schema has all four or none
  spreads[key] = {entry.at("samples").get<std::int64_t>(), entry.at("lower_quartile_ns").get<Nanoseconds>(),
                  entry.at("median_ns").get<Nanoseconds>(), entry.at("upper_quartile_ns").get<Nanoseconds>()};
}

Expected<std::pair<SizeClass, Bytes>> read_size(const JsonFile& file, const json& entry,
                                                const JsonPath& path) {
  const TensorKind kind = tensor_kind_from_name(entry.at("tensor").get_ref<const std::string&>()).value();
  const OpKind op = op_kind_from_text(entry.value("op", "F")).value();
  PPSIM_ASSIGN_OR_RETURN(const auto subject, read_subject(file, entry, info(kind).subject, path));
  return std::pair(SizeClass{kind, subject, entry.value("peer", -1), entry.value("slice", -1), op},
                   entry.at("bytes").get<Bytes>());
}

}  // namespace

std::string to_json(const Tables& tables) {
  auto costs = ordered_json::array();
  for (const auto& [key, duration] : tables.costs.entries()) {
    costs.push_back(cost_json(key, duration));
    add_beside_transfers(costs.back(), tables, key);
    add_spread(costs.back(), tables.spreads, key);
  }
  auto sizes = ordered_json::array();
  for (const auto& [key, size] : tables.sizes.entries()) sizes.push_back(size_json(key, size));
  return laid_out(
      {{"format", kTablesFormat}, {"version", 1}, {"costs", std::move(costs)}, {"sizes", std::move(sizes)}});
}

Expected<Tables> tables_from_json(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  PPSIM_RETURN_IF_ERROR(parsed.format({kTablesFormat}));
  PPSIM_RETURN_IF_ERROR(parsed.validate("tables"));
  Tables tables;
  PPSIM_RETURN_IF_ERROR(
      read_entries(parsed, "costs", tables.costs, [&](const json& entry, const JsonPath& path) {
        auto cost = read_cost(parsed, entry, path);
        if (cost) read_spread(entry, cost->first, tables.spreads);
        return cost;
      }));
  PPSIM_RETURN_IF_ERROR(read_beside_transfers(parsed, tables));
  PPSIM_RETURN_IF_ERROR(
      read_entries(parsed, "sizes", tables.sizes,
                   [&](const json& entry, const JsonPath& path) { return read_size(parsed, entry, path); }));
  return tables;
}

}  // namespace ppsim
