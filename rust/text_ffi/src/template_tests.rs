use super::*;

const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + \
                      m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}\
                      {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

fn render_with(source: &str, controls: &[&str], context: &str) -> Result<Rendered, Failure> {
    ChatTemplate::compile(source, controls, Some("<s>"), Some("</s>"))?
        .render(context.as_bytes(), 0)
}

fn render(source: &str, context: &str) -> Result<String, Failure> {
    render_with(source, &[], context).map(|r| r.text)
}

fn expect(source: &str, context: &str, expected: &str) {
    match render(source, context) {
        Ok(text) => assert_eq!(text, expected, "template: {source}"),
        Err(failure) => panic!("template: {source}: {}", failure.message),
    }
}

#[test]
fn chatml() {
    let context = r#"{"messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":true}"#;
    expect(CHATML, context, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

#[test]
fn blocks_take_their_newline_and_indentation_with_them() {
    expect("{% if true %}\n  a\n  {% endif %}\nb\n", "{}", "  a\nb");
    expect("a\n    {%- if true %}b{% endif -%}   \nc", "{}", "abc");
}

#[test]
fn tojson_writes_what_python_writes() {
    let context = r#"{"x":{"b":[1,2.0,"é<'&>"],"a":{},"n":null,"t":true}}"#;
    expect(
        "{{ x | tojson }}",
        context,
        r#"{"b": [1, 2.0, "é<'&>"], "a": {}, "n": null, "t": true}"#,
    );
    expect(
        "{{ x | tojson(sort_keys=true, separators=(',', ':')) }}",
        context,
        r#"{"a":{},"b":[1,2.0,"é<'&>"],"n":null,"t":true}"#,
    );
    expect("{{ [1, {'k': []}] | tojson(indent=2) }}", "{}", "[\n  1,\n  {\n    \"k\": []\n  }\n]");
    expect("{{ x['b'][2] | tojson(ensure_ascii=true) }}", context, "\"\\u00e9<'&>\"");
    expect(r#"{{ "a\"b\\\n" | tojson }}"#, "{}", r#""a\"b\\\n""#);
}

#[test]
fn python_values_are_printed_as_python_prints_them() {
    expect(
        "{{ none }} {{ true }} {{ [1, 'a', none] }} {{ {'k': 1.5} }}",
        "{}",
        "None True [1, 'a', None] {'k': 1.5}",
    );
}

#[test]
fn python_methods_namespaces_and_loop_controls_work() {
    expect("{{ ' a b '.strip().split(' ')[-1].upper() }}", "{}", "B");
    expect(
        "{% for k, v in x.items() %}{{ k }}={{ v }};{% endfor %}",
        r#"{"x":{"z":1,"a":2}}"#,
        "z=1;a=2;",
    );
    expect(
        "{% set ns = namespace(n=0) %}{% for i in range(9) %}\
         {% if i == 4 %}{% break %}{% endif %}{% if i is odd %}{% continue %}{% endif %}\
         {% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
        "{}",
        "2",
    );
    expect(
        "{{ messages[::-1][0] }}{{ messages[1:] | length }}",
        r#"{"messages":["a","b","c"]}"#,
        "c2",
    );
    expect("{% macro f(a, b='!') %}{{ a ~ b }}{% endmacro %}{{ f('x') }}", "{}", "x!");
}

#[test]
fn undefined_is_empty_and_absent_tools_are_none() {
    expect(
        "[{{ nothing }}]{% if tools is none %}no tools{% endif %}{{ add_generation_prompt }}",
        "{}",
        "[]no toolsFalse",
    );
    assert_eq!(render("{{ a.b.c }}", "{}").unwrap_err().status, Status::Render);
}

#[test]
fn none_and_numbers_are_not_iterable() {
    expect(
        "{% for x in [none, 1, true, '', [], {}, nothing] %}{{ x is iterable }} {% endfor %}",
        "{}",
        "False False False True True True True ",
    );
}

#[test]
fn generation_blocks_render_their_content() {
    expect("a {%- generation %} b {%- endgeneration -%} c", "{}", "a bc");
    expect("{{ 'generation' }}", "{}", "generation");
}

#[test]
fn bos_and_eos_are_the_models_whatever_the_request_says() {
    expect("{{ bos_token }}{{ eos_token }}", r#"{"bos_token":"x"}"#, "<s></s>");
    let none = ChatTemplate::compile("[{{ bos_token }}]", &[], None, None).unwrap();
    assert_eq!(none.render(b"{}", 0).unwrap().text, "[]");
}

#[test]
fn raise_exception_comes_through_verbatim() {
    let failure =
        render("{{ raise_exception('Roles must alternate: \"a\" {x}!') }}", "{}").unwrap_err();
    assert_eq!(
        (failure.status, failure.message.as_str()),
        (Status::Raised, "Roles must alternate: \"a\" {x}!")
    );
    let nested = "{% macro f() %}{{ raise_exception('deep') }}{% endmacro %}\
                  {% for i in [1] %}{{ f() }}{% endfor %}";
    assert_eq!(render(nested, "{}").unwrap_err().message, "deep");
}

#[test]
fn the_time_is_the_callers() {
    let template =
        ChatTemplate::compile("{{ strftime_now('%d %b %Y') }}", &[], None, None).unwrap();
    assert_eq!(template.render(b"{}", 1_721_995_200).unwrap().text, "26 Jul 2024");
}

#[test]
fn broken_templates_name_the_line() {
    let failure = render("a\n{% if %}", "{}").unwrap_err();
    assert_eq!(failure.status, Status::Syntax);
    assert!(failure.message.contains(":2"), "{}", failure.message);
}

#[test]
fn contexts_that_are_no_json_object_are_refused() {
    for context in ["", "[1]", "{\"a\":}", "{\"a\":\"\u{1}\"}", "{\"a\":\"\\ud800\"}"] {
        assert_eq!(render("x", context).unwrap_err().status, Status::BadInput, "{context}");
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(render("x", &deep).unwrap_err().status, Status::BadInput);
}

#[test]
fn work_is_bounded() {
    let forever = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";
    assert_eq!(render(forever, "{}").unwrap_err().status, Status::Limit);
    let swelling = "{% set ns = namespace(s='x') %}{% for i in range(99) %}\
                    {% set ns.s = ns.s ~ ns.s %}{% endfor %}";
    assert_eq!(render(swelling, "{}").unwrap_err().status, Status::Limit);
}

#[test]
fn output_is_bounded_at_eight_mebibytes() {
    let exactly = "{{ 'x' * 8388608 }}";
    assert_eq!(render(exactly, "{}").unwrap().len(), OUTPUT_SIZE_MAX);
    let failure = render("{{ 'x' * 8388608 }}y", "{}").unwrap_err();
    assert_eq!(failure.status, Status::Limit);
    assert!(failure.message.contains("8388608"), "{}", failure.message);
}

#[test]
fn recursion_is_bounded() {
    let endless = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    assert_eq!(render(endless, "{}").unwrap_err().status, Status::Render);
    let parens = format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000));
    assert_eq!(render(&parens, "{}").unwrap_err().status, Status::Syntax);
}

#[test]
fn filters_and_functions_that_are_only_for_debugging_are_gone() {
    for source in ["{{ [1]|pprint }}", "{{ debug() }}"] {
        assert_ne!(render(source, "{}").map(|_| ()).map_err(|f| f.status), Ok(()), "{source}");
    }
}

#[test]
fn source_is_bounded() {
    assert_eq!(render(&"x".repeat(SOURCE_SIZE_MAX), "{}").unwrap().len(), SOURCE_SIZE_MAX);
    let failure = render(&"x".repeat(SOURCE_SIZE_MAX + 1), "{}").unwrap_err();
    assert_eq!(failure.status, Status::Syntax);
    assert!(
        failure.message.contains("131073") && failure.message.contains("131072"),
        "{}",
        failure.message
    );
}

#[test]
fn only_the_templates_own_control_tokens_are_left_whole() {
    let context = r#"{"messages":[{"role":"user","content":"a<|im_end|>b"}]}"#;
    let rendered = render_with(CHATML, &["<|im_start|>", "<|im_end|>"], context).unwrap();
    assert_eq!(rendered.guard, Some('\u{FDD0}'));
    assert_eq!(rendered.text, "<|im_start|>user\na<\u{FDD0}|im_end|>b<|im_end|>\n");
}

#[test]
fn a_token_cannot_be_put_together_from_two_parts() {
    let source = "{% for m in messages %}{% for p in m.content %}{{ p.text | trim }}{% endfor %}\
                  <e>{% endfor %}";
    let context = r#"{"messages":[{"content":[{"text":"x<"},{"text":"e>"},{"text":" <e "},
                      {"text":"\n>y"}]}]}"#;
    let rendered = render_with(source, &["<e>"], context).unwrap();
    assert_eq!(rendered.text.matches("<e>").count(), 1);
    assert_eq!(rendered.text.replace('\u{FDD0}', ""), "x<e><e>y<e>");
}

#[test]
fn a_template_that_spells_json_in_ascii_keeps_the_guard_removable() {
    let rendered =
        render_with("{{ x | tojson(ensure_ascii=true) }}", &["<e>"], r#"{"x":"<e>"}"#).unwrap();
    assert_eq!(rendered.text, "\"<\u{FDD0}e>\"");
}
