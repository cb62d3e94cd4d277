//! The query string as a list of pairs; keys may repeat.

use serde_json::{Map, Value};

use crate::fault::Fault;

/// A decoded query string.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryString {
    pairs: Vec<(String, String)>,
}

impl QueryString {
    /// Decodes `key=value&key=value` with `%XX` and `+`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let pairs = text
            .split('&')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                Ok((decode(key)?, decode(value)?))
            })
            .collect::<Result<_, Fault>>()?;
        Ok(Self { pairs })
    }

    /// The last value of a key.
    #[must_use]
    pub fn last(&self, key: &str) -> Option<&str> {
        let mut backwards = self.pairs.iter().rev();
        let (_, value) = backwards.find(|(name, _)| name == key)?;
        Some(value)
    }

    /// All values of a key in order.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// All keys with their values in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// As a JSON object of the last values, for a schema.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let object: Map<String, Value> = self
            .pairs
            .iter()
            .map(|(key, value)| (key.clone(), Value::String(value.clone())))
            .collect();
        Value::Object(object)
    }
}

fn decode(text: &str) -> Result<String, Fault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        match (first, hex_pair(tail)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            (other, _) => bytes.push(other),
        }
        rest = tail;
    }
    String::from_utf8(bytes)
        .map_err(|_| Fault::bad_request("Invalid query string parameters: not encoded as UTF-8"))
}

fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |index: usize| char::from(*text.get(index)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}
