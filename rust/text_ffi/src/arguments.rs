//! The arguments of one call from a template, by place or by name, as Python takes them.

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};

pub fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Positional and keyword arguments of one call, taken one after the other.
pub struct Arguments<'a> {
    positional: &'a [Value],
    next: usize,
    keywords: Option<Kwargs>,
}

impl<'a> Arguments<'a> {
    pub fn new(args: &'a [Value]) -> Result<Arguments<'a>, Error> {
        match args.split_last() {
            Some((last, before)) if last.is_kwargs() => Ok(Arguments {
                positional: before,
                next: 0,
                keywords: Some(Kwargs::try_from(last.clone())?),
            }),
            _ => Ok(Arguments { positional: args, next: 0, keywords: None }),
        }
    }

    /// The next argument, by place or by `name`; None is the same as none.
    pub fn take(&mut self, name: &str) -> Result<Option<Value>, Error> {
        let given = match (self.positional.get(self.next), &self.keywords) {
            (Some(value), _) => Some(value.clone()),
            (None, Some(keywords)) if keywords.has(name) => Some(keywords.get::<Value>(name)?),
            _ => None,
        };
        self.next += 1;
        Ok(given.filter(|value| !value.is_none()))
    }

    /// The next argument, which must be there and may be none.
    pub fn any(&mut self, name: &str) -> Result<Value, Error> {
        let value = self.positional.get(self.next).cloned();
        self.next += 1;
        value.ok_or_else(|| invalid(format!("'{name}' is missing")))
    }

    pub fn flag(&mut self, name: &str) -> Result<bool, Error> {
        Ok(self.take(name)?.is_some_and(|value| value.is_true()))
    }

    pub fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        match self.take(name)? {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) => Ok(Some(text.to_string())),
                None => Err(invalid(format!("'{name}' must be str, not {}", value.kind()))),
            },
        }
    }

    pub fn needed_text(&mut self, name: &str) -> Result<String, Error> {
        self.text(name)?.ok_or_else(|| invalid(format!("'{name}' is missing")))
    }

    pub fn number(&mut self, name: &str) -> Result<Option<i64>, Error> {
        self.take(name)?.map(i64::try_from).transpose()
    }

    pub fn finish(&self, method: &str) -> Result<(), Error> {
        if self.next < self.positional.len() {
            return Err(invalid(format!(
                "{method}() takes at most {} arguments, not {}",
                self.next,
                self.positional.len()
            )));
        }
        self.keywords.as_ref().map_or(Ok(()), Kwargs::assert_all_used)
    }
}
