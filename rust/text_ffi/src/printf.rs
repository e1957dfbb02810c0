//! Python's `%` operator: text formatted the printf way, and the remainder of numbers.
//!
//! The engine has no `%` for strings; source.rs turns the operator into the filter `modulo` below.

use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{Error, State};

use crate::arguments::invalid;
use crate::python_text::{as_float, is_float, to_repr, to_text};

/// Of one field, and of the digits after the point. Rust's own formatter panics above 65,535.
pub const WIDTH_MAX: usize = 4096;

/// `a % b`.
pub fn modulo(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    if let Some(format) = left.as_str() {
        return printf(state, format, right).map(Value::from);
    }
    if let (false, false, Ok(a), Ok(b)) = (
        is_float(left),
        is_float(right),
        i128::try_from(left.clone()),
        i128::try_from(right.clone()),
    ) {
        if b == 0 {
            return Err(invalid("integer modulo by zero".to_string()));
        }
        let rest = a.wrapping_rem(b);
        return Ok(Value::from(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }));
    }
    match (as_float(left), as_float(right)) {
        (Some(_), Some(0.0)) => Err(invalid("float modulo by zero".to_string())),
        (Some(a), Some(b)) => {
            let rest = a % b;
            Ok(Value::from(if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }))
        }
        _ => Err(invalid(format!("there is no {} % {}", left.kind(), right.kind()))),
    }
}

/// The filter `format`: "%s"|format(x).
pub fn format(state: &State, format: &str, args: Rest<Value>) -> Result<String, Error> {
    let only_map = args.len() == 1 && args[0].kind() == ValueKind::Map;
    if only_map {
        return printf(state, format, &args[0]);
    }
    printf(state, format, &Value::from(minijinja::value::Tuple::new(args.to_vec())))
}

#[derive(Default)]
struct Spec {
    minus: bool,
    plus: bool,
    space: bool,
    zero: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// What is left to print: a tuple's items one after the other, or one value.
struct Arguments {
    items: Vec<Value>,
    next: usize,
    whole: Value,
}

impl Arguments {
    fn take(&mut self) -> Result<Value, Error> {
        let item = self.items.get(self.next).cloned();
        self.next += 1;
        item.ok_or_else(|| invalid("not enough arguments for format string".to_string()))
    }
}

fn printf(state: &State, format: &str, arguments: &Value) -> Result<String, Error> {
    let items = if arguments.is_tuple() {
        arguments.try_iter()?.collect()
    } else {
        vec![arguments.clone()]
    };
    let mut arguments = Arguments { items, next: 0, whole: arguments.clone() };
    let mut out = String::new();
    let mut used_key = false;
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut named = None;
        if chars.next_if_eq(&'(').is_some() {
            let key: String = chars.by_ref().take_while(|&c| c != ')').collect();
            named = Some(arguments.whole.get_item(&Value::from(key))?);
            used_key = true;
        }
        let spec = read_spec(&mut chars, &mut arguments)?;
        let kind = chars.next().ok_or_else(|| invalid("incomplete format".to_string()))?;
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = match named {
            Some(value) => value,
            None => arguments.take()?,
        };
        let before = out.len();
        out.push_str(&field(state, kind, &spec, &value)?);
        state.consume_fuel(1 + (out.len() - before) as u64 / 64)?;
    }
    let is_map = arguments.whole.kind() == ValueKind::Map;
    if !used_key && !is_map && arguments.next < arguments.items.len() {
        return Err(invalid("not all arguments converted during string formatting".to_string()));
    }
    Ok(out)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn read_spec(chars: &mut Chars, arguments: &mut Arguments) -> Result<Spec, Error> {
    let mut spec = Spec::default();
    while let Some(flag) = chars.next_if(|c| "-+ 0#".contains(*c)) {
        match flag {
            '-' => spec.minus = true,
            '+' => spec.plus = true,
            ' ' => spec.space = true,
            '0' => spec.zero = true,
            _ => spec.alternate = true,
        }
    }
    let width = read_number(chars, arguments)?;
    spec.minus |= width < 0;
    spec.width = width.unsigned_abs() as usize;
    if chars.next_if_eq(&'.').is_some() {
        spec.precision = Some(read_number(chars, arguments)?.max(0) as usize);
    }
    while chars.next_if(|c| "hlL".contains(*c)).is_some() {}
    let widest = spec.width.max(spec.precision.unwrap_or(0));
    if widest > WIDTH_MAX {
        return Err(invalid(format!("a format width of {widest}; the limit is {WIDTH_MAX}")));
    }
    Ok(spec)
}

fn read_number(chars: &mut Chars, arguments: &mut Arguments) -> Result<i64, Error> {
    if chars.next_if_eq(&'*').is_some() {
        return i64::try_from(arguments.take()?);
    }
    let mut number = 0i64;
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        number = (number * 10 + i64::from(digit as u8 - b'0')).min(1 << 32);
    }
    Ok(number)
}

fn field(state: &State, kind: char, spec: &Spec, value: &Value) -> Result<String, Error> {
    let text = match kind {
        's' | 'r' | 'a' => {
            let text = if kind == 's' { to_text(state, value)? } else { to_repr(state, value)? };
            match spec.precision {
                Some(longest) => text.chars().take(longest).collect(),
                None => text,
            }
        }
        'c' => match value.as_str() {
            Some(text) => text.to_string(),
            None => u32::try_from(value.clone())
                .ok()
                .and_then(char::from_u32)
                .map(String::from)
                .ok_or_else(|| invalid("%c requires int or char".to_string()))?,
        },
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => return integer_field(kind, spec, value),
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => return float_field(kind, spec, value),
        other => return Err(invalid(format!("unsupported format character '{other}'"))),
    };
    Ok(padded("", &text, &Spec { zero: false, ..*spec }))
}

fn sign(negative: bool, spec: &Spec) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, _, _) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

fn integer_field(kind: char, spec: &Spec, value: &Value) -> Result<String, Error> {
    let whole = match (is_float(value), as_float(value)) {
        (true, Some(number)) if "diu".contains(kind) => Some(number.trunc() as i128),
        (true, _) => None,
        _ => i128::try_from(value.clone()).ok(),
    };
    let number = whole.ok_or_else(|| {
        invalid(format!("%{kind} format: a real number is required, not {}", value.kind()))
    })?;
    let size = number.unsigned_abs();
    let (prefix, digits) = match kind {
        'x' => ("0x", format!("{size:x}")),
        'X' => ("0X", format!("{size:X}")),
        'o' => ("0o", format!("{size:o}")),
        _ => ("", size.to_string()),
    };
    let digits = format!("{digits:0>width$}", width = spec.precision.unwrap_or(0));
    let prefix = if spec.alternate { prefix } else { "" };
    Ok(padded(&format!("{}{prefix}", sign(number < 0, spec)), &digits, spec))
}

fn float_field(kind: char, spec: &Spec, value: &Value) -> Result<String, Error> {
    let number = as_float(value)
        .ok_or_else(|| invalid(format!("must be real number, not {}", value.kind())))?;
    let precision = spec.precision.unwrap_or(6);
    let size = number.abs();
    let mut text = if !number.is_finite() {
        if number.is_nan() { "nan" } else { "inf" }.to_string()
    } else {
        match kind.to_ascii_lowercase() {
            'f' => format!("{size:.precision$}"),
            'e' => exponent_text(size, precision),
            _ => general_text(size, precision.max(1), spec.alternate),
        }
    };
    if kind.is_ascii_uppercase() {
        text.make_ascii_uppercase();
    }
    Ok(padded(sign(number.is_sign_negative() && !number.is_nan(), spec), &text, spec))
}

/// 1.50e+00: at least two digits of exponent, always signed.
fn exponent_text(size: f64, precision: usize) -> String {
    let text = format!("{size:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// %g: the shorter of the two, without zeros at the end.
fn general_text(size: f64, precision: usize, keep_zeros: bool) -> String {
    let scientific = exponent_text(size, precision - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') && !keep_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if power < -4 || power >= precision as i32 {
        return format!("{}e{exponent}", without_zeros(digits));
    }
    let after_point = (precision as i32 - 1 - power).max(0) as usize;
    without_zeros(&format!("{size:.after_point$}"))
}

fn padded(sign: &str, text: &str, spec: &Spec) -> String {
    let size = sign.chars().count() + text.chars().count();
    let missing = spec.width.saturating_sub(size);
    if spec.minus {
        format!("{sign}{text}{}", " ".repeat(missing))
    } else if spec.zero {
        format!("{sign}{}{text}", "0".repeat(missing))
    } else {
        format!("{}{sign}{text}", " ".repeat(missing))
    }
}

/// Python's `int(text, base)`: white space, a sign, underscores between digits.
pub fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim_matches(crate::python_text::is_space);
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let digits = match base {
        16 => lower.strip_prefix("0x").unwrap_or(&lower),
        8 => lower.strip_prefix("0o").unwrap_or(&lower),
        2 => lower.strip_prefix("0b").unwrap_or(&lower),
        _ => &lower,
    };
    let plain = digits.replace('_', "");
    let lonely = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    if lonely || plain.starts_with(['+', '-']) {
        return None;
    }
    let number = i128::from_str_radix(&plain, base).ok()?;
    Some(if negative { -number } else { number })
}

/// Python's `float(text)`.
pub fn parse_float(text: &str) -> Option<f64> {
    let plain = text.trim_matches(crate::python_text::is_space).replace('_', "");
    plain.parse().ok()
}
