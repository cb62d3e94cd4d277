//! Pagination of lists, and links.

use berth_http::fields::bounded;
use berth_http::{ApiRequest, Fault};
use berth_model::query_string;
use serde_json::{Value, json};

/// The maximum page size (Nova's `[api] max_limit`).
pub(crate) const MAX_LIMIT: usize = 1_000;

/// The page that a query requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageQuery {
    pub(crate) limit: usize,
    /// The last entry of the previous page.
    pub(crate) marker: Option<String>,
}

impl PageQuery {
    /// Parses the page of a query.
    ///
    /// Errors: 400 if the limit is not a valid number.
    pub(crate) fn of(call: &ApiRequest) -> Result<Self, Fault> {
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
            marker: call
                .query
                .last("marker")
                .filter(|marker| !marker.is_empty())
                .map(str::to_owned),
        })
    }

    /// Cuts the page out of a list of entries identified by `id`. Also returns whether more may follow.
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
pub(crate) fn links(call: &ApiRequest, collection: &str, id: &str) -> Value {
    json!([
        {"rel": "self", "href": call.absolute(&format!("/v2.1/{collection}/{id}"))},
        {"rel": "bookmark", "href": call.absolute(&format!("/{collection}/{id}"))},
    ])
}

/// The link to the next page after `last`, with all other query parameters.
pub(crate) fn next(call: &ApiRequest, path: &str, last: &str) -> Value {
    let asked = call.query.pairs().filter(|(key, _)| *key != "marker");
    let asked = asked.chain([("marker", last)]);
    let href = call.absolute(&format!("/v2.1/{path}?{}", query_string(asked)));
    json!([{"rel": "next", "href": href}])
}

/// Refuses a query with a key that is none of these.
pub(crate) fn check_keys(call: &ApiRequest, known: &[&str]) -> Result<(), Fault> {
    match call.query.pairs().find(|(key, _)| !known.contains(key)) {
        None => Ok(()),
        Some((key, _)) => Err(Fault::bad_request(format!(
            "Invalid input for query parameters: Additional properties are not allowed ('{}' was unexpected)",
            bounded(key)
        ))),
    }
}
