//! A template's text, made ready for the engine: what Jinja2 reads in a way that the engine does
//! not is written in a way that both read alike.
//!
//!   - every end of line is "\n";
//!   - `{% generation %}` ... `{% endgeneration %}`, which only training looks at, is an `if` that
//!     always holds;
//!   - `a % b` is a filter, because the engine's operator knows no text ("%s: %d" % (a, b));
//!   - what `for` walks is checked, because to the engine none is an empty list;
//!   - a macro looks at the time when it begins (time_limit.rs);
//!   - `d.items` without a call is the method, whatever keys d has;
//!   - strings have Python's escapes;
//!   - the line end after `{% raw %}` stays.
//!
//! Lines stay where they are, so that errors name them rightly. What is no Jinja is left alone, for
//! the engine to say so.

use crate::python_filters::{ATTRIBUTE, ITERABLE, MODULO, TICK};
use crate::python_methods::is_dict_method;
use crate::source_tokens::{tokenize, Kind, Token};

/// Of one sort in one tag. Each may look at the whole tag, and a tag may be as long as a template.
const REWRITES_MAX: usize = 64;

pub fn prepared(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut rest = source.as_str();
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let size = if tag.starts_with("{#") {
            tag.find("#}").map(|end| end + 2)
        } else if let Some(head) = raw_tag(tag, "raw") {
            copy_raw(tag, head, &mut out)
        } else if tag.starts_with("{{") || tag.starts_with("{%") {
            rewrite_tag(tag, &mut out)
        } else {
            Some(1)
        };
        let copied = tag.starts_with("{#") || !(tag.starts_with("{{") || tag.starts_with("{%"));
        let Some(size) = size else {
            rest = tag;
            break;
        };
        if copied {
            out.push_str(&tag[..size]);
        }
        rest = &tag[size..];
    }
    out.push_str(rest);
    out
}

/// The size of `{% name %}` at the beginning of `text`.
fn raw_tag(text: &str, name: &str) -> Option<usize> {
    let inside = text.strip_prefix("{%")?;
    let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside).trim_start();
    let inside = inside.strip_prefix(name)?.trim_start();
    let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside).strip_prefix("%}")?;
    Some(text.len() - inside.len())
}

/// Copies a raw block as it is. The engine drops a line end after the tag, which Jinja2 keeps.
fn copy_raw(text: &str, head: usize, out: &mut String) -> Option<usize> {
    let body = &text[head..];
    let (end, tail) = body
        .match_indices("{%")
        .find_map(|(at, _)| raw_tag(&body[at..], "endraw").map(|size| (at, size)))?;
    out.push_str(&text[..head]);
    if body.starts_with('\n') && !text[..head].ends_with("-%}") {
        out.push('\n');
    }
    let size = head + end + tail;
    out.push_str(&text[head..size]);
    Some(size)
}

/// Writes the tag at the beginning of `text`, rewritten; its size, or None when it has no end.
fn rewrite_tag(text: &str, out: &mut String) -> Option<usize> {
    let is_block = text.starts_with("{%");
    let head = 2 + usize::from(text[2..].starts_with(['-', '+']));
    let (mut tokens, end, tail) = tokenize(&text[head..], is_block)?;
    if is_block && tokens.len() == 1 {
        match tokens[0].text.as_str() {
            "generation" => tokens[0].text = "if true".to_string(),
            "endgeneration" => tokens[0].text = "endif".to_string(),
            _ => {}
        }
    }
    if is_block {
        check_loop(&mut tokens);
    }
    name_methods(&mut tokens);
    name_remainders(&mut tokens);
    out.push_str(&text[..head]);
    for token in &tokens {
        out.push_str(&token.space);
        out.push_str(&token.text);
    }
    if is_block && tokens.first().is_some_and(|first| first.text == "macro") {
        // White space marks move to the new tag, which is as good as none: it stands right behind.
        out.push_str(&format!(" %}}{{% set {TICK} = none|{TICK}"));
    }
    out.push_str(&text[head + end..head + tail]); // white space and the end of the tag
    Some(head + tail)
}

/// `for x in a` becomes `for x in (a)|pacer_iterable`: to the engine none is an empty list.
fn check_loop(tokens: &mut Vec<Token>) {
    if tokens.first().is_none_or(|first| first.text != "for") {
        return;
    }
    let (mut depth, mut start, mut end) = (0usize, None, tokens.len());
    for (index, token) in tokens.iter().enumerate() {
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
        } else if depth == 0
            && token.kind == Kind::Name
            && index > 0
            && !tokens[index - 1].is_operator(".")
        {
            match (token.text.as_str(), start) {
                ("in", None) => start = Some(index + 1),
                ("if" | "recursive", Some(_)) => {
                    end = index;
                    break;
                }
                _ => {}
            }
        }
    }
    let Some(start) = start.filter(|&start| start < end) else { return };
    let call = [Token::operator(")"), Token::operator("|"), Token::new(Kind::Name, "", ITERABLE)];
    tokens.splice(end..end, call);
    open_bracket(tokens, start);
}

/// `a.b.items` becomes `(a.b|pacer_attribute("items"))`, unless it is called or assigned to.
fn name_methods(tokens: &mut Vec<Token>) {
    let mut tried = 0;
    let mut index = 1;
    while index < tokens.len() {
        let token = &tokens[index];
        let is_method = token.kind == Kind::Name
            && is_dict_method(&token.text)
            && tokens[index - 1].is_operator(".")
            && !tokens.get(index + 1).is_some_and(|next| next.is_operator("("));
        if !is_method || tried == REWRITES_MAX {
            index += 1;
            continue;
        }
        tried += 1;
        let start = primary_start(tokens, index - 1);
        let assigned = tokens[0].text == "set" && start == 1;
        if assigned || start == index - 1 {
            index += 1;
            continue;
        }
        let name = format!("\"{}\"", tokens[index].text);
        let call = [
            Token::operator("|"),
            Token::new(Kind::Name, "", ATTRIBUTE),
            Token::operator("("),
            Token::new(Kind::Text, "", &name),
            Token::operator(")"),
            Token::operator(")"),
        ];
        tokens.splice(index - 1..=index, call);
        open_bracket(tokens, start);
        index += 6;
    }
}

/// Puts "(" before tokens[at], behind the white space that was there.
fn open_bracket(tokens: &mut Vec<Token>, at: usize) {
    let space = std::mem::take(&mut tokens[at].space);
    tokens.insert(at, Token::new(Kind::Operator, &space, "("));
}

/// Where the name, call or index that ends before tokens[end] begins.
fn primary_start(tokens: &[Token], end: usize) -> usize {
    let mut start = end;
    while start > 0 {
        let token = &tokens[start - 1];
        let after = tokens.get(start).filter(|_| start < end);
        // Between two tokens of one primary there is a "." or an opening bracket.
        let joined = after.is_none_or(|after| {
            after.is_operator(".")
                || after.is_operator("(")
                || after.is_operator("[")
                || token.is_operator(".")
        });
        if !joined || (token.kind == Kind::Name && is_keyword(tokens, start - 1)) {
            break;
        }
        if token.closes() {
            start = opening(tokens, start - 1);
        } else if token.kind != Kind::Operator || token.is_operator(".") {
            start -= 1;
        } else {
            break;
        }
    }
    start
}

/// The bracket that tokens[close] closes.
fn opening(tokens: &[Token], close: usize) -> usize {
    let mut depth = 0usize;
    for index in (0..=close).rev() {
        if tokens[index].closes() {
            depth += 1;
        } else if tokens[index].opens() {
            depth -= 1;
            if depth == 0 {
                return index;
            }
        }
    }
    close
}

fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth -= 1;
            if depth == 0 {
                return index;
            }
        }
    }
    tokens.len() - 1
}

/// A word that ends an operand, and is not the name of an attribute, filter or test.
fn is_keyword(tokens: &[Token], index: usize) -> bool {
    const WORDS: [&str; 15] = [
        "and", "or", "not", "in", "is", "if", "elif", "else", "for", "set", "print", "call",
        "filter", "with", "do",
    ];
    let named =
        index > 0 && (tokens[index - 1].is_operator(".") || tokens[index - 1].is_operator("|"));
    !named && WORDS.contains(&tokens[index].text.as_str())
}

/// `a % b` becomes `(a)|pacer_modulo(b)`, from left to right.
fn name_remainders(tokens: &mut Vec<Token>) {
    let mut tried = 0;
    let mut index = 1;
    while index + 1 < tokens.len() {
        if !tokens[index].is_operator("%") || tried == REWRITES_MAX {
            index += 1;
            continue;
        }
        tried += 1;
        let start = product_start(tokens, index);
        let end = operand_end(tokens, index + 1);
        if start == index || end == index + 1 {
            index += 1;
            continue;
        }
        tokens.insert(end, Token::operator(")"));
        let call = [
            Token::operator(")"),
            Token::operator("|"),
            Token::new(Kind::Name, "", MODULO),
            Token::operator("("),
        ];
        tokens.splice(index..=index, call);
        open_bracket(tokens, start);
        index += 1;
    }
}

/// Where the product (`a`, `a * b`, `a|f % b`) that ends before tokens[end] begins.
fn product_start(tokens: &[Token], end: usize) -> usize {
    let mut start = end;
    while start > 0 {
        let token = &tokens[start - 1];
        match token.kind {
            Kind::Operator if token.closes() => start = opening(tokens, start - 1),
            Kind::Operator
                if matches!(token.text.as_str(), "." | "|" | "*" | "/" | "//" | "**") =>
            {
                start -= 1;
            }
            Kind::Operator if matches!(token.text.as_str(), "-" | "+") => {
                let is_sign = start < 2 || {
                    let before = &tokens[start - 2];
                    (before.kind == Kind::Operator && !before.closes())
                        || (before.kind == Kind::Name && is_keyword(tokens, start - 2))
                };
                if !is_sign {
                    break;
                }
                start -= 1;
            }
            Kind::Operator => break,
            Kind::Name if is_keyword(tokens, start - 1) => break,
            _ => start -= 1,
        }
    }
    start
}

/// Behind the operand (a sign, a value, what is called on it, its filters) that begins at `from`.
fn operand_end(tokens: &[Token], from: usize) -> usize {
    let mut index = from;
    while index < tokens.len() && (tokens[index].is_operator("-") || tokens[index].is_operator("+"))
    {
        index += 1;
    }
    let Some(first) = tokens.get(index) else { return from };
    if first.opens() {
        index = closing(tokens, index) + 1;
    } else if first.kind == Kind::Operator {
        return from;
    } else {
        index += 1;
        while first.kind == Kind::Text && tokens.get(index).is_some_and(|t| t.kind == Kind::Text) {
            index += 1; // strings side by side are one
        }
    }
    while let Some(token) = tokens.get(index) {
        if token.is_operator("(") || token.is_operator("[") {
            index = closing(tokens, index) + 1;
        } else if token.is_operator(".") || token.is_operator("|") {
            index += 2;
        } else if token.is_operator("**") {
            index = operand_end(tokens, index + 1);
        } else {
            break;
        }
    }
    index.min(tokens.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_read_alike_is_left_alone() {
        for source in [
            "",
            "a { b } c",
            "{{ a }}{%- if a == 'b' -%}\n x {%+ endif +%}{# 5 % 2 #}",
            "{{ {'a': {'b': [1, 2]}} }}",
            "{% if v in d.items() %}{{ 'a' ~ k|upper }}{% endif %}",
            "{{ \"it's {{ %} \\\" \" }}",
            "{{ unfinished",
            "{% raw %}{{ a % b }}{% endraw %}",
            "{% set ns.items = 1 %}",
            "{{ 1.5e-3 + 0x1f - x[1:-1] }}",
        ] {
            assert_eq!(prepared(source), source);
        }
    }

    #[test]
    fn remainders_take_their_operands() {
        for (source, expected) in [
            ("{{ a % 2 == 0 }}", "{{ (a )|pacer_modulo( 2) == 0 }}"),
            ("{{ 'x' ~ '%s' % (a, b) }}", "{{ 'x' ~ ('%s' )|pacer_modulo( (a, b)) }}"),
            ("{% if not a.b[1] % c.d(2)|f %}", "{% if not (a.b[1] )|pacer_modulo( c.d(2)|f) %}"),
            ("{{ 1 + 2 * 3 % -4 }}", "{{ 1 + (2 * 3 )|pacer_modulo( -4) }}"),
            ("{{ -a % b }}", "{{ (-a )|pacer_modulo( b) }}"),
            ("{{ a%b%c }}", "{{ ((a)|pacer_modulo(b))|pacer_modulo(c) }}"),
            ("{%- if x %}5 % 2{% endif -%}", "{%- if x %}5 % 2{% endif -%}"),
        ] {
            // White space does not matter.
            let plain = |text: &str| text.replace(' ', "");
            assert_eq!(plain(&prepared(source)), plain(expected), "{source}");
        }
    }

    #[test]
    fn what_a_loop_walks_is_checked() {
        for (source, expected) in [
            ("{% for x in a %}", "{% for x in (a)|pacer_iterable %}"),
            (
                "{%- for k, v in f(b if c else d).items() if v in k recursive -%}",
                "{%- for k, v in (f(b if c else d).items())|pacer_iterable if v in k recursive -%}",
            ),
            ("{% for x in %}", "{% for x in %}"),
        ] {
            assert_eq!(prepared(source), expected);
        }
    }

    #[test]
    fn macros_look_at_the_time() {
        assert_eq!(
            prepared("{%- macro f(a) -%}\n x{% endmacro %}"),
            "{%- macro f(a) %}{% set pacer_tick = none|pacer_tick -%}\n x{% endmacro %}"
        );
    }

    #[test]
    fn a_long_tag_takes_no_long_time() {
        let long = format!("{{{{ {}a }}}}", "a%(b.items)%".repeat(10_000));
        assert!(prepared(&long).len() > long.len());
    }

    #[test]
    fn methods_that_are_not_called_are_named() {
        for (source, expected) in [
            ("{{ a.items }}", "{{ (a|pacer_attribute(\"items\")) }}"),
            ("{{ f(a.b[0].get) }}", "{{ f((a.b[0]|pacer_attribute(\"get\"))) }}"),
            ("{% if a.items.x %}", "{% if (a|pacer_attribute(\"items\")).x %}"),
            ("{{ a|items }}", "{{ a|items }}"),
        ] {
            assert_eq!(prepared(source), expected);
        }
    }

    #[test]
    fn strings_have_pythons_escapes() {
        for (source, expected) in [
            (r#"{{ "\U0001F642\a\x41\101\0" }}"#, "{{ \"\u{1f642}\u{7}AA\0\" }}"),
            (r#"{{ '\'\"\\\n\d' }}"#, r#"{{ '\'"\\\n\\d' }}"#),
            (r#"{{ "\ud83d\ude42" }}"#, "{{ \"\u{1f642}\" }}"),
            (r#"{{ "\ud83d" }}"#, r#"{{ "\ud83d" }}"#),
            ("{{ 'a\\\nb' }}", "{{ 'ab' }}"),
        ] {
            assert_eq!(prepared(source), expected);
        }
    }

    #[test]
    fn training_marks_hold_always_and_raw_blocks_keep_their_line_end() {
        assert_eq!(
            prepared("{%- generation -%}a{% endgeneration %}"),
            "{%- if true -%}a{% endif %}"
        );
        assert_eq!(prepared("{% raw %}\na{% endraw %}"), "{% raw %}\n\na{% endraw %}");
        assert_eq!(prepared("{%- raw -%}\na{% endraw %}"), "{%- raw -%}\na{% endraw %}");
        assert_eq!(prepared("a\r\nb\rc"), "a\nb\nc");
    }
}
