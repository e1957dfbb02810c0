//! Values that the engine is about to walk, walked first at the render's expense.
//!
//! The engine charges fuel for the first level of what it compares, sorts, hashes or prints, and
//! not for what is below. `[x, x, x]` forty times over is a few hundred bytes and 3^40 items: so
//! source_expression.rs sends what is walked through here, and a value that is too much for the
//! fuel that is left ends the render before the engine sees it.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value, ValueKind};
use minijinja::{Environment, Error, State};

use crate::arguments::invalid;
use crate::time_limit;

/// Filters that source_expression.rs writes into templates.
pub const GUARDED: &str = "pacer_guarded";
pub const KEY: &str = "pacer_key";
pub const LISTED: &str = "pacer_listed";

/// Some 50 ns each; one unit of fuel is some 200 ns of the engine's own work.
const ITEMS_PER_FUEL: u64 = 4;
const BYTES_PER_FUEL: u64 = 64;
/// Of a list that is made anew and shares its items with others.
const SLOTS_PER_FUEL: usize = 8;

pub fn add_to(environment: &mut Environment) {
    environment.add_filter(GUARDED, guarded);
    environment.add_filter(KEY, key);
    environment.add_filter(LISTED, listed);
}

fn guarded(state: &State, value: &Value) -> Result<Value, Error> {
    charge(state, value)?;
    Ok(value.clone())
}

/// What is looked up in a dict or list, or becomes a key of one. As in Python, no list and no dict
/// is; a tuple is walked for its hash.
pub fn key(state: &State, value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Map => Err(invalid("unhashable type: 'dict'".to_string())),
        ValueKind::Seq | ValueKind::Iterable if !value.is_tuple() => {
            Err(invalid("unhashable type: 'list'".to_string()))
        }
        _ => guarded(state, value),
    }
}

/// A slice of a list as a list.
fn listed(state: &State, value: &Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Iterable {
        return Ok(value.clone());
    }
    let mut items = Vec::new();
    for item in value.try_iter()? {
        if items.len() % SLOTS_PER_FUEL == 0 {
            state.consume_fuel(1)?;
        }
        items.push(item);
    }
    Ok(Value::from_object(List(items)))
}

/// A list that is ours. The engine would charge half a unit for each item of its own, which is too
/// much where a template gathers a long chat item by item.
#[derive(Debug)]
struct List(Vec<Value>);

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

/// Of `size` items, charged before they are made.
pub fn make_list(
    state: &State,
    size: usize,
    items: impl Iterator<Item = Value>,
) -> Result<Value, Error> {
    state.consume_fuel((1 + size / SLOTS_PER_FUEL) as u64)?;
    Ok(Value::from_object(List(items.collect())))
}

/// Takes what it costs to walk the whole of `value` from the fuel that is left.
pub fn charge(state: &State, value: &Value) -> Result<(), Error> {
    let mut meter = Meter { state, items: 0 };
    if !meter.is_container(value)? {
        return Ok(());
    }
    time_limit::check()?;
    let mut open = vec![value.clone()];
    while let Some(container) = open.pop() {
        let is_map = container.kind() == ValueKind::Map;
        for item in container.try_iter()? {
            if is_map {
                let below = container.get_item(&item)?;
                if meter.is_container(&below)? {
                    open.push(below);
                }
            }
            if meter.is_container(&item)? {
                open.push(item);
            }
        }
    }
    Ok(())
}

struct Meter<'a, 'template, 'env> {
    state: &'a State<'template, 'env>,
    items: u64,
}

impl Meter<'_, '_, '_> {
    /// Pays for one value itself.
    fn is_container(&mut self, value: &Value) -> Result<bool, Error> {
        self.items += 1;
        if self.items % ITEMS_PER_FUEL == 0 {
            self.state.consume_fuel(1)?;
        }
        match value.kind() {
            ValueKind::String => {
                let size = value.as_str().map_or(0, str::len) as u64;
                if size >= BYTES_PER_FUEL {
                    self.state.consume_fuel(size / BYTES_PER_FUEL)?;
                }
                Ok(false)
            }
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => Ok(true),
            _ => Ok(false),
        }
    }
}
