#include "cli/byte_size.h"

#include <gtest/gtest.h>

namespace pacer::cli {
namespace {

TEST(ByteSize, ReadsUnitsOfBothKindsAndFractions) {
  EXPECT_EQ(*parse_byte_size("1048576"), 1048576u);
  EXPECT_EQ(*parse_byte_size("2GiB"), 2ull << 30);
  EXPECT_EQ(*parse_byte_size("2gib"), 2ull << 30);
  EXPECT_EQ(*parse_byte_size("1.5 MiB"), 3ull << 19);
  EXPECT_EQ(*parse_byte_size("3GB"), 3'000'000'000u);
  EXPECT_EQ(*parse_byte_size("0"), 0u);
}

TEST(ByteSize, RefusesWhatIsNoSizeAndSaysIt) {
  for (const char* text : {"", "GiB", "-1", "1e30GiB", "2 Gibs", "nan", "inf", "0x10", "1,5GB"}) {
    const auto size = parse_byte_size(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(size.error().message.find(std::string("'") + text + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace pacer::cli
