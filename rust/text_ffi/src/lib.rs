//! Chat templates behind a small C interface (include/text_ffi.h). Called by
//! src/text/chat_template.cpp only.
//!
//! A template comes with a model, so it is somebody else's program: it runs with a bound on work,
//! on output and on depth, and whatever happens in here - a panic included - reaches the caller as
//! a status and a sentence. What users wrote is data: control tokens in it are broken up by guards
//! (guard.rs) before the template sees it.
//!
//! `template` is the Jinja dialect; the `source` files and the `python_` files make of the engine's
//! Jinja what Jinja2 in Python has; `python_json` and `strftime` are what Hugging Face adds to it;
//! `walk` and `time_limit` bound what the engine does not. No state between calls; a compiled template may be rendered by several threads at once.

mod arguments;
mod guard;
mod printf;
mod python_case;
mod python_filters;
mod python_json;
mod python_methods;
mod python_operators;
mod python_text;
mod source;
mod source_expression;
mod source_tokens;
mod strftime;
mod template;
mod time_limit;
mod walk;

use std::panic::{catch_unwind, AssertUnwindSafe};

use template::{ChatTemplate, Failure, Rendered, Status, STACK_SIZE};

/// Borrowed bytes; `data` may be null when `size` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const u8,
    size: usize,
}

impl View {
    /// The caller keeps the bytes alive and unchanged during the call.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.data, self.size)
    }

    unsafe fn text<'a>(self, name: &str) -> Result<&'a str, Failure> {
        std::str::from_utf8(self.bytes())
            .map_err(|e| Failure::new(Status::BadInput, format!("{name} is not UTF-8: {e}")))
    }
}

#[repr(C)]
pub struct CompileOptions {
    source: View,
    tool_use_source: *const View, // null: `source` for all
    control_texts: *const View,
    control_text_count: usize,
    bos: *const View, // null: the model has none
    eos: *const View,
}

#[repr(C)]
pub struct Output {
    status: i32,
    guard: u32, // code point, 0 when none was needed
    text: *mut u8,
    text_size: usize,
}

impl Output {
    fn new(status: Status, guard: u32, text: String) -> Output {
        let text = Box::leak(text.into_bytes().into_boxed_slice());
        Output { status: status as i32, guard, text: text.as_mut_ptr(), text_size: text.len() }
    }
}

/// What the caller keeps valid until the call returns, and so until `contain` has joined its
/// thread.
struct ByCaller<T>(*const T);

unsafe impl<T> Send for ByCaller<T> {}
unsafe impl<T> Sync for ByCaller<T> {}

impl<T> ByCaller<T> {
    unsafe fn get(&self) -> &T {
        &*self.0
    }
}

/// Runs `work` so that neither an error nor a panic leaves as anything but a `Failure`, on a stack
/// that is deep enough for all that the limits of template.rs allow (starting the thread takes some
/// 50 us).
fn contain<T: Send>(work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    let outcome = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("chat-template".to_string())
            .stack_size(STACK_SIZE)
            .spawn_scoped(scope, || catch_unwind(AssertUnwindSafe(work)));
        match thread {
            Ok(thread) => thread.join().and_then(|outcome| outcome),
            Err(e) => Ok(Err(Failure::new(
                Status::Internal,
                format!("no thread for the chat template: {e}"),
            ))),
        }
    });
    outcome.unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<&str>()
            .map(|s| s.to_string())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(Failure::new(Status::Internal, format!("the template engine panicked: {what}")))
    })
}

unsafe fn compile(options: &CompileOptions) -> Result<ChatTemplate, Failure> {
    let views = match options.control_text_count {
        0 => &[],
        count => std::slice::from_raw_parts(options.control_texts, count),
    };
    let mut control_texts = Vec::with_capacity(views.len());
    for view in views {
        control_texts.push(view.text("the text of a control token")?);
    }
    let optional = |view: *const View, name: &str| match view.as_ref() {
        None => Ok(None),
        Some(view) => view.text(name).map(Some),
    };
    ChatTemplate::compile(
        options.source.text("the chat template")?,
        optional(options.tool_use_source, "the chat template for tools")?,
        &control_texts,
        optional(options.bos, "the text of the BOS token")?,
        optional(options.eos, "the text of the EOS token")?,
    )
}

/// # Safety
/// `options` and what it points to must be valid during the call; `error` must be writable.
#[no_mangle]
pub unsafe extern "C" fn pacer_chat_template_compile(
    options: *const CompileOptions,
    error: *mut Output,
) -> *mut ChatTemplate {
    let options = ByCaller(options);
    match contain(|| compile(options.get())) {
        Ok(template) => {
            error.write(Output::new(Status::Ok, 0, String::new()));
            Box::into_raw(Box::new(template))
        }
        Err(failure) => {
            error.write(Output::new(failure.status, 0, failure.message));
            std::ptr::null_mut()
        }
    }
}

/// # Safety `template` comes from `pacer_chat_template_compile` and is not freed yet; `output` must
/// be writable.
#[no_mangle]
pub unsafe extern "C" fn pacer_chat_template_render(
    template: *const ChatTemplate,
    context_json: View,
    unix_seconds: i64,
    output: *mut Output,
) {
    let (template, context_json) = (ByCaller(template), context_json.bytes());
    let result = contain(|| template.get().render(context_json, unix_seconds));
    output.write(match result {
        Ok(Rendered { text, guard }) => Output::new(Status::Ok, guard.map_or(0, u32::from), text),
        Err(failure) => Output::new(failure.status, 0, failure.message),
    });
}

/// # Safety
/// `template` comes from `pacer_chat_template_compile`, or is null; not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn pacer_chat_template_free(template: *mut ChatTemplate) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

/// # Safety
/// `output` was written by one of the functions above; freed at most once.
#[no_mangle]
pub unsafe extern "C" fn pacer_text_output_free(output: *mut Output) {
    let output = &mut *output;
    if !output.text.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(output.text, output.text_size)));
        output.text = std::ptr::null_mut();
        output.text_size = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_may_be_rendered_by_several_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<ChatTemplate>();
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let result: Result<(), Failure> = contain(|| panic!("index 7 of 3"));
        let failure = result.unwrap_err();
        assert_eq!(failure.status, Status::Internal);
        assert!(failure.message.contains("index 7 of 3"), "{}", failure.message);
    }
}
