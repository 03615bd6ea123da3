#include "ppsim/planner/files.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

namespace ppsim::planner {
namespace {

namespace fs = std::filesystem;

/// A remedy for what the system refuses; empty where its words have one.
std::string remedy(bool reads, const std::string& path, int error) {
  if (error == ENOENT && reads) return "; give the path of a file that is there";
  const std::string folder = fs::path(behind_links(path)).parent_path().string();
  if (error == ENOENT) return folder.empty() ? "" : "; first mkdir -p " + folder;
  if (error == EISDIR) return "; give a file in it";
  if (error == EACCES) return std::string("; give a file that you may ") + (reads ? "read" : "write");
  if (error == ENOSPC) return "; free some, or write elsewhere";
  return "";
}

tl::unexpected<Error> cannot(const char* what, const std::string& path, int error) {
  const bool reads = std::strcmp(what, "read") == 0;
  return make_error(reads ? ErrorCode::bad_file : ErrorCode::io,
                    std::string("cannot ") + what + ": " + std::strerror(error) + remedy(reads, path, error),
                    {.file = path});
}

Expected<void> write_stdout(std::string_view text) {
  errno = 0;
  std::cout << text << std::flush;
  if (std::cout) return {};
  return cannot("write", "-", errno != 0 ? errno : EIO);
}

/// Devices, pipes and what a link leads to are written in place: only a regular file can be replaced.
bool writes_in_place(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

Expected<void> write_stream(const std::string& path, std::string_view text, const std::string& target,
                            std::ios::openmode mode = std::ios::trunc) {
  errno = 0;
  std::ofstream out(target, std::ios::binary | mode);
  out << text << std::flush;
  out.close();
  if (out) return {};
  return cannot("write", path, errno != 0 ? errno : EIO);
}

/// A file that is to be replaced, or made.
Expected<void> check_replaceable(const std::string& path) {
  // A rename would replace a file that may not be written.
  if (::access(path.c_str(), F_OK) == 0 && ::access(path.c_str(), W_OK) != 0)
    return cannot("write", path, errno);
  return {};
}

/// Where a file is written before it replaces the old one.
std::string temporary_of(const std::string& path) { return path + ".tmp" + std::to_string(::getpid()); }

}  // namespace

Expected<std::string> read_text_file(const std::string& path) {
  if (path == "-") {
    std::ostringstream text;
    text << std::cin.rdbuf();
    return std::move(text).str();
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return cannot("read", path, EISDIR);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return cannot("read", path, errno != 0 ? errno : EIO);
  constexpr std::size_t kBlock = 1 << 16;
  std::error_code sizeless;  // as a pipe is
  const auto size = std::filesystem::file_size(path, sizeless);
  std::size_t room = sizeless ? kBlock : static_cast<std::size_t>(size) + 1;
  std::string text;
  for (std::size_t length = 0;; room = std::max(kBlock, length)) {
    text.resize(length + room);
    in.read(text.data() + length, static_cast<std::streamsize>(room));
    length += static_cast<std::size_t>(in.gcount());
    if (in.bad()) return cannot("read", path, EIO);
    if (in) continue;
    text.resize(length);
    return text;
  }
}

Expected<void> check_writable(const std::string& path) {
  if (path == "-") return {};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return cannot("write", path, EISDIR);
  if (auto good = check_replaceable(path); !good || writes_in_place(path)) return good;
  const std::string temporary = temporary_of(path);
  auto written = write_stream(path, "", temporary);
  std::remove(temporary.c_str());
  return written;
}

Expected<void> append_text_file(const std::string& path, std::string_view text) {
  return write_stream(path, text, path, std::ios::app);
}

Expected<void> write_text_file(const std::string& path, std::string_view text) {
  if (path == "-") return write_stdout(text);
  if (writes_in_place(path)) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) return cannot("write", path, EISDIR);
    return write_stream(path, text, path);
  }
  PPSIM_RETURN_IF_ERROR(check_replaceable(path));
  const std::string temporary = temporary_of(path);
  if (auto written = write_stream(path, text, temporary); !written) {
    std::remove(temporary.c_str());
    return written;
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    return cannot("write", path, error);
  }
  return {};
}

std::string behind_links(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as the system follows
  std::error_code ignored;
  fs::path at = path;
  for (int links = 0; links < kMaxLinks && fs::is_symlink(at, ignored); ++links)
    at = at.parent_path() / fs::read_symlink(at, ignored);
  return at.string();
}

std::string suffix_of(const std::string& path) {
  std::string suffix = std::filesystem::path(path).extension().string();
  for (char& letter : suffix) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return suffix;
}

}  // namespace ppsim::planner
