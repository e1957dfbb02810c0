//! `tojson` as Hugging Face defines it: Python's json.dumps(ensure_ascii=False), with its spacing,
//! its floats and its keyword arguments (indent, separators, sort_keys, ensure_ascii). Models were
//! trained on exactly this text.
//!
//! Jinja's own filter escapes for HTML; this one does not.

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Error, State};

use crate::arguments::{invalid, Arguments};
use crate::python_text::{as_float, is_float, DictView, Printed};

struct Style {
    indent: Option<String>, // one level; None: all on one line
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    ensure_ascii: bool,
}

pub fn tojson(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let style = Style::from(&args.into_values())?;
    let mut out = Printed::new(state);
    write_value(&mut out, value, &style, 0)?;
    Ok(Value::from(out.text))
}

impl Style {
    /// In the order of transformers: ensure_ascii, indent, separators, sort_keys.
    fn from(args: &[Value]) -> Result<Style, Error> {
        let mut args = Arguments::new(args)?;
        let ensure_ascii = args.flag("ensure_ascii")?;
        let indent = match args.take("indent")? {
            None => None,
            Some(value) => Some(match value.as_str() {
                Some(text) => text.to_string(),
                None => " ".repeat(i64::try_from(value)?.clamp(0, 64) as usize),
            }),
        };
        let separators = match args.take("separators")? {
            None => None,
            Some(value) => {
                let parts: Vec<String> = value.try_iter()?.map(|v| v.to_string()).collect();
                Some(<[String; 2]>::try_from(parts).map_err(|parts| {
                    invalid(format!("tojson: {} separators, not 2", parts.len()))
                })?)
            }
        };
        let sort_keys = args.flag("sort_keys")?;
        args.finish("tojson")?;
        let [item_separator, key_separator] = separators.unwrap_or_else(|| {
            let item = if indent.is_some() { "," } else { ", " };
            [item.to_string(), ": ".to_string()]
        });
        Ok(Style { indent, item_separator, key_separator, sort_keys, ensure_ascii })
    }
}

fn write_value(out: &mut Printed, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    out.pay(depth)?;
    if let Some(number) = as_float(value).filter(|_| is_float(value)) {
        out.text.push_str(&float(number));
        return Ok(());
    }
    match value.kind() {
        ValueKind::String => write_string(&mut out.text, value.as_str().unwrap_or_default(), style),
        ValueKind::None | ValueKind::Bool | ValueKind::Number => out.text.push_str(&scalar(value)),
        ValueKind::Iterable if value.downcast_object_ref::<DictView>().is_some() => {
            return Err(invalid("tojson: a dict view is not JSON serializable".to_string()));
        }
        ValueKind::Seq | ValueKind::Iterable => write_list(out, value, style, depth)?,
        ValueKind::Map => write_map(out, value, style, depth)?,
        kind => return Err(invalid(format!("tojson: a value of type {kind} has no JSON form"))),
    }
    Ok(())
}

fn scalar(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "null".to_string(),
        ValueKind::Bool => if value.is_true() { "true" } else { "false" }.to_string(),
        _ => value.to_string(), // floats do not come here
    }
}

/// Python's repr of a float: Rust's shortest digits, with "e+16" and "e-05" for exponents.
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_string();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_string();
    }
    let text = format!("{number:?}");
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            let sign = if exponent < 0 { '-' } else { '+' };
            let digits = digits.strip_suffix(".0").unwrap_or(digits);
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}

fn write_string(out: &mut String, text: &str, style: &Style) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            // Guards (guard.rs) stay themselves: spelt out, the tokenizer could not leave them out
            // again.
            '\u{FDD0}'..='\u{FDEF}' => out.push(c),
            c if style.ensure_ascii && !(' '..='~').contains(&c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn write_break(out: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        for _ in 0..depth {
            out.push_str(indent);
        }
    }
}

fn write_list(out: &mut Printed, list: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    out.text.push('[');
    let mut empty = true;
    for item in list.try_iter()? {
        if !empty {
            out.text.push_str(&style.item_separator);
        }
        empty = false;
        write_break(&mut out.text, style, depth + 1);
        write_value(out, &item, style, depth + 1)?;
    }
    if !empty {
        write_break(&mut out.text, style, depth);
    }
    out.text.push(']');
    Ok(())
}

fn write_map(out: &mut Printed, map: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let mut keys: Vec<Value> = map.try_iter()?.collect();
    if style.sort_keys {
        keys.sort();
    }
    out.text.push('{');
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            out.text.push_str(&style.item_separator);
        }
        write_break(&mut out.text, style, depth + 1);
        match key.kind() {
            ValueKind::String => {
                write_string(&mut out.text, key.as_str().unwrap_or_default(), style)
            }
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                write_string(&mut out.text, &scalar(key), style)
            }
            kind => return Err(invalid(format!("tojson: a key of type {kind}"))),
        }
        out.text.push_str(&style.key_separator);
        write_value(out, &map.get_item(key)?, style, depth + 1)?;
    }
    if !keys.is_empty() {
        write_break(&mut out.text, style, depth);
    }
    out.text.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_spelt_as_python_spells_them() {
        // Left: json.dumps of the number on the right, Python 3.11.
        let cases = [
            ("1.0", 1.0),
            ("0.1", 0.1),
            ("1e+16", 1e16),
            ("1000000000000000.0", 1e15),
            ("1e-05", 1e-5),
            ("0.0001", 1e-4),
            ("1.5e-07", 1.5e-7),
            ("1e+100", 1e100),
            ("-0.0", -0.0),
            ("NaN", f64::NAN),
            ("-Infinity", f64::NEG_INFINITY),
            ("1.7976931348623157e+308", f64::MAX),
            ("5e-324", 5e-324),
        ];
        for (expected, number) in cases {
            assert_eq!(float(number), expected);
        }
    }
}
