//! A path prefix for all routes of a service, such as `/placement`, for a service that shares its port or is behind a
//! proxy.
//!
//! Requests may arrive with the prefix, or without it if a proxy removed it. Links and `location` headers always have
//! it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::{Extension, Router};
use berth_options::{Json, OptionKind, OptionType, TextKind};

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

/// Serves a router with and without a prefix. Does nothing if the prefix is empty.
pub fn under(router: Router, prefix: Prefix) -> Router {
    let Some(path) = prefix.0.clone() else {
        return router;
    };
    let router = router.layer(Extension(prefix));
    Router::new()
        .nest_service(&path, router.clone())
        .fallback_service(router)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Uri;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

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

    #[tokio::test]
    async fn only_whole_segments_are_taken_away() {
        let shown = |Extension(prefix): Extension<Prefix>, uri: Uri| async move {
            assert_eq!(prefix.to_string(), "/placement");
            uri.to_string()
        };
        let router = under(Router::new().fallback(shown), "/placement".parse().unwrap());
        for (asked, seen) in [
            ("/placement", "/"),
            ("/placement?a=%20b", "/?a=%20b"),
            ("/placement/", "/"),
            ("/placement/traits/A?x", "/traits/A?x"),
            ("/placements", "/placements"),
            ("/traits", "/traits"),
        ] {
            let request = http::Request::get(asked).body(Body::empty()).unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, seen, "{asked}");
        }
    }
}
