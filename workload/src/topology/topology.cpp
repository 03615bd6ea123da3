#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/text/number_text.hpp"
#include "ppsim/workload/cluster.hpp"
#include "xml.hpp"

namespace ppsim::workload {
namespace {

constexpr int kMaxGpus = 4096;
constexpr int kMaxLinks = 1024;
constexpr double kMaxTransfers = 1000;  // GT/s
constexpr double kMaxWidth = 64;        // of a PCIe link

/// One GPU as NCCL finds it.
struct FoundGpu {
  const XmlElement* element = nullptr;
  std::string bus;
  double host_gbytes = 0;
  int links = 0;
  std::set<std::string> peers;  ///< buses at the other ends of its links; of switches one name
};

struct FoundNode {
  std::set<std::string> hosts;
  bool is_arm = false;
  std::vector<FoundGpu> gpus;
  double network_gbytes = 0;
  double latency_us = 0;
};

/// A GPU's presets by its compute capability, the usual one first. `link_gbytes`: of one NVLink, one
/// direction.
struct Capability {
  int sm = 0;
  bool arm = false;
  double link_gbytes = 0;
  std::vector<std::string_view> gpus;
};

const std::vector<Capability>& capabilities() {
  static const std::vector<Capability> known = {
      {80, false, 25, {"a100-sxm-80gb", "a100-sxm-40gb"}},
      {90, false, 25, {"h100-sxm-80gb", "h200-sxm-141gb"}},
      {100, true, 50, {"gb200"}},
      {100, false, 50, {"b200-sxm"}},
      {103, false, 50, {"b300-sxm"}},
  };
  return known;
}

class TopologyReader {
 public:
  TopologyReader(const std::string& file, std::string_view gpu) : file_(file), gpu_(gpu) {}

  Expected<ClusterDescription> read(const XmlElement& root, int nodes) {
    if (root.name != "system") return wrong(root, "no topology of NCCL", "<" + root.name + ">", "<system>");
    PPSIM_RETURN_IF_ERROR(visit(root, 0));
    if (found_.gpus.empty()) return wrong(root, "the topology has no GPU", "none", "a <gpu>");
    return cluster(root, nodes);
  }

 private:
  [[nodiscard]] tl::unexpected<Error> wrong(const XmlElement& element, const std::string& message,
                                            const std::string& found, const std::string& expected) const {
    return make_error(ErrorCode::bad_file, message,
                      {.file = file_, .row = element.row, .found = found, .expected = expected});
  }

  /// An attribute that is a number above 0.
  Expected<double> number(const XmlElement& element, std::string_view name) const {
    const std::string_view text = element.attribute(name);
    const auto value = parse_number<double>(text);
    if (value && *value > 0 && *value < 1e9) return *value;
    return wrong(element, "<" + element.name + "> needs " + std::string(name),
                 text.empty() ? "nothing" : "\"" + std::string(text) + "\"", "a number above 0");
  }

  /// `host_gbytes`: of the slowest PCIe link between the element and its processor; 0: there is none.
  Expected<void> visit(const XmlElement& element, double host_gbytes) {
    if (element.name == "cpu") {
      found_.hosts.emplace(element.attribute("host_hash"));
      found_.is_arm = found_.is_arm || element.attribute("arch") == "arm64";
    }
    if (element.name == "pci") {
      auto link = pcie_gbytes(element);
      if (link && *link > 0) host_gbytes = host_gbytes > 0 ? std::min(host_gbytes, *link) : *link;
      bus_ = element.attribute("busid");
    }
    if (element.name == "gpu") return add_gpu(element, host_gbytes);
    if (element.name == "net") return add_port(element);
    for (const XmlElement& child : element.children) {
      PPSIM_RETURN_IF_ERROR(visit(child, host_gbytes));
    }
    return {};
  }

  /// 2.5 and 5 GT/s lose a fifth to their code; NCCL writes no rate where it knows none.
  static std::optional<double> pcie_gbytes(const XmlElement& element) {
    std::string_view speed_text = element.attribute("link_speed");
    std::string_view width_text = element.attribute("link_width");
    const double transfers = take_leading_number<double>(speed_text).value_or(0);
    const double width = take_leading_number<double>(width_text).value_or(0);
    const bool plausible = transfers > 0 && transfers <= kMaxTransfers && width > 0 && width <= kMaxWidth;
    if (!plausible) return std::nullopt;
    return transfers * width / (transfers > 5 ? 8 : 10);
  }

  Expected<void> add_gpu(const XmlElement& element, double host_gbytes) {
    FoundGpu gpu{.element = &element, .bus = bus_, .host_gbytes = host_gbytes, .peers = {}};
    for (const XmlElement& link : element.children) {
      if (link.name != "nvlink") continue;
      PPSIM_ASSIGN_OR_RETURN(const auto count, number(link, "count"));
      if (count != std::floor(count))
        return wrong(link, "no number of links", std::string(link.attribute("count")), "a whole number");
      gpu.links += static_cast<int>(std::min<double>(count, kMaxLinks));
      const bool is_switch = link.attribute("tclass").starts_with("0x0680");
      gpu.peers.insert(is_switch ? "switch" : std::string(link.attribute("target")));
    }
    found_.gpus.push_back(std::move(gpu));
    if (found_.gpus.size() > kMaxGpus)
      return wrong(element, "too many GPUs", "more", std::to_string(kMaxGpus));
    return {};
  }

  /// Ports that a collective offload shows once more have the attribute "coll".
  Expected<void> add_port(const XmlElement& element) {
    if (element.attribute("coll") == "1") return {};
    PPSIM_ASSIGN_OR_RETURN(const auto megabits, number(element, "speed"));
    found_.network_gbytes += megabits / 8000;
    if (const auto latency = number(element, "latency"))
      found_.latency_us = std::max(found_.latency_us, *latency);
    return {};
  }

  /// GPUs that NVLink connects to the first, over others or over switches.
  [[nodiscard]] std::set<std::string> domain_of(const std::string& first) const {
    std::set<std::string> joined = {first};
    for (bool grows = true; grows;) {
      grows = false;
      for (const FoundGpu& gpu : found_.gpus) {
        const bool is_in = joined.contains(gpu.bus);
        const bool touches =
            std::ranges::any_of(gpu.peers, [&](const auto& p) { return joined.contains(p); });
        if (!is_in && !touches) continue;
        grows = joined.insert(gpu.bus).second || grows;
        for (const std::string& peer : gpu.peers) grows = joined.insert(peer).second || grows;
      }
    }
    std::set<std::string> gpus;
    for (const FoundGpu& gpu : found_.gpus) {
      if (joined.contains(gpu.bus)) gpus.insert(gpu.bus);
    }
    return gpus;
  }

  Expected<int> domain() const {
    const auto size = static_cast<int>(domain_of(found_.gpus.front().bus).size());
    for (const FoundGpu& gpu : found_.gpus) {
      const auto other = static_cast<int>(domain_of(gpu.bus).size());
      if (other != size || gpu.links != found_.gpus.front().links) {
        return wrong(*gpu.element, "GPUs differ in their NVLinks",
                     std::to_string(gpu.links) + " links, " + std::to_string(other) + " GPUs together",
                     std::to_string(found_.gpus.front().links) + " links, " + std::to_string(size) +
                         " GPUs together, as of the first");
      }
    }
    return size;
  }

  /// The preset of the first GPU, which all must be like.
  Expected<GpuDescription> gpu_of() const {
    const XmlElement& element = *found_.gpus.front().element;
    PPSIM_ASSIGN_OR_RETURN(const auto sm, number(element, "sm"));
    for (const FoundGpu& gpu : found_.gpus) {
      if (gpu.element->attribute("sm") == element.attribute("sm")) continue;
      return wrong(*gpu.element, "GPUs differ", "sm " + std::string(gpu.element->attribute("sm")),
                   "sm " + std::string(element.attribute("sm")));
    }
    std::string names;
    for (const Capability& known : capabilities()) {
      if (known.sm != static_cast<int>(sm) || (known.arm && !found_.is_arm)) continue;
      const auto wanted = std::ranges::find(known.gpus, gpu_);
      if (!gpu_.empty() && wanted == known.gpus.end()) {
        for (const std::string_view name : known.gpus)
          names += (names.empty() ? "" : " or ") + std::string(name);
        return wrong(element, "a GPU of another compute capability", std::string(gpu_), names);
      }
      return described(gpu_.empty() ? known.gpus.front() : *wanted, known.link_gbytes);
    }
    for (const Capability& known : capabilities()) names += " " + std::to_string(known.sm);
    return wrong(element, "no GPU of this compute capability is known", "sm " + std::to_string(int(sm)),
                 "one of" + names + ", or a cluster described in JSON");
  }

  /// Without NVLink GPUs of a node meet over PCIe.
  [[nodiscard]] GpuDescription described(std::string_view name, double link_gbytes) const {
    const auto presets = gpu_presets();
    const auto found = std::ranges::find(presets, name, &GpuDescription::name);
    PPSIM_CHECK(found != presets.end(), "a compute capability names an unknown GPU");
    GpuDescription gpu = *found;
    const FoundGpu& first = found_.gpus.front();
    if (first.host_gbytes > 0) gpu.host_gbytes = first.host_gbytes;
    gpu.nvlink_gbytes = first.links > 0 ? first.links * link_gbytes : gpu.host_gbytes;
    return gpu;
  }

  Expected<ClusterDescription> cluster(const XmlElement& root, int nodes) const {
    const auto hosts = static_cast<int>(found_.hosts.size());
    const auto count = static_cast<int>(found_.gpus.size());
    if (hosts == 0 || count % hosts != 0) {
      return wrong(root, "GPUs do not divide over the nodes of the topology", std::to_string(count),
                   "a multiple of " + std::to_string(hosts));
    }
    PPSIM_ASSIGN_OR_RETURN(auto gpu, gpu_of());
    PPSIM_ASSIGN_OR_RETURN(auto domain, this->domain());
    ClusterDescription result{.node = {}, .gpu = std::move(gpu), .nodes = nodes};
    result.node.name = file_ + " (" + result.gpu.name + ")";
    result.node.gpu = result.gpu.name;
    result.node.gpus = count / hosts;
    result.node.nvlink_domain = found_.gpus.front().links > 0 ? domain : result.node.gpus;
    if (found_.latency_us > 0) result.node.latency_us = found_.latency_us;
    if (found_.network_gbytes > 0) result.node.node_gbytes = found_.network_gbytes / hosts;
    if (!result.node.node_gbytes && std::int64_t{nodes} * result.node.gpus > result.node.nvlink_domain) {
      return wrong(root, "the topology has no network", "no <net> with a speed",
                   "one, or GPUs that NVLink connects");
    }
    return result;
  }

  const std::string& file_;
  std::string_view gpu_;
  FoundNode found_;
  std::string bus_;
};

}  // namespace

Expected<ClusterDescription> cluster_from_topology(std::string_view text, const std::string& file, int nodes,
                                                   std::string_view gpu) {
  if (nodes < 1) {
    return make_error(ErrorCode::bad_argument, "a cluster needs at least one node",
                      {.found = std::to_string(nodes), .expected = "1 or more"});
  }
  PPSIM_ASSIGN_OR_RETURN(const auto root, parse_xml(text, file));
  return TopologyReader(file, gpu).read(root, nodes);
}

}  // namespace ppsim::workload
