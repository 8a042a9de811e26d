// Processors and memory that the process may use: affinity, and what control groups leave, in file systems made for the
// purpose.
#include "core/processors.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "core/memory.h"

namespace polyhead {
namespace {

namespace fs = std::filesystem;

class FakeSystem : public testing::Test {
 protected:
  ~FakeSystem() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void mount(const std::string& groups, const std::string& mounts) const {
    write("proc/self/cgroup", groups);
    write("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mounts);
  }
  std::optional<double> quota() const { return processor_quota(root_); }
  double memory() const { return free_in_groups(root_); }

 private:
  fs::path root_ = fs::temp_directory_path() / ("polyhead_processors_" + std::to_string(getpid()));
};

using Quota = std::optional<double>;

TEST_F(FakeSystem, HasNoLimitWhereNothingSaysSo) {
  EXPECT_EQ(quota(), Quota());
  mount("0::/\n", "31 22 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(quota(), Quota());
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), Quota());
  mount("nonsense\n0:\n", "nonsense - \n - cgroup2\n");
  EXPECT_EQ(quota(), Quota());
}

TEST_F(FakeSystem, HasTheLeastLimitFromItsGroupUp) {
  mount("0::/work/job\n", "31 22 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  write("sys/fs/cgroup/work/job/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4);
  write("sys/fs/cgroup/work/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/work/job/cpu.max", "25000 50000\n");
  EXPECT_EQ(quota(), 0.5);
  write("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

// A container sees its own group at the mount, and is told its path from inside or from outside.
TEST_F(FakeSystem, FindsItsGroupInAContainer) {
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  write("sys/fs/cpu.max", "1000 100000\n");  // no group of ours: above the mount
  for (const char* group : {"/", "/docker/1f2e", "/elsewhere"}) {
    mount(std::string("0::") + group + "\n", "31 22 0:28 /docker/1f2e /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    EXPECT_EQ(quota(), 2) << group;
  }
}

TEST_F(FakeSystem, ReadsTheFirstVersion) {
  mount("5:cpuacct:/x\n4:cpu,cpuacct:/job\n3:cpuset:/job\n0::/\n",
        "33 22 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "32 22 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), Quota());
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(quota(), 3);
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2);
}

// Pages of files that were read can be had again.
TEST_F(FakeSystem, HasTheMemoryThatItsGroupsLeave) {
  EXPECT_EQ(memory(), INFINITY);
  mount("0::/work/job\n", "31 22 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  write("sys/fs/cgroup/work/job/memory.max", "max\n");
  write("sys/fs/cgroup/work/job/memory.current", "700\n");
  EXPECT_EQ(memory(), INFINITY);
  write("sys/fs/cgroup/work/memory.max", "5000\n");
  write("sys/fs/cgroup/work/memory.current", "3000\n");
  EXPECT_EQ(memory(), 2000);
  write("sys/fs/cgroup/work/memory.stat", "anon 1\ninactive_file 400\nactive_file 70\n");
  EXPECT_EQ(memory(), 2400);
  write("sys/fs/cgroup/work/job/memory.max", "1000\n");
  EXPECT_EQ(memory(), 300);
}

TEST_F(FakeSystem, HasTheMemoryOfTheFirstVersion) {
  mount("5:cpu:/x\n4:memory:/job\n0::/\n",
        "33 22 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "32 22 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  EXPECT_GT(memory(), 1e18);
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "3000\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 7\ntotal_inactive_file 50\n");
  EXPECT_EQ(memory(), 2050);
  write("sys/fs/cgroup/cpu/x/memory.limit_in_bytes", "1\n");  // of another controller
  EXPECT_EQ(memory(), 2050);
}

TEST(Processors, AreThoseOfTheAffinityWithinTheQuota) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  const double quota = processor_quota().value_or(1e6);
  EXPECT_EQ(usable_processors(), std::min(CPU_COUNT(&all), static_cast<int>(std::ceil(quota))));
  CPU_ZERO(&one);
  for (unsigned processor = 0; CPU_COUNT(&one) == 0; ++processor) {
    if (CPU_ISSET(processor, &all)) CPU_SET(processor, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_processors(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

}  // namespace
}  // namespace polyhead
