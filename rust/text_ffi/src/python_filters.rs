//! Filters, functions and tests of Jinja2 where the engine's own differ from them or are missing.

use std::sync::Arc;

use minijinja::value::{
    Enumerator, Kwargs, Object, ObjectRepr, Rest, Tuple, Value, ValueKind, ValueOrKwargs,
};
use minijinja::{Environment, Error, State};

use crate::arguments::{invalid, Arguments};
use crate::printf::{format, modulo, parse_float, parse_int};
use crate::python_case::capitalize;
use crate::python_json::tojson;
use crate::python_methods::{attribute, centered, split_lines, strip};
use crate::python_operators::{self, add};
use crate::python_text::{as_float, escaped, float_value, is_float, to_text};
use crate::time_limit;
use crate::walk::{self, make_list};

/// Names that source.rs writes into templates; no template can name them by accident.
pub const MODULO: &str = "pacer_modulo";
pub const ATTRIBUTE: &str = "pacer_attribute";
pub const ITERABLE: &str = "pacer_iterable";
pub const TICK: &str = "pacer_tick";

pub fn add_to(environment: &mut Environment) {
    environment.add_filter(MODULO, modulo);
    environment.add_filter(ATTRIBUTE, attribute);
    environment.add_filter(ITERABLE, iterable);
    environment.add_filter(TICK, tick);
    python_operators::add_to(environment);
    walk::add_to(environment);
    environment.add_filter("tojson", tojson);
    environment.add_filter("format", format);
    environment.add_filter("string", to_text);
    environment.add_filter("trim", trim);
    environment.add_filter("capitalize", |state: &State, value: &Value| {
        to_text(state, value).map(|text| capitalize(&text))
    });
    environment.add_filter("indent", indent);
    environment.add_filter("int", int);
    environment.add_filter("float", to_float);
    environment.add_filter("join", join);
    environment.add_filter("escape", escape);
    environment.add_filter("e", escape);
    environment.add_filter("forceescape", escape);
    environment.add_filter("wordcount", word_count);
    environment.add_filter("center", center);
    environment.add_filter("truncate", truncate);
    environment.add_filter("dictsort", dictsort);
    environment.add_filter("reverse", reverse);
    environment.add_filter("sum", sum);
    environment.add_function("dict", dict);
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_test("callable", is_callable);
    environment.add_test("lower", is_lower);
    environment.add_test("upper", is_upper);
    environment.add_test("float", is_float);
    environment.add_test("number", |value: &Value| {
        is_float(value) || matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
    });
}

/// What a loop walks, looking at the time at every turn. None is refused; text becomes its
/// characters, so that the loop knows how many there are.
fn iterable(state: &State, value: &Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        state.consume_fuel(text.len() as u64 / 16)?;
        let characters: Vec<Value> = text.chars().map(Value::from).collect();
        return Ok(Value::from_object(Timed(Value::from(characters))));
    }
    if value.is_none() {
        return Err(invalid("'NoneType' object is not iterable".to_string()));
    }
    Ok(match value.len() {
        Some(_) => Value::from_object(Timed(value.clone())),
        None => value.clone(), // undefined, or what the engine refuses itself
    })
}

/// The items of a value with a length, as long as there is time.
#[derive(Debug)]
struct Timed(Value);

impl Object for Timed {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let Ok(items) = self.0.try_iter() else { return Enumerator::Empty };
        let timed = items.map(|item| match time_limit::check() {
            Ok(()) => item,
            Err(error) => Value::from(error),
        });
        Enumerator::Iter(Box::new(timed))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.0.len()
    }
}

/// At the beginning of every macro.
fn tick(value: &Value) -> Result<Value, Error> {
    time_limit::check().map(|()| value.clone())
}

/// Python's str.islower and str.isupper.
fn is_lower(state: &State, value: &Value) -> Result<bool, Error> {
    let text = to_text(state, value)?;
    state.consume_fuel(text.len() as u64 / 16)?;
    let has_other = text.chars().any(char::is_uppercase);
    Ok(!has_other && text.chars().any(char::is_lowercase))
}

fn is_upper(state: &State, value: &Value) -> Result<bool, Error> {
    let text = to_text(state, value)?;
    state.consume_fuel(text.len() as u64 / 16)?;
    let has_other = text.chars().any(char::is_lowercase);
    Ok(!has_other && text.chars().any(char::is_uppercase))
}

fn trim(state: &State, value: &Value, chars: Option<String>) -> Result<String, Error> {
    Ok(strip(&to_text(state, value)?, "strip", chars.as_deref()).to_string())
}

fn indent(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let mut args = Arguments::new(&args)?;
    let width = args.take("width")?.unwrap_or_else(|| Value::from(4));
    let (first, blank) = (args.flag("first")?, args.flag("blank")?);
    args.finish("indent")?;

    let text = to_text(state, value)? + "\n"; // as Jinja2: an end of line at the end stays one
    let lines = split_lines(&text, false);
    let indentation = match width.as_str() {
        Some(text) => text.to_string(),
        None => {
            let width = i64::try_from(width)?.max(0) as usize;
            state.consume_fuel(width as u64 / 64)?;
            " ".repeat(width)
        }
    };
    state.consume_fuel((indentation.len().saturating_mul(lines.len()) + text.len()) as u64 / 64)?;
    let mut out = if first { indentation.clone() } else { String::new() };
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push('\n');
            if blank || !line.is_empty() {
                out.push_str(&indentation);
            }
        }
        out.push_str(line);
    }
    Ok(out)
}

fn int(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Arguments::new(&args)?;
    let default = args.take("default")?.unwrap_or_else(|| Value::from(0));
    let base = args.number("base")?.unwrap_or(10);
    args.finish("int")?;
    let base = u32::try_from(base).unwrap_or(0);
    if !(2..=36).contains(&base) {
        return Err(invalid(format!("int: base {base} is not in [2, 36]")));
    }
    if let Some(text) = value.as_str() {
        let number = parse_int(text, base).or_else(|| {
            parse_float(text).filter(|number| number.is_finite()).map(|number| number as i128)
        });
        return Ok(number.map_or(default, Value::from));
    }
    if is_float(value) {
        let number = as_float(value).filter(|number| number.is_finite());
        return Ok(number.map_or(default, |number| Value::from(number as i128)));
    }
    Ok(i128::try_from(value.clone()).map_or(default, Value::from))
}

fn to_float(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Arguments::new(&args)?;
    let default = args.take("default")?.unwrap_or_else(|| Value::from(0.0));
    args.finish("float")?;
    let number = match value.as_str() {
        Some(text) => parse_float(text),
        None => as_float(value),
    };
    Ok(number.map_or(default, float_value))
}

fn join(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let mut args = Arguments::new(&args)?;
    let (separator, attribute) = (args.take("d")?, args.take("attribute")?);
    args.finish("join")?;
    let separator = separator.map_or(Ok(String::new()), |text| to_text(state, &text))?;
    let mut out = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        let item = match &attribute {
            Some(path) => at_path(&item, path),
            None => item,
        };
        let text = to_text(state, &item)?;
        state.consume_fuel(1 + (separator.len() + text.len()) as u64 / 64)?;
        if index > 0 {
            out.push_str(&separator);
        }
        out.push_str(&text);
    }
    Ok(out)
}

/// "a.b.0", as the attribute of map, join and groupby; undefined where there is none.
fn at_path(item: &Value, path: &Value) -> Value {
    let Some(path) = path.as_str() else { return item.get_item(path).unwrap_or_default() };
    path.split('.').fold(item.clone(), |item, name| match name.parse::<usize>() {
        Ok(index) => item.get_item_by_index(index).unwrap_or_default(),
        Err(_) => item.get_attr(name).unwrap_or_default(),
    })
}

/// What it returns counts as safe.
fn escape(state: &State, value: &Value) -> Result<Value, Error> {
    let text = to_text(state, value)?;
    state.consume_fuel(text.len() as u64 / 16)?;
    Ok(Value::from_safe_string(escaped(&text)))
}

fn word_count(state: &State, value: &Value) -> Result<usize, Error> {
    let text = to_text(state, value)?;
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    Ok(words.by_ref().filter(|word| !word.is_empty()).count())
}

fn center(state: &State, value: &Value, width: Option<usize>) -> Result<String, Error> {
    let (text, width) = (to_text(state, value)?, width.unwrap_or(80));
    let missing = width.saturating_sub(text.chars().count());
    state.consume_fuel(missing as u64 / 64)?;
    Ok(centered(&text, missing, width, " "))
}

fn truncate(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let mut args = Arguments::new(&args)?;
    let length = args.number("length")?.unwrap_or(255).max(0) as usize;
    let kill_words = args.flag("killwords")?;
    let end = args.text("end")?.unwrap_or_else(|| "...".to_string());
    let leeway = args.number("leeway")?.unwrap_or(5).max(0) as usize;
    args.finish("truncate")?;
    let text = to_text(state, value)?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let room = length.saturating_sub(end.chars().count());
    let cut: String = text.chars().take(room).collect();
    let whole_words = match kill_words {
        true => &cut,
        false => cut.rsplit_once(' ').map_or(cut.as_str(), |(before, _)| before),
    };
    Ok(format!("{whole_words}{end}"))
}

/// Pairs in the order of their keys, letters without regard to case unless asked.
fn dictsort(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Arguments::new(&args)?;
    let case_sensitive = args.flag("case_sensitive")?;
    let by = args.text("by")?.unwrap_or_else(|| "key".to_string());
    let reverse = args.flag("reverse")?;
    args.finish("dictsort")?;
    let place = match by.as_str() {
        "key" => 0,
        "value" => 1,
        _ => return Err(invalid("dictsort: by must be 'key' or 'value'".to_string())),
    };
    let mut pairs = Vec::new();
    for key in value.try_iter()? {
        let item = value.get_item(&key)?;
        pairs.push([key, item]);
    }
    state.consume_fuel(pairs.len() as u64)?;
    pairs.sort_by_cached_key(|pair| match pair[place].as_str() {
        Some(text) if !case_sensitive => Value::from(text.to_lowercase()),
        _ => pair[place].clone(),
    });
    if reverse {
        pairs.reverse();
    }
    Ok(pairs.into_iter().map(|pair| Value::from(Tuple::new(pair.to_vec()))).collect())
}

fn reverse(state: &State, value: &Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        state.consume_fuel(text.len() as u64 / 16)?;
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items: Vec<Value> = value.try_iter()?.collect();
    items.reverse();
    make_list(state, items.len(), items.into_iter())
}

fn sum(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Arguments::new(&args)?;
    let attribute = args.take("attribute")?;
    let start = args.take("start")?.unwrap_or_else(|| Value::from(0));
    args.finish("sum")?;
    value.try_iter()?.try_fold(start, |total, item| {
        state.consume_fuel(1)?;
        match &attribute {
            Some(path) => add(state, &total, &at_path(&item, path)),
            None => add(state, &total, &item),
        }
    })
}

/// dict(), dict(other), dict(pairs), each with more by keyword.
fn dict(state: &State, from: Option<Value>, more: Kwargs) -> Result<Value, Error> {
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    match from {
        None => {}
        Some(map) if map.kind() == ValueKind::Map => {
            for key in map.try_iter()? {
                let item = map.get_item(&key)?;
                pairs.push((key, item));
            }
        }
        Some(list) => {
            for pair in list.try_iter()? {
                if pair.len() != Some(2) {
                    return Err(invalid("dict: every item must be a pair".to_string()));
                }
                let key = walk::key(state, &pair.get_item_by_index(0)?)?;
                pairs.push((key, pair.get_item_by_index(1)?));
            }
        }
    }
    for name in more.args() {
        pairs.push((Value::from(name), more.get::<Value>(name)?));
    }
    Ok(Value::from_pairs(pairs))
}

/// As Python sees it: templates tell content that is none from content in parts by it.
fn is_iterable(value: &Value) -> bool {
    use ValueKind::*;
    matches!(value.kind(), String | Seq | Map | Iterable | Undefined)
}

/// Has a length and an order: for Python that is true of text and of dicts too.
fn is_sequence(value: &Value) -> bool {
    use ValueKind::*;
    matches!(value.kind(), String | Seq | Map | Undefined)
}

fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain && !is_float(value)
}
