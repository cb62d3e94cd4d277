//! Address patterns of an entry: a glob as one text, or four regular expressions in a table.

use berth_model::PciAddress;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::Flaw;

/// The maximum length of an expression, and its maximum compiled size in bytes.
const LONGEST: usize = 128;
const LARGEST: usize = 64 << 10;

#[derive(Debug, Clone)]
pub(super) enum AddressPattern {
    /// Each part a number or any.
    Glob([Option<u32>; 4]),
    /// A prefix match on the digits of each part as the kernel writes them, like Python's `re.match` in
    /// Nova; `None` matches anything.
    Expressions([Option<Regex>; 4]),
}

const PARTS: [&str; 4] = ["domain", "bus", "slot", "function"];
const MOST: [u32; 4] = [u32::MAX, 0xff, 0x1f, 7];

impl AddressPattern {
    pub(super) fn read(value: &Value) -> Result<Self, Flaw> {
        match value {
            Value::String(text) => glob(text).map(Self::Glob),
            Value::Object(table) => expressions(table).map(Self::Expressions),
            _ => Err(Flaw::new(
                "address",
                "a text such as *:0a:00.*, or a table of domain, bus, slot and function, is expected",
            )),
        }
    }

    /// Whether it matches every address.
    pub(super) fn is_anything(&self) -> bool {
        match self {
            Self::Glob(parts) => parts.iter().all(Option::is_none),
            Self::Expressions(parts) => parts.iter().all(Option::is_none),
        }
    }

    /// Its address, if it is a complete one.
    pub(super) fn single(&self) -> Option<PciAddress> {
        let Self::Glob([Some(domain), Some(bus), Some(slot), Some(function)]) = self else {
            return None;
        };
        format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
            .parse()
            .ok()
    }

    /// Whether it certainly matches every address of the other; expressions are only compared for equality.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let part = |at: usize| match (self, other) {
            (Self::Glob(own), Self::Glob(others)) => own[at].is_none() || own[at] == others[at],
            (Self::Expressions(own), Self::Expressions(others)) => {
                let text =
                    |part: &Option<Regex>| part.as_ref().map(|part| part.as_str().to_owned());
                own[at].is_none() || text(&own[at]) == text(&others[at])
            }
            (Self::Glob(own), Self::Expressions(_)) => own[at].is_none(),
            (Self::Expressions(own), Self::Glob(_)) => own[at].is_none(),
        };
        (0..PARTS.len()).all(part)
    }

    pub(super) fn matches(&self, address: PciAddress) -> bool {
        match self {
            Self::Glob(parts) => {
                let numbers = [
                    address.domain(),
                    address.bus().into(),
                    address.slot().into(),
                    address.function().into(),
                ];
                parts
                    .iter()
                    .zip(numbers)
                    .all(|(part, number)| part.is_none_or(|part| part == number))
            }
            Self::Expressions(parts) => {
                let digits = [
                    format!("{:04x}", address.domain()),
                    format!("{:02x}", address.bus()),
                    format!("{:02x}", address.slot()),
                    format!("{:x}", address.function()),
                ];
                let mut pairs = parts.iter().zip(&digits);
                pairs.all(|(part, digits)| part.as_ref().is_none_or(|part| part.is_match(digits)))
            }
        }
    }
}

/// Parses `domain:bus:slot.function`. Parts may be omitted from the left, empty, or `*`, and then match anything.
fn glob(text: &str) -> Result<[Option<u32>; 4], Flaw> {
    let shown: String = text.chars().take(80).collect();
    let refuse = |what: &str| Flaw::new("address", format!("{shown:?}: {what}"));
    let (before, function) = text.split_once('.').unwrap_or((text, ""));
    let fields: Vec<&str> = before.split(':').collect();
    if fields.len() > 3 {
        return Err(refuse(
            "it has more parts than domain:bus:slot.function has",
        ));
    }
    let mut parts = [None; 4];
    let left_out = 3 - fields.len();
    let given = fields.into_iter().enumerate();
    let given = given.map(|(place, field)| (place + left_out, field));
    for (place, field) in given.chain([(3, function)]) {
        let field = field.trim();
        if field.is_empty() || field == "*" {
            continue;
        }
        let number = Some(field)
            .filter(|field| field.len() <= 8 && field.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|field| u32::from_str_radix(field, 16).ok())
            .filter(|number| *number <= MOST[place]);
        let name = PARTS[place];
        let most = MOST[place];
        parts[place] = Some(number.ok_or_else(|| {
            refuse(&format!(
                "{name} is * or a hexadecimal number of at most {most:x}"
            ))
        })?);
    }
    Ok(parts)
}

fn expressions(table: &Map<String, Value>) -> Result<[Option<Regex>; 4], Flaw> {
    if let Some(unknown) = table.keys().find(|key| !PARTS.contains(&key.as_str())) {
        let key = format!("address.{unknown}");
        return Err(Flaw::new(&key, "domain, bus, slot and function are known"));
    }
    let mut parts = [None, None, None, None];
    for (part, name) in parts.iter_mut().zip(PARTS) {
        let key = format!("address.{name}");
        let text = match table.get(name) {
            None => continue,
            Some(Value::String(text)) => text,
            Some(_) => {
                return Err(Flaw::new(
                    &key,
                    "a regular expression in quotes is expected",
                ));
            }
        };
        if matches!(text.as_str(), ".*" | "*" | "") {
            continue;
        }
        if text.len() > LONGEST {
            return Err(Flaw::new(
                &key,
                format!("an expression has at most {LONGEST} characters"),
            ));
        }
        let expression = RegexBuilder::new(&format!("^(?:{text})"))
            .size_limit(LARGEST)
            .build()
            .map_err(|error| Flaw::new(&key, format!("not a regular expression: {error}")))?;
        *part = Some(expression);
    }
    Ok(parts)
}
