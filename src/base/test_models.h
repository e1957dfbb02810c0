// Where tests find real models. For tests only.
//
// ${PACER_MODELS:-${PACER_HOME:-~/.cache/pacer}/models}, the folder of `pacer pull`. A test that
// needs a model and does not find it is skipped with a sentence, or fails where PACER_REQUIRE_MODEL
// is set (test.sh sets it: there the models were fetched).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace pacer {

constexpr char kSmolLm2[] = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr char kGemma3[] = "gemma-3-270m-q4_k_m.gguf";

inline std::string test_model_path(const std::string& file_name) {
  const auto env = [](const char* name, const std::string& absent) {
    const char* value = std::getenv(name);
    return value == nullptr || *value == '\0' ? absent : std::string(value);
  };
  const std::string home = env("PACER_HOME", env("HOME", "") + "/.cache/pacer");
  return env("PACER_MODELS", home + "/models") + "/" + file_name;
}

inline bool has_test_model(const std::string& file_name) {
  return std::ifstream(test_model_path(file_name)).good();
}

// Leaves the test (or SetUp) where the model is not there.
#define PACER_NEED_MODEL(file_name)                                                         \
  do {                                                                                      \
    if (::pacer::has_test_model(file_name)) break;                                          \
    const std::string missing =                                                             \
        "no model at " + ::pacer::test_model_path(file_name) + "; `pacer pull` fetches it"; \
    if (std::getenv("PACER_REQUIRE_MODEL") != nullptr) FAIL() << missing;                   \
    GTEST_SKIP() << missing;                                                                \
  } while (false)

}  // namespace pacer
