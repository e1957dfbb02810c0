//! What stands inside a template's tags, as tokens: names, numbers, strings and operators, each with
//! the white space before it, so that all of it can be written back.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Name,
    Number,
    Text,
    Operator,
}

#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub space: String, // white space before it
    pub text: String,
    pub before: String, // written between white space and text
    pub after: String,  // written behind the text
}

impl Token {
    pub fn new(kind: Kind, space: &str, text: &str) -> Token {
        Token {
            kind,
            space: space.to_string(),
            text: text.to_string(),
            before: String::new(),
            after: String::new(),
        }
    }

    pub fn opens(&self) -> bool {
        self.kind == Kind::Operator && matches!(self.text.as_str(), "(" | "[" | "{")
    }

    pub fn closes(&self) -> bool {
        self.kind == Kind::Operator && matches!(self.text.as_str(), ")" | "]" | "}")
    }

    pub fn is_operator(&self, text: &str) -> bool {
        self.kind == Kind::Operator && self.text == text
    }
}

/// The tokens up to the tag's end; where they end, and where the tag ends.
pub fn tokenize(text: &str, is_block: bool) -> Option<(Vec<Token>, usize, usize)> {
    let close = if is_block { "%}" } else { "}}" };
    let mut tokens = Vec::new();
    let mut depth = 0usize;
    let mut position = 0;
    loop {
        let rest = &text[position..];
        let trimmed = rest.trim_start();
        let space = &rest[..rest.len() - trimmed.len()];
        let first = trimmed.chars().next()?;
        if depth == 0 {
            let unsigned = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
            if let Some(after) = unsigned.strip_prefix(close) {
                return Some((tokens, position, text.len() - after.len()));
            }
        }
        let (kind, size) = if first == '"' || first == '\'' {
            (Kind::Text, string_size(trimmed)?)
        } else if first.is_ascii_digit() {
            (Kind::Number, number_size(trimmed))
        } else if first.is_alphabetic() || first == '_' {
            let end = trimmed.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            (Kind::Name, end.unwrap_or(trimmed.len()))
        } else {
            let double =
                ["**", "//", "==", "!=", "<=", ">="].iter().any(|o| trimmed.starts_with(o));
            (Kind::Operator, if double { 2 } else { first.len_utf8() })
        };
        let mut token = Token::new(kind, space, &trimmed[..size]);
        if kind == Kind::Text {
            token.text = with_plain_escapes(&token.text);
        }
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
        }
        tokens.push(token);
        position += space.len() + size;
    }
}

/// With both quotes.
fn string_size(text: &str) -> Option<usize> {
    let quote = text.as_bytes()[0];
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b if b == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn number_size(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut size = 1;
    while size < bytes.len() {
        let (byte, before) = (bytes[size], bytes[size - 1]);
        let goes_on = byte.is_ascii_alphanumeric()
            || byte == b'_'
            // A point belongs to the number when a digit follows, a sign to an exponent.
            || (byte == b'.' && bytes.get(size + 1).is_some_and(u8::is_ascii_digit))
            || (matches!(byte, b'+' | b'-')
                && matches!(before, b'e' | b'E')
                && !text.starts_with("0x")
                && bytes.get(size + 1).is_some_and(u8::is_ascii_digit));
        if !goes_on {
            break;
        }
        size += 1;
    }
    size
}

/// The literal with only those escapes that both Python and the engine read: Python's "\U0001F642",
/// "\a" and a backslash at the end of a line are not among them.
fn with_plain_escapes(literal: &str) -> String {
    if !literal.contains('\\') {
        return literal.to_string();
    }
    let quote = &literal[..1];
    let mut out = quote.to_string();
    let mut units: Vec<u16> = Vec::new(); // of surrogates, which may come in pairs
    let mut chars = literal[1..literal.len() - 1].chars().peekable();
    while let Some(c) = chars.next() {
        let code = match c {
            '\\' => match chars.next() {
                None => return literal.to_string(),
                Some('\n') => continue,
                Some('a') => 0x07,
                Some('b') => 0x08,
                Some('f') => 0x0C,
                Some('n') => 0x0A,
                Some('r') => 0x0D,
                Some('t') => 0x09,
                Some('v') => 0x0B,
                Some('x') => match hex(&mut chars, 2) {
                    Some(code) => code,
                    None => return literal.to_string(),
                },
                Some('u') => match hex(&mut chars, 4) {
                    Some(code) => code,
                    None => return literal.to_string(),
                },
                Some('U') => match hex(&mut chars, 8) {
                    Some(code) => code,
                    None => return literal.to_string(),
                },
                Some(digit @ '0'..='7') => {
                    let mut code = digit as u32 - '0' as u32;
                    for _ in 0..2 {
                        let Some(next) = chars.next_if(|c| ('0'..='7').contains(c)) else { break };
                        code = code * 8 + next as u32 - '0' as u32;
                    }
                    code
                }
                Some(quoted @ ('\\' | '\'' | '"')) => quoted as u32,
                Some(other) => {
                    out.push_str("\\\\");
                    other as u32
                }
            },
            c => {
                out.push(c);
                continue;
            }
        };
        if (0xD800..0xE000).contains(&code) {
            units.push(code as u16);
            if let Some(Ok(whole)) = char::decode_utf16(units.iter().copied()).next() {
                out.push(whole);
                units.clear();
            }
            continue;
        }
        match char::from_u32(code) {
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some(c) if quote.starts_with(c) => {
                out.push('\\');
                out.push(c);
            }
            Some(c) => out.push(c),
            None => return literal.to_string(),
        }
    }
    if !units.is_empty() {
        return literal.to_string();
    }
    out + quote
}

fn hex(chars: &mut std::iter::Peekable<std::str::Chars>, digits: usize) -> Option<u32> {
    let text: String = (0..digits).map_while(|_| chars.next_if(char::is_ascii_hexdigit)).collect();
    u32::from_str_radix(&text, 16).ok().filter(|_| text.len() == digits)
}
