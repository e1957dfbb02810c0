//! The expressions of one tag, read by the engine's grammar, and what is written into them.
//!
//! Two things are put right here. Where Python means something else than the engine (`%`, `+`, `*`,
//! `~`, `d.items` without a call), the operator becomes one of our filters. And where the engine
//! would walk a value as deep as it goes without looking at any limit (to compare, to sort, to look
//! a key up, to turn it into text), the value first passes `pacer_guarded`, which walks it at the
//! render's expense: lists that share their parts are small in memory and endless to walk.
//!
//! An operand that cannot be a list or dict, as its spelling shows, is a `scalar` here, and stays
//! as it is: that is nearly every operand of a shipped template.
//!
//! Only positions are computed; text is put before and behind tokens, so a long expression costs
//! what its length is. Words, brackets and lines stay where they were.

use crate::python_filters::{ATTRIBUTE, ITERABLE, MODULO};
use crate::python_methods::is_dict_method;
use crate::python_operators::{ADD, CONCAT, MULTIPLY};
use crate::source_tokens::{Kind, Token};
use crate::walk::{GUARDED, KEY, LISTED};

/// Operators, filters, tests, calls and indexes of one tag. The engine's compiler takes quadratic
/// time in them; a shipped template has some 40 in its longest tag.
pub const OPERATORS_MAX: usize = 400;
/// More than the engine takes.
const DEPTH_MAX: usize = 160;

/// Why a tag was not read. What is no Jinja, the engine refuses with a better sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    NotUnderstood,
    TooManyOperators,
}

type Read<T> = Result<T, Unread>;

/// Tokens [start, end).
#[derive(Clone, Copy, Debug)]
struct Operand {
    start: usize,
    end: usize,
    scalar: bool,   // certainly no list, tuple or dict
    filtered: bool, // ends in a filter: takes another one without brackets
}

impl Operand {
    fn new(start: usize, end: usize, scalar: bool) -> Operand {
        Operand { start, end, scalar, filtered: false }
    }
}

/// Of these, ours charge for what they walk, and the engine's look at no more than the first level.
const UNGUARDED_FILTERS: [&str; 31] = [
    "abs",
    "attr",
    "bool",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "e",
    "escape",
    "first",
    "float",
    "forceescape",
    "format",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "reverse",
    "round",
    "safe",
    "string",
    "sum",
    "tojson",
    "trim",
    "truncate",
    "wordcount",
    LISTED,
];

/// Whatever goes in, no list comes out.
const SCALAR_FILTERS: [&str; 22] = [
    "capitalize",
    "center",
    "count",
    "e",
    "escape",
    "forceescape",
    "format",
    "indent",
    "join",
    "length",
    "lower",
    "replace",
    "string",
    "title",
    "tojson",
    "trim",
    "truncate",
    "upper",
    "urlencode",
    "wordcount",
    MODULO,
    CONCAT,
];

const UNGUARDED_TESTS: [&str; 21] = [
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "integer",
    "iterable",
    "mapping",
    "none",
    "number",
    "odd",
    "safe",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
];

pub struct Rewriter<'a> {
    tokens: &'a mut [Token],
    next: usize,
    operators: usize,
    depth: usize,
}

impl<'a> Rewriter<'a> {
    pub fn new(tokens: &'a mut [Token]) -> Rewriter<'a> {
        Rewriter { tokens, next: 0, operators: 0, depth: 0 }
    }

    /// What stands between `{{` and `}}`.
    pub fn output(&mut self) -> Read<()> {
        self.expressions()?;
        self.finish()
    }

    /// What stands between `{%` and `%}`.
    pub fn statement(&mut self) -> Read<()> {
        let Some(word) = self.tokens.first().filter(|first| first.kind == Kind::Name) else {
            return Err(Unread::NotUnderstood);
        };
        let word = word.text.clone();
        self.next = 1;
        match word.as_str() {
            "if" | "elif" | "do" | "autoescape" => self.expression().map(drop)?,
            "for" => self.for_loop()?,
            "set" => self.set()?,
            "with" => self.with()?,
            "macro" => {
                self.name()?;
                self.parameters()?;
            }
            "call" => {
                if self.at("(") {
                    self.parameters()?;
                }
                self.expression()?;
            }
            "filter" => self.filter_chain()?,
            "include" | "extends" | "import" | "from" => {
                self.expression()?;
                self.words();
            }
            _ => self.words(), // else, endif, break, block x: nothing to evaluate
        }
        self.finish()
    }

    fn for_loop(&mut self) -> Read<()> {
        self.targets();
        if !self.skip_word("in") {
            return Err(Unread::NotUnderstood);
        }
        let walked = self.either()?;
        self.wrap(walked, ITERABLE); // to the engine none is an empty list
        if self.skip_word("if") {
            self.expression()?;
        }
        self.skip_word("recursive");
        Ok(())
    }

    fn set(&mut self) -> Read<()> {
        self.targets();
        if self.skip("=") {
            self.expressions()
        } else if self.skip("|") {
            self.filter_chain()
        } else {
            Ok(())
        }
    }

    fn with(&mut self) -> Read<()> {
        while self.next < self.tokens.len() {
            self.targets();
            if !self.skip("=") {
                return Err(Unread::NotUnderstood);
            }
            self.expression()?;
            self.skip(",");
        }
        Ok(())
    }

    /// Names that are assigned to.
    fn targets(&mut self) {
        while let Some(token) = self.tokens.get(self.next) {
            let is_target = match token.kind {
                Kind::Name => token.text != "in",
                Kind::Operator => matches!(token.text.as_str(), "," | "." | "(" | ")"),
                _ => false,
            };
            if !is_target {
                break;
            }
            self.next += 1;
        }
    }

    /// `(a, b=1)` of a macro or a call block.
    fn parameters(&mut self) -> Read<()> {
        if !self.skip("(") {
            return Err(Unread::NotUnderstood);
        }
        while !self.skip(")") {
            self.name()?;
            if self.skip("=") {
                self.expression()?;
            }
            if !self.skip(",") && !self.at(")") {
                return Err(Unread::NotUnderstood);
            }
        }
        Ok(())
    }

    /// `f|g(x)`, which is applied to text.
    fn filter_chain(&mut self) -> Read<()> {
        loop {
            self.dotted_name()?;
            if self.at("(") {
                self.arguments(true)?;
            }
            if !self.skip("|") {
                return Ok(());
            }
        }
    }

    fn words(&mut self) {
        while self
            .tokens
            .get(self.next)
            .is_some_and(|token| token.kind == Kind::Name || token.is_operator(","))
        {
            self.next += 1;
        }
    }

    fn expressions(&mut self) -> Read<()> {
        self.expression()?;
        while self.skip(",") {
            if self.next == self.tokens.len() {
                break;
            }
            self.expression()?;
        }
        Ok(())
    }

    /// `a if b else c`.
    fn expression(&mut self) -> Read<Operand> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Unread::NotUnderstood);
        }
        let mut whole = self.either()?;
        while self.skip_word("if") {
            self.either()?;
            let mut scalar = whole.scalar;
            if self.skip_word("else") {
                scalar = self.expression()?.scalar && scalar;
            }
            whole = Operand::new(whole.start, self.next, scalar);
        }
        self.depth -= 1;
        Ok(whole)
    }

    fn either(&mut self) -> Read<Operand> {
        let mut whole = self.both()?;
        while self.skip_word("or") {
            self.count()?;
            let right = self.both()?;
            whole = Operand::new(whole.start, right.end, whole.scalar && right.scalar);
        }
        Ok(whole)
    }

    fn both(&mut self) -> Read<Operand> {
        let mut whole = self.negation()?;
        while self.skip_word("and") {
            self.count()?;
            let right = self.negation()?;
            whole = Operand::new(whole.start, right.end, whole.scalar && right.scalar);
        }
        Ok(whole)
    }

    fn negation(&mut self) -> Read<Operand> {
        let start = self.next;
        while self.skip_word("not") {
            self.count()?;
        }
        let operand = self.comparison()?;
        Ok(if operand.start > start { Operand::new(start, operand.end, true) } else { operand })
    }

    fn comparison(&mut self) -> Read<Operand> {
        let first = self.sum()?;
        let mut left = first;
        let mut dear: Vec<Operand> = Vec::new(); // operands to guard, each once
        while let Some(is_containment) = self.comparator()? {
            let right = self.sum()?;
            // A scalar is compared in no time with anything, and sought in no more than the
            // items there are.
            if !left.scalar && (is_containment || !right.scalar) {
                if dear.last().is_none_or(|last| last.start != left.start) {
                    dear.push(left);
                }
                if !right.scalar {
                    dear.push(right);
                }
            }
            left = right;
        }
        for operand in dear {
            self.wrap(operand, GUARDED);
        }
        let is_comparison = left.start > first.start;
        Ok(if is_comparison { Operand::new(first.start, left.end, true) } else { first })
    }

    /// Whether there is one; and if so, whether it is `in` or `not in`.
    fn comparator(&mut self) -> Read<Option<bool>> {
        if ["==", "!=", "<", "<=", ">", ">="].iter().any(|operator| self.at(operator)) {
            self.next += 1;
            self.count()?;
            return Ok(Some(false));
        }
        let is_negated = self.skip_word("not");
        if self.skip_word("in") {
            self.count()?;
            return Ok(Some(true));
        }
        if is_negated {
            return Err(Unread::NotUnderstood);
        }
        Ok(None)
    }

    fn sum(&mut self) -> Read<Operand> {
        let mut left = self.concatenation()?;
        while self.at("+") || self.at("-") {
            let operator = self.take_operator()?;
            let right = self.concatenation()?;
            // With a text or a number the other must be one too, or it is an error.
            left = if self.tokens[operator].text == "+" && !left.scalar && !right.scalar {
                self.into_filter(left, operator, ADD, right)
            } else {
                Operand::new(left.start, right.end, true)
            };
        }
        Ok(left)
    }

    /// `a ~ b ~ c` becomes `(a)|pacer_concat(b, c)`.
    fn concatenation(&mut self) -> Read<Operand> {
        let first = self.product()?;
        let mut last = first;
        let mut scalar = first.scalar;
        let mut operators = Vec::new();
        while self.at("~") {
            operators.push(self.take_operator()?);
            last = self.product()?;
            scalar &= last.scalar;
        }
        if operators.is_empty() {
            return Ok(first);
        }
        if scalar {
            return Ok(Operand::new(first.start, last.end, true));
        }
        let (head, rest) = (operators[0], &operators[1..]);
        for &operator in rest {
            self.tokens[operator].text = ",".to_string();
        }
        let result = self.into_filter(first, head, CONCAT, last);
        Ok(Operand { scalar: true, ..result })
    }

    fn product(&mut self) -> Read<Operand> {
        let mut left = self.power()?;
        loop {
            let name = match self.tokens.get(self.next) {
                Some(token) if token.is_operator("%") => Some(MODULO),
                Some(token) if token.is_operator("*") => Some(MULTIPLY),
                Some(token) if token.is_operator("/") || token.is_operator("//") => None,
                _ => return Ok(left),
            };
            let operator = self.take_operator()?;
            let right = self.power()?;
            left = match name {
                Some(MODULO) => {
                    let result = self.into_filter(left, operator, MODULO, right);
                    Operand { scalar: true, ..result }
                }
                Some(name) if !(left.scalar && right.scalar) => {
                    self.into_filter(left, operator, name, right)
                }
                _ => Operand::new(left.start, right.end, true),
            };
        }
    }

    fn power(&mut self) -> Read<Operand> {
        let mut left = self.unary()?;
        while self.at("**") {
            self.take_operator()?;
            let right = self.unary()?;
            left = Operand::new(left.start, right.end, true);
        }
        Ok(left)
    }

    /// A sign, a value, what is called on it; then filters and tests, which are for all of that.
    fn unary(&mut self) -> Read<Operand> {
        let operand = self.signed()?;
        self.filters(operand)
    }

    fn signed(&mut self) -> Read<Operand> {
        let start = self.next;
        while self.at("-") || self.at("+") {
            self.take_operator()?;
        }
        let operand = self.primary()?;
        let operand = self.postfix(operand)?;
        let is_signed = operand.start > start;
        Ok(if is_signed { Operand::new(start, operand.end, true) } else { operand })
    }

    fn primary(&mut self) -> Read<Operand> {
        let start = self.next;
        let token = self.tokens.get(start).ok_or(Unread::NotUnderstood)?;
        let scalar = match token.kind {
            Kind::Number => true,
            Kind::Text => {
                // Strings side by side are one.
                while self.tokens.get(self.next + 1).is_some_and(|t| t.kind == Kind::Text) {
                    self.next += 1;
                }
                true
            }
            Kind::Name => match token.text.as_str() {
                "true" | "True" | "false" | "False" | "none" | "None" => true,
                "and" | "or" | "not" | "in" | "is" | "if" | "else" => {
                    return Err(Unread::NotUnderstood)
                }
                _ => false,
            },
            Kind::Operator => {
                self.next += 1;
                let scalar = match self.tokens[start].text.as_str() {
                    "(" => self.brackets()?,
                    "[" => self.list()?,
                    "{" => self.dict()?,
                    _ => return Err(Unread::NotUnderstood),
                };
                return Ok(Operand::new(start, self.next, scalar));
            }
        };
        self.next += 1;
        Ok(Operand::new(start, self.next, scalar))
    }

    /// `(a)` is a; `()`, `(a,)` and `(a, b)` are tuples.
    fn brackets(&mut self) -> Read<bool> {
        let mut scalar = false;
        let mut is_first = true;
        while !self.skip(")") {
            scalar = self.expression()?.scalar && is_first;
            is_first = false;
            if self.skip(",") {
                scalar = false;
            } else if !self.at(")") {
                return Err(Unread::NotUnderstood);
            }
        }
        Ok(scalar)
    }

    fn list(&mut self) -> Read<bool> {
        while !self.skip("]") {
            self.expression()?;
            if !self.skip(",") && !self.at("]") {
                return Err(Unread::NotUnderstood);
            }
        }
        Ok(false)
    }

    fn dict(&mut self) -> Read<bool> {
        while !self.skip("}") {
            let key = self.expression()?;
            self.guard(key, KEY);
            if !self.skip(":") {
                return Err(Unread::NotUnderstood);
            }
            self.expression()?;
            if !self.skip(",") && !self.at("}") {
                return Err(Unread::NotUnderstood);
            }
        }
        Ok(false)
    }

    fn postfix(&mut self, mut operand: Operand) -> Read<Operand> {
        loop {
            if self.at(".") {
                let dot = self.take_operator()?;
                self.attribute(&operand, dot)?;
            } else if self.at("[") {
                self.take_operator()?;
                self.index(&operand)?;
            } else if self.at("(") {
                let is_changed = self.tokens[self.next - 1].text == "changed"; // loop.changed(x)
                self.arguments(is_changed)?;
            } else {
                return Ok(operand);
            }
            operand = Operand::new(operand.start, self.next, false);
        }
    }

    /// `a.items` becomes `(a|pacer_attribute("items"))` unless it is called: whatever keys a has,
    /// it is the method.
    fn attribute(&mut self, operand: &Operand, dot: usize) -> Read<()> {
        let name = self.tokens.get(self.next).ok_or(Unread::NotUnderstood)?;
        if !matches!(name.kind, Kind::Name | Kind::Number) {
            return Err(Unread::NotUnderstood);
        }
        self.next += 1;
        if is_dict_method(&name.text) && !self.at("(") {
            self.tokens[operand.start].before.insert(0, '(');
            self.tokens[dot].text = format!("|{ATTRIBUTE}(");
            let name = &mut self.tokens[self.next - 1];
            name.text = format!("\"{}\"", name.text);
            name.after.push_str("))");
        }
        Ok(())
    }

    /// Behind "[". A slice becomes a list of its own: the engine's would go through the whole of
    /// the other each time it is looked at.
    fn index(&mut self, operand: &Operand) -> Read<()> {
        let mut is_slice = false;
        while !self.skip("]") {
            if self.skip(":") {
                is_slice = true;
                continue;
            }
            let key = self.expression()?;
            if !self.at(":") && !self.at("]") {
                return Err(Unread::NotUnderstood);
            }
            if !self.at(":") && !is_slice {
                self.guard(key, KEY);
            }
        }
        if is_slice {
            self.tokens[operand.start].before.insert_str(0, "((");
            self.tokens[self.next - 1].after.push_str(&format!(")|{LISTED})"));
        }
        Ok(())
    }

    /// From "(" on.
    fn arguments(&mut self, guarded: bool) -> Read<()> {
        self.take_operator()?;
        while !self.skip(")") {
            let is_named = self.tokens[self.next].kind == Kind::Name
                && self.tokens.get(self.next + 1).is_some_and(|token| token.is_operator("="));
            if is_named {
                self.next += 2;
            } else if !self.skip("**") {
                self.skip("*");
            }
            let argument = self.expression()?;
            if guarded {
                self.guard(argument, GUARDED);
            }
            if !self.skip(",") && !self.at(")") {
                return Err(Unread::NotUnderstood);
            }
        }
        Ok(())
    }

    fn filters(&mut self, mut operand: Operand) -> Read<Operand> {
        loop {
            let begin = self.next;
            if self.skip("|") {
                self.count()?;
                let name = self.dotted_name()?;
                if !operand.scalar && !UNGUARDED_FILTERS.contains(&name.as_str()) {
                    self.tokens[begin].before.push_str(&format!("|{GUARDED}"));
                }
                if self.at("(") {
                    self.arguments(true)?;
                }
                let scalar = SCALAR_FILTERS.contains(&name.as_str());
                operand = Operand { start: operand.start, end: self.next, scalar, filtered: true };
            } else if self.skip_word("is") {
                self.count()?;
                self.skip_word("not");
                let name = self.dotted_name()?;
                if !operand.scalar && !UNGUARDED_TESTS.contains(&name.as_str()) {
                    self.tokens[begin].before.push_str(&format!("|{GUARDED} "));
                }
                self.test_argument()?;
                operand = Operand::new(operand.start, self.next, true);
            } else {
                return Ok(operand);
            }
        }
    }

    /// `(x)`, or a value without brackets, or nothing.
    fn test_argument(&mut self) -> Read<()> {
        if self.at("(") {
            return self.arguments(true);
        }
        let has_value = self.tokens.get(self.next).is_some_and(|token| match token.kind {
            Kind::Name => !matches!(token.text.as_str(), "and" | "or" | "else" | "is"),
            Kind::Operator => matches!(token.text.as_str(), "+" | "-" | "[" | "{"),
            _ => true,
        });
        // Words that end the expression are no values, whatever the engine makes of them.
        let ends = ["if", "in", "not", "recursive"];
        if !has_value || ends.iter().any(|word| self.at_word(word)) {
            return Ok(());
        }
        let argument = self.signed()?;
        if !argument.scalar {
            self.tokens[argument.start].before.insert_str(0, "((");
            self.tokens[argument.end - 1].after.push_str(&format!(")|{GUARDED})"));
        }
        Ok(())
    }

    fn guard(&mut self, operand: Operand, filter: &str) {
        if !operand.scalar {
            self.wrap(operand, filter);
        }
    }

    fn wrap(&mut self, operand: Operand, filter: &str) {
        self.tokens[operand.start].before.insert(0, '(');
        self.tokens[operand.end - 1].after.push_str(&format!(")|{filter}"));
    }

    /// `a + b` becomes `(a)|name(b)`.
    fn into_filter(
        &mut self,
        left: Operand,
        operator: usize,
        name: &str,
        right: Operand,
    ) -> Operand {
        if left.filtered {
            self.tokens[operator].text = format!("|{name}(");
        } else {
            self.tokens[left.start].before.insert(0, '(');
            self.tokens[operator].text = format!(")|{name}(");
        }
        self.tokens[right.end - 1].after.push(')');
        Operand { start: left.start, end: right.end, scalar: false, filtered: true }
    }

    fn at(&self, operator: &str) -> bool {
        self.tokens.get(self.next).is_some_and(|token| token.is_operator(operator))
    }

    fn at_word(&self, word: &str) -> bool {
        self.tokens
            .get(self.next)
            .is_some_and(|token| token.kind == Kind::Name && token.text == word)
    }

    fn skip(&mut self, operator: &str) -> bool {
        let is_there = self.at(operator);
        self.next += usize::from(is_there);
        is_there
    }

    fn skip_word(&mut self, word: &str) -> bool {
        let is_there = self.at_word(word);
        self.next += usize::from(is_there);
        is_there
    }

    fn take_operator(&mut self) -> Read<usize> {
        self.count()?;
        self.next += 1;
        Ok(self.next - 1)
    }

    fn count(&mut self) -> Read<()> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            return Err(Unread::TooManyOperators);
        }
        Ok(())
    }

    fn name(&mut self) -> Read<String> {
        let token = self.tokens.get(self.next).filter(|token| token.kind == Kind::Name);
        self.next += 1;
        token.map(|token| token.text.clone()).ok_or(Unread::NotUnderstood)
    }

    fn dotted_name(&mut self) -> Read<String> {
        let mut name = self.name()?;
        while self.skip(".") {
            name = name + "." + &self.name()?;
        }
        Ok(name)
    }

    fn finish(&self) -> Read<()> {
        match self.next == self.tokens.len() {
            true => Ok(()),
            false => Err(Unread::NotUnderstood),
        }
    }
}
