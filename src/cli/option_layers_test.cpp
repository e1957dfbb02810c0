#include "cli/option_layers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "cli/config_flags.h"

namespace pacer::cli {
namespace {

using Origin = OptionLayers::Origin;

// A variable while this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

class Layers : public testing::Test {
 protected:
  Layers() {
    app_.add_option("--log-level", log_level_)->capture_default_str();
    command_ = app_.add_subcommand("serve", "serves");
    command_->add_option("-q,--max-queue", max_queue_, "waits")
        ->check(CLI::Range(0u, 100u))
        ->capture_default_str();
    command_->add_option("--name,--alias", name_, "a name");
    command_->add_option("--ratio", ratio_, "a ratio");
    command_->add_option("--memory", memory_, "a size")->type_name("SIZE");
    command_->add_flag("--fast", fast_, "a switch");
    command_->add_option("--origins", origins_, "a list")->allow_extra_args(false);
    command_->add_option("--key", keys_, "secrets")->type_name(kSecret)->allow_extra_args(false);
    command_->add_option("--key-file", key_file_, "of secrets")->type_name(kSecretFile);
    command_->add_option("--max-model-len", length_);
    config_.add_to(*command_);
    // Of this test alone: others run beside it.
    path_ = testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() +
            ".layers.toml";
  }
  ~Layers() override { std::remove(path_.c_str()); }

  // Flags are split at spaces.
  Result<OptionLayers> parse(const std::string& flags, const std::string& file = "") {
    std::ofstream(path_) << file;
    app_.parse("serve --config " + path_ + " " + flags, false);
    return config_.apply(*command_);
  }
  std::string refusal(const std::string& file, const std::string& flags = "") {
    const auto layers = parse(flags, file);
    if (layers) return "accepted";
    std::string message = layers.error().message;
    if (message.starts_with(path_)) message.replace(0, path_.size(), "FILE");
    return message;
  }

  CLI::App app_;
  CLI::App* command_ = nullptr;
  ConfigFlags config_;
  std::string path_;
  std::string log_level_ = "info", name_ = "none", memory_, key_file_;
  uint32_t max_queue_ = 7, length_ = 0;
  double ratio_ = 0;
  bool fast_ = false;
  std::vector<std::string> origins_, keys_;
};

TEST_F(Layers, AFlagWinsOverAVariableAndAVariableOverTheFile) {
  const char* file = "max-queue = 1\nname = \"file\"\nratio = 0.5\n";
  const Variable queue("PACER_SERVE_MAX_QUEUE", "2");
  const Variable name("PACER_SERVE_NAME", "variable");
  const auto layers = parse("--max-queue 3", file);
  ASSERT_TRUE(layers) << layers.error().message;
  EXPECT_EQ(max_queue_, 3u);
  EXPECT_EQ(name_, "variable");
  EXPECT_EQ(ratio_, 0.5);
  EXPECT_EQ(layers->origin("max-queue"), Origin::kFlag);
  EXPECT_EQ(layers->origin("name"), Origin::kVariable);
  EXPECT_EQ(layers->origin("ratio"), Origin::kFile);
  EXPECT_EQ(layers->origin("memory"), Origin::kDefault);
}

TEST_F(Layers, AliasAndShortNameAreTheSameSetting) {
  const Variable queue("PACER_SERVE_MAX_QUEUE", "2");
  const Variable name("PACER_SERVE_NAME", "variable");
  ASSERT_TRUE(parse("-q 4 --alias flag", "max-queue = 1"));
  EXPECT_EQ(max_queue_, 4u);
  EXPECT_EQ(name_, "flag");
}

TEST_F(Layers, EveryTypeComesFromTheFile) {
  ASSERT_TRUE(
      parse("",
            "max-queue = 100\nname = \"a \\\"b\\\"\"\nratio = 2\nmemory = \"2GiB\"\n"
            "fast = true\norigins = [\"a\", \"b,c\"]\nkey = \"one\"\nlog-level = \"debug\"\n"));
  EXPECT_EQ(max_queue_, 100u);
  EXPECT_EQ(name_, "a \"b\"");
  EXPECT_EQ(ratio_, 2.0);
  EXPECT_EQ(memory_, "2GiB");
  EXPECT_TRUE(fast_);
  EXPECT_EQ(origins_, (std::vector<std::string>{"a", "b,c"}));
  EXPECT_EQ(keys_, (std::vector<std::string>{"one"}));
  EXPECT_EQ(log_level_, "debug");
}

TEST_F(Layers, ASizeMayBeANumberOfBytesAndASwitchFalse) {
  ASSERT_TRUE(parse("", "memory = 1048576\nfast = false\norigins = []\n"));
  EXPECT_EQ(memory_, "1048576");
  EXPECT_FALSE(fast_);
  EXPECT_TRUE(origins_.empty());
}

TEST_F(Layers, AListIsAFlagGivenTwiceAndAVariableWithCommas) {
  const Variable origins("PACER_SERVE_ORIGINS", "x, y ,z");
  ASSERT_TRUE(parse("--key a --key b,c", "origins = [\"file\"]\nkey = [\"file\"]"));
  EXPECT_EQ(origins_, (std::vector<std::string>{"x", "y", "z"}));
  EXPECT_EQ(keys_, (std::vector<std::string>{"a", "b,c"}));
}

TEST_F(Layers, ASwitchAsVariable) {
  for (const auto& [text, value] :
       {std::pair("true", true), {"1", true}, {"false", false}, {"0", false}}) {
    const Variable fast("PACER_SERVE_FAST", text);
    ASSERT_TRUE(parse("")) << text;
    EXPECT_EQ(fast_, value) << text;
  }
  const Variable fast("PACER_SERVE_FAST", "yes please");
  EXPECT_EQ(refusal(""),
            "environment variable PACER_SERVE_FAST: 'yes please' is not true or false");
}

TEST_F(Layers, WhatIsWrongInTheFileIsSaidWithItsLine) {
  EXPECT_EQ(refusal("\nmax-queu = 3"), "FILE: line 2: there is no setting 'max-queu'");
  EXPECT_EQ(refusal("max_queue = 3"),
            "FILE: line 1: there is no setting 'max_queue'; 'max-queue' is one");
  EXPECT_EQ(refusal("[serve]\nmax-queue = 3"), "FILE: line 1: there is no setting 'serve'");
  EXPECT_EQ(refusal("max-queue = \"3\""), "FILE: line 1: 'max-queue' must be a whole number");
  EXPECT_EQ(refusal("max-queue = 3.5"), "FILE: line 1: 'max-queue' must be a whole number");
  EXPECT_EQ(refusal("max-queue = [3]"), "FILE: line 1: 'max-queue' must be a whole number");
  EXPECT_EQ(refusal("fast = 1"), "FILE: line 1: 'fast' must be true or false");
  EXPECT_EQ(refusal("name = 3"), "FILE: line 1: 'name' must be a string");
  EXPECT_EQ(refusal("origins = [\"a\", 3]"),
            "FILE: line 1: 'origins' must be a string or a list of strings");
  EXPECT_EQ(refusal("ratio = \"x\""), "FILE: line 1: 'ratio' must be a number");
  EXPECT_EQ(refusal("max-queue = 101"),
            "FILE: line 1: '101' is no value for 'max-queue', which is UINT in [0 - 100]");
  EXPECT_EQ(refusal("max-queue = -1").substr(0, 43), "FILE: line 1: '-1' is no value for 'max-que");
  EXPECT_TRUE(refusal("name = \"a\"\nname = \"b\"").starts_with("FILE: line 2: "));
  EXPECT_TRUE(refusal("a\nb = ").starts_with("FILE: line "));
  EXPECT_EQ(refusal("config = \"x\""), "FILE: line 1: there is no setting 'config'");
  EXPECT_EQ(refusal("help = true"), "FILE: line 1: there is no setting 'help'");
}

TEST_F(Layers, ATypeIsWrongAlsoWhereAFlagWins) {
  EXPECT_EQ(refusal("max-queue = \"3\"", "--max-queue 5"),
            "FILE: line 1: 'max-queue' must be a whole number");
}

TEST_F(Layers, WhatIsWrongInAVariableIsSaidWithItsName) {
  // What Kubernetes sets where a service is called pacer-serve.
  const Variable queue("PACER_SERVE_MAX_QUEUE", "tcp://10.0.0.1:80");
  EXPECT_EQ(refusal(""),
            "environment variable PACER_SERVE_MAX_QUEUE: 'tcp://10.0.0.1:80' is no value for "
            "'max-queue', which is UINT in [0 - 100]");
}

TEST_F(Layers, AnEmptyVariableIsNoneButNotWhereItIsASecret) {
  const Variable queue("PACER_SERVE_MAX_QUEUE", "");
  ASSERT_TRUE(parse("", "max-queue = 5"));
  EXPECT_EQ(max_queue_, 5u);
  const Variable key("PACER_SERVE_KEY", "");
  EXPECT_EQ(refusal(""), "environment variable PACER_SERVE_KEY is empty");
}

TEST_F(Layers, AnEmptySecretIsRefusedWhereverItIsNamed) {
  EXPECT_EQ(refusal("key = []"), "FILE: line 1: 'key' is empty");
  EXPECT_EQ(refusal("key = \"\""), "FILE: line 1: 'key' is empty");
  EXPECT_EQ(refusal("key-file = \"\""), "FILE: line 1: 'key-file' is empty");
  EXPECT_EQ(refusal("key = [\"a\"]\nkey-file = \"f\""), "accepted");
  const Variable file("PACER_SERVE_KEY_FILE", "");
  EXPECT_EQ(refusal(""), "environment variable PACER_SERVE_KEY_FILE is empty");
}

TEST_F(Layers, ASecretIsNeverShownAndItsVariableIsWiped) {
  const Variable key("PACER_SERVE_KEY", "hush-1,hush-2");
  const auto layers = parse("");
  ASSERT_TRUE(layers);
  EXPECT_EQ(keys_, (std::vector<std::string>{"hush-1", "hush-2"}));
  EXPECT_STREQ(std::getenv("PACER_SERVE_KEY"), "*************");
  EXPECT_EQ(layers->describe().find("hush"), std::string::npos) << layers->describe();
  EXPECT_NE(layers->describe().find("# key: 2 given, not shown"), std::string::npos)
      << layers->describe();
}

TEST_F(Layers, WhatIsPrintedIsAFileThatSaysTheSame) {
  const auto layers =
      parse("--max-queue 3 --name a\\b --fast --origins x --origins y", "memory = \"2GiB\"");
  ASSERT_TRUE(layers);
  const std::string printed = layers->describe();
  EXPECT_NE(printed.find("max-queue = 3 "), std::string::npos) << printed;
  EXPECT_NE(printed.find("# --max-queue\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("layers.toml: line 1\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("log-level = \"info\""), std::string::npos) << printed;
  EXPECT_NE(printed.find("# ratio is not set\n"), std::string::npos) << printed;

  max_queue_ = 0;
  name_ = memory_ = "";
  fast_ = false;
  origins_.clear();
  ASSERT_TRUE(parse("", printed)) << printed;
  EXPECT_EQ(max_queue_, 3u);
  EXPECT_EQ(name_, "a\\b");
  EXPECT_EQ(memory_, "2GiB");
  EXPECT_TRUE(fast_);
  EXPECT_EQ(origins_, (std::vector<std::string>{"x", "y"}));
}

TEST_F(Layers, AFileThatIsNotThereIsNamed) {
  app_.parse("serve --config /nowhere/x.toml", false);
  const auto layers = config_.apply(*command_);
  ASSERT_FALSE(layers);
  EXPECT_NE(layers.error().message.find("/nowhere/x.toml"), std::string::npos);
}

TEST_F(Layers, TheFileMayBeNamedByAVariable) {
  std::ofstream(path_) << "max-queue = 9";
  const Variable config("PACER_SERVE_CONFIG", path_.c_str());
  app_.parse("serve", false);
  ASSERT_TRUE(config_.apply(*command_));
  EXPECT_EQ(max_queue_, 9u);
}

}  // namespace
}  // namespace pacer::cli
