//! str() and repr() as Python has them, for values that a template prints.
//!
//! The engine prints most values as Python does; not floats with an exponent, not what Python
//! escapes in a string inside a list, not `dict.items()`. Work is charged to the render's fuel, and
//! depth is bounded.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value, ValueKind};
use minijinja::{AutoEscape, Error, ErrorKind, Output, State};

use crate::python_json::float;
use crate::time_limit;

const DEPTH_MAX: usize = 128; // serde_json reads no deeper either
const SIZE_MAX: usize = 8 << 20; // of one value: no more than a whole render may print

/// A float that Python writes with an exponent, or without a fraction. An object because the engine
/// prints its own floats itself wherever text is put together (`~`, lists), as "0.00001".
#[derive(Clone, Copy)]
pub struct ExponentFloat(pub f64);

impl fmt::Debug for ExponentFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&float(self.0))
    }
}

impl Object for ExponentFloat {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        self.0 != 0.0
    }

    fn custom_cmp(
        self: &Arc<Self>,
        other: &minijinja::value::DynObject,
    ) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&other.downcast_ref::<ExponentFloat>()?.0)
    }
}

/// A float from JSON.
pub fn float_value(number: f64) -> Value {
    if float(number).contains('e') {
        Value::from_object(ExponentFloat(number))
    } else {
        Value::from(number)
    }
}

/// The number behind a value, whichever way it is kept.
pub fn as_float(value: &Value) -> Option<f64> {
    if let Some(number) = value.downcast_object_ref::<ExponentFloat>() {
        return Some(number.0);
    }
    match value.kind() {
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        _ => None,
    }
}

pub fn is_float(value: &Value) -> bool {
    value.downcast_object_ref::<ExponentFloat>().is_some()
        || (value.kind() == ValueKind::Number && !value.is_integer())
}

/// dict.keys(), dict.values() and dict.items(): lists that print with their name and have no JSON.
pub struct DictView {
    pub name: &'static str,
    pub items: Vec<Value>,
}

impl fmt::Debug for DictView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:?})", self.name, self.items)
    }
}

impl Object for DictView {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// What `{{ value }}` writes.
pub fn write_output(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    time_limit::check()?;
    let text = match value.as_str() {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(to_text(state, value)?),
    };
    match state.auto_escape() {
        AutoEscape::Html if !value.is_safe() => out.write_str(&escaped(&text))?,
        _ => out.write_str(&text)?,
    }
    Ok(())
}

/// As markupsafe.escape.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

/// Python's str().
pub fn to_text(state: &State, value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        state.consume_fuel(text.len() as u64 / 64)?;
        return Ok(text.to_string());
    }
    if value.is_undefined() {
        return Ok(String::new());
    }
    to_repr(state, value)
}

/// Python's repr().
pub fn to_repr(state: &State, value: &Value) -> Result<String, Error> {
    let mut out = Printed::new(state);
    write_repr(&mut out, value, 0)?;
    Ok(out.text)
}

/// Text that a value is written into, paid for as it grows.
pub struct Printed<'a, 'template, 'env> {
    pub text: String,
    state: &'a State<'template, 'env>,
    paid: usize,
}

impl<'a, 'template, 'env> Printed<'a, 'template, 'env> {
    pub fn new(state: &'a State<'template, 'env>) -> Self {
        Printed { text: String::new(), state, paid: 0 }
    }

    /// Before each value: lists that share their parts are small in memory and endless on paper.
    pub fn pay(&mut self, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            let message = format!("a value is nested deeper than {DEPTH_MAX}");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        if self.text.len() > SIZE_MAX {
            let message = format!("a value is larger than {SIZE_MAX} bytes as text");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        let grown = (self.text.len() - self.paid) / 64;
        self.paid += grown * 64;
        self.state.consume_fuel(1 + grown as u64)
    }
}

fn write_repr(out: &mut Printed, value: &Value, depth: usize) -> Result<(), Error> {
    out.pay(depth)?;
    if let Some(view) = value.downcast_object_ref::<DictView>() {
        out.text.push_str(view.name);
        out.text.push_str("([");
        write_items(out, view.items.iter().cloned(), depth)?;
        out.text.push_str("])");
        return Ok(());
    }
    match value.kind() {
        ValueKind::Undefined => out.text.push_str("Undefined"),
        ValueKind::String => write_string(&mut out.text, value.as_str().unwrap_or_default()),
        ValueKind::Number if !value.is_integer() => {
            let number = f64::try_from(value.clone()).unwrap_or(f64::NAN);
            out.text.push_str(&float_text(number));
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let tuple = value.is_tuple();
            out.text.push(if tuple { '(' } else { '[' });
            write_items(out, value.try_iter()?, depth)?;
            if tuple && value.len() == Some(1) {
                out.text.push(',');
            }
            out.text.push(if tuple { ')' } else { ']' });
        }
        ValueKind::Map => {
            out.text.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                if index > 0 {
                    out.text.push_str(", ");
                }
                write_repr(out, &key, depth + 1)?;
                out.text.push_str(": ");
                write_repr(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.text.push('}');
        }
        _ => {
            let _ = write!(out.text, "{value}"); // None, True, 5, and what only the engine has
        }
    }
    Ok(())
}

fn write_items(
    out: &mut Printed,
    items: impl Iterator<Item = Value>,
    depth: usize,
) -> Result<(), Error> {
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.text.push_str(", ");
        }
        write_repr(out, &item, depth + 1)?;
    }
    Ok(())
}

/// Unlike JSON's, these have names for what is no number.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        "nan".to_string()
    } else if number.is_infinite() {
        if number > 0.0 { "inf" } else { "-inf" }.to_string()
    } else {
        float(number)
    }
}

fn write_string(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = c as u32;
                let _ = match code {
                    0..=0xFF => write!(out, "\\x{code:02x}"),
                    0x100..=0xFFFF => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// Python's str.isprintable of one character. Guards (guard.rs) count as printable: spelt out, the
/// tokenizer could not leave them out again.
pub fn is_printable(c: char) -> bool {
    if (' '..='~').contains(&c) || ('\u{FDD0}'..='\u{FDEF}').contains(&c) {
        return true;
    }
    // Rust's tables of what is printable, without its rule for combining characters, which is for
    // those that begin a text.
    let probe = ['a', c].iter().collect::<String>();
    let mut escaped = probe.escape_debug().skip(1);
    escaped.next() == Some(c) && escaped.next().is_none()
}

/// Python's str.isspace of one character: Unicode's white space and four separators of ASCII.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_as_python_quotes_them() {
        // Right: repr() of the left, Python 3.11.
        let cases = [
            ("plain", "'plain'"),
            ("it's", "\"it's\""),
            ("a\"b'c", "'a\"b\\'c'"),
            ("\\ \n\t\r\0\x1f\x7f", "'\\\\ \\n\\t\\r\\x00\\x1f\\x7f'"),
            ("\u{a0}\u{ad}\u{e9}e\u{301}", "'\\xa0\\xad\u{e9}e\u{301}'"),
            ("\u{200b}\u{2028}\u{feff}\u{1f642}", "'\\u200b\\u2028\\ufeff\u{1f642}'"),
            ("\u{e000}\u{e0001}", "'\\ue000\\U000e0001'"),
        ];
        for (text, expected) in cases {
            let mut out = String::new();
            write_string(&mut out, text);
            assert_eq!(out, expected);
        }
    }
}
