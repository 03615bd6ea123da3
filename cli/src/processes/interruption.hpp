#pragma once

#include "command.hpp"

namespace ppsim::cli {

/// From here on Ctrl-C and SIGTERM end the program at once, with the exit code of the contract. Files are
/// replaced in one step, so there is nothing to clean up. With `json` an object on stdout says what happened.
void leave_on_interrupt(bool json);

/// From here on an end for lack of memory says so, also where it cannot be caught: in a destructor, or in a
/// thread of another library.
void leave_when_out_of_memory(const Output& output);

/// The answer so far, for the end by a signal.
struct KnownSoFar {
  Json members = Json::object();                       ///< with --json: beside the error
  std::string note = "no file was left half-written";  ///< on stderr
  std::string data = "";                               ///< on stdout, without --json
};
/// Says this when interrupted, in the place of what was to be said before.
void tell_when_interrupted(const KnownSoFar& known);

/// Says now that it was interrupted, as the end by a signal does.
void write_interrupted();
/// From here on that end says nothing: another process speaks for this one.
void say_nothing_when_interrupted();

/// Ends the program with `error` where this is still there after so many seconds: for a call that may wait
/// for ever and that nothing stops. One at a time.
class TimeLimit {
 public:
  TimeLimit(unsigned seconds, const Error& error, const Output& output);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
};

}  // namespace ppsim::cli
