#include "ppsim/core/io/json.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ppsim/core/ir/hash.hpp"
#include "support/hand_program.hpp"
#include "support/tests_folder.hpp"

namespace ppsim {
namespace {

constexpr const char* kSchedule = R"({
  "format": "ppsim-schedule",
  "version": 1,
  "name": "tiny",
  "pipeline": {
    "ranks": 2,
    "stages": 2,
    "microbatches": 2
  },
  "rows": [
    ["0F0","0F1","","0B0","0B1"],
    ["1F0","(1F1;1B0)OVERLAP_F_B","1B1"]
  ]
}
)";

constexpr const char* kProgram = R"({
  "format": "ppsim-program",
  "version": 1,
  "pipeline": {
    "ranks": 2,
    "stages": 2,
    "microbatches": 1,
    "blocks": [
      [0,1]
    ],
    "collectives": [
      {"name":"norm","members":[0,1]}
    ]
  },
  "communicators": [
    {"name":"0>1","members":[0,1]},
    {"name":"norm","members":[0,1],"queue":3}
  ],
  "ranks": [
    ["0F0","{0SEND_F0@0}","0COLL@1 after 0,1 !"],
    ["1RECV_F0@0","1F0"]
  ]
}
)";

constexpr const char* kTables = R"({
  "format": "ppsim-tables",
  "version": 1,
  "costs": [
    {"kind":"F","ns":1},
    {"kind":"F","stage":2,"peer":1,"slice":0,"ns":9223372036854775807},
    {"kind":"OVERLAP_F_B","ns":3},
    {"kind":"COLL","collective":1,"ns":0},
    {"kind":"OPT","block":4,"ns":5,"samples":12,"lower_quartile_ns":4,"median_ns":6,"upper_quartile_ns":7}
  ],
  "sizes": [
    {"tensor":"parameters","block":0,"bytes":7},
    {"tensor":"incoming_gradient","stage":1,"peer":2,"slice":3,"bytes":8},
    {"tensor":"workspace","stage":1,"op":"W","bytes":9}
  ]
}
)";

/// The error of reading `text` with `from` replaced by `to`, or "read".
template <class Read>
std::string refusal(Read read, std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  const auto result = read(text, "f.json");
  return result ? "read" : to_string(result.error());
}
std::string schedule_refusal(const std::string& from, const std::string& to) {
  return refusal(ir_from_json, kSchedule, from, to);
}
std::string program_refusal(const std::string& from, const std::string& to) {
  return refusal(ir_from_json, kProgram, from, to);
}
std::string tables_refusal(const std::string& from, const std::string& to) {
  return refusal(tables_from_json, kTables, from, to);
}

std::string file_text(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST(Json, ScheduleRoundTrips) {
  const auto read = ir_from_json(kSchedule, "f.json");
  ASSERT_TRUE(read) << to_string(read.error());
  const Schedule& schedule = std::get<Schedule>(*read);
  EXPECT_EQ(schedule.name(), "tiny");
  EXPECT_TRUE(schedule.row(RankId(1))[1].overlapped());
  EXPECT_EQ(to_json(schedule), kSchedule);
}

TEST(Json, ProgramRoundTrips) {
  const auto read = ir_from_json(kProgram, "f.json");
  ASSERT_TRUE(read) << to_string(read.error());
  const Program& program = std::get<Program>(*read);
  EXPECT_EQ(program.communicators()[1].queue, 3);
  EXPECT_EQ(program.pipeline().spec().blocks.size(), 1U);
  EXPECT_EQ(to_json(program), kProgram);
}

TEST(Json, TablesRoundTrip) {
  const auto read = tables_from_json(kTables, "f.json");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->costs({OpKind::forward, 2, 1, 0}), 9223372036854775807);
  EXPECT_EQ(read->costs({OpKind::forward, 3, 1, 0}), 1);
  EXPECT_EQ(read->sizes({TensorKind::workspace, 1, -1, -1, OpKind::backward_weight}), 9);
  EXPECT_EQ(
      read->spreads,
      (CostSpreads{{CostClass{OpKind::optimizer, 4},
                    CostSpread{.samples = 12, .lower_quartile = 4, .median = 6, .upper_quartile = 7}}}));
  EXPECT_EQ(to_json(*read), kTables);
}

TEST(Json, TablesMayLackEither) {
  const auto read = tables_from_json(R"({"format":"ppsim-tables","version":1})", "f.json");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, Tables());
}

TEST(Json, KeepsEveryMemberOfAPipeline) {
  PipelineSpec spec;
  spec.ranks = 3;
  spec.stages = 4;
  spec.microbatches = 2;
  spec.slices = 2;
  spec.placement = {RankId(2), RankId(1), RankId(0), RankId(0)};
  spec.edges = {{StageId(1), StageId(0)}, {StageId(3), StageId(2)}};
  spec.routes = {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}};
  spec.route = {RouteId(1), RouteId(0)};
  spec.blocks = {ParameterBlock{{StageId(0), StageId(3)}}, ParameterBlock{{StageId(1), StageId(2)}}};
  spec.update = {0, 1};
  spec.version = {0, 1};
  spec.collectives = {{"\"quoted\"\n", {RankId(0), RankId(2)}}};
  ProgramDraft draft;
  draft.rows = IdVector<RankId, std::vector<InstructionDraft>>(3);
  const auto program = ProgramBuilder::build(Pipeline::make(spec).value(), draft);
  ASSERT_TRUE(program) << to_string(program.error());
  const auto read = ir_from_json(to_json(*program), "f.json");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(std::get<Program>(*read).pipeline().spec(), program->pipeline().spec());
}

TEST(Json, ReplacesNamesThatAreNoText) {
  const Pipeline pipeline = make_chain(1, 1, 1).value();
  ScheduleBuilder builder("a\xff", pipeline);
  builder.add(OpKind::forward, StageId(0), MicrobatchId(0));
  const auto read = ir_from_json(to_json(builder.build().value()), "f.json");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(std::get<Schedule>(*read).name(), "a\xef\xbf\xbd");
}

/// It would be taken for one that is left out: a chain instead of a graph without an edge.
TEST(Json, RefusesListsThatAreEmpty) {
  for (const char* name : {"placement", "edges", "routes", "route", "blocks", "update", "version", "lag"}) {
    const std::string text =
        R"({"format": "ppsim-schedule", "version": 1, "pipeline": {"ranks": 1, "stages": 2,
      "microbatches": 1, ")" +
        std::string(name) + R"(": []}, "rows": [["0F0", "1F0"]]})";
    const auto read = ir_from_json(text, "f.json");
    ASSERT_FALSE(read) << name;
    EXPECT_NE(to_string(read.error()).find(name), std::string::npos) << to_string(read.error());
  }
}

TEST(JsonSchema, IsWhatIsPublished) {
  for (const char* name : {"schedule", "program", "tables", "certificate", "cluster"}) {
    const std::string path =
        (test::tests_folder() / "../core/schemas" / (std::string(name) + ".schema.json")).string();
    EXPECT_EQ(json_schema(name), file_text(path)) << path;
    EXPECT_NE(json_schema(name).find("http://json-schema.org/draft-07/schema#"), std::string_view::npos);
  }
}

TEST(JsonSchema, DescribesPipelinesOnce) {
  const auto pipeline_part = [](std::string_view schema) {
    const std::size_t begin = schema.find("    \"pipeline\": {\n");
    return schema.substr(begin);
  };
  EXPECT_EQ(pipeline_part(json_schema("schedule")), pipeline_part(json_schema("program")));
  EXPECT_GT(pipeline_part(json_schema("schedule")).size(), 1000U);
}

TEST(JsonErrors, SyntaxHasLineAndColumn) {
  EXPECT_EQ(schedule_refusal("\"version\": 1,", "\"version\": 1"),
            "f.json:4:8: not JSON: syntax error while parsing object - unexpected string literal (found \", "
            "expected '}')");
  EXPECT_EQ(schedule_refusal("\n  ]\n}\n", "\n  ]\n"),
            "f.json:14:1: not JSON, as if the file was cut off: syntax error while parsing object - "
            "unexpected end of input (found the "
            "end of the "
            "file, expected '}')");
}

/// The text behind a zero byte, which the JSON library does not look at, used to end the program.
TEST(JsonErrors, ZeroBytesAreNoEnd) {
  const std::string text = std::string("50") + '\0' + "\"\n";
  const auto tables = tables_from_json(text, "f.json");
  ASSERT_FALSE(tables.has_value());
  EXPECT_EQ(to_string(tables.error()).find("f.json:1:3: not JSON: a zero byte"), 0U)
      << to_string(tables.error());
}

TEST(JsonErrors, DoubledKeys) {
  EXPECT_EQ(schedule_refusal("\"stages\": 2,", "\"stages\": 2, \"st\\u0061ges\": 3,"),
            "f.json:7:18: a key given twice (found stages, expected each key once)");
  EXPECT_EQ(schedule_refusal("\"name\": \"tiny\"", "\"name\": \"name\""), "read");
}

TEST(JsonErrors, OtherFormatsAndVersions) {
  EXPECT_EQ(schedule_refusal("ppsim-schedule", "ppsim-tables"),
            "f.json:2:13: /format: a file of another format (found \"ppsim-tables\", expected "
            "\"ppsim-schedule\" or "
            "\"ppsim-program\")");
  EXPECT_EQ(
      schedule_refusal("\"format\": \"ppsim-schedule\",", ""),
      "f.json:1:1: the whole file: a file without \"format\" (found nothing, expected \"ppsim-schedule\" or "
      "\"ppsim-program\")");
  EXPECT_EQ(schedule_refusal("\"version\": 1", "\"version\": 2"),
            "f.json:3:14: /version: a file of another version (found 2, expected 1)");
  EXPECT_EQ(schedule_refusal("\"version\": 1", "\"version\": 1.0"),
            "f.json:3:14: /version: a file of another version (found 1.0, expected 1)");
  EXPECT_EQ(to_string(ir_from_json("[1]", "f.json").error()),
            "f.json:1:1: the whole file: not a file of ppsim (found [1], expected an object)");
}

TEST(JsonErrors, UnknownAndMissingKeys) {
  EXPECT_EQ(schedule_refusal("\"stages\": 2", "\"stages\": 2, \"stges\": 3"),
            "f.json:7:27: /pipeline/stges: an unknown key (found stges, expected one of blocks, collectives, "
            "edges, "
            "lag, microbatches, placement, ranks, reduced_each_microbatch, route, routes, side_edges, "
            "slices, stages, update, version)");
  EXPECT_EQ(schedule_refusal("\"stages\": 2,", ""),
            "f.json:5:15: /pipeline: a missing key (found nothing, expected \"stages\")");
  EXPECT_EQ(
      schedule_refusal("\"name\"", "\"nam\""),
      "f.json:4:10: /nam: an unknown key (found nam, expected one of format, name, pipeline, rows, version)");
}

TEST(JsonErrors, WrongTypesAndRanges) {
  EXPECT_EQ(schedule_refusal("\"ranks\": 2", "\"ranks\": \"2\""),
            "f.json:6:14: /pipeline/ranks: a value that does not belong here (found \"2\", expected a whole "
            "number in [1, "
            "2147483647])");
  EXPECT_EQ(schedule_refusal("\"ranks\": 2", "\"ranks\": 2.5"),
            "f.json:6:14: /pipeline/ranks: a value that does not belong here (found 2.5, expected a whole "
            "number in [1, "
            "2147483647])");
  EXPECT_EQ(schedule_refusal("\"ranks\": 2", "\"ranks\": 2147483648"),
            "f.json:6:14: /pipeline/ranks: a value that does not belong here (found 2147483648, expected a "
            "whole number in "
            "[1, 2147483647])");
  EXPECT_EQ(schedule_refusal("\"0F1\"", "7"),
            "f.json:11:12: /rows/0/1: a value that does not belong here (found 7, expected a string)");
  EXPECT_EQ(schedule_refusal("\"stages\": 2", "\"stages\": 2, \"edges\": [[0]]"),
            "f.json:7:28: /pipeline/edges/0: a value that does not belong here (found [0], expected an array "
            "of 2)");
}

TEST(JsonErrors, CellsAndInstructionsHaveLineAndColumn) {
  EXPECT_EQ(schedule_refusal("1F0", "1FOO"),
            "f.json:12:6: /rows/1/0: not an action (found 1FOO, expected an action such as 2F0, 0SEND_F3 or "
            "1UNSHARD)");
  EXPECT_EQ(program_refusal("1RECV_F0@0", "1RECV_F9@0"),
            "f.json:21:6: /ranks/1/0: microbatch 9 is out of range (found 1RECV_F9, expected microbatch in "
            "[0, 1))");
}

/// Rows are taken out of the text where they are plain, and are the same where they are not.
TEST(Json, RowsReadAlikeInAnySpelling) {
  const auto expected = std::get<Schedule>(*ir_from_json(kSchedule, "f.json"));
  const auto read_with = [](const std::string& from, const std::string& to) {
    std::string text = kSchedule;
    text.replace(text.find(from), from.size(), to);
    const auto read = ir_from_json(text, "f.json");
    EXPECT_TRUE(read) << to_string(read.error());
    return std::get<Schedule>(*read);
  };
  EXPECT_EQ(read_with("\"0F1\"", " \"0\\u00461\"\t"), expected);
  EXPECT_EQ(read_with("\"rows\"", "\"r\\u006fws\""), expected);
  EXPECT_EQ(read_with("\"rows\":", "\"rows\"\n :"), expected);
  EXPECT_EQ(read_with("\"tiny\"", "\"rows\""), expected);
}

TEST(JsonErrors, RowsThatAreOnlyNearlyRows) {
  EXPECT_NE(schedule_refusal("\"0B1\"]", "\"0B1\",]").find("f.json:11:33: not JSON: "), std::string::npos);
  EXPECT_NE(schedule_refusal("\"0B1\"]", "\"0B1\"").find("f.json:14:1: not JSON: "), std::string::npos);
  EXPECT_NE(schedule_refusal("\"0B1\"]", "7]").find("/rows/0/4: a value that does not belong here"),
            std::string::npos);
  EXPECT_NE(schedule_refusal("\"name\": \"tiny\"", "\"rows\": [[\"0F0\"]]").find("a key given twice"),
            std::string::npos);
  EXPECT_NE(schedule_refusal("\"stages\": 2", "\"stages\": 2, \"rows\": [[\"0F0\"]]").find("an unknown key"),
            std::string::npos);
  EXPECT_NE(schedule_refusal("\"rows\"", "\"ranks\"").find("an unknown key"), std::string::npos);
  EXPECT_NE(
      program_refusal("\"norm\",\"members\":[0,1]", "\"norm\",\"members\":[[\"0\"]]").find("/pipeline/"),
      std::string::npos);
}

TEST(JsonErrors, RowsAndRanks) {
  EXPECT_EQ(schedule_refusal(",\n    [\"1F0\",\"(1F1;1B0)OVERLAP_F_B\",\"1B1\"]", ""),
            "f.json:10:11: /rows: another number of rows than ranks (found 1 rows, expected 2)");
}

TEST(JsonErrors, WhatThePipelineAndTheBuildersRefuse) {
  EXPECT_EQ(schedule_refusal("\"stages\": 2", "\"stages\": 2, \"placement\": [0,7]"),
            "f.json:5:15: /pipeline: placement of stage 1 is rank 7, expected [0, 2)");
  EXPECT_EQ(program_refusal("after 0,1", "after 0,9"),
            "f.json:19:12: /ranks: rank 0, instruction 2: after 9 is outside [0, 3)");
  const auto incomplete = refusal(ir_from_json, kSchedule, ",\"1B1\"", "");
  EXPECT_EQ(incomplete.substr(0, 21), "f.json:10:11: /rows: ");
  std::string text = kSchedule;
  text.erase(text.find(",\"1B1\""), 6);
  EXPECT_EQ(ir_from_json(text, "f.json").error().code, ErrorCode::ill_formed);
}

TEST(JsonErrors, TablesHaveAllOfASpreadOrNothing) {
  for (const char* part :
       {R"(,"samples":12)", R"(,"lower_quartile_ns":4)", R"(,"median_ns":6)", R"(,"upper_quartile_ns":7)"}) {
    std::string text = kTables;
    text.erase(text.find(part), std::string(part).size());
    EXPECT_FALSE(tables_from_json(text, "f.json")) << part;
  }
}

TEST(JsonErrors, TablesCheckSubjectsAndDoubles) {
  EXPECT_EQ(tables_refusal("\"block\":4", "\"stage\":4"),
            "f.json:9:27: /costs/4/stage: a key that this kind does not have (found stage, expected block)");
  EXPECT_EQ(tables_refusal("{\"kind\":\"OPT\",\"block\":4", "{\"kind\":\"F\""),
            "f.json:9:5: /costs/4: an entry given twice (found "
            "{\"kind\":\"F\",\"lower_quartile_ns\":4,\"median_ns\":6,\"ns\":5,\"samples\":12,\"upper_"
            "quartile_ns\":7}, "
            "expected each once)");
  EXPECT_EQ(tables_refusal("\"OPT\"", "\"FOO\"").substr(0, 76),
            "f.json:9:13: /costs/4/kind: a value that does not belong here (found \"FOO\", ");
  EXPECT_EQ(tables_refusal("\"bytes\":7", "\"bytes\":-7"),
            "f.json:12:46: /sizes/0/bytes: a value that does not belong here (found -7, expected a whole "
            "number in [0, "
            "9223372036854775807])");
}

TEST(JsonErrors, NumbersBeyond64BitsAreNotRounded) {
  EXPECT_EQ(tables_refusal("9223372036854775807", "9223372036854775808"),
            "f.json:6:51: /costs/1/ns: a value that does not belong here (found 9223372036854775808, "
            "expected a whole number in [0, 9223372036854775807])");
  EXPECT_NE(tables_refusal("9223372036854775807", "18446744073709551616"), "read");
  EXPECT_NE(tables_refusal("9223372036854775807", "1e3"), "read");
}

TEST(JsonErrors, DeepNestingIsAnErrorOnly) {
  const std::string deep(200000, '[');
  EXPECT_FALSE(ir_from_json(deep, "f.json"));
  EXPECT_EQ(to_string(ir_from_json(deep + std::string(200000, ']'), "f.json").error()),
            "f.json:1:65: values nested too deeply (found [, expected at most 64 levels)");
  EXPECT_NE(schedule_refusal("\"tiny\"", deep + std::string(200000, ']')), "read");
}

}  // namespace
}  // namespace ppsim
