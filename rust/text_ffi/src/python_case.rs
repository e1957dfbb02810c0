//! Upper, lower and title case, and what str.is...() says, of Python's strings.

use minijinja::value::Value;

use crate::python_text::{is_printable, is_space};

/// The character as the first of a word: "Ss" for the German sharp s, one letter for the digraphs.
fn title_case(c: char) -> String {
    match c {
        '\u{1C4}'..='\u{1C6}' => "\u{1C5}".to_string(),
        '\u{1C7}'..='\u{1C9}' => "\u{1C8}".to_string(),
        '\u{1CA}'..='\u{1CC}' => "\u{1CB}".to_string(),
        '\u{1F1}'..='\u{1F3}' => "\u{1F2}".to_string(),
        '\u{10D0}'..='\u{10FF}' => c.to_string(), // Georgian has no title case
        c => {
            let mut upper = c.to_uppercase();
            let first = upper.next().into_iter();
            first.chain(upper.flat_map(char::to_lowercase)).collect()
        }
    }
}

pub fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        None => String::new(),
        Some(first) => {
            // The whole is lowered, for the sake of a final sigma, and its first letter replaced.
            let lowered = text.to_lowercase();
            let first_lowered = first.to_lowercase().map(char::len_utf8).sum();
            title_case(first) + lowered.get(first_lowered..).unwrap_or_default()
        }
    }
}

/// Has upper and lower case.
fn is_cased(c: char) -> bool {
    c.is_lowercase()
        || c.is_uppercase()
        || matches!(c, '\u{1C5}' | '\u{1C8}' | '\u{1CB}' | '\u{1F2}')
}

fn title(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.push_str(&title_case(c));
        }
        inside = is_cased(c);
    }
    out
}

pub fn change_case(text: &str, method: &str) -> Option<String> {
    Some(match method {
        "title" => title(text),
        "capitalize" => capitalize(text),
        // Near enough: the lower case of the upper case, letter by letter.
        "casefold" => text
            .chars()
            .flat_map(|c| c.to_uppercase().flat_map(char::to_lowercase).collect::<Vec<_>>())
            .collect(),
        "swapcase" => text
            .chars()
            .flat_map(|c| match c.is_uppercase() {
                true => c.to_lowercase().collect::<Vec<_>>(),
                false if c.is_lowercase() => c.to_uppercase().collect(),
                false => vec![c],
            })
            .collect(),
        _ => return None,
    })
}

/// The is...() methods that the engine's own answer differently.
pub fn ask(text: &str, method: &str) -> Option<Value> {
    let all = |test: &dyn Fn(char) -> bool| !text.is_empty() && text.chars().all(test);
    let is_superscript =
        |c: char| matches!(c, '\u{B2}' | '\u{B3}' | '\u{B9}' | '\u{2070}'..='\u{2089}');
    // Numbers that are no digits are letters, or fractions and the like, whose category is No or Nl.
    let is_decimal = |c: char| c.is_ascii_digit() || (c.is_numeric() && is_decimal_digit(c));
    Some(Value::from(match method {
        "isspace" => all(&is_space),
        "isdecimal" => all(&is_decimal),
        "isdigit" => all(&|c| is_decimal(c) || is_superscript(c)),
        "isprintable" => text.chars().all(is_printable),
        "isidentifier" => {
            let mut chars = text.chars();
            let first = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
            first && chars.all(|c| c.is_alphanumeric() || c == '_')
        }
        "istitle" => text.chars().any(is_cased) && title(text) == text,
        _ => return None,
    }))
}

/// Decimal digits come in runs of ten, the zero on a multiple of sixteen or ten behind one.
fn is_decimal_digit(c: char) -> bool {
    const ZEROS: [u32; 37] = [
        0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6,
        0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90,
        0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0,
        0xFF10, 0x104A0,
    ];
    let code = c as u32;
    ZEROS.iter().any(|&zero| (zero..zero + 10).contains(&code))
        || (0x1D7CE..=0x1D7FF).contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cased_as_python_cases_them() {
        assert_eq!(title("they're bill's x2y"), "They'Re Bill'S X2Y");
        assert_eq!(title("\u{1C6} \u{df}a \u{fb01}"), "\u{1C5} Ssa Fi");
        assert_eq!(capitalize("\u{c9}COLE"), "\u{c9}cole");
        assert_eq!(capitalize(""), "");
    }
}
