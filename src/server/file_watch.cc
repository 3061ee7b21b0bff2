#include "server/file_watch.h"

#include <sys/stat.h>

#include <utility>

namespace weir::server {

FileWatch::FileWatch(std::string path)
    : path_(std::move(path)), reported_(state()), seen_(reported_) {}

FileWatch::State FileWatch::state() const {
  struct stat found {};
  if (path_.empty() || stat(path_.c_str(), &found) != 0) return {};
  return {found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

bool FileWatch::has_changed() {
  const State now = state();
  if (std::exchange(seen_, now) != now || now == reported_) return false;
  reported_ = now;
  return true;
}

}  // namespace weir::server
