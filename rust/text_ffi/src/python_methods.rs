//! Methods of str, dict and list as Python has them, for templates that call them.
//!
//! The engine asks here for every method of a value that is not an object of its own; what is not
//! listed goes on to minijinja-contrib (str.format and the like). Methods that would change their
//! value do not exist: `transformers` runs templates in an immutable sandbox. What can make more
//! text than it was given pays for it from the render's fuel first.

use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Tuple, Value, ValueKind};
use minijinja::{Error, State};

use crate::arguments::{invalid, Arguments};
use crate::printf::WIDTH_MAX;
use crate::python_case::{ask, change_case};
use crate::python_text::{is_space, to_repr, DictView};
use crate::time_limit;
use crate::walk::{charge, key};

pub fn call_method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    time_limit::check()?;
    let mut arguments = Arguments::new(args)?;
    let result = match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            state.consume_fuel(text.len() as u64 / 64)?;
            string_method(state, text, method, &mut arguments)?
        }
        ValueKind::Map => dict_method(state, value, method, &mut arguments)?,
        ValueKind::Seq => list_method(state, value, method, &mut arguments)?,
        _ => None,
    };
    match result {
        Some(result) => {
            arguments.finish(method)?;
            Ok(result)
        }
        None => {
            charge(state, value)?;
            args.iter().try_for_each(|argument| charge(state, argument))?;
            if let ("format", Some(text)) = (method, value.as_str()) {
                charge_format(state, text, args)?;
            }
            minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
        }
    }
}

/// str.format(): each field may print all arguments, and no number in one, a width or a precision,
/// may be larger than those of `%`.
fn charge_format(state: &State, text: &str, args: &[Value]) -> Result<(), Error> {
    let mut printed = 0;
    for field in text.split('{').skip(1) {
        let field = field.split('}').next().unwrap_or_default();
        for number in field.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty()) {
            let number = number.parse().unwrap_or(usize::MAX);
            if number > WIDTH_MAX {
                return Err(invalid(format!(
                    "a format with a number of more than {WIDTH_MAX}; the limit is {WIDTH_MAX}"
                )));
            }
            printed += number;
        }
        args.iter().try_for_each(|argument| charge(state, argument))?;
    }
    state.consume_fuel(printed as u64 / 64)
}

/// Whether dicts have a method of this name, which then hides a key of that name from `d.name`.
pub fn is_dict_method(name: &str) -> bool {
    matches!(
        name,
        "clear"
            | "copy"
            | "fromkeys"
            | "get"
            | "items"
            | "keys"
            | "pop"
            | "popitem"
            | "setdefault"
            | "update"
            | "values"
    )
}

/// `d.items` without a call: source.rs turns it into this filter.
pub fn attribute(value: &Value, name: &str) -> Result<Value, Error> {
    // A namespace is a map to the engine, but has only what was put into it.
    let namespace = value.as_object().is_some_and(|o| o.type_name().contains("Namespace"));
    if value.kind() == ValueKind::Map && !namespace {
        return Ok(Value::from_object(BoundMethod { value: value.clone(), name: name.into() }));
    }
    value.get_attr(name)
}

/// A method that was named and not called: true, defined, callable.
#[derive(Debug)]
struct BoundMethod {
    value: Value,
    name: String,
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.value.call_method(state, &self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.name)
    }
}

fn tuple(items: [&str; 3]) -> Value {
    Value::from(Tuple::new(items.into_iter().map(Value::from).collect()))
}

fn string_method(
    state: &State,
    text: &str,
    method: &str,
    args: &mut Arguments,
) -> Result<Option<Value>, Error> {
    let value = match method {
        "strip" | "lstrip" | "rstrip" => {
            let chars = args.text("chars")?;
            Value::from(strip(text, method, chars.as_deref()))
        }
        "split" | "rsplit" => {
            let separator = args.text("sep")?;
            let most = args.number("maxsplit")?.unwrap_or(-1);
            let parts = split(text, separator.as_deref(), most, method == "rsplit")?;
            state.consume_fuel(parts.len() as u64)?;
            parts.into_iter().map(Value::from).collect()
        }
        "splitlines" => {
            let keep = args.take("keepends")?.is_some_and(|keep| keep.is_true());
            let lines = split_lines(text, keep);
            state.consume_fuel(lines.len() as u64)?;
            lines.into_iter().map(Value::from).collect()
        }
        "partition" => {
            let separator = args.needed_text("sep")?;
            match text.split_once(separator.as_str()) {
                Some((before, after)) => tuple([before, &separator, after]),
                None => tuple([text, "", ""]),
            }
        }
        "rpartition" => {
            let separator = args.needed_text("sep")?;
            match text.rsplit_once(separator.as_str()) {
                Some((before, after)) => tuple([before, &separator, after]),
                None => tuple(["", "", text]),
            }
        }
        "removeprefix" => {
            let prefix = args.needed_text("prefix")?;
            Value::from(text.strip_prefix(prefix.as_str()).unwrap_or(text))
        }
        "removesuffix" => {
            let suffix = args.needed_text("suffix")?;
            Value::from(text.strip_suffix(suffix.as_str()).unwrap_or(text))
        }
        "replace" => replace(state, text, args)?,
        "find" | "rfind" | "index" | "rindex" | "count" => search(text, method, args)?,
        "startswith" | "endswith" => begins_or_ends(text, method == "startswith", args)?,
        "join" => join(state, text, args)?,
        "center" | "ljust" | "rjust" | "zfill" => pad(state, text, method, args)?,
        "expandtabs" => {
            let size = args.number("tabsize")?.unwrap_or(8).clamp(0, 1024) as usize;
            let tabs = text.matches('\t').count();
            state.consume_fuel((tabs * size) as u64 / 64)?;
            Value::from(expand_tabs(text, size))
        }
        "encode" => {
            args.text("encoding")?;
            Value::from_bytes(text.as_bytes().to_vec())
        }
        _ => return Ok(change_case(text, method).map(Value::from).or_else(|| ask(text, method))),
    };
    Ok(Some(value))
}

pub fn strip<'a>(text: &'a str, method: &str, chars: Option<&str>) -> &'a str {
    let unwanted = |c: char| match chars {
        Some(chars) => chars.contains(c),
        None => is_space(c),
    };
    match method {
        "lstrip" => text.trim_start_matches(unwanted),
        "rstrip" => text.trim_end_matches(unwanted),
        _ => text.trim_matches(unwanted),
    }
}

fn split<'a>(
    text: &'a str,
    separator: Option<&str>,
    most: i64,
    from_right: bool,
) -> Result<Vec<&'a str>, Error> {
    let most = if most < 0 { usize::MAX - 1 } else { most as usize };
    let Some(separator) = separator else {
        return Ok(split_at_spaces(text, most, from_right));
    };
    if separator.is_empty() {
        return Err(invalid("empty separator".to_string()));
    }
    if !from_right {
        return Ok(text.splitn(most + 1, separator).collect());
    }
    let mut parts: Vec<&str> = text.rsplitn(most + 1, separator).collect();
    parts.reverse();
    Ok(parts)
}

fn split_at_spaces(text: &str, most: usize, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_matches(is_space);
    while !rest.is_empty() {
        let cut = match (parts.len() < most, from_right) {
            (false, _) => None,
            (true, false) => rest.split_once(is_space),
            (true, true) => rest.rsplit_once(is_space).map(|(before, after)| (after, before)),
        };
        let Some((part, others)) = cut else {
            parts.push(rest);
            break;
        };
        parts.push(part);
        rest = others.trim_matches(is_space);
    }
    if from_right {
        parts.reverse();
    }
    parts
}

/// At what Python calls a line boundary.
pub fn split_lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_end = |c: char| {
        matches!(c, '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{1C}'..='\u{1E}' | '\u{85}')
            || matches!(c, '\u{2028}' | '\u{2029}')
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_end) {
        let size = if rest[at..].starts_with("\r\n") {
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        lines.push(&rest[..if keep_ends { at + size } else { at }]);
        rest = &rest[at + size..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn replace(state: &State, text: &str, args: &mut Arguments) -> Result<Value, Error> {
    let (old, new) = (args.needed_text("old")?, args.needed_text("new")?);
    let most = args.number("count")?.filter(|&count| count >= 0);
    let most = most.map_or(usize::MAX, |count| count as usize);
    let found = if old.is_empty() { text.len() + 1 } else { text.len() / old.len() }.min(most);
    state.consume_fuel(found.saturating_mul(new.len().saturating_sub(old.len())) as u64 / 64)?;
    Ok(Value::from(text.replacen(old.as_str(), &new, most)))
}

/// The part of `text` that [start:end] names, and how many characters precede it; None: start is
/// beyond the end.
fn window<'a>(text: &'a str, args: &mut Arguments) -> Result<Option<(&'a str, usize)>, Error> {
    let (start, end) = (args.number("start")?, args.number("end")?);
    if start.is_none() && end.is_none() {
        return Ok(Some((text, 0)));
    }
    let size = text.chars().count() as i64;
    let place = |index: i64| if index < 0 { (size + index).max(0) } else { index };
    let start = place(start.unwrap_or(0));
    let end = place(end.unwrap_or(size)).min(size);
    if start > end {
        return Ok(None);
    }
    let byte = |index: i64| text.char_indices().nth(index as usize).map_or(text.len(), |(b, _)| b);
    Ok(Some((&text[byte(start)..byte(end)], start as usize)))
}

fn search(text: &str, method: &str, args: &mut Arguments) -> Result<Value, Error> {
    let wanted = args.needed_text("sub")?;
    let window = window(text, args)?;
    if method == "count" {
        return Ok(Value::from(window.map_or(0, |(part, _)| part.matches(&wanted).count())));
    }
    let found = window.and_then(|(part, before)| {
        let at = if method.starts_with('r') { part.rfind(&wanted) } else { part.find(&wanted) };
        at.map(|at| before + part[..at].chars().count())
    });
    match found {
        Some(index) => Ok(Value::from(index)),
        None if method.ends_with("find") => Ok(Value::from(-1)),
        None => Err(invalid("substring not found".to_string())),
    }
}

fn begins_or_ends(text: &str, begins: bool, args: &mut Arguments) -> Result<Value, Error> {
    let wanted = args.take("prefix")?.unwrap_or_default();
    let Some((part, _)) = window(text, args)? else { return Ok(Value::from(false)) };
    let matches = |wanted: &Value| match wanted.as_str() {
        Some(wanted) if begins => Ok(part.starts_with(wanted)),
        Some(wanted) => Ok(part.ends_with(wanted)),
        None => Err(invalid(format!("startswith and endswith need str, not {}", wanted.kind()))),
    };
    if wanted.kind() != ValueKind::Seq {
        return matches(&wanted).map(Value::from);
    }
    for one in wanted.try_iter()? {
        if matches(&one)? {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

fn join(state: &State, separator: &str, args: &mut Arguments) -> Result<Value, Error> {
    let items = args.take("iterable")?.unwrap_or_default();
    let mut out = String::new();
    for (index, item) in items.try_iter()?.enumerate() {
        let Some(text) = item.as_str() else {
            return Err(invalid(format!(
                "sequence item {index}: expected str instance, {} found",
                item.kind()
            )));
        };
        state.consume_fuel(1 + (separator.len() + text.len()) as u64 / 64)?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Value::from(out))
}

fn pad(state: &State, text: &str, method: &str, args: &mut Arguments) -> Result<Value, Error> {
    let width = args.number("width")?.unwrap_or(0).max(0) as usize;
    let fill = match method {
        "zfill" => "0".to_string(),
        _ => args.text("fillchar")?.unwrap_or_else(|| " ".to_string()),
    };
    if fill.chars().count() != 1 {
        return Err(invalid("the fill character must be exactly one character long".to_string()));
    }
    let missing = width.saturating_sub(text.chars().count());
    state.consume_fuel(missing.saturating_mul(fill.len()) as u64 / 64)?;
    Ok(Value::from(match method {
        "ljust" => format!("{text}{}", fill.repeat(missing)),
        "rjust" => format!("{}{text}", fill.repeat(missing)),
        "zfill" => {
            let signed = text.starts_with(['+', '-']);
            let (sign, digits) = text.split_at(usize::from(signed));
            format!("{sign}{}{digits}", fill.repeat(missing))
        }
        _ => centered(text, missing, width, &fill),
    }))
}

/// Python's str.center puts the odd character left where the width is odd, else right.
pub fn centered(text: &str, missing: usize, width: usize, fill: &str) -> String {
    let left = missing / 2 + (missing & width & 1);
    format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left))
}

fn expand_tabs(text: &str, size: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let step = size - column % size;
                out.push_str(&" ".repeat(step));
                column += step;
            }
            '\t' => {}
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    out
}

fn dict_method(
    state: &State,
    value: &Value,
    method: &str,
    args: &mut Arguments,
) -> Result<Option<Value>, Error> {
    state.consume_fuel(value.len().filter(|_| method != "get").unwrap_or(0) as u64 / 4)?;
    let view = |name: &'static str, items: Vec<Value>| Value::from_object(DictView { name, items });
    Ok(Some(match method {
        "keys" => view("dict_keys", value.try_iter()?.collect()),
        "values" => {
            let items: Result<_, _> = value.try_iter()?.map(|key| value.get_item(&key)).collect();
            view("dict_values", items?)
        }
        "items" => {
            let pair = |key: Value| {
                let item = value.get_item(&key)?;
                Ok(Value::from(Tuple::new(vec![key, item])))
            };
            let items: Result<_, Error> = value.try_iter()?.map(pair).collect();
            view("dict_items", items?)
        }
        "get" => {
            let key = key(state, &args.any("key")?)?;
            let fallback = args.take("default")?;
            let found = value.as_object().and_then(|object| object.get_value(&key));
            found.or(fallback).unwrap_or_else(|| Value::from(()))
        }
        "copy" => value.clone(),
        _ => return Ok(None),
    }))
}

fn list_method(
    state: &State,
    value: &Value,
    method: &str,
    args: &mut Arguments,
) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "index" => {
            let wanted = args.any("value")?;
            charge(state, value)?;
            charge(state, &wanted)?;
            match value.try_iter()?.position(|item| item == wanted) {
                Some(index) => Value::from(index),
                None => {
                    return Err(invalid(format!("{} is not in list", to_repr(state, &wanted)?)))
                }
            }
        }
        "copy" => value.clone(),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_python_says() {
        assert_eq!(split_lines("a\r\nb\u{2028}c\n", false), ["a", "b", "c"]);
        assert_eq!(split_lines("a\r\nb\n\n", true), ["a\r\n", "b\n", "\n"]);
        assert!(split_lines("", false).is_empty());
    }

    #[test]
    fn splits_are_counted_from_the_side_that_was_asked_for() {
        assert_eq!(split("a,b,c", Some(","), 1, true).unwrap(), ["a,b", "c"]);
        assert_eq!(split("  a  b c ", None, 1, false).unwrap(), ["a", "b c"]);
        assert_eq!(split("  a  b c ", None, 1, true).unwrap(), ["a  b", "c"]);
        assert_eq!(split("", None, -1, false).unwrap(), Vec::<&str>::new());
        assert!(split("a", Some(""), -1, false).is_err());
    }
}
