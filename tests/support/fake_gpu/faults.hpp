#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace ppsim::test {

/// Faults that the fake machine finds in the code that drives it.
enum class FaultKind : std::uint8_t {
  race,             ///< two accesses of the same bytes, one of them a write, that nothing orders
  never_written,    ///< a read of bytes that nothing has written
  out_of_bounds,    ///< an access outside of every allocation, or a guard that was overwritten
  use_after_free,   ///< memory or a handle that was destroyed before
  double_free,      ///< of memory or a handle
  leak,             ///< something that was never destroyed
  lazy_creation,    ///< memory, a stream or an event made inside a step
  mismatched_ends,  ///< two ends of a message, or members of a collective, that do not agree
  unordered_use,    ///< a communicator on two streams that nothing orders
  bad_capture,      ///< a call that a capture does not allow
  bad_call,         ///< arguments that the library refuses
};
inline constexpr const char* kFaultNames[] = {
    "race",          "never written",   "out of bounds", "use after free", "double free", "leak",
    "lazy creation", "mismatched ends", "unordered use", "bad capture",    "bad call"};

struct Fault {
  FaultKind kind;
  std::string text;  ///< the action that did it, and the object
  friend bool operator==(const Fault&, const Fault&) = default;
};
inline std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  return out << kFaultNames[static_cast<std::size_t>(fault.kind)] << ": " << fault.text;
}

/// Faults in the order in which they were found, each once, as many as a reader reads.
class Faults {
 public:
  void add(FaultKind kind, std::string text) {
    constexpr std::size_t kMax = 20;
    Fault fault{kind, std::move(text)};
    const bool known = std::find(all_.begin(), all_.end(), fault) != all_.end();
    if (!known && all_.size() < kMax) all_.push_back(std::move(fault));
  }
  [[nodiscard]] const std::vector<Fault>& all() const { return all_; }
  [[nodiscard]] bool has(FaultKind kind) const {
    return std::any_of(all_.begin(), all_.end(), [&](const Fault& f) { return f.kind == kind; });
  }

 private:
  std::vector<Fault> all_;
};

}  // namespace ppsim::test
