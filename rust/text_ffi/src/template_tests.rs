use super::*;

const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + \
                      m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}\
                      {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

fn render_with(source: &str, controls: &[&str], context: &str) -> Result<Rendered, Failure> {
    ChatTemplate::compile(source, None, controls, Some("<s>"), Some("</s>"))?
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
    expect(
        "{{ x }}|{{ x.a }}|{{ 'a' ~ x.a }}|{{ x.a|string + x.s }}|{{ [x.a, x.b]|join(',') }}|\
         {{ x.a|tojson }}|{{ x.a is float }}|{{ x.a|int }}|{{ x.d.items() }}",
        r#"{"x":{"a":1e16,"b":1e-5,"s":"\u200b'","d":{"k":[]}}}"#,
        "{'a': 1e+16, 'b': 1e-05, 's': \"\\u200b'\", 'd': {'k': []}}|1e+16|a1e+16|1e+16\u{200b}'|\
         1e+16,1e-05|1e+16|True|10000000000000000|dict_items([('k', [])])",
    );
}

#[test]
fn numbers_are_read_exactly() {
    // A fast reader of floats is off by one in the last place here.
    expect("{{ x }}", r#"{"x":122.416294033786585}"#, "122.41629403378658");
    expect("{{ x }}", r#"{"x":18446744073709551615}"#, "18446744073709551615");
}

#[test]
fn none_is_no_list_to_walk() {
    let failure = render("{% for x in none %}{% endfor %}", "{}").unwrap_err();
    assert!(failure.message.contains("'NoneType' object is not iterable"), "{}", failure.message);
    expect("{% for x in nothing %}{% else %}-{% endfor %}", "{}", "-");
}

#[test]
fn percent_formats_text_and_divides_numbers() {
    expect("{{ '%s is %05.1f' % ('x', 3.14159) }}{{ '%d' % 3 ~ 'a' }}", "{}", "x is 003.13a");
    expect(
        "{{ -7 % 3 }} {{ 7.5 % -2 }} {{ 5 % 3 * 2 }} {{ f % 1 }}",
        r#"{"f":"%s"}"#,
        "2 -0.5 4 1",
    );
    assert_eq!(render("{{ '%d' % 'a' }}", "{}").unwrap_err().status, Status::Render);
    assert_eq!(render("{{ 1 % 0 }}", "{}").unwrap_err().status, Status::Render);
}

#[test]
fn a_key_that_is_called_like_a_method_is_reached_by_index() {
    let context = r#"{"p":{"items":{"type":"string"}}}"#;
    expect(
        "{{ p['items'].type }}{{ p.items.type }}{{ p.items is callable }}\
         {% for k, v in p.items() %}{{ k }}{% endfor %}",
        context,
        "stringTrueitems",
    );
    expect("{% set ns = namespace(items=1) %}{% set ns.items = 2 %}{{ ns.items }}", "{}", "2");
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
fn bos_and_eos_are_the_models_unless_the_context_has_others() {
    expect("{{ bos_token }}{{ eos_token }}", "{}", "<s></s>");
    expect("{{ bos_token }}{{ eos_token }}", r#"{"bos_token":"x"}"#, "x</s>");
    let none = ChatTemplate::compile("[{{ bos_token }}]", None, &[], None, None).unwrap();
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
        ChatTemplate::compile("{{ strftime_now('%d %b %Y') }}", None, &[], None, None).unwrap();
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

#[test]
fn the_template_for_tools_is_taken_when_there_are_tools() {
    let both = ChatTemplate::compile("plain", Some("tools"), &[], None, None).unwrap();
    for (context, expected) in [
        ("{}", "plain"),
        (r#"{"tools":null}"#, "plain"),
        (r#"{"tools":[]}"#, "plain"),
        (r#"{"tools":[{}]}"#, "tools"),
    ] {
        assert_eq!(both.render(context.as_bytes(), 0).unwrap().text, expected, "{context}");
    }
    let one = ChatTemplate::compile("plain", None, &[], None, None).unwrap();
    assert_eq!(one.render(br#"{"tools":[{}]}"#, 0).unwrap().text, "plain");
    let broken = ChatTemplate::compile("plain", Some("{{"), &[], None, None).err().unwrap();
    assert!(broken.message.contains("chat template for tools"), "{}", broken.message);
}

#[test]
fn made_text_is_paid_for_before_it_is_made() {
    for source in [
        "{{ 'a' * 1000000000 }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{{ 'a'.center(1000000000)|length }}",
        "{{ 'a'|center(1000000000)|length }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'a'|indent(1000000000)|length }}",
        "{{ ('a\n' * 100000)|indent(100000)|length }}",
        "{{ ('a' * 100000).replace('a', 'b' * 100000)|length }}",
        "{{ ('a' * 100000).replace('', 'b' * 100000)|length }}",
        "{{ ('b' * 100000).join(('a' * 100000).split('a'))|length }}",
        "{{ range(99999)|list|join('b' * 100000)|length }}",
        "{{ ('\t' * 100000).expandtabs(1000000)|length }}",
        "{{ ([0] * 1000000000)|length }}",
        "{{ range(1000000000)|length }}",
        "{{ 'a{:1000000000}'.format(1)|length }}",
        "{{ [1]|tojson(indent=1000000000)|length }}{{ raise_exception('fine') }}",
    ] {
        let status = render(source, "{}").unwrap_err().status;
        assert_ne!(status, Status::Internal, "{source}");
    }
}

#[test]
fn time_is_bounded_where_steps_are_dear() {
    let long = "x".repeat(1 << 20);
    let context = format!("{{\"a\":\"{long}\",\"b\":\"{long}\"}}");
    for source in [
        "{% for i in range(99999) %}{% if a == b %}{% endif %}{% endfor %}",
        "{% macro f(n) %}{% if a == b and n %}{% set x = f(n - 1) %}{% set x = f(n - 1) %}{% endif %}\
         {% endmacro %}{{ f(30) }}",
    ] {
        let failure = render(source, &context).unwrap_err();
        assert_eq!(failure.status, Status::Limit, "{}", failure.message);
    }
}

/// Small in memory, endless to walk: what the engine would do without looking at a limit.
#[test]
fn values_that_share_their_parts_are_bounded() {
    let shared = "{% set n = namespace(s=[1], t=[1], d={'a': 1}) %}{% for i in range(40) %}\
                  {% set n.s = [n.s, n.s, n.s] %}{% set n.t = [n.t, n.t, n.t] %}\
                  {% set n.d = {'a': n.d, 'b': n.d} %}{% endfor %}";
    for walked in [
        "{{ n.s|tojson }}",
        "{{ n.d|tojson(indent=2) }}",
        "{{ n.s }}",
        "{{ n.s ~ '' }}",
        "{{ 'a' ~ n.d }}",
        "{{ n.s|string }}",
        "{{ '%s' % n.s }}",
        "{{ '%s' % (n.s,) }}",
        "{{ '%s'|format(n.s) }}",
        "{{ '{}'.format(n.s) }}",
        "{{ [n.s]|join }}",
        "{{ n.s|upper }}",
        "{{ 'a'|replace('a', n.s) }}",
        "{{ 'a'|trim(n.s) }}",
        "{{ raise_exception(n.s) }}",
        "{{ n.s == n.t }}",
        "{{ n.s != n.t }}",
        "{{ n.s < n.t }}",
        "{{ 1 if n.s <= n.t <= n.s }}",
        "{{ n.s in [n.t] }}",
        "{{ n.s is eq n.t }}",
        "{{ n.s is eq(n.t) }}",
        "{{ n.s is in [n.t] }}",
        "{{ [n.s, n.t]|sort }}",
        "{{ [n.s, n.t]|unique|list|length }}",
        "{{ [n.s, n.t]|min|length }}",
        "{{ [n.s, n.t]|select('eq', n.t)|list|length }}",
        "{{ [{'a': n.s}, {'a': n.t}]|groupby('a')|length }}",
        "{{ [n.s].index(n.t) }}",
        "{{ [n.s].count(n.t) }}",
        "{{ n.s|map('string')|list|length }}",
        "{{ {'a': 1}[(n.s,)] }}",
        "{{ {(n.s,): 1} }}",
        "{{ {'a': 1}.get((n.s,)) }}",
        "{{ dict([((n.s,), 1)]) }}",
        "{% for x in [n.s, n.t] %}{{ loop.changed(x) }}{% endfor %}",
        "{% set n.n = n %}{{ n }}",
        "{% set n.n = n %}{{ n == [n] }}",
        "{% set x %}{{ n.s }}{% endset %}",
        "{% filter replace('a', n.s) %}a{% endfilter %}",
        "{% autoescape true %}{{ n.s }}{% endautoescape %}",
        "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(n.s) }}",
    ] {
        let failure = render(&format!("{shared}{walked}"), "{}").unwrap_err();
        let is_bounded = failure.status == Status::Limit
            || failure.message.contains("larger than")
            || failure.message.contains("deeper than");
        assert!(is_bounded, "{walked}: {:?} {}", failure.status, failure.message);
    }
    // What only looks at the first level costs nothing.
    expect(
        &format!(
            "{shared}{{{{ n.s|length }}}}{{{{ n.s is sequence }}}}{{{{ n.s[0]|length }}}}\
             {{{{ (n.s + n.t)|length }}}}{{% if n.s %}}x{{% endif %}}{{{{ 'a' == n.s }}}}\
             {{% for x in n.s %}}.{{% endfor %}}{{{{ 'a' in n.d }}}}{{{{ n.s|first|length }}}}"
        ),
        "{}",
        "3True36xFalse...True3",
    );
}

#[test]
fn lists_that_are_doubled_are_bounded() {
    let twice = [
        "n.s + n.s",
        "n.s * 2",
        "2 * n.s",
        "[n.s, n.s]|sum(start=[])",
        "(n.s + n.s)|batch(2)|list",
        "(n.s + n.s)[:]",
        "(n.s + n.s)|reverse",
    ];
    for doubled in twice {
        for used in ["{% if n.s %}{% endif %}", "{{ n.s|last }}", "{{ n.s[-1] }}"] {
            let source = format!(
                "{{% set n = namespace(s=[1]) %}}{{% for i in range(60) %}}\
                 {{% set n.s = {doubled} %}}{used}{{% endfor %}}"
            );
            let failure = render(&source, "{}").unwrap_err();
            assert_eq!(failure.status, Status::Limit, "{doubled} {used}: {}", failure.message);
        }
    }
}

#[test]
fn a_long_chat_may_be_gathered_message_by_message() {
    let messages = vec![r#"{"role":"user","content":"abc"}"#; 4096].join(",");
    expect(
        "{% set n = namespace(l=[]) %}{% for m in messages %}{% set n.l = n.l + [m] %}{% endfor %}\
         {{ n.l|length }}{{ n.l[-1].role }}{{ n.l[1:]|length }}{{ n.l == messages }}",
        &format!("{{\"messages\":[{messages}]}}"),
        "4096user4095True",
    );
}

#[test]
fn operators_of_lists_texts_and_numbers_are_pythons() {
    expect(
        "{{ a + b }} {{ a * n }} {{ n * b }} {{ s + t }} {{ s * n }} {{ n + f }} {{ n * n }} {{ f + f }} \
         {{ true + n }} {{ (a + b)[1:] }} {{ (1,) + (n,) }} {{ a * -1 }} {{ [a, b]|sum(start=[]) }} \
         {{ a|reverse }} {{ s|reverse }} {{ s ~ n ~ f ~ a ~ none }}",
        r#"{"a":[1],"b":[2],"n":2,"s":"xy","t":"z","f":0.5}"#,
        "[1, 2] [1, 1] [2, 2] xyz xyxy 2.5 4 1.0 3 [2] (1, 2) [] [1, 2] [1] yx xy20.5[1]None",
    );
    for wrong in ["a + s", "s + n", "n + a", "s * s", "a * f", "none + n", "(1,) + a", "big * big"]
    {
        let context = r#"{"a":[1],"n":2,"s":"x","f":1.5,"big":1e300}"#;
        let result = render(&format!("{{{{ {wrong} }}}}"), context);
        if wrong == "big * big" {
            assert_eq!(result.unwrap(), "inf");
        } else {
            assert_eq!(result.unwrap_err().status, Status::Render, "{wrong}");
        }
    }
    for wrong in ["{[1]: 2}", "{a: 2}", "{'x': 1}[a]", "{'x': 1}.get(a)"] {
        let failure = render(&format!("{{{{ {wrong} }}}}"), r#"{"a":[1]}"#).unwrap_err();
        assert!(failure.message.contains("unhashable type: 'list'"), "{}", failure.message);
    }
}

#[test]
fn the_numbers_of_str_format_are_bounded() {
    expect("{{ '{:>4096}'.format('a')|length }}", "{}", "4096");
    for field in ["{:>4097}", "{:.2000000000f}", "{:99999999999999999999}"] {
        let failure = render(&format!("{{{{ '{field}'.format(1.0) }}}}"), "{}").unwrap_err();
        assert!(failure.message.contains("the limit is 4096"), "{field}: {}", failure.message);
    }
    let many = "{:>4096}".repeat(10_000);
    assert!(render(&format!("{{{{ '{many}'.format('a')|length }}}}"), "{}").is_err());
    let repeated = "{0}".repeat(30_000);
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    let failure = render(&format!("{{{{ '{repeated}'.format(a)|length }}}}"), &long).unwrap_err();
    assert_eq!(failure.status, Status::Limit, "{}", failure.message);
}

#[test]
fn comparisons_of_long_texts_are_paid_for() {
    let long = "x".repeat(1 << 20);
    let context = format!("{{\"a\":\"{long}\",\"b\":\"{long}\"}}");
    let tag = format!("{{% if a == b{} %}}{{% endif %}}", " and a == b".repeat(190));
    let failure = render(&tag.repeat(50), &context).unwrap_err();
    assert_eq!(failure.status, Status::Limit, "{}", failure.message);
}

#[test]
fn what_a_template_says_when_it_refuses_is_bounded() {
    let failure = render("{{ raise_exception('\u{e9}' * 10000) }}", "{}").unwrap_err();
    assert_eq!(failure.status, Status::Raised);
    assert_eq!(failure.message.len(), MESSAGE_SIZE_MAX + 3);
}

#[test]
fn a_tag_with_too_many_operators_is_refused_in_no_time() {
    let long = format!("a{{{{ 1{} }}}}", " + x".repeat(16_000));
    let failure = render(&long, "{}").unwrap_err();
    assert_eq!(failure.status, Status::Syntax);
    assert_eq!(
        failure.message,
        "chat template: the tag in line 1 has more than 400 operators, filters and calls"
    );
}

#[test]
fn a_field_of_a_format_is_bounded_in_width_and_digits() {
    for (kind, digits) in [("f", 4098), ("e", 4102), ("g", 1), ("#g", 4097), ("d", 4096)] {
        let (flag, kind) = kind.split_at(kind.len() - 1);
        let size = |field: &str| format!("{{{{ ('%{field}' % 1.0)|length }}}}");
        expect(&size(&format!("{flag}.4096{kind}")), "{}", &digits.to_string());
        expect(&size(&format!("{flag}4096{kind}")), "{}", "4096");
        for over in [".4097", "4097", ".65536", "-65536", ".99999999999999999999"] {
            let failure = render(&size(&format!("{flag}{over}{kind}")), "{}").unwrap_err();
            assert_eq!(failure.status, Status::Render, "{over}{kind}: {}", failure.message);
            assert!(failure.message.contains("the limit is 4096"), "{}", failure.message);
        }
        let starred = format!("{{{{ '%{flag}.*{kind}' % (4097, 1.0) }}}}");
        assert!(render(&starred, "{}").unwrap_err().message.contains("the limit is 4096"));
    }
    // The most digits that %g can ask for: four zeros after the point come on top.
    expect("{{ ('%#.4096g' % 0.0001)|length }}", "{}", "4101");
    expect("{{ ('%.4096f' % 1e308)|length }}", "{}", "4406");
}
