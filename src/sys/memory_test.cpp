#include "sys/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "sys/cgroup.h"

namespace pacer::sys {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

// A fake machine: files below a directory of its own. 8000 MiB of RAM, 6000 available.
class FakeMachine : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "pacer_machine_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    write("/proc/meminfo",
          "MemTotal:        8192000 kB\nMemFree: 1 kB\nMemAvailable:    6144000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }
  void mount_v2(const std::string& shown, const std::string& process) {
    write("/proc/self/mountinfo",
          "25 30 0:23 / /sys rw - sysfs sysfs rw\n"
          "31 25 0:27 " +
              shown + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
    write("/proc/self/cgroup", "0::" + process + "\n");
  }
  void mount_v1(const std::string& shown, const std::string& process) {
    write("/proc/self/mountinfo",
          "32 25 0:28 " + shown +
              " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
              "33 25 0:29 " +
              shown +
              " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
              "34 25 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    write("/proc/self/cgroup", "9:name=systemd:/elsewhere\n4:memory:" + process +
                                   "\n2:cpu,cpuacct:" + process + "\n0::/\n");
  }
  MemoryLimits memory() const { return memory_limits_under(root_); }
  CpuLimits cpus(uint32_t cores) const { return cpu_limits_under(root_, cores); }

  std::string root_;
};

TEST_F(FakeMachine, WithoutCgroupsTheMachineIsTheLimit) {
  EXPECT_EQ(memory().total_bytes, 8000 * kMiB);
  EXPECT_EQ(memory().available_bytes, 6000 * kMiB);
  EXPECT_EQ(memory().limited_by, "machine");
  EXPECT_EQ(cpus(4).threads, 4u);
  EXPECT_EQ(cpus(4).cgroup_cpus, 0);
}

TEST_F(FakeMachine, V2LimitOfTheProcessCounts) {
  mount_v2("/", "/user/pacer");
  write("/sys/fs/cgroup/user/pacer/memory.max", "2097152000\n");
  write("/sys/fs/cgroup/user/pacer/memory.current", "1048576000\n");
  write("/sys/fs/cgroup/user/pacer/memory.stat",
        "anon 5\nfile 600000000\ninactive_file 524288000\n");
  EXPECT_EQ(memory().total_bytes, 2000 * kMiB);
  EXPECT_EQ(memory().available_bytes, 1500 * kMiB);  // 2000 - (1000 used - 500 reclaimable)
  EXPECT_THAT(memory().limited_by, HasSubstr("/user/pacer/memory.max"));
}

TEST_F(FakeMachine, V2LimitOfAnAncestorCounts) {
  mount_v2("/", "/slice/pod/pacer");
  write("/sys/fs/cgroup/slice/pod/pacer/memory.max", "max\n");
  write("/sys/fs/cgroup/slice/pod/memory.max", "4194304000\n");
  write("/sys/fs/cgroup/slice/memory.max", "3145728000\n");
  write("/sys/fs/cgroup/slice/memory.current", "3145728000\n");  // a sibling has eaten it
  EXPECT_EQ(memory().total_bytes, 3000 * kMiB);
  EXPECT_EQ(memory().available_bytes, 0u);
  EXPECT_THAT(memory().limited_by, HasSubstr("/slice/memory.max"));
}

// The tightest limit and the least room need not be in the same place.
TEST_F(FakeMachine, RoomIsTheSmallestOnTheWayUp) {
  mount_v2("/", "/a/b");
  write("/sys/fs/cgroup/a/b/memory.max", "1048576000\n");
  write("/sys/fs/cgroup/a/b/memory.current", "0\n");
  write("/sys/fs/cgroup/a/memory.max", "2097152000\n");
  write("/sys/fs/cgroup/a/memory.current", "1992294400\n");  // 100 MiB left
  EXPECT_EQ(memory().total_bytes, 1000 * kMiB);
  EXPECT_EQ(memory().available_bytes, 100 * kMiB);
}

TEST_F(FakeMachine, V2HighIsALimitToo) {
  mount_v2("/", "/p");
  write("/sys/fs/cgroup/p/memory.max", "4194304000\n");
  write("/sys/fs/cgroup/p/memory.high", "1048576000\n");
  EXPECT_EQ(memory().total_bytes, 1000 * kMiB);
  EXPECT_THAT(memory().limited_by, HasSubstr("memory.high"));
}

TEST_F(FakeMachine, V1LimitsAreReadFromTheControllerMounts) {
  mount_v1("/", "/docker/abc");
  write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1048576000\n");
  write("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "209715200\n");
  write("/sys/fs/cgroup/memory/docker/abc/memory.stat", "cache 1\ntotal_inactive_file 104857600\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "150000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(memory().total_bytes, 1000 * kMiB);
  EXPECT_EQ(memory().available_bytes, 900 * kMiB);
  EXPECT_EQ(cpus(8).cgroup_cpus, 1.5);
  EXPECT_EQ(cpus(8).threads, 2u);
}

TEST_F(FakeMachine, V1WithoutALimitIsTheMachine) {
  mount_v1("/", "/x");
  write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(memory().limited_by, "machine");
  EXPECT_EQ(memory().total_bytes, 8000 * kMiB);
  EXPECT_EQ(cpus(8).threads, 8u);
}

// A container sees its own cgroup as the mount, while its path is still the host's.
TEST_F(FakeMachine, AMountThatShowsOnlyOurPartIsFollowed) {
  mount_v2("/docker/abc", "/docker/abc/inner");
  write("/sys/fs/cgroup/inner/memory.max", "1048576000\n");
  EXPECT_EQ(memory().total_bytes, 1000 * kMiB);

  mount_v2("/docker/abc", "/somewhere/else");
  write("/sys/fs/cgroup/memory.max", "2097152000\n");
  EXPECT_EQ(memory().total_bytes, 2000 * kMiB);

  mount_v2("/", "/../../outside");  // a cgroup namespace entered from outside
  EXPECT_EQ(memory().total_bytes, 2000 * kMiB);
}

TEST_F(FakeMachine, ACgroupLargerThanTheMachineDoesNotAddMemory) {
  mount_v2("/", "/p");
  write("/sys/fs/cgroup/p/memory.max", "99999999999999\n");
  EXPECT_EQ(memory().total_bytes, 8000 * kMiB);
  EXPECT_EQ(memory().limited_by, "machine");
  EXPECT_EQ(memory().available_bytes, 6000 * kMiB);
}

TEST_F(FakeMachine, QuotaIsRoundedUpAndNeverBelowOneThread) {
  mount_v2("/", "/a/b");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/cpu.max", "20000 100000\n");
  EXPECT_EQ(cpus(8).cgroup_cpus, 0.2);
  EXPECT_EQ(cpus(8).threads, 1u);
  write("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpus(8).threads, 2u);
  write("/sys/fs/cgroup/a/cpu.max", "200001 100000\n");
  EXPECT_EQ(cpus(8).threads, 3u);
  EXPECT_EQ(cpus(2).threads, 2u);
  EXPECT_EQ(cpus(0).threads, 1u);
}

TEST_F(FakeMachine, RubbishInFilesIsNoLimit) {
  mount_v2("/", "/p");
  write("/sys/fs/cgroup/p/memory.max", "lots\n");
  write("/sys/fs/cgroup/p/cpu.max", "100 0\n");
  EXPECT_EQ(memory().limited_by, "machine");
  EXPECT_EQ(cpus(3).threads, 3u);
  write("/proc/self/mountinfo", "short line\n - \n");
  write("/proc/self/cgroup", "no colons\n1:\n");
  EXPECT_EQ(memory().limited_by, "machine");
}

TEST(Limits, ThisMachineHasSome) {
  const MemoryLimits memory = memory_limits();
  EXPECT_GT(memory.total_bytes, 64 * kMiB);
  EXPECT_GT(memory.available_bytes, 0u);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
  EXPECT_FALSE(memory.limited_by.empty());
  const CpuLimits cpus = cpu_limits();
  EXPECT_GE(cpus.cores, cpus.threads);
  EXPECT_GE(cpus.threads, 1u);
}

TEST(HugeBuffer, IsZeroedAlignedAndWritableToItsLastByte) {
  for (size_t bytes : {size_t{1}, size_t{4096}, 2 * kMiB - 1, 2 * kMiB, 5 * kMiB + 7}) {
    auto buffer = HugeBuffer::allocate(bytes, "a test");
    ASSERT_TRUE(buffer) << buffer.error().message;
    ASSERT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % (2 * kMiB), 0u);
    EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + bytes,
                            [](std::byte b) { return b == std::byte{}; }));
    buffer->data()[bytes - 1] = std::byte{1};
  }
}

TEST(HugeBuffer, NothingIsABufferToo) {
  auto buffer = HugeBuffer::allocate(0, "nothing");
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->size(), 0u);
}

TEST(HugeBuffer, MovingHandsOverTheMemory) {
  auto buffer = HugeBuffer::allocate(100, "a test");
  ASSERT_TRUE(buffer);
  std::byte* data = buffer->data();
  HugeBuffer moved = std::move(*buffer);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(buffer->size(), 0u);
  auto other = HugeBuffer::allocate(200, "a test");
  ASSERT_TRUE(other);
  moved = std::move(*other);
  EXPECT_EQ(moved.size(), 200u);
}

// 160 TiB, one after the other: more than a 47-bit address space holds at once.
TEST(HugeBuffer, FreesWhatItTook) {
  for (int i = 0; i < 40'000; ++i) {
    auto buffer = HugeBuffer::allocate(4096 * kMiB, "a test");
    ASSERT_TRUE(buffer) << "round " << i << ": " << buffer.error().message;
  }
}

TEST(HugeBuffer, RefusalNamesSizeAndUse) {
  auto buffer = HugeBuffer::allocate(size_t{1} << 60, "KV blocks");
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, Code::kExhausted);
  EXPECT_THAT(buffer.error().message, HasSubstr("cannot allocate 1.0 EiB for KV blocks"));
  EXPECT_THAT(HugeBuffer::allocate(~size_t{0}, "everything").error().message,
              HasSubstr("for everything"));
}

}  // namespace
}  // namespace pacer::sys
