//! A path before all paths, where a service shares its port with others or stands behind a proxy: `/placement`, say.
//!
//! Requests come with it, or without where a proxy took it away; links and `location` have it in either case.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::Uri;
use http::uri::PathAndQuery;

/// What stands before every path: nothing, or text that begins with `/` and does not end with one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefix(Option<Arc<str>>);

/// A text that cannot stand before paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a path begins with /, ends without, and has letters, digits, -, ., _ and ~ between")]
pub struct PrefixError;

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        // The unreserved characters of RFC 3986: nothing that a proxy or a client would write in another way.
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

/// Puts a prefix before every path of a router. Nothing changes where there is none.
pub fn under(router: Router, prefix: Prefix) -> Router {
    if prefix.0.is_none() {
        return router;
    }
    // A layer of the router itself would come after its routes were looked for.
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
    /// The same request without the prefix; none where it does not begin with it.
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
