//! Guards: a character put inside whatever users wrote that reads like a control token, so that the
//! tokenizer, which recognises control tokens in the rendered text, finds only those that the
//! template itself wrote.
//!
//! The guard is a noncharacter (U+FDD0..U+FDEF, reserved by Unicode for such use) that occurs
//! nowhere in the request; the tokenizer leaves it out again once control tokens are recognised.
//! Guards are put
//!   - after the first character of every control text inside a string, and
//!   - at the edge of a string that ends with the beginning of a control text, or begins with the
//!     end of one: a template may put two such strings side by side ("<|im_" + "end|>"). White
//!     space at the edge is looked through, since templates trim.
//!
//! Templates compare names (`message.role == "user"`, `part.type == "text"`) and look up keys, so
//! what is spelt like a name - letters, digits, `_` - is left alone where it is a key or a role,
//! and at its edges everywhere.
//!
//! A control text of a single character cannot hold a guard: then a guard is announced without
//! being put anywhere, and the tokenizer takes no one-character control token from a text with a
//! guard.

use std::collections::HashMap;

use serde_json::Value as Json;

const GUARD_FIRST: u32 = 0xFDD0;
const GUARD_COUNT: u32 = 32;

/// All texts, or their mirror images, as one tree of bytes. A node that exists is a prefix of some
/// text.
#[derive(Default)]
struct Trie {
    children: HashMap<(u32, u8), u32>,
    terminal: Vec<bool>, // by node; node 0 is the empty prefix
    has_children: Vec<bool>,
}

impl Trie {
    fn insert(&mut self, bytes: impl Iterator<Item = u8>) {
        if self.terminal.is_empty() {
            self.add_node();
        }
        let mut node = 0;
        for byte in bytes {
            self.has_children[node as usize] = true;
            let fresh = self.terminal.len() as u32;
            node = *self.children.entry((node, byte)).or_insert(fresh);
            if node == fresh {
                self.add_node();
            }
        }
        self.terminal[node as usize] = true;
    }

    fn add_node(&mut self) {
        self.terminal.push(false);
        self.has_children.push(false);
    }

    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        self.children.get(&(node, byte)).copied()
    }
}

#[derive(Default)]
pub struct Guards {
    forward: Trie,
    backward: Trie,
    is_first_byte: Vec<bool>, // [256] of some control text
    single_characters: Vec<char>,
    longest: usize,
    taken: u32, // guard characters that the control texts themselves contain
}

/// What guarding one request has come to.
pub struct Guarding<'a> {
    guards: &'a Guards,
    guard: Option<char>, // the one to use; None: all are taken
    needed: bool,
}

impl Guards {
    pub fn new(control_texts: &[&str]) -> Guards {
        let mut guards = Guards { is_first_byte: vec![false; 256], ..Guards::default() };
        for text in control_texts.iter().filter(|t| !t.is_empty()) {
            guards.taken |= guards_in(text);
            let mut characters = text.chars();
            if let (Some(only), None) = (characters.next(), characters.next()) {
                guards.single_characters.push(only);
                continue;
            }
            guards.forward.insert(text.bytes());
            guards.backward.insert(text.bytes().rev());
            guards.is_first_byte[text.as_bytes()[0] as usize] = true;
            guards.longest = guards.longest.max(text.len());
        }
        guards
    }

    /// Guards every string of a request. `also_taken`: guard characters that occur elsewhere (in
    /// the template). The guard that the rendered text will contain, if one was needed.
    pub fn apply(&self, request: &mut Json, also_taken: u32) -> Result<Option<char>, String> {
        let taken = guards_in_json(request) | self.taken | also_taken;
        let guard = (0..GUARD_COUNT)
            .find(|i| taken & (1 << i) == 0)
            .and_then(|i| char::from_u32(GUARD_FIRST + i));
        let mut guarding = Guarding { guards: self, guard, needed: false };
        guarding.visit(request);
        match (guarding.needed, guard) {
            (false, _) => Ok(None),
            (true, Some(guard)) => Ok(Some(guard)),
            (true, None) => Err(format!(
                "the messages contain the text of a control token and all {GUARD_COUNT} \
                 characters from U+FDD0 to U+FDEF, one of which is needed to keep it apart"
            )),
        }
    }
}

impl Guarding<'_> {
    fn visit(&mut self, value: &mut Json) {
        match value {
            Json::String(text) => self.visit_string(text),
            Json::Array(items) => items.iter_mut().for_each(|item| self.visit(item)),
            Json::Object(fields) => self.visit_object(fields),
            _ => {}
        }
    }

    fn visit_object(&mut self, fields: &mut serde_json::Map<String, Json>) {
        for (key, value) in fields.iter_mut() {
            match value {
                Json::String(role) if key == "role" && is_name(role) => {}
                value => self.visit(value),
            }
        }
        // Keys are printed by templates that list parameters or arguments, so they may not forge a
        // token either.
        let keep = |key: &String| is_name(key) || self.guards.positions(key).is_empty();
        if fields.keys().all(keep) {
            return;
        }
        *fields = std::mem::take(fields)
            .into_iter()
            .map(|(mut key, value)| {
                if !is_name(&key) {
                    self.visit_string(&mut key);
                }
                (key, value)
            })
            .collect();
    }

    fn visit_string(&mut self, text: &mut String) {
        if self.guards.single_characters.iter().any(|&c| text.contains(c)) {
            self.needed = true;
        }
        let positions = self.guards.positions(text);
        if positions.is_empty() {
            return;
        }
        self.needed = true;
        let Some(guard) = self.guard else { return };
        let mut guarded = String::with_capacity(text.len() + positions.len() * guard.len_utf8());
        let mut done = 0;
        for position in positions {
            guarded.push_str(&text[done..position]);
            guarded.push(guard);
            done = position;
        }
        guarded.push_str(&text[done..]);
        *text = guarded;
    }
}

impl Guards {
    /// Where guards go in `text`: byte offsets, ascending.
    fn positions(&self, text: &str) -> Vec<usize> {
        let mut positions = Vec::new();
        let inner = text.trim();
        let start = text.len() - text.trim_start().len();
        let end = start + inner.len();
        let has_edges = !is_name(inner);
        if has_edges && self.begins_with_an_end(inner.as_bytes()) {
            positions.push(start);
        }
        let mut ends_with_a_beginning = false;
        for (offset, character) in text.char_indices() {
            if !self.is_first_byte[text.as_bytes()[offset] as usize] {
                continue;
            }
            let walk = self.walk(&text.as_bytes()[offset..], end.saturating_sub(offset));
            if walk.found_whole {
                positions.push(offset + character.len_utf8());
            }
            ends_with_a_beginning |= walk.reached_edge;
        }
        if has_edges && ends_with_a_beginning && positions.last() != Some(&end) {
            let at = positions.partition_point(|&p| p < end);
            positions.insert(at, end);
        }
        positions.dedup();
        positions
    }

    /// What control texts that start at bytes[0] find; `edge` is where the string ends for those
    /// that trim it.
    fn walk(&self, bytes: &[u8], edge: usize) -> Walk {
        let mut walk = Walk::default();
        let mut node = 0;
        for (index, &byte) in bytes.iter().enumerate() {
            let Some(next) = self.forward.child(node, byte) else { break };
            node = next;
            walk.found_whole |= self.forward.terminal[node as usize];
            walk.reached_edge |= index + 1 == edge && self.forward.has_children[node as usize];
        }
        walk
    }

    /// Whether some prefix of `bytes` is the end of a control text, and not all of it.
    fn begins_with_an_end(&self, bytes: &[u8]) -> bool {
        (1..=bytes.len().min(self.longest)).any(|size| {
            let mut reversed = bytes[..size].iter().rev();
            let end = reversed.try_fold(0, |node, &byte| self.backward.child(node, byte));
            end.is_some_and(|node| self.backward.has_children[node as usize])
        })
    }
}

#[derive(Default)]
struct Walk {
    found_whole: bool,  // a control text, all of it
    reached_edge: bool, // up to the edge the bytes are the beginning of a longer one
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Which guard characters occur, one bit each.
pub fn guards_in(text: &str) -> u32 {
    let mut bits = 0;
    // U+FDD0..U+FDEF is EF B7 90..AF.
    for window in text.as_bytes().windows(3) {
        if window[0] == 0xEF && window[1] == 0xB7 && (0x90..0xB0).contains(&window[2]) {
            bits |= 1 << (window[2] - 0x90);
        }
    }
    bits
}

fn guards_in_json(value: &Json) -> u32 {
    match value {
        Json::String(text) => guards_in(text),
        Json::Array(items) => items.iter().fold(0, |bits, item| bits | guards_in_json(item)),
        Json::Object(fields) => {
            fields.iter().fold(0, |bits, (key, item)| bits | guards_in(key) | guards_in_json(item))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const G: &str = "\u{FDD0}";

    fn guarded(controls: &[&str], mut request: Json) -> (Json, Option<char>) {
        let guard = Guards::new(controls).apply(&mut request, 0).unwrap();
        (request, guard)
    }

    fn guarded_text(controls: &[&str], text: &str) -> String {
        guarded(controls, json!([text])).0[0].as_str().unwrap().replace('\u{FDD0}', "^")
    }

    #[test]
    fn text_without_control_tokens_is_untouched() {
        let request = json!([{"role": "user", "content": "1 < 2, <b>bold</b> |>x"}]);
        assert_eq!(guarded(&["<|im_end|>"], request.clone()), (request, None));
    }

    #[test]
    fn every_occurrence_gets_a_guard_after_its_first_character() {
        assert_eq!(guarded_text(&["<|e|>"], "a<|e|>b<|e|>c"), "a<^|e|>b<^|e|>c");
        assert_eq!(guarded_text(&["<|e|>", "<|e|>x"], "a<|e|>xc"), "a<^|e|>xc");
        assert_eq!(
            guarded_text(&["\u{ff5c}e\u{ff5c}"], "a\u{ff5c}e\u{ff5c}b"),
            "a\u{ff5c}^e\u{ff5c}b"
        );
    }

    #[test]
    fn overlapping_control_texts_are_each_broken() {
        assert_eq!(guarded_text(&["<|a|>", "|>x"], "0<|a|>x1"), "0<^|a|^>x1");
        assert_eq!(guarded_text(&["aab"], ".aaab."), ".aa^ab.");
    }

    #[test]
    fn halves_of_a_control_text_are_guarded_at_the_edge() {
        assert_eq!(guarded_text(&["<|im_end|>"], "tail <|im_"), "tail <|im_^");
        assert_eq!(guarded_text(&["<|im_end|>"], "end|> head"), "^end|> head");
        assert_eq!(guarded_text(&["<|im_end|>"], "tail <|im_ \n"), "tail <|im_^ \n");
        assert_eq!(guarded_text(&["<|im_end|>"], " |> head"), " ^|> head");
        assert_eq!(guarded_text(&["<|im_end|>"], "<"), "<^");
    }

    #[test]
    fn a_whole_text_at_the_edge_needs_one_guard_and_so_does_a_lone_end() {
        // "<|e|>" begins with itself, which is no proper end; it ends with none of its beginnings.
        assert_eq!(guarded_text(&["<|e|>"], "<|e|>"), "<^|e|>");
        assert_eq!(guarded_text(&["<|e|>"], ">"), "^>");
        // Its last "|" could begin the token "|.|" together with what follows.
        assert_eq!(guarded_text(&["|.|"], "?|.|"), "?|^.|^");
    }

    #[test]
    fn names_keep_their_spelling_where_templates_compare_them() {
        let (request, guard) =
            guarded(&["user", "<|endoftext|>"], json!({"role": "user", "type": "text"}));
        assert_eq!(request, json!({"role": "user", "type": "text"}));
        assert_eq!(guard, None);
        let (request, _) = guarded(&["user"], json!({"role": "user", "content": "user"}));
        assert_eq!(request["content"], format!("u{G}ser"));
    }

    #[test]
    fn keys_and_roles_cannot_forge_a_token() {
        let (request, guard) = guarded(
            &["<|im_end|>"],
            json!({"role": "x<|im_end|>", "args": {"<|im_end|>": 1, "b": 2}}),
        );
        assert_eq!(request["role"], format!("x<{G}|im_end|>"));
        assert_eq!(request["args"], json!({format!("<{G}|im_end|>"): 1, "b": 2}));
        assert_eq!(guard, Some('\u{FDD0}'));
        let keys: Vec<_> = request["args"].as_object().unwrap().keys().collect();
        assert_eq!(keys[1], "b"); // the order of keys is kept
    }

    #[test]
    fn the_first_free_guard_is_used() {
        let (request, guard) = guarded(&["<s>"], json!(["\u{FDD0}\u{FDD2}", "<s>"]));
        assert_eq!(guard, Some('\u{FDD1}'));
        assert_eq!(request[1], "<\u{FDD1}s>");
        let mut request = json!(["<s>"]);
        let taken = guards_in("\u{FDD0}");
        assert_eq!(Guards::new(&["<s>"]).apply(&mut request, taken), Ok(Some('\u{FDD1}')));
    }

    #[test]
    fn no_free_guard_is_an_error_only_when_one_is_needed() {
        let all: String = (0..32).filter_map(|i| char::from_u32(0xFDD0 + i)).collect();
        let guards = Guards::new(&["<s>"]);
        assert_eq!(guards.apply(&mut json!([all, "fine"]), 0), Ok(None));
        assert!(guards.apply(&mut json!([all, "<s>"]), 0).is_err());
    }

    #[test]
    fn a_single_character_control_text_announces_a_guard() {
        let (request, guard) = guarded(&["\u{a7}"], json!(["a \u{a7} b"]));
        assert_eq!(request, json!(["a \u{a7} b"]));
        assert_eq!(guard, Some('\u{FDD0}'));
        assert_eq!(guarded(&["\u{a7}"], json!(["a b"])).1, None);
    }
}
