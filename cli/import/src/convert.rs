//! Conversion of oslo.config's texts into values, by the type of the option.

use serde_json::Value as Json;

use crate::facts::NovaType;
use crate::syntax::is_space;

/// A text that is no value of its type. The text is not repeated: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConversionFault {
    #[error("the value is neither true nor false; write true, yes, on, 1, false, no, off or 0")]
    Flag,
    #[error("the value is not a whole number")]
    Whole,
    #[error("the value is not a number")]
    Decimal,
    #[error("an element of the value has no ':'; write KEY:VALUE, separated by commas")]
    Pair,
    #[error("a key of the value is empty, or is there twice")]
    Key,
}

/// The value of one text; `Null` for an empty number, which counts as not set.
///
/// # Errors
///
/// A text that the type does not have.
pub fn value(kind: NovaType, text: &str) -> Result<Json, ConversionFault> {
    Ok(match kind {
        NovaType::Text => Json::from(text),
        NovaType::Flag => Json::from(flag(text).ok_or(ConversionFault::Flag)?),
        NovaType::Whole => match text.trim_matches(is_space) {
            "" => Json::Null,
            text => Json::from(whole(text).ok_or(ConversionFault::Whole)?),
        },
        NovaType::Decimal => match text.trim_matches(is_space) {
            "" => Json::Null,
            text => Json::from(decimal(text).ok_or(ConversionFault::Decimal)?),
        },
        NovaType::List => Json::from(elements(text)),
        NovaType::Dict => dict(text)?,
    })
}

/// A value as it stands in for a reference, in Python's spelling.
pub(crate) fn as_reference(kind: NovaType, text: &str) -> Option<String> {
    match (kind, value(kind, text).ok()?) {
        (NovaType::Text, _) => Some(text.to_owned()),
        (NovaType::Flag, flag) => Some(if flag == true { "True" } else { "False" }.to_owned()),
        (NovaType::Whole | NovaType::Decimal, Json::Null) => Some(String::new()),
        (NovaType::Whole, number) => Some(number.to_string()),
        (NovaType::Decimal, _) => Some(text.trim_matches(is_space).to_owned()),
        (NovaType::List | NovaType::Dict, _) => None,
    }
}

fn flag(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// Whole numbers as Python's `int` reads them: with a sign, leading zeros, and single underscores between digits.
fn whole(text: &str) -> Option<i64> {
    without_underscores(text)?.parse().ok()
}

fn decimal(text: &str) -> Option<f64> {
    let plain = without_underscores(text)?;
    let number = plain.parse::<f64>().ok()?;
    number.is_finite().then_some(number)
}

fn without_underscores(text: &str) -> Option<String> {
    let is_wrong = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    (!is_wrong).then(|| text.replace('_', ""))
}

/// The elements of a list, without white space around them.
pub(crate) fn elements(text: &str) -> Vec<String> {
    let text = text.trim_matches(is_space).trim_end_matches(',');
    if text.is_empty() {
        return Vec::new();
    }
    let parts = text.split(',');
    parts
        .map(|it| it.trim_matches(is_space).to_owned())
        .collect()
}

/// Pairs of key and value. A comma inside a key is possible: a piece without ':' continues with the next one.
fn dict(text: &str) -> Result<Json, ConversionFault> {
    let mut entries = serde_json::Map::new();
    let text = text.trim_matches(is_space);
    if text.is_empty() {
        return Ok(Json::Object(entries));
    }
    let mut begun: Option<String> = None;
    for piece in text.split(',') {
        let pair = match begun.take() {
            Some(begun) => begun + "," + piece,
            None => piece.to_owned(),
        };
        // What was begun has no ':', so only the piece is searched.
        if !piece.contains(':') {
            begun = Some(pair);
            continue;
        }
        let (key, value) = pair.split_once(':').ok_or(ConversionFault::Pair)?;
        let (key, value) = (key.trim_matches(is_space), value.trim_matches(is_space));
        if key.is_empty() || entries.contains_key(key) {
            return Err(ConversionFault::Key);
        }
        entries.insert(key.to_owned(), Json::from(value));
    }
    match begun {
        Some(_) => Err(ConversionFault::Pair),
        None => Ok(Json::Object(entries)),
    }
}

/// JSON in one line: an object, or each element of a list of objects, as Nova takes them. Other texts stay as they are.
pub(crate) fn json_texts(text: &str) -> Vec<String> {
    match serde_json::from_str::<Json>(text) {
        Ok(Json::Array(elements)) => elements.iter().map(Json::to_string).collect(),
        Ok(Json::Object(entries)) => vec![Json::Object(entries).to_string()],
        _ => vec![text.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_type_reads_oslo_configs_spellings() {
        for (kind, text, expected) in [
            (NovaType::Flag, "YES", json!(true)),
            (NovaType::Flag, "Off", json!(false)),
            (NovaType::Whole, " 007 ", json!(7)),
            (NovaType::Whole, "+1_000", json!(1000)),
            (NovaType::Whole, " ", Json::Null),
            (NovaType::Decimal, "1.5e1", json!(15.0)),
            (NovaType::List, " a , b c,,d,", json!(["a", "b c", "", "d"])),
            (NovaType::List, " ", json!([])),
            (
                NovaType::Dict,
                "a:b, c : d:e",
                json!({"a": "b", "c": "d:e"}),
            ),
        ] {
            assert_eq!(value(kind, text), Ok(expected), "{text:?}");
        }
        for (kind, text, expected) in [
            (NovaType::Flag, "maybe", ConversionFault::Flag),
            (NovaType::Flag, " true", ConversionFault::Flag),
            (NovaType::Whole, "1.5", ConversionFault::Whole),
            (NovaType::Whole, "_1", ConversionFault::Whole),
            (NovaType::Decimal, "nan", ConversionFault::Decimal),
            (NovaType::Dict, "a", ConversionFault::Pair),
            (NovaType::Dict, "a:b,", ConversionFault::Pair),
            (NovaType::Dict, "a:b,:c", ConversionFault::Key),
            (NovaType::Dict, "a:b,a:c", ConversionFault::Key),
        ] {
            assert_eq!(value(kind, text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn a_json_value_of_several_lines_becomes_one_line_and_a_list_its_elements() {
        assert_eq!(json_texts("{\"a\":\n \"b\"}"), ["{\"a\":\"b\"}"]);
        assert_eq!(
            json_texts("[{\"a\":1},{\"b\":2}]"),
            ["{\"a\":1}", "{\"b\":2}"]
        );
        assert_eq!(json_texts("not json"), ["not json"]);
    }
}
