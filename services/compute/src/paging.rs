//! Pages of a list, and the links of what is in it.

use berth_http::{Call, Fault};
use serde_json::{Value, json};

use crate::fields::bounded;

/// The most that one answer lists (Nova's `[api] max_limit`).
pub(crate) const MAX_LIMIT: usize = 1_000;

/// Which part of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// So many at most.
    pub(crate) limit: usize,
    /// What comes behind this one.
    pub(crate) marker: Option<String>,
}

impl Page {
    /// What a query asks for.
    ///
    /// # Errors
    /// A 400 where the limit is no number that there can be so many of.
    pub(crate) fn of(call: &Call) -> Result<Self, Fault> {
        let limit = match call.query.last("limit") {
            None => MAX_LIMIT,
            Some(text) => match text.parse::<i64>() {
                Err(_) => {
                    let sentence = format!("limit param must be an integer, not {}", bounded(text));
                    return Err(Fault::bad_request(sentence));
                }
                Ok(limit) => usize::try_from(limit)
                    .map_err(|_| Fault::bad_request("limit param must not be negative"))?,
            },
        };
        Ok(Self {
            limit: limit.min(MAX_LIMIT),
            marker: call.query.last("marker").map(str::to_owned),
        })
    }

    /// The page of a whole list, in which each is known by `id`, and whether there may be another behind it.
    pub(crate) fn cut<T>(
        &self,
        mut all: Vec<T>,
        id: impl Fn(&T) -> &str,
    ) -> Result<(Vec<T>, bool), Fault> {
        if let Some(marker) = &self.marker {
            let at = all.iter().position(|one| id(one) == marker.as_str());
            let at = at.ok_or_else(|| {
                Fault::bad_request(format!("marker [{}] not found", bounded(marker)))
            })?;
            all.drain(..=at);
        }
        all.truncate(self.limit);
        let full = self.limit > 0 && all.len() == self.limit;
        Ok((all, full))
    }
}

/// `self` and `bookmark` of one thing.
pub(crate) fn links(call: &Call, collection: &str, id: &str) -> Value {
    json!([
        {"rel": "self", "href": call.absolute(&format!("/v2.1/{collection}/{id}"))},
        {"rel": "bookmark", "href": call.absolute(&format!("/{collection}/{id}"))},
    ])
}

/// The link to the page behind `last`, with all else that was asked for.
pub(crate) fn next(call: &Call, path: &str, last: &str) -> Value {
    let asked = call.query.pairs().filter(|(key, _)| *key != "marker");
    let asked = asked.chain([("marker", last)]);
    let pairs: Vec<String> = asked
        .map(|(key, value)| format!("{}={}", encoded(key), encoded(value)))
        .collect();
    let href = call.absolute(&format!("/v2.1/{path}?{}", pairs.join("&")));
    json!([{"rel": "next", "href": href}])
}

/// A text as a part of a query string.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Refuses a query with a key that is none of these.
pub(crate) fn check_keys(call: &Call, known: &[&str]) -> Result<(), Fault> {
    match call.query.pairs().find(|(key, _)| !known.contains(key)) {
        None => Ok(()),
        Some((key, _)) => Err(Fault::bad_request(format!(
            "Invalid input for query parameters: Additional properties are not allowed ('{}' was unexpected)",
            bounded(key)
        ))),
    }
}
