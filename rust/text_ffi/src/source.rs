//! A template's text, made ready for the engine: what Jinja2 reads in a way that the engine does
//! not is written in a way that both read alike, and what the engine would do without a limit is
//! done by filters of ours.
//!
//!   - every end of line is "\n";
//!   - `{% generation %}` ... `{% endgeneration %}`, which only training looks at, is an `if` that
//!     always holds;
//!   - what `for` walks is checked, because to the engine none is an empty list;
//!   - a macro looks at the time when it begins (time_limit.rs);
//!   - operators and what walks whole values: see source_expression.rs;
//!   - strings have Python's escapes;
//!   - the line end after `{% raw %}` stays.
//!
//! Lines stay where they are, so that errors name them rightly. What is no Jinja is left alone, for
//! the engine to say so; `Prepared::unread` is for the case that it does not.

use crate::python_filters::TICK;
use crate::source_expression::{Rewriter, Unread, OPERATORS_MAX};
use crate::source_tokens::tokenize;

pub struct Prepared {
    pub text: String,
    /// A tag that was not read, and so is without limits: the template must not run. One sentence.
    pub unread: Option<String>,
    /// Whatever the engine may say: compiling it takes too long.
    pub too_long: bool,
}

impl Prepared {
    /// The tag that comes next.
    fn refuse(&mut self, why: String) {
        if self.unread.is_none() {
            let line = 1 + self.text.matches('\n').count();
            self.unread = Some(format!("the tag in line {line} {why}"));
        }
    }
}

pub fn prepared(source: &str) -> Prepared {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = Prepared {
        text: String::with_capacity(source.len() + source.len() / 8),
        unread: None,
        too_long: false,
    };
    let mut rest = source.as_str();
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        out.text.push_str(before);
        let size = if tag.starts_with("{#") {
            tag.find("#}").map(|end| end + 2)
        } else if let Some(head) = raw_tag(tag, "raw") {
            copy_raw(tag, head, &mut out.text)
        } else if tag.starts_with("{{") || tag.starts_with("{%") {
            rewrite_tag(tag, &mut out)
        } else {
            Some(1)
        };
        let copied = tag.starts_with("{#") || !(tag.starts_with("{{") || tag.starts_with("{%"));
        let Some(size) = size else {
            out.refuse("has no end".to_string());
            rest = tag;
            break;
        };
        if copied {
            out.text.push_str(&tag[..size]);
        }
        rest = &tag[size..];
    }
    out.text.push_str(rest);
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
fn rewrite_tag(text: &str, out: &mut Prepared) -> Option<usize> {
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
    let mut rewriter = Rewriter::new(&mut tokens);
    let read = if is_block { rewriter.statement() } else { rewriter.output() };
    if let Err(unread) = read {
        out.too_long |= unread == Unread::TooManyOperators;
        out.refuse(match unread {
            Unread::NotUnderstood => "is not understood".to_string(),
            Unread::TooManyOperators => {
                format!("has more than {OPERATORS_MAX} operators, filters and calls")
            }
        });
        out.text.push_str(&text[..head + tail]);
        return Some(head + tail);
    }
    out.text.push_str(&text[..head]);
    for token in &tokens {
        for part in [&token.space, &token.before, &token.text, &token.after] {
            out.text.push_str(part);
        }
    }
    if is_block && tokens.first().is_some_and(|first| first.text == "macro") {
        // White space marks move to the new tag, which is as good as none: it stands right behind.
        out.text.push_str(&format!(" %}}{{% set {TICK} = none|{TICK}"));
    }
    out.text.push_str(&text[head + end..head + tail]); // white space and the end of the tag
    Some(head + tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// White space inside tags does not matter.
    fn expect(source: &str, expected: &str) {
        let plain = |text: &str| text.replace(' ', "");
        let prepared = prepared(source);
        assert_eq!(plain(&prepared.text), plain(expected), "{source}");
        assert_eq!(prepared.unread, None, "{source}");
    }

    fn text(source: &str) -> String {
        prepared(source).text
    }

    #[test]
    fn what_both_read_alike_is_left_alone() {
        for source in [
            "",
            "a { b } c",
            "{{ a }}{%- if a == 'b' -%}\n x {%+ endif +%}{# 5 % 2 #}",
            "{{ {'a': {'b': [1, 2]}} }}",
            "{% if 'x' in d.items() and not a is string %}{{ 'a' + k|trim }}{% endif %}",
            "{{ \"it's {{ %} \\\" \" }}",
            "{{ unfinished",
            "{% raw %}{{ a % b }}{% endraw %}",
            "{% set ns.items = 1 %}{% set a, b = c, 'd' %}",
            "{{ 1.5e-3 + 0x1f - x[-1] }}{{ x[loop.index0 + 1].y(a=1, *b, **c) }}",
            "{%- macro f %}",
            "{{ a.b|default('x', true)|trim if c is defined else -2 ** 3 // 4 }}",
        ] {
            assert_eq!(text(source), source);
        }
    }

    #[test]
    fn operators_take_their_operands() {
        for (source, expected) in [
            ("{{ a % 2 == 0 }}", "{{ (a)|pacer_modulo(2) == 0 }}"),
            ("{{ 'x' ~ '%s' % (a, b) }}", "{{ 'x' ~ ('%s')|pacer_modulo((a, b)) }}"),
            ("{{ 'x' ~ y ~ z|f(1) }}", "{{ ('x')|pacer_concat(y, z|pacer_guarded|f(1)) }}"),
            ("{% if not a.b[1] % c.d(2)|int %}", "{% if not (a.b[1])|pacer_modulo(c.d(2)|int) %}"),
            ("{{ 1 + 2 * 3 % -4 }}", "{{ 1 + (2 * 3)|pacer_modulo(-4) }}"),
            ("{{ a * b / c }}", "{{ (a)|pacer_multiply(b) / c }}"),
            ("{{ -a % b }}", "{{ (-a)|pacer_modulo(b) }}"),
            ("{{ a%b%c }}", "{{ (a)|pacer_modulo(b)|pacer_modulo(c) }}"),
            ("{{ a + b + [c] - 1 }}", "{{ (a)|pacer_add(b)|pacer_add([c]) - 1 }}"),
            ("{{ a + 'x' + b ~ c }}", "{{ a + 'x' + (b)|pacer_concat(c) }}"),
            ("{%- if x %}5 % 2{% endif -%}", "{%- if x %}5 % 2{% endif -%}"),
        ] {
            expect(source, expected);
        }
    }

    #[test]
    fn what_is_walked_as_deep_as_it_goes_is_guarded() {
        for (source, expected) in [
            ("{{ a == b.c }}", "{{ (a)|pacer_guarded == (b.c)|pacer_guarded }}"),
            (
                "{{ a < b < 3 }}",
                "{{ (a)|pacer_guarded < (b)|pacer_guarded < 3 }}",
            ),
            ("{{ a not in b + c }}", "{{ (a)|pacer_guarded not in ((b)|pacer_add(c))|pacer_guarded }}"),
            ("{{ a[b]['c'][1:][d] }}", "{{ ((a[(b)|pacer_key]['c'][1:])|pacer_listed)[(d)|pacer_key] }}"),
            ("{{ {a: b, 'c': d} }}", "{{ {(a)|pacer_key: b, 'c': d} }}"),
            ("{{ a|sort(attribute=b)|length }}", "{{ a|pacer_guarded|sort(attribute=(b)|pacer_guarded)|length }}"),
            ("{{ a is eq b.c and x is not in(y) }}", "{{ a|pacer_guarded is eq((b.c)|pacer_guarded) and x|pacer_guarded is not in((y)|pacer_guarded) }}"),
            ("{{ loop.changed(a) }}", "{{ loop.changed((a)|pacer_guarded) }}"),
            ("{% set a | replace(b, 'c') %}", "{% set a | replace((b)|pacer_guarded, 'c') %}"),
            ("{% with a = b == c, d = 1 %}", "{% with a = (b)|pacer_guarded == (c)|pacer_guarded, d = 1 %}"),
            ("{% call(x) f(a ~ b) %}", "{% call(x) f((a)|pacer_concat(b)) %}"),
        ] {
            // In front of `is` a blank is needed.
            let spaced = text(source);
            expect(source, expected);
            assert!(!spaced.contains("guardedis"), "{spaced}");
        }
    }

    #[test]
    fn what_a_loop_walks_is_checked() {
        for (source, expected) in [
            ("{% for x in a %}", "{% for x in (a)|pacer_iterable %}"),
            (
                "{%- for k, v in f(b if c else d).items() if v in 'k' recursive -%}",
                "{%- for k, v in (f(b if c else d).items())|pacer_iterable \
                 if (v)|pacer_guarded in 'k' recursive -%}",
            ),
        ] {
            expect(source, expected);
        }
        assert_eq!(text("{% for x in %}"), "{% for x in %}");
    }

    #[test]
    fn macros_look_at_the_time() {
        assert_eq!(
            text("{%- macro f(a, b=1) -%}\n x{% endmacro %}"),
            "{%- macro f(a, b=1) %}{% set pacer_tick = none|pacer_tick -%}\n x{% endmacro %}"
        );
    }

    #[test]
    fn tags_that_are_not_read_are_named() {
        for (source, line) in [
            ("{{ a b }}", 1),
            ("\n{% if %}", 2),
            ("{{ (a) }", 1),
            ("x\n{{ (a }}", 2),
            ("\n\n{# a", 3),
            ("{{ a[1 2] }}", 1),
            ("a\n\n{% for x of y %}{{ @ }}", 3),
            ("{{ a.'b' }}", 1),
            ("{{ {a} }}", 1),
            ("{% with a %}", 1),
        ] {
            let unread = prepared(source).unread.expect(source);
            assert!(unread.starts_with(&format!("the tag in line {line} ")), "{source}: {unread}");
        }
        let deep = format!("{{{{ {}1{} }}}}", "(".repeat(1000), ")".repeat(1000));
        assert!(prepared(&deep).unread.is_some());
    }

    #[test]
    fn a_tag_has_a_limited_number_of_operators() {
        for part in ["+1", "~1", "*a", ".b", "[1]", "|f", " is g", " and 1", "==1", "(1)"] {
            let tag = |count: usize| format!("{{{{ a{} }}}}", part.repeat(count));
            assert!(!prepared(&tag(OPERATORS_MAX)).too_long, "{part}");
            let longer = prepared(&tag(OPERATORS_MAX + 1));
            assert!(longer.too_long, "{part}");
            assert!(longer.unread.unwrap().contains("more than 400 operators"), "{part}");
        }
        assert!(prepared(&format!("{{{{ {}a }}}}", "-".repeat(OPERATORS_MAX + 1))).too_long);
        assert!(prepared(&format!("{{{{ {}a }}}}", "not ".repeat(OPERATORS_MAX + 1))).too_long);
    }

    #[test]
    fn methods_that_are_not_called_are_named() {
        for (source, expected) in [
            ("{{ a.items }}", "{{ (a|pacer_attribute(\"items\")) }}"),
            ("{{ f(a.b[0].get) }}", "{{ f((a.b[0]|pacer_attribute(\"get\"))) }}"),
            ("{% if a.items.x %}", "{% if (a|pacer_attribute(\"items\")).x %}"),
            ("{{ a|items }}", "{{ a|items }}"),
        ] {
            expect(source, expected);
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
            assert_eq!(text(source), expected);
        }
    }

    #[test]
    fn training_marks_hold_always_and_raw_blocks_keep_their_line_end() {
        assert_eq!(text("{%- generation -%}a{% endgeneration %}"), "{%- if true -%}a{% endif %}");
        assert_eq!(text("{% raw %}\na{% endraw %}"), "{% raw %}\n\na{% endraw %}");
        assert_eq!(text("{%- raw -%}\na{% endraw %}"), "{%- raw -%}\na{% endraw %}");
        assert_eq!(text("a\r\nb\rc"), "a\nb\nc");
    }
}
