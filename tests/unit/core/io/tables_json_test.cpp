#include <gtest/gtest.h>

#include "ppsim/core/io/json.hpp"

namespace ppsim {
namespace {

/// Tables of one forward for all stages, and one of stage 0 with these keys.
Expected<Tables> tables_of(const std::string& keys, const std::string& kind = "F") {
  return tables_from_json(
      R"({"format": "ppsim-tables", "version": 1, "costs": [{"kind": "F", "ns": 10}, {"kind": ")" + kind +
          R"(", "stage": 0, )" + keys + "}]}",
      "f.json");
}

TEST(TablesJson, ATableMaySayWhatComputationTakesBesideTransfers) {
  const Tables tables = tables_of(R"("ns": 20, "ns_beside_transfers": 25)").value();
  EXPECT_EQ(tables.costs({OpKind::forward, 0}), 20);
  EXPECT_EQ(tables.beside_transfers({OpKind::forward, 0}), 25);
  EXPECT_EQ(tables.beside_transfers({OpKind::forward, 1}), 10);  // its entry says nothing
  EXPECT_EQ(tables_from_json(to_json(tables), "f.json"), tables);
  const Tables same = tables_of(R"("ns": 20)").value();
  EXPECT_TRUE(same.beside_transfers.entries().empty());
}

TEST(TablesJson, TransfersSlowDownComputationAloneAndMakeNothingFaster) {
  const auto refusal = [](const Expected<Tables>& read) { return read ? "read" : read.error().message; };
  EXPECT_EQ(refusal(tables_of(R"("ns": 20, "ns_beside_transfers": 19)")),
            "/costs/1/ns_beside_transfers: faster beside transfers than without");
  EXPECT_EQ(refusal(tables_of(R"("ns": 20, "ns_beside_transfers": 21)", "SEND_F")),
            "/costs/1/ns_beside_transfers: transfers slow down computation alone");
  EXPECT_NE(refusal(tables_of(R"("ns": 20, "ns_beside_transfers": -1)")), "read");
}

}  // namespace
}  // namespace ppsim
