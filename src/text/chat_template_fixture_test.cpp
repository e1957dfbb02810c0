// Compares the template engine with Jinja2, byte for byte: tests/templates/features/*.jinja with
// the contexts and results in tests/templates/expected.json, which make_fixture.py there wrote.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "text/chat_template.h"
#include "text/test_tokenizer.h"

namespace pacer::text {
namespace {

using Json = nlohmann::ordered_json;

// What make_fixture.py told Jinja2: 2024-07-26 12:34:56.
constexpr auto kNow = std::chrono::sys_days{std::chrono::year{2024} / 7 / 26} +
                      std::chrono::hours{12} + std::chrono::minutes{34} + std::chrono::seconds{56};

std::filesystem::path folder() {
  return std::filesystem::path(PACER_SOURCE_DIR) / "tests/templates";
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<RenderedChat> render(const std::string& name, Json context, const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(const auto chat_template,
                   ChatTemplate::compile(read_file(folder() / "features" / name), tokenizer));
  if (!context.contains("add_generation_prompt")) context["add_generation_prompt"] = true;
  return chat_template->render(context.dump(), kNow);
}

TEST(ChatTemplateFixture, EveryFeatureRendersAsInJinja2) {
  const auto tokenizer = test_tokenizer();
  const Json cases = Json::parse(read_file(folder() / "expected.json"));
  std::set<std::string> seen;
  for (const Json& expected : cases) {
    const auto name = expected["template"].get<std::string>();
    SCOPED_TRACE(name + " with " + expected["context"].dump().substr(0, 200));
    seen.insert(name);
    const auto chat = render(name, expected["context"], *tokenizer);
    if (expected.contains("text")) {
      ASSERT_TRUE(chat.ok()) << chat.error().message;
      EXPECT_EQ(chat->plain_text(), expected["text"].get<std::string>());
    } else if (expected.contains("raised")) {
      ASSERT_FALSE(chat.ok());
      EXPECT_EQ(chat.error().code, Code::kInvalidArgument);
      EXPECT_EQ(chat.error().message, expected["raised"].get<std::string>());
    } else {
      ASSERT_FALSE(chat.ok()) << "Jinja2: " << expected["fails"];
      EXPECT_EQ(chat.error().code, Code::kInvalidArgument);
    }
  }
  // A template without results would be a test that cannot fail.
  for (const auto& entry : std::filesystem::directory_iterator(folder() / "features")) {
    if (entry.path().extension() != ".jinja") continue;
    EXPECT_TRUE(seen.contains(entry.path().filename())) << entry.path();
  }
}

}  // namespace
}  // namespace pacer::text
