#include "slowdown_options.hpp"

#include <algorithm>
#include <cmath>

#include "command_line/validators.hpp"

namespace ppsim::cli {
namespace {

std::int64_t millionths(const std::optional<double>& share) {
  return std::llround(share.value_or(0) * SharedDevices::kWhole);
}

Expected<void> check_share(const std::optional<double>& share, const std::string& option) {
  if (share.value_or(0) > 0 && *share * SharedDevices::kWhole < 1)
    return make_error(ErrorCode::bad_argument, "a slowdown is counted in millionths",
                      {.found = option + " below 0.000001", .expected = "0, or 0.000001 to 1000"});
  return {};
}

}  // namespace

void add_slowdown_options(Command& command, SlowdownOptions& options) {
  command
      .add_option("--ranks-per-device", options.ranks_per_device,
                  "consecutive ranks that share a device, where each slows the others down by --slowdown")
      .check(count());
  command
      .add_option(
          "--slowdown", options.slowdown,
          "share of its time that computation takes longer for each other rank of its device that computes")
      .check(between(0, 1000));
  command
      .add_option("--transfer-slowdown", options.transfer_slowdown,
                  "the same while a SEND or RECV of its own rank is started and incomplete")
      .check(between(0, 1000));
  command
      .add_option("--collective-slowdown", options.collective_slowdown,
                  "the same while a collective of its own rank is; beside both the larger share counts")
      .check(between(0, 1000));
}

Expected<void> check_slowdowns(const SlowdownOptions& options) {
  const bool on_devices = options.ranks_per_device.has_value();
  if (on_devices != options.slowdown.has_value())
    return make_error(ErrorCode::bad_argument, "a slowdown is of the ranks that share a device",
                      {.found = on_devices ? "--ranks-per-device alone" : "--slowdown alone",
                       .expected = "--ranks-per-device N --slowdown S"});
  PPSIM_RETURN_IF_ERROR(check_share(options.slowdown, "--slowdown"));
  PPSIM_RETURN_IF_ERROR(check_share(options.transfer_slowdown, "--transfer-slowdown"));
  return check_share(options.collective_slowdown, "--collective-slowdown");
}

SharedDevices devices_of(const SlowdownOptions& options, int ranks) {
  SharedDevices devices{.ranks = std::min(options.ranks_per_device.value_or(1), ranks),
                        .own_transfers = millionths(options.transfer_slowdown),
                        .own_collectives = millionths(options.collective_slowdown)};
  for (const OpInfo& row : kOpTable) {
    if (row.resource == Resource::compute) devices.slowdowns[row.kind] = millionths(options.slowdown);
  }
  return devices;
}

Json slowdowns_json(const SlowdownOptions& options) {
  return {{"ranks_per_device", options.ranks_per_device.value_or(1)},
          {"slowdown", options.slowdown.value_or(0)},
          {"transfer_slowdown", options.transfer_slowdown.value_or(0)},
          {"collective_slowdown", options.collective_slowdown.value_or(0)}};
}

}  // namespace ppsim::cli
