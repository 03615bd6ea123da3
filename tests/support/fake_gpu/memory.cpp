#include "support/fake_gpu/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace ppsim::test {
namespace {

constexpr std::byte kGuardByte{0xA5};
/// The content of memory before anything writes it: a NaN in float32, -1 in integers.
constexpr std::byte kFresh{0xFF};

}  // namespace

void merge(LaneClock& into, const LaneClock& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t lane = 0; lane < from.size(); ++lane) into[lane] = std::max(into[lane], from[lane]);
}

Pages::Pages(std::size_t bytes) : bytes_(bytes) {
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<std::byte*>(made);
}

Pages::Pages(std::size_t bytes, const std::string& folder) : bytes_(bytes) {
  // A place in which neither this process nor another one has anything by itself.
  static std::atomic<std::uintptr_t> next{std::uintptr_t{0x2000} << 32};
  constexpr std::uintptr_t kPage = 4096;
  const std::uintptr_t begin = next.fetch_add((bytes + 2 * kPage) / kPage * kPage);
  file_ = file_of_pages(folder, begin);
  const int file = open(file_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  const bool sized = file >= 0 && posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0;
  void* const made = sized ? mmap(reinterpret_cast<void*>(begin), bytes, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0)
                           : MAP_FAILED;
  if (file >= 0) close(file);
  if (made == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<std::byte*>(made);
}

std::string file_of_pages(const std::string& folder, std::uintptr_t begin) {
  return folder + "/pinned-" + std::to_string(begin);
}

Pages::Pages(const Pages& same, std::size_t bytes) : bytes_(bytes) {
  void* const made = mremap(same.begin_, 0, bytes, MREMAP_MAYMOVE);
  if (made == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<std::byte*>(made);
}

Pages::~Pages() {
  munmap(begin_, bytes_);
  if (!file_.empty()) unlink(file_.c_str());
}

std::byte* FakeMemory::allocate(std::size_t bytes, const Wanted& wanted) {
  Allocation made;
  made.what = wanted.what + " of " + std::to_string(bytes) + " bytes";
  made.process = wanted.process;
  made.on_device = wanted.on_device;
  made.size = bytes;
  const std::size_t whole = bytes + 2 * kGuard;
  const bool shared = !wanted.on_device && !pinned_folder_.empty();
  made.pages = shared ? std::make_unique<Pages>(whole, pinned_folder_) : std::make_unique<Pages>(whole);
  made.begin = made.pages->begin() + kGuard;
  std::fill_n(made.begin - kGuard, kGuard, kGuardByte);
  std::fill_n(made.begin + bytes, kGuard, kGuardByte);
  std::fill_n(made.begin, bytes, kFresh);
  made.pieces[0] = {};
  std::byte* const begin = made.begin;
  allocations_.emplace(begin, std::move(made));
  return begin;
}

void FakeMemory::free(const std::byte* memory) {
  const auto at = allocations_.find(memory);
  if (at == allocations_.end())
    return faults_.add(FaultKind::bad_call, "free of memory that is no allocation");
  if (at->second.freed) return faults_.add(FaultKind::double_free, at->second.what);
  if (at->second.lender != nullptr)
    return faults_.add(FaultKind::bad_call, "free of memory that another process lends");
  if (at->second.borrowers > 0)
    faults_.add(FaultKind::use_after_free, at->second.what + " is freed while another process has it open");
  check_guards(at->second);
  at->second.freed = true;
}

std::span<std::byte> FakeMemory::allocation_at(const std::byte* memory) {
  const Allocation* const found = find(memory);
  return found == nullptr ? std::span<std::byte>() : std::span(found->begin, found->size);
}

bool FakeMemory::may_lend(const std::byte* memory, int process) {
  const auto at = allocations_.find(memory);
  return at != allocations_.end() && !at->second.freed && at->second.lender == nullptr &&
         at->second.on_device && at->second.process == process;
}

std::byte* FakeMemory::borrow(const std::byte* memory, int process,
                              const std::function<bool(int lender)>& may_lend) {
  const auto at = allocations_.find(memory);
  if (at == allocations_.end() || at->second.freed || at->second.process == process) return nullptr;
  if (!may_lend(at->second.process)) return nullptr;
  Allocation& lender = at->second;
  Allocation made;
  made.what = "borrowed " + lender.what;
  made.process = process;
  made.size = lender.size;
  made.pages = std::make_unique<Pages>(*lender.pages, lender.size + 2 * kGuard);
  made.begin = made.pages->begin() + kGuard;
  made.lender = &lender;
  ++lender.borrowers;
  std::byte* const begin = made.begin;
  allocations_.emplace(begin, std::move(made));
  return begin;
}

void FakeMemory::give_back(const std::byte* memory) {
  const auto at = allocations_.find(memory);
  if (at == allocations_.end() || at->second.lender == nullptr)
    return faults_.add(FaultKind::bad_call, "memory is given back that nobody lent");
  if (at->second.freed) return faults_.add(FaultKind::double_free, at->second.what);
  at->second.freed = true;
  --at->second.lender->borrowers;
}

void FakeMemory::check_guards(const Allocation& allocation) {
  const auto intact = [](std::byte b) { return b == kGuardByte; };
  const bool before = std::all_of(allocation.begin - kGuard, allocation.begin, intact);
  const std::byte* const end = allocation.begin + allocation.size;
  if (before && std::all_of(end, end + kGuard, intact)) return;
  faults_.add(FaultKind::out_of_bounds, "the guard of " + allocation.what + " was overwritten");
}

FakeMemory::Allocation* FakeMemory::find(const std::byte* memory) {
  const auto above = allocations_.upper_bound(memory);
  if (above == allocations_.begin()) return nullptr;
  Allocation& found = std::prev(above)->second;
  return memory < found.begin + found.size ? &found : nullptr;
}

FakeMemory::Place FakeMemory::checked(std::span<const std::byte> memory, const Accessor& who) {
  Allocation* found = find(memory.data());
  if (found == nullptr || memory.data() + memory.size() > found->begin + found->size) {
    faults_.add(FaultKind::out_of_bounds, who.name + " touches " + std::to_string(memory.size()) +
                                              " bytes that are no part of one allocation");
    return {};
  }
  if (found->process != who.process) {
    faults_.add(FaultKind::out_of_bounds, who.name + " touches " + found->what + " of another process");
    return {};
  }
  const auto first = static_cast<std::size_t>(memory.data() - found->begin);
  const bool gone = found->freed || (found->lender != nullptr && found->lender->freed);
  if (gone) {
    faults_.add(FaultKind::use_after_free, who.name + " touches freed " + found->what);
    return {};
  }
  if (found->lender != nullptr) found = found->lender;
  split(*found, first);
  split(*found, first + memory.size());
  return {found, first};
}

void FakeMemory::split(Allocation& allocation, std::size_t offset) {
  if (offset >= allocation.size) return;
  const auto piece = std::prev(allocation.pieces.upper_bound(offset));
  if (piece->first != offset) allocation.pieces.emplace(offset, piece->second);
}

void FakeMemory::check_order(const Epoch& before, const Accessor& who, const char* how) {
  if (at(who.clock, before.lane) >= before.number) return;
  if (before.lane == who.lane && before.number == who.number) return;
  faults_.add(FaultKind::race, who.name + how + before.name + ", and nothing orders them");
}

bool FakeMemory::read(std::span<const std::byte> memory, const Accessor& who) {
  if (memory.empty()) return true;
  const auto [found, first] = checked(memory, who);
  if (found == nullptr) return false;
  for (auto piece = found->pieces.find(first);
       piece != found->pieces.end() && piece->first < first + memory.size(); ++piece) {
    Piece& one = piece->second;
    if (!one.written && found->on_device) {
      faults_.add(FaultKind::never_written, who.name + " reads " + found->what + " at byte " +
                                                std::to_string(piece->first) + ", which nothing has written");
      return true;
    }
    // Nobody sees what a host writes in pinned memory.
    if (one.written) check_order(one.writer, who, " reads what is written by ");
    const auto same = std::find_if(one.readers.begin(), one.readers.end(),
                                   [&](const Epoch& e) { return e.lane == who.lane; });
    if (same == one.readers.end()) {
      one.readers.push_back({who.lane, who.number, who.name});
    } else {
      *same = {who.lane, who.number, who.name};
    }
  }
  return true;
}

bool FakeMemory::write(std::span<const std::byte> memory, const Accessor& who) {
  if (memory.empty()) return true;
  const auto [found, first] = checked(memory, who);
  if (found == nullptr) return false;
  for (auto piece = found->pieces.find(first);
       piece != found->pieces.end() && piece->first < first + memory.size(); ++piece) {
    Piece& one = piece->second;
    if (one.written) check_order(one.writer, who, " overwrites what is written by ");
    for (const Epoch& reader : one.readers) check_order(reader, who, " overwrites what is read by ");
    one = {true, {who.lane, who.number, who.name}, {}};
  }
  return true;
}

void FakeMemory::report_leaks() {
  for (const auto& [begin, allocation] : allocations_) {
    if (!allocation.freed) faults_.add(FaultKind::leak, allocation.what);
  }
}

}  // namespace ppsim::test
