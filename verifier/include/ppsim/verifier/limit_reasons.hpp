#pragma once

namespace ppsim::verifier {

/// Reasons of an Unknown that a larger limit may change; each may be a part of a longer one.
inline constexpr const char* kTimeLimit = "time limit reached";
inline constexpr const char* kMemoryLimit = "memory budget reached";
/// VerifyOptions::state_limit.
inline constexpr const char* kStateLimit = "states under the residency limit";
/// AllMicrobatchesOptions::sample_limit.
inline constexpr const char* kSampleLimit = "needs more instructions than may be generated";

/// No option changes it: AllMicrobatchesOptions::repetitions are for who makes the Programs to say.
inline constexpr const char* kNotKnownToRepeat = "it is not known that the Programs of more go on like that";

/// Of synthesize(): no option changes it, but costs with a larger common divisor or fewer microbatches do.
inline constexpr const char* kStartTimesLimit = "start times to choose from";
/// SynthesisRequest::max_steps, or without one the steps that a search takes.
inline constexpr const char* kStepsLimit = "no steps of the search are left";

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::kMemoryLimit;
using verifier::kNotKnownToRepeat;
using verifier::kSampleLimit;
using verifier::kStartTimesLimit;
using verifier::kStateLimit;
using verifier::kStepsLimit;
using verifier::kTimeLimit;
}  // namespace ppsim
