// dequantize() against the values that another implementation gives, to the bit. The fixture and
// how it was made: tests/tensor/make_dequant_fixture.py.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace pacer::tensor {
namespace {

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

DType type_named(const std::string& name) {
  for (uint32_t type = 0; type < 64; ++type) {
    const auto info = dtype_info(static_cast<DType>(type));
    if (info && info->name == name) return static_cast<DType>(type);
  }
  ADD_FAILURE() << "no format " << name;
  return DType::kF32;
}

TEST(DequantFixture, EveryFormatIsWhatTheGgufPackageSays) {
  std::ifstream file(PACER_SOURCE_DIR "/tests/tensor/dequant.txt");
  std::map<std::string, int> blocks_of;
  std::string name, block_hex, values_hex;
  while (file >> name >> block_hex >> values_hex) {
    SCOPED_TRACE(name + ", block " + std::to_string(blocks_of[name]++));
    const DType dtype = type_named(name);
    const std::vector<std::byte> block = from_hex(block_hex);
    const std::vector<std::byte> expected = from_hex(values_hex);
    ASSERT_EQ(block.size(), dtype_info(dtype)->block_bytes);
    ASSERT_EQ(expected.size(), dtype_info(dtype)->block_values * sizeof(float));
    std::vector<float> got(dtype_info(dtype)->block_values);
    dequantize(dtype, block.data(), got.size(), got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      float value;
      std::memcpy(&value, expected.data() + 4 * i, 4);
      ASSERT_EQ(std::memcmp(&got[i], &value, 4), 0)
          << "value " << i << ": " << got[i] << ", expected " << value;
    }
  }
  EXPECT_EQ(blocks_of.size(), 12u) << "formats in the fixture";
}

}  // namespace
}  // namespace pacer::tensor
