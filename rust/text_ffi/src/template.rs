//! The Jinja dialect of Hugging Face chat templates, bounded.
//!
//! As in `transformers`: trim_blocks, lstrip_blocks, loop controls, no autoescape, lenient
//! undefined, Python's string and dict methods, `raise_exception`, `strftime_now`, `tojson` without
//! HTML escapes, `{% generation %}` blocks (which only training looks at). `tools` and `documents`
//! are none when the request has none.

use std::fmt;
use std::io::{self, Write};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State};
use serde_json::Value as Json;

use crate::guard::{guards_in, Guards};
use crate::python_filters;
use crate::python_methods::call_method;
use crate::python_text::{float_value, to_text, write_output};
use crate::source::prepared;
use crate::strftime::strftime;
use crate::time_limit::{self, OutOfTime};

/// One unit is about one instruction, or 64 bytes of made data. A message costs some 50 to 300, so
/// this is some ten thousand messages; a template that never ends is stopped after about a tenth of
/// a second.
const FUEL: u64 = 2_000_000;
const OUTPUT_SIZE_MAX: usize = 8 << 20;
/// Of what a template says when it refuses, which is a sentence.
const MESSAGE_SIZE_MAX: usize = 4096;
/// Several times the longest templates in use (about 30 kB).
const SOURCE_SIZE_MAX: usize = 128 << 10;
/// The engine recurses for each operator of an expression when it compiles it, and for each level
/// of a nested value when it prints or frees it. The two limits above bound both: 131,072
/// operators, and some 330,000 levels (6 units each). Measured at most 650 bytes of stack per level
/// (release build), so 213 MB; pages that are not touched cost nothing.
pub const STACK_SIZE: usize = 256 << 20;

const NAME: &str = "chat template";
const TOOL_USE: &str = "chat template for tools";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    Syntax = 1,   // the template does not compile
    Raised = 2,   // the template called raise_exception: its message, verbatim
    Render = 3,   // the template does not work with this context
    Limit = 4,    // too much work or too much output
    BadInput = 5, // the context is not a JSON object, or not UTF-8
    Internal = 6, // a panic
}

#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl Failure {
    pub fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }
}

#[derive(Debug)]
pub struct Rendered {
    pub text: String,
    pub guard: Option<char>,
}

pub struct ChatTemplate {
    environment: Environment<'static>,
    has_tool_use: bool,
    guards: Guards,
    guards_in_source: u32,
    bos: Option<String>,
    eos: Option<String>,
}

/// Marks an error as the template's own word, however deep in the chain of causes it ends up.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn raise_exception(state: &State, message: &Value) -> Result<Value, Error> {
    let mut message = to_text(state, message)?;
    if message.len() > MESSAGE_SIZE_MAX {
        let end = (0..=MESSAGE_SIZE_MAX).rev().find(|&at| message.is_char_boundary(at));
        message.truncate(end.unwrap_or(0));
        message.push_str("...");
    }
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

impl ChatTemplate {
    pub fn compile(
        source: &str,
        tool_use_source: Option<&str>,
        control_texts: &[&str],
        bos: Option<&str>,
        eos: Option<&str>,
    ) -> Result<ChatTemplate, Failure> {
        let mut environment = environment();
        let mut taken = 0;
        for (name, source) in [(NAME, Some(source)), (TOOL_USE, tool_use_source)] {
            let Some(source) = source else { continue };
            if source.len() > SOURCE_SIZE_MAX {
                let message = format!(
                    "the {name} has {} bytes; the limit is {SOURCE_SIZE_MAX}",
                    source.len()
                );
                return Err(Failure::new(Status::Syntax, message));
            }
            taken |= guards_in(source);
            let prepared = prepared(source);
            let refusal = |what: String| Failure::new(Status::Syntax, format!("{name}: {what}"));
            if prepared.too_long {
                return Err(refusal(prepared.unread.unwrap_or_default()));
            }
            environment
                .add_template_owned(name, prepared.text)
                .map_err(|e| Failure::new(Status::Syntax, describe(&e)))?;
            if let Some(unread) = prepared.unread {
                return Err(refusal(unread));
            }
        }
        Ok(ChatTemplate {
            environment,
            guards: Guards::new(control_texts),
            has_tool_use: tool_use_source.is_some(),
            guards_in_source: taken,
            bos: bos.map(str::to_string),
            eos: eos.map(str::to_string),
        })
    }

    pub fn render(&self, context_json: &[u8], unix_seconds: i64) -> Result<Rendered, Failure> {
        let bad_input = |message: String| Failure::new(Status::BadInput, message);
        let mut context: Json = serde_json::from_slice(context_json)
            .map_err(|e| bad_input(format!("the context of the chat template is not JSON: {e}")))?;
        if !context.is_object() {
            return Err(bad_input("the context of the chat template is not a JSON object".into()));
        }
        let guard = self.guards.apply(&mut context, self.guards_in_source).map_err(bad_input)?;
        let offers_tools = context["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let name = if self.has_tool_use && offers_tools { TOOL_USE } else { NAME };
        let context = self.complete(context, unix_seconds);

        let template = self
            .environment
            .get_template(name)
            .map_err(|e| Failure::new(Status::Internal, describe(&e)))?;
        let mut output = BoundedOutput::default();
        time_limit::start();
        let result = template.render_captured_to(context, &mut output).map(drop);
        if output.overflowed {
            let message = format!("the rendered chat is larger than {OUTPUT_SIZE_MAX} bytes");
            return Err(Failure::new(Status::Limit, message));
        }
        result.map_err(|e| classify(&e))?;
        match String::from_utf8(output.bytes) {
            Ok(text) => Ok(Rendered { text, guard }),
            Err(e) => Err(Failure::new(Status::Internal, format!("the rendered chat: {e}"))),
        }
    }

    /// The request's own fields plus what `transformers` always passes.
    fn complete(&self, context: Json, unix_seconds: i64) -> Value {
        let mut fields: Vec<(String, Value)> = vec![
            ("tools".into(), Value::from(())),
            ("documents".into(), Value::from(())),
            ("add_generation_prompt".into(), Value::from(false)),
        ];
        for (name, text) in [("bos_token", &self.bos), ("eos_token", &self.eos)] {
            let value = text.as_ref().map_or(Value::UNDEFINED, Value::from);
            fields.push((name.to_string(), value));
        }
        // Later, and so stronger: what a context names, it means. (The API lets nobody name them.)
        if let Json::Object(request) = context {
            fields.extend(request.into_iter().map(|(k, v)| (k, to_value(v))));
        }
        let now = move |format: &str| {
            strftime(format, unix_seconds).map_err(|e| Error::new(ErrorKind::InvalidOperation, e))
        };
        fields.push(("strftime_now".into(), Value::from_function(now)));
        Value::from_pairs(fields)
    }
}

/// Recursion is bounded: serde_json reads no deeper than 128 levels.
fn to_value(json: Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => Value::from(i),
            (None, Some(u)) => Value::from(u),
            _ => float_value(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(s) => Value::from(s),
        Json::Array(items) => Value::from(items.into_iter().map(to_value).collect::<Vec<_>>()),
        Json::Object(fields) => {
            Value::from_pairs(fields.into_iter().map(|(k, v)| (k, to_value(v))))
        }
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .expect("the default delimiters are valid"),
    );
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_formatter(write_output);
    environment.set_unknown_method_callback(call_method);
    python_filters::add_to(&mut environment);
    // No part of Jinja2, and unbounded: lists that only remember their parts.
    environment.remove_filter("chain");
    environment.remove_filter("zip");
    // These print any nesting with indentation: work that no fuel bounds.
    environment.remove_filter("pprint");
    environment.remove_global("debug");
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("cycler", minijinja_contrib::globals::cycler);
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    environment
}

#[derive(Default)]
struct BoundedOutput {
    bytes: Vec<u8>,
    overflowed: bool,
}

impl Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > OUTPUT_SIZE_MAX {
            self.overflowed = true;
            return Err(io::Error::other("output limit"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn classify(error: &Error) -> Failure {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref::<Raised>() {
            return Failure::new(Status::Raised, message.clone());
        }
        if current.downcast_ref::<OutOfTime>().is_some() {
            return Failure::new(Status::Limit, OutOfTime.to_string());
        }
        if let Some(inner) = current.downcast_ref::<Error>() {
            if inner.kind() == ErrorKind::OutOfFuel {
                let message =
                    format!("the chat template did more work than the limit of {FUEL} steps");
                return Failure::new(Status::Limit, message);
            }
        }
        cause = current.source();
    }
    Failure::new(Status::Render, describe(error))
}

/// The engine's sentence with its causes: "undefined value: ... (in chat template:3)".
fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(current) = cause {
        text.push_str(&format!("; {current}"));
        cause = current.source();
    }
    text
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
