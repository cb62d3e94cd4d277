//! A path prefix for all routes of a service, such as `/placement`, for a service that shares its port or is behind a
//! proxy.
//!
//! Requests may arrive with the prefix, or without it if a proxy removed it. Links and `location` headers always have
//! it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use berth_options::{Json, OptionKind, OptionType, TextKind};
use http::Uri;
use http::uri::PathAndQuery;

/// The prefix: empty, or text that begins with `/` and does not end with one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefix(Option<Arc<str>>);

impl OptionType for Prefix {
    const KIND: OptionKind = OptionKind::Text(&TextKind::new(
        "path that begins with / and does not end with it",
        "write a path such as \"/placement\"",
        |text| match text.parse::<Self>() {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{text:?} cannot stand before paths: {error}").into()),
        },
    ));

    fn read(value: &Json) -> Option<Self> {
        value.as_str()?.parse().ok()
    }

    fn write(&self) -> Json {
        self.0.as_deref().map_or(Json::Null, Json::from)
    }
}

/// The text is not a valid prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a path begins with /, ends without, and has letters, digits, -, ., _ and ~ between")]
pub struct PrefixError;

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        // The unreserved characters of RFC 3986: proxies and clients do not encode them in different ways.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let segments = text.strip_prefix('/').ok_or(PrefixError)?;
        let good =
            |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(plain);
        if !segments.split('/').all(good) {
            return Err(PrefixError);
        }
        Ok(Self(Some(text.into())))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or_default())
    }
}

/// Adds a prefix to every path of a router. Does nothing if the prefix is empty.
pub fn under(router: Router, prefix: Prefix) -> Router {
    if prefix.0.is_none() {
        return router;
    }
    // A layer of the router itself would run after the route lookup.
    Router::new()
        .fallback_service(router)
        .layer(from_fn_with_state(prefix, strip))
}

async fn strip(State(prefix): State<Prefix>, mut request: Request, next: Next) -> Response {
    if let Some(uri) = prefix.without(request.uri()) {
        *request.uri_mut() = uri;
    }
    request.extensions_mut().insert(prefix);
    next.run(request).await
}

impl Prefix {
    /// The URI without the prefix; `None` if it does not begin with it.
    fn without(&self, uri: &Uri) -> Option<Uri> {
        let rest = uri.path().strip_prefix(self.0.as_deref()?)?;
        let path = match rest.as_bytes().first() {
            None => "/",
            Some(b'/') => rest,
            Some(_) => return None,
        };
        let text = match uri.query() {
            None => path.to_owned(),
            Some(query) => format!("{path}?{query}"),
        };
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
        Uri::from_parts(parts).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_path_of_plain_segments() {
        for good in ["", "/placement", "/api/v1.0/placement_1~a"] {
            assert_eq!(
                good.parse::<Prefix>().map(|it| it.to_string()),
                Ok(good.to_owned())
            );
        }
        for bad in [
            "/",
            "placement",
            "/placement/",
            "/a//b",
            "/a b",
            "/a?b",
            "/ä",
            "/..",
            "/a/./b",
            "/%41",
        ] {
            assert_eq!(bad.parse::<Prefix>(), Err(PrefixError), "{bad}");
        }
    }

    #[test]
    fn only_whole_segments_are_taken_away() {
        let prefix: Prefix = "/placement".parse().unwrap();
        for (asked, seen) in [
            ("/placement", Some("/")),
            ("/placement?a=%20b", Some("/?a=%20b")),
            ("/placement/", Some("/")),
            ("/placement/traits/A?x", Some("/traits/A?x")),
            ("/placements", None),
            ("/traits", None),
        ] {
            let found = prefix.without(&asked.parse().unwrap());
            assert_eq!(found.map(|uri| uri.to_string()).as_deref(), seen, "{asked}");
        }
    }
}
