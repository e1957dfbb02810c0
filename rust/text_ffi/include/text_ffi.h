// C interface of the Rust library in rust/text_ffi: chat templates. Only src/text/chat_template.cpp
// includes it.
//
// Whoever gets a pacer_text_output frees it once with pacer_text_output_free. Views are borrowed
// for the call only. A compiled template may be rendered by several threads at once. No function
// throws, panics or aborts on input.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pacer_text_view {
  const char* data;  // may be null when size is 0
  size_t size;
} pacer_text_view;

enum {
  PACER_TEXT_OK = 0,
  PACER_TEXT_SYNTAX = 1,     // the template does not compile
  PACER_TEXT_RAISED = 2,     // the template called raise_exception: its message, verbatim
  PACER_TEXT_RENDER = 3,     // the template does not work with this context
  PACER_TEXT_LIMIT = 4,      // too much work or too much output
  PACER_TEXT_BAD_INPUT = 5,  // no JSON object, not UTF-8, or no guard character is free
  PACER_TEXT_INTERNAL = 6,   // a panic, or no thread
};

typedef struct pacer_text_output {
  int32_t status;
  uint32_t guard;   // code point of the guard character in the text; 0: none was needed
  char* text;       // the rendered text, or the error's sentence; UTF-8, not zero-terminated
  size_t text_size;
} pacer_text_output;

typedef struct pacer_chat_template pacer_chat_template;

typedef struct pacer_chat_template_options {
  pacer_text_view source;
  const pacer_text_view* tool_use_source;  // for a context with tools; null: `source` for all
  const pacer_text_view* control_texts;  // [control_text_count], see guard.rs
  size_t control_text_count;
  const pacer_text_view* bos;  // null: the model has none
  const pacer_text_view* eos;
} pacer_chat_template_options;

// null on error. `output` is written either way.
pacer_chat_template* pacer_chat_template_compile(const pacer_chat_template_options* options,
                                                 pacer_text_output* output);
// context_json: an object. unix_seconds: what strftime_now() shows.
void pacer_chat_template_render(const pacer_chat_template* chat_template,
                                pacer_text_view context_json, int64_t unix_seconds,
                                pacer_text_output* output);
void pacer_chat_template_free(pacer_chat_template* chat_template);  // null is fine
void pacer_text_output_free(pacer_text_output* output);

#ifdef __cplusplus
}  // extern "C"
#endif
