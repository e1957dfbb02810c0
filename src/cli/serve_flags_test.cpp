#include "cli/serve_flags.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "cli/api_key_file.h"
#include "cli/options.h"
#include "cli/program.h"

namespace pacer::cli {
namespace {

Result<ServeOptions> options_of(const std::string& arguments) {
  CLI::App app;
  app.add_option("--log-level");
  CLI::App* command = app.add_subcommand("serve", "");
  ServeFlags flags;
  flags.add_to(*command);
  app.parse("serve -m model.gguf " + arguments, false);
  ASSIGN_OR_RETURN(const OptionLayers layers, flags.config.apply(*command));
  return flags.into_options(layers);
}

std::string refusal(const std::string& arguments) {
  const auto options = options_of(arguments);
  return options ? "accepted" : options.error().message;
}

TEST(ServeFlags, ASocketAloneListensAloneAndBesideTcpWhereThatIsAskedFor) {
  EXPECT_TRUE(options_of("")->server.tcp);
  EXPECT_FALSE(options_of("--unix-socket /tmp/s")->server.tcp);
  EXPECT_FALSE(options_of("--uds /tmp/s")->server.tcp);
  EXPECT_TRUE(options_of("--unix-socket /tmp/s --port 8000")->server.tcp);
  EXPECT_TRUE(options_of("--unix-socket /tmp/s --host ::1")->server.tcp);
}

TEST(ServeFlags, WhatCannotBeMeantTogetherIsRefusedInOneSentence) {
  EXPECT_EQ(refusal("--ssl-certfile c"),
            "TLS needs both --ssl-certfile and --ssl-keyfile; only --ssl-certfile is given");
  EXPECT_EQ(refusal("--ssl-key-file k"),
            "TLS needs both --ssl-certfile and --ssl-keyfile; only --ssl-keyfile is given");
  EXPECT_EQ(refusal("--ssl-certfile c --ssl-keyfile k --unix-socket /tmp/s"),
            "--ssl-certfile is for --host and --port, and only --unix-socket listens");
  EXPECT_EQ(refusal("--ssl-certfile c --ssl-keyfile k --unix-socket /tmp/s --port 1"), "accepted");
  EXPECT_EQ(refusal("--admin-host 0.0.0.0"), "--admin-host needs --admin-port");
  EXPECT_EQ(refusal("--admin-port 8000"), "--admin-port and --port are both 8000");
  EXPECT_EQ(refusal("--admin-port 0 --port 0"), "accepted");
  EXPECT_EQ(refusal("--admin-port 8000 --unix-socket /tmp/s"), "accepted");
  EXPECT_EQ(refusal("--max-body-memory 1MiB"),
            "--max-body-memory 1MiB is less than one body of 8.0 MiB");
  EXPECT_EQ(refusal("--max-body-memory 8MiB"), "accepted");
  EXPECT_EQ(refusal("--api-key a --api-key a"), "API keys 1 and 2 are the same");
}

TEST(ServeFlags, TheAdminListenerIsOneThreadOnThisMachine) {
  EXPECT_FALSE(options_of("")->admin);
  const auto options = options_of("--admin-port 9000 --host 0.0.0.0");
  ASSERT_TRUE(options->admin);
  EXPECT_EQ(options->admin->host, "127.0.0.1");
  EXPECT_EQ(options->admin->port, 9000);
  EXPECT_EQ(options->admin->io_threads, 1u);
}

TEST(ServeFlags, AModelIsNeeded) {
  CLI::App app;
  CLI::App* command = app.add_subcommand("serve", "");
  ServeFlags flags;
  flags.add_to(*command);
  app.parse("serve", false);
  const auto options = flags.into_options(*flags.config.apply(*command));
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().message, "no model is given: -m MODEL says which");
}

class KeyFile : public testing::Test {
 protected:
  ~KeyFile() override { std::remove(path_.c_str()); }
  Result<std::vector<std::string>> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_api_key_file(path_);
  }
  // Of this test alone: others run beside it.
  const std::string path_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".keys";
};

TEST_F(KeyFile, HasOneKeyALine) {
  EXPECT_EQ(*read("# ours\n\n  first  \r\nsecond#2\n#third\n\t\nlast"),
            (std::vector<std::string>{"first", "second#2", "last"}));
}

TEST_F(KeyFile, WithoutAKeyIsRefused) {
  for (const char* text : {"", "\n\n", "# only words\n", " \t"}) {
    const auto keys = read(text);
    ASSERT_FALSE(keys) << text;
    EXPECT_EQ(keys.error().message, path_ + ": there is no API key in it");
  }
  EXPECT_FALSE(read_api_key_file("/nowhere/keys"));
}

TEST_F(KeyFile, KeysOfFlagsComeFirst) {
  std::ofstream(path_) << "file-key\n";
  const auto options = options_of("--api-key flag-key --api-key-file " + path_);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->keys.position({{"Authorization", "Bearer flag-key"}}), 1u);
  EXPECT_EQ(options->keys.position({{"Authorization", "Bearer file-key"}}), 2u);
}

TEST_F(KeyFile, ThatEveryUserCanReadIsWarnedOf) {
  ASSERT_TRUE(read("key"));
  for (const bool open : {true, false}) {
    using std::filesystem::perms;
    std::filesystem::permissions(path_,
                                 open ? perms::owner_all | perms::others_read : perms::owner_all);
    testing::internal::CaptureStderr();
    log::init({});
    EXPECT_TRUE(read_api_key_file(path_));
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(text.find("chmod 600") != std::string::npos, open) << text;
  }
}

TEST(Options, TheCommittedPageIsWhatTheProgramPrints) {
  CLI::App app;
  ProgramFlags flags;
  int exit_code = 0;
  declare_program(app, &flags, &exit_code);
  const std::string path = std::string(PACER_SOURCE_DIR) + "/docs/options.md";
  std::ifstream file(path);
  const std::string committed(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(committed, options_markdown(app)) << "pacer options >docs/options.md";
}

TEST(Options, EverySettingHasASentence) {
  CLI::App app;
  ProgramFlags flags;
  int exit_code = 0;
  declare_program(app, &flags, &exit_code);
  for (CLI::App* command : app.get_subcommands(nullptr)) {
    for (const CLI::Option* option : command->get_options()) {
      EXPECT_FALSE(option->get_description().empty())
          << command->get_name() << " " << option->get_name();
    }
  }
}

}  // namespace
}  // namespace pacer::cli
