#include "api/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "api/json_format.h"

namespace pacer::api {

namespace {

// OpenAI's name for the system role of its newer models; templates know only "system".
constexpr std::string_view kDeveloper = "developer";
constexpr std::array<std::string_view, 5> kRoles = {"system", kDeveloper, "user", "assistant",
                                                    "tool"};
constexpr size_t kNameBytesMax = 256;

Error invalid(std::string name, std::string message) {
  return Error{Code::kInvalidArgument, std::move(message), std::move(name)};
}

// Whether `value` is an object; fails `fields` by `name` if not.
bool check_object(const Json& value, const std::string& name, Fields& fields) {
  if (value.is_object()) return true;
  fields.fail(invalid(name, fmt::format("'{}' must be an object, not {}", name, describe(value))));
  return false;
}

std::string read_role(Fields& message) {
  const Json* role = message.find("role");
  if (role != nullptr && role->is_string()) {
    const auto& name = role->get_ref<const std::string&>();
    if (name == kDeveloper) return "system";
    if (std::find(kRoles.begin(), kRoles.end(), name) != kRoles.end()) return name;
  }
  message.fail("role", "one of system, developer, user, assistant, tool",
               role != nullptr ? *role : Json());
  return {};
}

// {"type": "text", "text": "..."}; anything else is refused by the name of its type.
std::string read_text_part(const Json& part, const std::string& name, Fields& message) {
  if (!check_object(part, name, message)) return {};
  Fields fields(part, name);
  const std::string type = fields.string("type", kNameBytesMax).value_or("");
  const Json* text = fields.find("text");
  if (fields.ok() && type != "text") {
    fields.fail(Error{Code::kUnsupported,
                      fmt::format("'{}' is a part of type '{}'; only 'text' is supported", name,
                                  shortened(type, 40)),
                      name});
  } else if (fields.ok() && (text == nullptr || !text->is_string())) {
    fields.fail("text", "a string", text != nullptr ? *text : Json());
  }
  if (fields.ok()) return text->get<std::string>();
  message.fail(fields.error());
  return {};
}

std::string read_content(Fields& message, const std::string& role) {
  const Json* content = message.find("content");
  if (content == nullptr) {
    // An assistant turn in a history may have had no text.
    if (role != "assistant") message.fail("content", "a string or a list of text parts", Json());
    return {};
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    message.fail("content", "a string or a list of text parts", *content);
    return {};
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    if (i > 0) text += '\n';  // as vLLM and llama.cpp join parts
    text += read_text_part((*content)[i], fmt::format("{}[{}]", message.full_name("content"), i),
                           message);
  }
  return text;
}

// The arguments of a call in a history: clients send them as the text of a JSON object, templates
// want the object. What is no such text stays as it is.
Json read_arguments(Fields& function) {
  const Json* arguments = function.find("arguments");
  if (arguments == nullptr) return Json::object();
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string()) {
    function.fail("arguments", "a string or an object", *arguments);
    return {};
  }
  const auto& text = arguments->get_ref<const std::string&>();
  if (text.empty()) return Json::object();
  Result<Json> parsed = parse_json_object(text);
  return parsed ? *std::move(parsed) : *arguments;
}

Json read_tool_call(const Json& value, const std::string& name, Fields& message) {
  if (!check_object(value, name, message)) return {};
  Fields call(value, name);
  call.string("id", kNameBytesMax);
  const std::string type = call.string("type", kNameBytesMax).value_or("function");
  if (type != "function") {
    call.fail(Error{Code::kUnsupported,
                    fmt::format("'{}' is a call of type '{}'; only 'function' is supported", name,
                                shortened(type, 40)),
                    name});
  }
  Json out = value;
  const Json* function = call.object("function");
  if (function == nullptr) {
    call.fail("function", "an object", Json());
  } else {
    Fields fields(*function, call.full_name("function"));
    if (!fields.string("name", kNameBytesMax)) fields.fail("name", "a string", Json());
    out["function"]["arguments"] = read_arguments(fields);
    if (!fields.ok()) call.fail(fields.error());
  }
  if (!call.ok()) message.fail(call.error());
  return out;
}

// What the assistant called, in a history. Empty: it called nothing.
Json read_tool_calls(Fields& message, const std::string& role) {
  Json calls = Json::array();
  const Json* value = message.array("tool_calls");
  if (value == nullptr || value->empty()) return calls;
  if (role != "assistant") {
    message.fail(invalid(message.full_name("tool_calls"),
                         fmt::format("'{}' is only allowed in a message of the assistant",
                                     message.full_name("tool_calls"))));
    return calls;
  }
  for (size_t i = 0; i < value->size(); ++i) {
    calls.push_back(read_tool_call(
        (*value)[i], fmt::format("{}[{}]", message.full_name("tool_calls"), i), message));
  }
  return calls;
}

// What the model thought, under the name that most templates read; servers and clients have others.
void add_reasoning(Fields& message, Json& out) {
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    const auto text = message.string(name, SIZE_MAX);
    if (text && !out.contains("reasoning_content")) out["reasoning_content"] = *text;
  }
}

// What a message may carry that we do not do yet.
void refuse_in_message(Fields& message) {
  for (const std::string_view name : {"function_call", "audio", "refusal"}) {
    const Json* value = message.find(name);
    if (value == nullptr || is_empty_value(*value)) continue;
    const std::string full = message.full_name(name);
    message.fail(Error{Code::kUnsupported, fmt::format("'{}' is not supported", full), full});
  }
}

Json read_message(const Json& value, const std::string& name, Fields& fields,
                  FieldWarnings& warnings) {
  if (!check_object(value, name, fields)) return {};
  Fields message(value, name);
  Json out;
  const std::string role = read_role(message);
  out["role"] = role;
  out["content"] = read_content(message, role);
  for (const char* optional : {"name", "tool_call_id"}) {
    if (const auto text = message.string(optional, kNameBytesMax)) out[optional] = *text;
  }
  add_reasoning(message, out);
  Json calls = read_tool_calls(message, role);
  if (!calls.empty()) out["tool_calls"] = std::move(calls);
  refuse_in_message(message);
  if (!message.ok()) fields.fail(message.error());
  for (const std::string_view unread : message.unread()) {
    warnings.warn(fmt::format("messages[].{}", unread));
  }
  return out;
}

void add_messages(Fields& fields, Json& chat, FieldWarnings& warnings) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.fail("messages", "a list of at least one message",
                messages != nullptr ? *messages : Json());
    return;
  }
  if (messages->size() > kMessagesMax) {
    fields.fail(
        invalid("messages", fmt::format("'messages' has {} messages, but at most {} are allowed",
                                        messages->size(), kMessagesMax)));
    return;
  }
  for (size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    chat["messages"].push_back(
        read_message((*messages)[i], fmt::format("messages[{}]", i), fields, warnings));
  }
}

// A list of objects under `name`, each looked at by `check`; nothing when absent, empty or wrong.
template <class Check>
const Json* read_objects(Fields& fields, const std::string& name, size_t count_max, Check check) {
  const Json* list = fields.array(name);
  if (list == nullptr || list->empty()) return nullptr;
  if (list->size() > count_max) {
    fields.fail(invalid(name, fmt::format("'{}' has {} entries, but at most {} are allowed", name,
                                          list->size(), count_max)));
  }
  for (size_t i = 0; i < list->size() && fields.ok(); ++i) {
    const std::string element = fmt::format("{}[{}]", name, i);
    if (check_object((*list)[i], element, fields)) check((*list)[i], element);
  }
  return fields.ok() ? list : nullptr;
}

void check_tool(const Json& value, const std::string& name, Fields& fields) {
  Fields tool(value, name);
  const std::string type = tool.string("type", kNameBytesMax).value_or("function");
  if (tool.ok() && type != "function") {
    tool.fail(Error{Code::kUnsupported,
                    fmt::format("'{}' is a tool of type '{}'; only 'function' is supported", name,
                                shortened(type, 40)),
                    name});
  }
  if (const Json* function = tool.object("function")) {
    Fields described(*function, tool.full_name("function"));
    if (!described.string("name", kNameBytesMax)) described.fail("name", "a string", Json());
    described.object("parameters");
    if (!described.ok()) tool.fail(described.error());
  } else {
    tool.fail("function", "an object", Json());
  }
  if (!tool.ok()) fields.fail(tool.error());
}

Error not_in_template(const std::string& name) {
  return Error{Code::kUnsupported,
               fmt::format("'{0}' is not supported: the model's chat template takes no {0}", name),
               name};
}

// Tools go to the template, which tells the model of them; where the client wants none called, the
// model hears of none.
void add_tools(Fields& fields, const text::ChatTemplate& chat_template, Json& chat) {
  const Json* tools = read_objects(
      fields, "tools", kToolsMax,
      [&](const Json& tool, const std::string& name) { check_tool(tool, name, fields); });
  const Json* choice = fields.peek("tool_choice");  // field_rules has its other values
  const bool none_wanted = choice != nullptr && *choice == "none";
  if (tools == nullptr || none_wanted) return;
  if (!chat_template.names("tools", /*with_tools=*/true)) fields.fail(not_in_template("tools"));
  chat["tools"] = *tools;
}

void add_documents(Fields& fields, const text::ChatTemplate& chat_template, Json& chat) {
  const auto any = [](const Json&, const std::string&) {};  // templates agree on no field
  const Json* documents = read_objects(fields, "documents", kDocumentsMax, any);
  if (documents == nullptr) return;
  if (!chat_template.names("documents", chat.contains("tools"))) {
    fields.fail(not_in_template("documents"));
  }
  chat["documents"] = *documents;
}

// What a template sees under these names is decided by other fields.
constexpr std::array<std::string_view, 6> kReservedKwargs = {
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};

void add_template_kwargs(Fields& fields, Json& chat) {
  const Json* kwargs = fields.object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  if (kwargs->size() > kTemplateKwargsMax) {
    fields.fail(
        invalid("chat_template_kwargs",
                fmt::format("'chat_template_kwargs' has {} keys, but at most {} are allowed",
                            kwargs->size(), kTemplateKwargsMax)));
    return;
  }
  for (const auto& [key, value] : kwargs->items()) {
    if (std::find(kReservedKwargs.begin(), kReservedKwargs.end(), key) != kReservedKwargs.end()) {
      const std::string name = "chat_template_kwargs." + key;
      fields.fail(invalid(name, fmt::format("'{}' cannot be set here", name)));
    }
    chat[key] = value;
  }
}

}  // namespace

Json read_chat(Fields& fields, const text::ChatTemplate& chat_template, FieldWarnings& warnings) {
  Json chat = Json::object();
  chat["messages"] = Json::array();
  add_messages(fields, chat, warnings);
  add_tools(fields, chat_template, chat);
  add_documents(fields, chat_template, chat);
  chat["add_generation_prompt"] = fields.boolean("add_generation_prompt", true);
  add_template_kwargs(fields, chat);
  return chat;
}

}  // namespace pacer::api
