#include "ppsim/simulator/writers/report.hpp"

#include <ostream>

#include "ppsim/core/ir/check.hpp"
#include "report_data.hpp"
#include "report_page.hpp"
#include "writers/timeline_rows.hpp"

namespace ppsim::simulator {
namespace {

using Json = nlohmann::ordered_json;

/// Per kind of action: its text, what that stands for, and its colour.
Json kinds(Palette palette) {
  Json list = Json::array();
  for (const OpInfo& kind : kOpTable) {
    list.push_back({{"text", kind.text},
                    {"meaning", info(kind.kind).meaning},
                    {"colour", hex_text(colour_of(palette, kind.kind))}});
  }
  return list;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

void write_report(std::ostream& out, std::span<const ReportEntry> entries, const ReportOptions& options) {
  PPSIM_CHECK(!entries.empty(), "a report of nothing");
  Json data{{"kinds", kinds(options.palette)},
            {"overlay", options.overlay},
            {"command", options.command},
            {"runs", Json::array()}};
  for (const ReportEntry& entry : entries) data["runs"].push_back(report_data(entry));
  std::string page = replaced(std::string(report_page()), "{{title}}", markup_text(options.title));
  page = replaced(std::move(page), "{{hint}}", markup_text(options.hint));
  const std::size_t at = page.find("{{data}}");
  PPSIM_CHECK(at != std::string::npos, "the page has no place for its data");
  // "</script>" in a string would end the element that holds the data.
  out << page.substr(0, at) << replaced(data.dump(), "</", "<\\/")
      << page.substr(at + std::string_view("{{data}}").size());
}

}  // namespace ppsim::simulator
