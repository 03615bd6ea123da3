#pragma once

namespace ppsim::cli {

/// Makes memory cheap that is touched for the first time: the first 256 MB of the heap lie in huge pages
/// where the system has them on request, and the heap keeps what is freed for what comes next. Does nothing
/// where the address space is limited. Requires: called once, first in main() of a process that is this
/// program alone.
void prepare_for_large_memory();

}  // namespace ppsim::cli
