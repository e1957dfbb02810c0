// A process sits in one cgroup per hierarchy, and every ancestor may set a limit, so we walk up and
// keep the smallest.
//
// Where to walk: /proc/self/cgroup gives the path inside the hierarchy, /proc/self/mountinfo where
// the hierarchy is mounted and which part of it. In a container the two may not match (the path is
// the host's, the mount shows only our part); then the mount point itself is our cgroup. Files that
// are missing are skipped: no limit is known there.
#include "sys/cgroup.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace pacer::sys {
namespace {

// One hierarchy: where it is mounted, and the directory of this process in it, both below root.
struct Hierarchy {
  bool v2 = false;
  std::string mount;
  std::string directory;
};

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A number, and nothing else; "max" and rubbish are nothing.
std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The number after `key` in lines of "key number", as in memory.stat.
uint64_t read_stat(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& parts, std::string_view wanted) {
  return std::find(parts.begin(), parts.end(), wanted) != parts.end();
}

// The path of this process in the hierarchy of `controller`, or in v2. Lines are
// "id:controllers:path".
std::optional<std::string> process_path(const std::string& root, bool v2,
                                        std::string_view controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool wanted = v2 ? line.compare(0, second + 1, "0::") == 0
                           : contains(split(controllers, ','), controller);
    if (wanted) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The path below the mount point. `shown` is the part of the hierarchy that the mount shows ("/" is
// all of it).
std::string path_below_mount(const std::string& path, const std::string& shown) {
  if (shown == "/") return path == "/" || path.rfind("/..", 0) == 0 ? "" : path;
  if (path == shown) return "";
  if (path.rfind(shown + "/", 0) == 0) return path.substr(shown.size());
  return "";  // outside of what the mount shows: the mount is as near as we can get
}

// A mountinfo line: id parent dev shown mount options... - type source super-options.
std::vector<Hierarchy> hierarchies(const std::string& root, std::string_view controller) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> front = split(line.substr(0, dash), ' ');
    const std::vector<std::string> back = split(line.substr(dash + 3), ' ');
    if (front.size() < 5 || back.size() < 3) continue;
    const bool v2 = back[0] == "cgroup2";
    if (!v2 && !(back[0] == "cgroup" && contains(split(back[2], ','), controller))) continue;
    const auto path = process_path(root, v2, controller);
    if (!path) continue;
    const std::string mount = root + front[4];
    found.push_back({v2, mount, mount + path_below_mount(*path, front[3])});
  }
  return found;
}

// Calls visit(directory) for the directory of the process and each parent, up to the mount.
void walk_up(const Hierarchy& hierarchy, const std::function<void(const std::string&)>& visit) {
  std::string directory = hierarchy.directory;
  while (directory.size() > hierarchy.mount.size()) {
    visit(directory);
    directory.resize(directory.rfind('/'));
  }
  visit(hierarchy.mount);
}

// v1 writes "no limit" as the largest multiple of a page; no machine has a petabyte.
constexpr uint64_t kNoLimitFrom = uint64_t{1} << 50;

struct MemoryFiles {
  std::vector<const char*> limits;
  const char* usage;
  const char* cache_key;  // in memory.stat: file pages that can be dropped at once
};

// memory.high does not kill, but beyond it the process is throttled to a crawl: as good as a limit.
const MemoryFiles kMemoryV2 = {{"memory.max", "memory.high"}, "memory.current", "inactive_file"};
const MemoryFiles kMemoryV1 = {
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"};

uint64_t room_below(uint64_t limit, const std::string& directory, const MemoryFiles& files) {
  const uint64_t usage = parse_number(read_line(directory + "/" + files.usage)).value_or(0);
  const uint64_t cache = read_stat(directory + "/memory.stat", files.cache_key);
  const uint64_t held = usage - std::min(usage, cache);
  return limit - std::min(limit, held);
}

// v2: "quota period" in one file, v1: two files. 0: no quota.
double cpu_quota(const std::string& directory, bool v2) {
  std::string quota, period;
  if (v2) {
    std::istringstream(read_line(directory + "/cpu.max")) >> quota >> period;
  } else {
    quota = read_line(directory + "/cpu.cfs_quota_us");
    period = read_line(directory + "/cpu.cfs_period_us");
  }
  const auto quota_us = parse_number(quota);  // "max" and "-1" are none
  const auto period_us = parse_number(period);
  if (!quota_us || !period_us || *period_us == 0) return 0;
  return static_cast<double>(*quota_us) / static_cast<double>(*period_us);
}

}  // namespace

std::optional<CgroupMemory> cgroup_memory(const std::string& root) {
  std::optional<CgroupMemory> tightest;
  for (const Hierarchy& hierarchy : hierarchies(root, "memory")) {
    const MemoryFiles& files = hierarchy.v2 ? kMemoryV2 : kMemoryV1;
    walk_up(hierarchy, [&](const std::string& directory) {
      for (const char* name : files.limits) {
        const std::string file = directory + "/" + name;
        const auto limit = parse_number(read_line(file));
        if (!limit || *limit >= kNoLimitFrom) continue;
        const uint64_t room = room_below(*limit, directory, files);
        if (!tightest) tightest = CgroupMemory{*limit, file, room};
        if (*limit < tightest->limit_bytes) {
          tightest->limit_bytes = *limit;
          tightest->limited_by = file;
        }
        tightest->available_bytes = std::min(tightest->available_bytes, room);
      }
    });
  }
  return tightest;
}

double cgroup_cpus(const std::string& root) {
  double smallest = 0;
  for (const Hierarchy& hierarchy : hierarchies(root, "cpu")) {
    walk_up(hierarchy, [&](const std::string& directory) {
      const double cpus = cpu_quota(directory, hierarchy.v2);
      if (cpus > 0 && (smallest == 0 || cpus < smallest)) smallest = cpus;
    });
  }
  return smallest;
}

MemoryLimits memory_limits_under(const std::string& root) {
  const auto meminfo_bytes = [&](std::string_view key) {
    std::ifstream file(root + "/proc/meminfo");  // lines of "MemTotal:   24684084 kB"
    for (std::string line; std::getline(file, line);) {
      std::istringstream fields(line);
      std::string name;
      uint64_t kib = 0;
      if (fields >> name >> kib && name == key) return kib * 1024;
    }
    return uint64_t{0};
  };
  MemoryLimits limits;
  limits.total_bytes = meminfo_bytes("MemTotal:");
  limits.available_bytes = meminfo_bytes("MemAvailable:");
  limits.limited_by = "machine";

  const auto cgroup = cgroup_memory(root);
  if (!cgroup) return limits;
  if (cgroup->limit_bytes < limits.total_bytes) {
    limits.total_bytes = cgroup->limit_bytes;
    limits.limited_by = cgroup->limited_by;
  }
  limits.available_bytes = std::min(limits.available_bytes, cgroup->available_bytes);
  return limits;
}

CpuLimits cpu_limits_under(const std::string& root, uint32_t cores) {
  CpuLimits limits;
  limits.cores = std::max(cores, 1u);
  limits.cgroup_cpus = cgroup_cpus(root);
  limits.threads = limits.cores;
  if (limits.cgroup_cpus > 0) {
    const double quota_threads = std::ceil(limits.cgroup_cpus);
    if (quota_threads < limits.threads) {
      limits.threads = std::max(1u, static_cast<uint32_t>(quota_threads));
    }
  }
  return limits;
}

}  // namespace pacer::sys
