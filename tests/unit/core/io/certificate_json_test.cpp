#include <gtest/gtest.h>

#include "ppsim/core/io/json.hpp"

namespace ppsim::test::certificate_json {
namespace {

constexpr const char* kCertificate = R"({
  "format": "ppsim-certificate",
  "version": 3,
  "program_hash": "aa",
  "sizes_hash": "bb",
  "capabilities_hash": "cc",
  "capabilities": {
    "credits": 2,
    "issue_blocks": true
  },
  "properties": ["well_formed","tensor_use"],
  "order": ["0 2 1 4294967295"],
  "memory": [
    {"rank":0,"bytes":10,"reuse":["1 2 3 4 5 6"]},
    {"rank":1,"bytes":9223372036854775807,"reuse":[]}
  ]
}
)";

/// The error of reading the certificate with `from` replaced by `to`, or "read".
std::string refusal(const std::string& from, const std::string& to) {
  std::string text = kCertificate;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  const auto result = certificate_from_json(text, "f.json");
  return result ? "read" : to_string(result.error());
}

TEST(CertificateJson, RoundTrips) {
  const auto read = certificate_from_json(kCertificate, "f.json");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->capabilities, (TransportCapabilities{.credits = 2, .issue_blocks = true}));
  EXPECT_EQ(read->order.back(), 4294967295U);
  EXPECT_EQ(read->properties, (std::vector<std::string>{"well_formed", "tensor_use"}));
  EXPECT_EQ(read->memory.at(0).reuse, (std::vector<Reuse>{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(to_json(*read), kCertificate);
  EXPECT_EQ(certificate_from_json(to_json(Certificate()), "f.json"), Certificate());
}

TEST(CertificateJson, NumbersOutOfRangeAreNotRounded) {
  EXPECT_NE(refusal("9223372036854775807", "9223372036854775808"), "read");
  EXPECT_NE(refusal("4294967295", "4294967296"), "read");
  EXPECT_NE(refusal("\"credits\": 2", "\"credits\": 0"), "read");
}

TEST(CertificateJson, LongCertificatesAreWrittenInPieces) {
  Certificate certificate;
  for (std::uint32_t i = 0; i < 1000; ++i) certificate.order.push_back(i);
  certificate.memory.emplace_back(MemoryWitness{RankId(0), 1, std::vector<Reuse>(1000, Reuse{7, 8, 9})});
  const std::string text = to_json(certificate);
  EXPECT_NE(text.find("7 8 9\",\"7 8 9"), std::string::npos);
  EXPECT_EQ(certificate_from_json(text, "f.json"), certificate);
}

TEST(CertificateJson, StringsOfACertificateHoldNumbers) {
  const std::string order = "a string that is no list of numbers (found ";
  EXPECT_EQ(refusal("0 2 1 4294967295", "0 2 x 1"),
            "f.json:12:13: /order/0: " + order + "\"x 1\", expected items of the order, parted by blanks)");
  for (const char* string : {"0  2", " 0", "0 ", "-1", "1.5", "4294967296", "1,2"})
    EXPECT_NE(refusal("0 2 1 4294967295", string), "read") << string;
  EXPECT_EQ(refusal("1 2 3 4 5 6", "1 2 3 4 5"),
            "f.json:14:35: /memory/0/reuse/0: " + order +
                "\"4 5\", expected earlier, later and bytes, parted by blanks)");
  for (const char* string : {"1 2 -3", "1 2 9223372036854775808", "4294967296 2 3", "1 2 3 4"})
    EXPECT_NE(refusal("1 2 3 4 5 6", string), "read") << string;
  EXPECT_EQ(refusal("1 2 3 4 5 6", ""), "read");
}

TEST(CertificateJson, OtherPropertiesAndVersionsOfCertificatesAreRefused) {
  EXPECT_EQ(refusal("\"version\": 3", "\"version\": 1"),
            "f.json:3:14: /version: a file of another version: verify the Program again to make a new one "
            "(found 1, expected 2 or 3)");
  EXPECT_EQ(
      refusal("tensor_use", "makespan"),
      "f.json:11:32: /properties/1: a value that does not belong here (found \"makespan\", expected one of "
      "\"well_formed\", \"matched\", \"deadlock_free\", \"collective_order\", \"ascending_accumulation\", "
      "\"weight_versions\", \"tensor_use\", \"memory\")");
}

}  // namespace
}  // namespace ppsim::test::certificate_json
