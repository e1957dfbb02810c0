//! Python's `+`, `*` and Jinja's `~`, which source_expression.rs turns into these filters (`%` is
//! in printf.rs).
//!
//! The engine's own make lists that only remember their parts, and are gone through again each time
//! they are looked at: doubled forty times, such a list is short to write and endless to count.
//! These make real lists, and pay for them first.

use minijinja::value::{Rest, Tuple, Value, ValueKind};
use minijinja::{Environment, Error, State};

use crate::arguments::invalid;
use crate::python_text::{as_float, float_value, is_float, to_text};
use crate::walk::make_list;

/// Filters that source_expression.rs writes into templates.
pub const ADD: &str = "pacer_add";
pub const MULTIPLY: &str = "pacer_multiply";
pub const CONCAT: &str = "pacer_concat";

pub fn add_to(environment: &mut Environment) {
    environment.add_filter(ADD, add);
    environment.add_filter(MULTIPLY, multiply);
    environment.add_filter(CONCAT, concat);
}

pub fn add(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        return joined(state, &[left, right]);
    }
    if is_list(left) && is_list(right) && left.is_tuple() == right.is_tuple() {
        let size = left.len().unwrap_or(0) + right.len().unwrap_or(0);
        return list_of(state, left.is_tuple(), size, left.try_iter()?.chain(right.try_iter()?));
    }
    match numbers(left, right) {
        Some(Numbers::Whole(a, b)) => match a.checked_add(b) {
            Some(sum) => Ok(Value::from(sum)),
            None => Err(invalid(format!("{a} + {b} is too large"))),
        },
        Some(Numbers::Real(a, b)) => Ok(float_value(a + b)),
        None => Err(no_operator("+", left, right)),
    }
}

fn multiply(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    let (repeated, count) = match whole(left) {
        Some(count) => (right, Some(count)),
        None => (left, whole(right)),
    };
    if let Some(count) = count {
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        if let Some(text) = repeated.as_str() {
            state.consume_fuel(text.len().saturating_mul(count) as u64 / 64)?;
            return Ok(Value::from(text.repeat(count)));
        }
        if is_list(repeated) {
            let items: Vec<Value> = repeated.try_iter()?.collect();
            let size = items.len().saturating_mul(count);
            // Cut short by what it costs, long before it is as long as this.
            state.consume_fuel(size as u64 / 2)?;
            let all = (0..if items.is_empty() { 0 } else { count }).flat_map(|_| items.clone());
            return list_of(state, repeated.is_tuple(), size, all);
        }
    }
    match numbers(left, right) {
        Some(Numbers::Whole(a, b)) => match a.checked_mul(b) {
            Some(product) => Ok(Value::from(product)),
            None => Err(invalid(format!("{a} * {b} is too large"))),
        },
        Some(Numbers::Real(a, b)) => Ok(float_value(a * b)),
        None => Err(no_operator("*", left, right)),
    }
}

/// `first ~ rest[0] ~ rest[1] ...`.
fn concat(state: &State, first: &Value, rest: Rest<Value>) -> Result<Value, Error> {
    let mut out = String::new();
    for value in std::iter::once(first).chain(rest.iter()) {
        match value.as_str() {
            Some(text) => {
                state.consume_fuel(text.len() as u64 / 64)?;
                out.push_str(text);
            }
            None => out.push_str(&to_text(state, value)?),
        }
    }
    Ok(Value::from(out))
}

fn joined(state: &State, parts: &[&str]) -> Result<Value, Error> {
    state.consume_fuel(parts.iter().map(|part| part.len()).sum::<usize>() as u64 / 64)?;
    Ok(Value::from(parts.concat()))
}

fn list_of(
    state: &State,
    is_tuple: bool,
    size: usize,
    items: impl Iterator<Item = Value>,
) -> Result<Value, Error> {
    if is_tuple {
        state.consume_fuel(size as u64 / 2)?;
        return Ok(Value::from(Tuple::new(items.collect())));
    }
    make_list(state, size, items)
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

enum Numbers {
    Whole(i128, i128),
    Real(f64, f64),
}

fn numbers(left: &Value, right: &Value) -> Option<Numbers> {
    if let (Some(a), Some(b)) = (whole(left), whole(right)) {
        return Some(Numbers::Whole(a, b));
    }
    Some(Numbers::Real(as_float(left)?, as_float(right)?))
}

/// As in Python, true is 1.
fn whole(value: &Value) -> Option<i128> {
    let is_number = matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    (is_number && !is_float(value)).then(|| i128::try_from(value.clone()).ok()).flatten()
}

fn no_operator(operator: &str, left: &Value, right: &Value) -> Error {
    invalid(format!("there is no {} {operator} {}", left.kind(), right.kind()))
}
