#include <gtest/gtest.h>

#include <string>

#include "ppsim/workload/cluster.hpp"

namespace ppsim {
namespace {

/// A GPU behind a PCIe switch of its own, and a port beside it.
std::string gpu_and_port(int index, const std::string& gpu, const std::string& port) {
  const std::string bus = "0000:0" + std::to_string(index) + ":00.0";
  return R"(<pci busid="0000:f)" + std::to_string(index) +
         R"(:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16"><pci busid=")" + bus +
         R"(" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">)" + gpu + "</pci>" +
         (port.empty() ? port : R"(<pci class="0x020700"><nic>)" + port + "</nic></pci>") + "</pci>\n";
}

std::string h100(const std::string& links) { return R"(<gpu dev="0" sm="90" rank="0">)" + links + "</gpu>"; }

const std::string kSwitches = R"(<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>)";
const std::string kPort = R"(<net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.000000"/>)";

std::string system_of(const std::string& inside) {
  return "<?xml version=\"1.0\"?>\n<!-- made by hand -->\n<system version=\"1\">\n" + inside + "</system>\n";
}

std::string node(int gpus, const std::string& gpu, const std::string& port) {
  std::string inside = R"(<cpu numaid="0" arch="x86_64">)";
  for (int i = 0; i < gpus; ++i) inside += gpu_and_port(i, gpu, port);
  return system_of(inside + "</cpu>\n");
}

ClusterDescription read(const std::string& text, int nodes = 2, const std::string& gpu = "") {
  auto cluster = cluster_from_topology(text, "node.xml", nodes, gpu);
  EXPECT_TRUE(cluster.has_value()) << to_string(cluster.error());
  return cluster.value_or(ClusterDescription{});
}

TEST(Topology, ANodeOfH100) {
  const ClusterDescription cluster = read(node(8, h100(kSwitches), kPort));
  const ClusterDescription preset = cluster_from_name("dgx-h100", 2).value();
  EXPECT_EQ(cluster.gpu, preset.gpu);
  EXPECT_EQ(cluster.gpu_count(), 16);
  EXPECT_EQ(cluster.node.nvlink_domain, 8);
  EXPECT_EQ(cluster.node.node_gbytes, 400);
  EXPECT_EQ(cluster.node.name, "node.xml (h100-sxm-80gb)");
  EXPECT_EQ(read(node(8, h100(kSwitches), kPort), 2, "h200-sxm-141gb").gpu.memory_bytes, 141'000'000'000);
}

/// Two pairs, joined by links to each other's address.
TEST(Topology, LinksWithoutASwitchJoinPairs) {
  std::string inside = "<cpu>";
  for (int i = 0; i < 4; ++i) {
    const std::string peer = "0000:0" + std::to_string(i ^ 1) + ":00.0";
    inside += gpu_and_port(i, h100("<nvlink target='" + peer + "' count='6' tclass='0x030200'/>"), kPort);
  }
  const ClusterDescription cluster = read(system_of(inside + "</cpu>"));
  EXPECT_EQ(cluster.node.gpus, 4);
  EXPECT_EQ(cluster.node.nvlink_domain, 2);
  EXPECT_EQ(cluster.gpu.nvlink_gbytes, 150);
}

TEST(Topology, WithoutLinksGpusMeetOverPcie) {
  const ClusterDescription cluster = read(node(4, h100(""), kPort));
  EXPECT_EQ(cluster.node.nvlink_domain, 4);
  EXPECT_EQ(cluster.gpu.nvlink_gbytes, 64);
  EXPECT_EQ(cluster.gpu.host_gbytes, 64);
}

/// Hosts of one domain of NVLink are in one file; a port for collectives is another's second name.
TEST(Topology, NodesOfOneDomain) {
  std::string inside;
  for (int host = 0; host < 3; ++host) {
    inside += "<cpu host_hash='" + std::to_string(host) + "' arch='arm64'>";
    for (int i = 0; i < 4; ++i) {
      inside += gpu_and_port(4 * host + i,
                             "<gpu sm='100'><nvlink target='ffff' count='18' tclass='0x068001'/></gpu>",
                             kPort + "<net speed='400000' coll='1'/>");
    }
    inside += "</cpu>";
  }
  const ClusterDescription cluster = read(system_of(inside), 3);
  EXPECT_EQ(cluster.gpu.name, "gb200");
  EXPECT_EQ(cluster.gpu.nvlink_gbytes, 900);
  EXPECT_EQ(cluster.node.gpus, 4);
  EXPECT_EQ(cluster.node.nvlink_domain, 12);
  EXPECT_EQ(cluster.node.node_gbytes, 200);
}

std::string problem(const std::string& text, int nodes = 2, const std::string& gpu = "") {
  const auto cluster = cluster_from_topology(text, "node.xml", nodes, gpu);
  return cluster ? "nothing" : to_string(cluster.error());
}

TEST(Topology, SaysWhatIsWrong) {
  const std::string good = node(2, h100(kSwitches), kPort);
  EXPECT_EQ(problem("{}"), "node.xml:1: no XML (found the end of the file, expected an element)");
  EXPECT_EQ(problem("<graphs/>"), "node.xml:1: no topology of NCCL (found <graphs>, expected <system>)");
  EXPECT_EQ(problem(system_of("<cpu/>")),
            "node.xml:3: the topology has no GPU (found none, expected a <gpu>)");
  EXPECT_NE(problem(good.substr(0, good.find("</cpu>"))).find("expected </cpu> for row 4"),
            std::string::npos);
  EXPECT_NE(problem("<system>\n<cpu numaid=0/></system>").find("node.xml:2: no XML (found 0/></system>"),
            std::string::npos);
  EXPECT_NE(
      problem("<system>\n</cpu>").find("node.xml:2: no XML (found </cpu>, expected </system> for row 1"),
      std::string::npos);
  EXPECT_NE(problem(node(2, "<gpu sm='61'/>", kPort)).find("expected one of 80 90 100"), std::string::npos);
  EXPECT_NE(problem(node(2, "<gpu/>", kPort)).find("<gpu> needs sm (found nothing"), std::string::npos);
  EXPECT_NE(
      problem(node(2, h100("<nvlink count='many'/>"), kPort)).find("<nvlink> needs count (found \"many\""),
      std::string::npos);
  EXPECT_NE(problem(good, 2, "b200-sxm").find("found b200-sxm, expected h100-sxm-80gb or h200-sxm-141gb"),
            std::string::npos);
  const std::string alone = node(2, h100(kSwitches), "");
  EXPECT_NE(problem(alone).find("the topology has no network"), std::string::npos);
  EXPECT_EQ(problem(alone, 1), "nothing") << "NVLink connects them";
  EXPECT_NE(problem(system_of("<cpu>" + gpu_and_port(0, h100(kSwitches), kPort) +
                              gpu_and_port(1, h100(""), kPort) + "</cpu>"))
                .find("GPUs differ in their NVLinks (found 0 links, 1 GPUs together"),
            std::string::npos);
  EXPECT_NE(problem(good, 0).find("at least one node"), std::string::npos);
  EXPECT_NE(problem(node(2, h100(R"(<nvlink target="0000:01:00.0" count="0.5" tclass="0x030200"/>)"), kPort))
                .find("no number of links (found 0.5, expected a whole number)"),
            std::string::npos);
}

}  // namespace
}  // namespace ppsim
