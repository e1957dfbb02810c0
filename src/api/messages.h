// The messages of a chat, and what else a chat template may print, as the object that it gets:
// tools, documents, the template's own settings.
//
// Everything is checked here and little is changed: templates were written for what OpenAI's
// clients send. What is normalised is listed in docs/api.md. Control tokens inside any of these
// strings stay plain text; text::ChatTemplate sees to that.
#pragma once

#include "api/field_rules.h"
#include "api/json_fields.h"
#include "text/chat_template.h"

namespace pacer::api {

constexpr size_t kMessagesMax = 4096;
constexpr size_t kToolsMax = 1024;
constexpr size_t kDocumentsMax = 1024;
constexpr size_t kTemplateKwargsMax = 64;

// "messages", "tools", "documents", "add_generation_prompt" and "chat_template_kwargs". Tools and
// documents that the template never names are refused: nobody would hear of them. Errors stick to
// `fields`.
Json read_chat(Fields& fields, const text::ChatTemplate& chat_template, FieldWarnings& warnings);

}  // namespace pacer::api
