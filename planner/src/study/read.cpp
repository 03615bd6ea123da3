#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "io/json/file.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/core/text/number_text.hpp"
#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/study.hpp"

namespace ppsim::planner {
namespace {

using nlohmann::json;
using StudyValues = std::map<std::string, std::string>;

constexpr std::size_t kMaxPoints = 1'000'000;
constexpr std::array<std::string_view, 19> kPointKeys = {"model",
                                                         "cluster",
                                                         "nodes",
                                                         "global_batch_size",
                                                         "sequence_length",
                                                         "stack",
                                                         "tp",
                                                         "pp",
                                                         "dp",
                                                         "cp",
                                                         "ep",
                                                         "microbatch_size",
                                                         "dtype",
                                                         "fsdp",
                                                         "schedule",
                                                         "chunks",
                                                         "layout",
                                                         "recompute",
                                                         "calibration"};

/// Names of which the values are words: no number is compared with them.
constexpr std::array<std::string_view, 9> kWordKeys = {
    "model", "cluster", "stack", "dtype", "fsdp", "schedule", "layout", "recompute", "calibration"};

/// "tp*cp <= 8": products of names and numbers, compared.
struct StudyConstraint {
  std::vector<std::string> left, right;
  std::string sign;
};

std::string text_of_value(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> factors_of(std::string_view text) {
  std::vector<std::string> factors;
  while (true) {
    const std::size_t star = text.find('*');
    std::string factor(text.substr(0, star));
    std::erase(factor, ' ');
    factors.push_back(factor);
    if (star == std::string_view::npos) return factors;
    text.remove_prefix(star + 1);
  }
}

bool is_point_key(std::string_view name) { return std::ranges::find(kPointKeys, name) != kPointKeys.end(); }

bool is_word_key(std::string_view name) { return std::ranges::find(kWordKeys, name) != kWordKeys.end(); }

/// "nodes, tp, ...".
std::string number_keys() {
  std::vector<std::string_view> names;
  std::ranges::copy_if(kPointKeys, std::back_inserter(names),
                       [](std::string_view name) { return !is_word_key(name); });
  return joined(names);
}

std::optional<StudyConstraint> constraint_of(const std::string& text) {
  for (const char* sign : {"<=", ">=", "==", "<", ">"}) {
    const std::size_t at = text.find(sign);
    if (at == std::string::npos) continue;
    StudyConstraint made{factors_of(text.substr(0, at)),
                         factors_of(text.substr(at + std::string_view(sign).size())), sign};
    const auto known = [](const std::string& factor) {
      return is_point_key(factor) || parse_number<std::int64_t>(factor);
    };
    if (std::ranges::all_of(made.left, known) && std::ranges::all_of(made.right, known)) return made;
    return std::nullopt;
  }
  return std::nullopt;
}

/// A missing value counts as 1, as does one that is no number, which its evaluation refuses.
double product_of(const std::vector<std::string>& factors, const StudyValues& values) {
  double product = 1;
  for (const std::string& factor : factors) {
    const auto value = values.find(factor);
    const auto number = parse_number<std::int64_t>(value == values.end() ? factor : value->second);
    product *= static_cast<double>(number.value_or(1));
  }
  return product;
}

bool holds(const StudyConstraint& constraint, const StudyValues& values) {
  const double left = product_of(constraint.left, values);
  const double right = product_of(constraint.right, values);
  if (constraint.sign == "<=") return left <= right;
  if (constraint.sign == ">=") return left >= right;
  if (constraint.sign == "<") return left < right;
  if (constraint.sign == ">") return left > right;
  return left == right;
}

/// Reads one file.
class StudyReader {
 public:
  explicit StudyReader(const JsonFile& file) : file_(file), root_(file.root()) {}

  Expected<Study> read() {
    for (const auto& step : {&StudyReader::read_shape, &StudyReader::read_base, &StudyReader::read_axes,
                             &StudyReader::read_list, &StudyReader::read_constraints}) {
      PPSIM_RETURN_IF_ERROR((this->*step)());
    }
    for (const StudyValues& values : list_) {
      StudyValues all = base_;
      for (const auto& [name, value] : values) all[name] = value;
      PPSIM_RETURN_IF_ERROR(add_points(all, 0));
    }
    sample();
    if (study_.points.empty())
      return bad({}, "the study has no point", "none", "a point that its constraints and its sample leave");
    PPSIM_RETURN_IF_ERROR(read_files());
    return std::move(study_);
  }

 private:
  Expected<void> read_shape() {
    if (!root_.is_object())
      return bad({}, "a study is an object", text_of_value(root_).substr(0, 20), "{...}");
    for (const auto& [name, value] : root_.items()) {
      constexpr std::array<std::string_view, 6> kMembers = {"base",        "axes", "list",
                                                            "constraints", "seed", "sample"};
      if (std::ranges::find(kMembers, name) != kMembers.end()) continue;
      return bad({name}, "no member of a study" + suggestion(name, kMembers), name, joined(kMembers));
    }
    for (const char* name : {"seed", "sample"}) {
      if (root_.contains(name) && !root_.at(name).is_number_unsigned())
        return bad({name}, "not a whole number from 0 on", root_.at(name).dump(), "a number such as 1");
    }
    engine_.seed(root_.value("seed", std::uint64_t{1}));
    return {};
  }

  Expected<void> read_values(const json& object, const JsonPath& path, StudyValues& values) const {
    if (!object.is_object()) return bad(path, "no object of values", object.dump(), "{\"tp\": 8}");
    for (const auto& [name, value] : object.items()) {
      JsonPath at = path;
      at.push_back(name);
      PPSIM_RETURN_IF_ERROR(check_name(name, at));
      if (value.is_structured() || value.is_null())
        return bad(at, "no value of " + name, value.dump(), "a number, a text, true or false");
      values[name] = text_of_value(value);
    }
    return {};
  }

  Expected<void> read_base() {
    if (!root_.contains("base")) return bad({}, "a study has a base", "none", "\"base\": {\"model\": ...}");
    return read_values(root_.at("base"), {"base"}, base_);
  }

  Expected<void> read_axes() {
    if (!root_.contains("axes")) return {};
    const json& axes = root_.at("axes");
    if (!axes.is_object()) return bad({"axes"}, "axes are an object", axes.dump(), "{\"tp\": [1, 2, 4, 8]}");
    for (const auto& [name, values] : axes.items()) {
      PPSIM_RETURN_IF_ERROR(check_name(name, {"axes", name}));
      std::vector<std::string> texts;
      if (values.is_object()) {
        PPSIM_RETURN_IF_ERROR(read_random(values, {"axes", name}, texts));
      } else if (values.is_array() && !values.empty()) {
        for (const json& value : values) texts.push_back(text_of_value(value));
      } else {
        return bad({"axes", name}, "no values of an axis", values.dump(), "[1, 2], or {\"random\": ...}");
      }
      axes_.emplace_back(name, std::move(texts));
    }
    return {};
  }

  /// {"least": 1, "most": 100, "count": 5}, drawn by the study's seed.
  Expected<void> read_random(const json& object, const JsonPath& path, std::vector<std::string>& texts) {
    const json random = object.value("random", json());
    const auto member = [&](const char* name) {
      return random.is_object() ? random.value(name, json()) : json();
    };
    const json least = member("least");
    const json most = member("most");
    const json number = member("count");
    if (!least.is_number_unsigned() || !most.is_number_unsigned() || !number.is_number_unsigned() ||
        least.get<std::uint64_t>() > most.get<std::uint64_t>() || number.get<std::uint64_t>() > kMaxPoints)
      return bad(path, "no random values", object.dump(),
                 "{\"random\": {\"least\": 1, \"most\": 100, \"count\": 5}}");
    const auto first = least.get<std::uint64_t>();
    const std::uint64_t width = most.get<std::uint64_t>() - first + 1;
    for (std::uint64_t i = 0; i < number.get<std::uint64_t>(); ++i)
      texts.push_back(std::to_string(first + (width == 0 ? engine_() : engine_() % width)));
    return {};
  }

  Expected<void> read_list() {
    if (!root_.contains("list")) {
      list_ = {{}};
      return {};
    }
    const json& list = root_.at("list");
    if (!list.is_array() || list.empty())
      return bad({"list"}, "a list is an array", list.dump(), "[{\"tp\": 8}]");
    for (std::size_t i = 0; i < list.size(); ++i) {
      list_.emplace_back();
      PPSIM_RETURN_IF_ERROR(read_values(list[i], {"list", std::to_string(i)}, list_.back()));
    }
    return {};
  }

  Expected<void> read_constraints() {
    if (!root_.contains("constraints")) return {};
    const json& texts = root_.at("constraints");
    for (std::size_t i = 0; texts.is_array() && i < texts.size(); ++i) {
      const auto made = texts[i].is_string() ? constraint_of(texts[i].get<std::string>()) : std::nullopt;
      if (!made)
        return bad({"constraints", std::to_string(i)}, "no constraint", texts[i].dump(), "\"tp*cp <= 8\"");
      for (const auto& side : {made->left, made->right}) {
        const auto word = std::ranges::find_if(side, is_word_key);
        if (word != side.end())
          return bad({"constraints", std::to_string(i)},
                     "a constraint compares numbers, and values of " + *word + " are words", texts[i].dump(),
                     "names of numbers: " + number_keys());
      }
      constraints_.push_back(*made);
    }
    if (texts.is_array()) return {};
    return bad({"constraints"}, "constraints are an array", texts.dump(), "[\"tp*cp <= 8\"]");
  }

  /// The grid of the axes from one on.
  Expected<void> add_points(StudyValues& values, std::size_t axis) {
    if (axis < axes_.size()) {
      const auto& [name, texts] = axes_[axis];
      for (const std::string& text : texts) {
        values[name] = text;
        PPSIM_RETURN_IF_ERROR(add_points(values, axis + 1));
      }
      return {};
    }
    const auto kept = [&](const StudyConstraint& one) { return holds(one, values); };
    if (!std::ranges::all_of(constraints_, kept)) return {};
    StudyPoint point{values};
    if (!seen_.insert(values).second) return {};
    if (study_.points.size() == kMaxPoints)
      return bad({"axes"}, "too many points", "more than 1000000", "fewer values, or constraints");
    study_.points.push_back(std::move(point));
    return {};
  }

  /// So many of the points, drawn by the seed, in their order.
  void sample() {
    const std::size_t wanted = root_.value("sample", study_.points.size());
    std::size_t left = study_.points.size();
    std::size_t missing = std::min(wanted, left);
    std::vector<StudyPoint> drawn;
    for (StudyPoint& point : study_.points) {
      if (engine_() % left-- >= missing) continue;
      drawn.push_back(std::move(point));
      --missing;
    }
    study_.points = std::move(drawn);
  }

  /// A model or a cluster in a file is that of its contents, which may change between two runs.
  Expected<void> read_files() {
    std::map<std::string, std::string> hashes;
    for (StudyPoint& point : study_.points) {
      const auto text = [&](const char* name) {
        const auto found = point.values.find(name);
        return found == point.values.end() ? std::string() : found->second;
      };
      const WorkloadWords words{.model = text("model"),
                                .cluster = text("cluster"),
                                .parallelism = {},
                                .stack = text("stack"),
                                .calibration = text("calibration")};
      for (const std::string& file : files_named(words)) {
        auto& hash = hashes[file];
        if (hash.empty()) {
          PPSIM_ASSIGN_OR_RETURN(const auto contents, read_text_file(file));
          hash = bytes_hash(std::as_bytes(std::span(contents)));
        }
        point.files[file] = hash;
      }
    }
    return {};
  }

  Expected<void> check_name(const std::string& name, const JsonPath& path) const {
    if (is_point_key(name)) return {};
    return bad(path, "no value of a point" + suggestion(name, kPointKeys), name, joined(kPointKeys));
  }

  [[nodiscard]] tl::unexpected<Error> bad(const JsonPath& path, const std::string& message,
                                          const std::string& found, const std::string& expected) const {
    return file_.error_at(path, message, found, expected);
  }

  const JsonFile& file_;
  const json& root_;
  StudyValues base_;
  std::vector<std::pair<std::string, std::vector<std::string>>> axes_;
  std::vector<StudyValues> list_;
  std::vector<StudyConstraint> constraints_;
  std::set<StudyValues> seen_;
  std::mt19937_64 engine_;
  Study study_;
};

}  // namespace

std::string StudyPoint::key() const {
  std::string text = "ppsim " PPSIM_VERSION "\n";
  for (const auto& [name, value] : values) text += name + "=" + value + "\n";
  for (const auto& [file, hash] : files) text += file + " is " + hash + "\n";
  return bytes_hash(std::as_bytes(std::span(text)));
}

Expected<Study> read_study(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  return StudyReader(parsed).read();
}

}  // namespace ppsim::planner
