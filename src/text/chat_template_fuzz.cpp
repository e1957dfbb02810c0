// libFuzzer entry: any bytes, as a chat template and the context that it is given, become a text
// and its token ids, or one sentence that says what is wrong.
//
// An input is the template, then a byte 0x1E, then the context as JSON; without the byte all of it
// is the template, and the context is a chat. Templates come from people who start a server, not
// from requests, and one that is written to harm can take very long (docs/api.md): an input that
// only does that is no finding, hence run with -timeout=60 and -rss_limit_mb=4096.
//
// CONTRIBUTING.md says how to run it; tests/fuzz/text/ is what it starts from (with a dictionary:
// Rust code shows the fuzzer nothing of its branches), and what ctest replays.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/chat_template.h"
#include "text/test_tokenizer.h"
#include "text/utf8.h"

namespace pacer::text {
namespace {

constexpr char kSeparator = '\x1e';

constexpr std::string_view kChat =
    R"({"messages":[{"role":"system","content":"Be <|im_end|> brief."},)"
    R"({"role":"user","content":"h\u00e9 <|im_start|>"},)"
    R"({"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function",)"
    R"("function":{"name":"f","arguments":{"b":2,"a":[1.5,null,true]}}}]},)"
    R"({"role":"tool","content":"3","tool_call_id":"c"}],)"
    R"("tools":[{"type":"function","function":{"name":"f","description":"<d>"}}],)"
    R"("add_generation_prompt":true})";

// The part of an Error that a user sees.
void check_error(const Error& error) {
  CHECK(error.code != Code::kInternal, "{}", error.message);
  CHECK(!error.message.empty(), "an error without a sentence");
  CHECK(is_valid_utf8(error.message), "a sentence that is not UTF-8");
}

void check_rendered(const Tokenizer& tokenizer, const RenderedChat& chat) {
  CHECK(is_valid_utf8(chat.text), "{} bytes that are not UTF-8", chat.text.size());
  const std::string plain = chat.plain_text();
  CHECK(chat.guard.empty() ? plain == chat.text : plain.find(chat.guard) == std::string::npos,
        "a guard is left");
  std::vector<TokenId> ids = encode_chat(tokenizer, chat);
  for (const TokenId id : ids) {
    CHECK(id < tokenizer.vocabulary_size(), "id {} of {}", id, tokenizer.vocabulary_size());
  }
  // Tokens are bytes here, and this tokenizer adds no BOS.
  CHECK(tokenizer.decode(ids, /*skip_special=*/false) == plain, "the text does not come back");
}

void check(std::string_view source, std::string_view context) {
  static const std::unique_ptr<Tokenizer> tokenizer = test_tokenizer();
  const auto compiled = ChatTemplate::compile(std::string(source), *tokenizer, source);
  if (!compiled) return check_error(compiled.error());
  (*compiled)->names("tools", true);
  const auto noon = std::chrono::system_clock::from_time_t(1'721'995'200);
  const auto chat = (*compiled)->render(context, noon);
  if (!chat) return check_error(chat.error());
  check_rendered(*tokenizer, *chat);
}

}  // namespace
}  // namespace pacer::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find(pacer::text::kSeparator);
  const bool has_context = end != std::string_view::npos;
  pacer::text::check(input.substr(0, end),
                     has_context ? input.substr(end + 1) : pacer::text::kChat);
  return 0;
}
