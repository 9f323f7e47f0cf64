#include "base/units.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom {
namespace {

constexpr uint64_t kKi = 1024;
constexpr uint64_t kGi = kKi * kKi * kKi;

TEST(Units, ReadsSizes) {
  EXPECT_EQ(parse_size("20G", "--ram"), 20 * kGi);
  EXPECT_EQ(parse_size("20g", "--ram"), 20 * kGi);
  EXPECT_EQ(parse_size("20GiB", "--ram"), 20 * kGi);
  EXPECT_EQ(parse_size("20GB", "--ram"), 20 * kGi);
  EXPECT_EQ(parse_size("20 G", "--ram"), 20 * kGi);
  EXPECT_EQ(parse_size("512M", "--ram"), 512 * kKi * kKi);
  EXPECT_EQ(parse_size("64K", "--ram"), 64 * kKi);
  EXPECT_EQ(parse_size("1.5T", "--ram"), 1536 * kGi);
  EXPECT_EQ(parse_size("0.5K", "--ram"), 512u);
  EXPECT_EQ(parse_size("0", "--ram"), 0u);
  EXPECT_EQ(parse_size("4096", "--ram"), 4096u);
  EXPECT_EQ(parse_size("4096B", "--ram"), 4096u);
  EXPECT_EQ(parse_size("18446744073709551615", "--ram"), UINT64_MAX);
  EXPECT_EQ(parse_size("15E", "--ram"), 15 * kGi * kGi);
}

TEST(Units, RefusesWhatIsNoSize) {
  for (const char* text : {"",     "G",     "-1",           "-1G",    "+1G",
                           "1e3",  "0x10",  "nan",          "inf",    "20X",
                           "20GG", "20Gi",  "20 iB",        "1.2.3G", "..",
                           ".",    "1.5",   "1.5B",         "2 0G",   "18446744073709551616",
                           "16E",  "16.0E", "99999999999G", "1,5G",   " 20G",
                           "20G "}) {
    try {
      const uint64_t size = parse_size(text, "--ram");
      ADD_FAILURE() << "'" << text << "' was taken for " << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage) << text;
      EXPECT_NE(std::string(error.what()).find("--ram"), std::string::npos) << error.what();
    }
  }
}

TEST(Units, WritesSizes) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(96), "96 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1 KiB");
  EXPECT_EQ(format_size(17 * kKi), "17 KiB");
  EXPECT_EQ(format_size(311 * kKi * kKi), "311 MiB");
  EXPECT_EQ(format_size(4 * kGi + 880 * kKi * kKi), "4.86 GiB");
  EXPECT_EQ(format_size(20 * kGi), "20.0 GiB");
  EXPECT_EQ(format_size(kGi - 1), "1.00 GiB");  // and not 1024 MiB
  EXPECT_EQ(format_size(kKi * kKi - 1), "1.00 MiB");
  EXPECT_EQ(format_size(688574839360), "641 GiB");
  EXPECT_EQ(format_size(UINT64_MAX), "16.0 EiB");
}

TEST(Units, WritesDurations) {
  EXPECT_EQ(format_duration(0), "0.0 s");
  EXPECT_EQ(format_duration(-1), "0.0 s");
  EXPECT_EQ(format_duration(0.8), "0.8 s");
  EXPECT_EQ(format_duration(9.94), "9.9 s");
  EXPECT_EQ(format_duration(9.96), "10 s");
  EXPECT_EQ(format_duration(47), "47 s");
  EXPECT_EQ(format_duration(59.6), "1 min 0 s");
  EXPECT_EQ(format_duration(200), "3 min 20 s");
  EXPECT_EQ(format_duration(2 * 3600 + 5 * 60), "2 h 5 min");
  EXPECT_EQ(format_duration(50 * 3600), "2 d 2 h");
  EXPECT_EQ(format_duration(1e300), "forever");
}

}  // namespace
}  // namespace fathom
