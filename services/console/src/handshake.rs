//! What a request for a websocket shows: the token, and the page that sent it. Pure.

use http::{HeaderMap, Uri, header};

use crate::ConsoleProxyOptions;

/// The request comes from a page of another site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OriginRefused(&'static str);

/// The token: in the query, else in the cookie that older versions of noVNC set.
pub(crate) fn token_of(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let in_query = pairs.filter_map(|pair| pair.strip_prefix("token=")).next();
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|cookie| cookie.to_str().ok());
    let mut cookies = cookies.flat_map(|line| line.split(';'));
    let in_cookie = || cookies.find_map(|pair| pair.trim().strip_prefix("token="));
    let token = in_query.or_else(in_cookie)?;
    // All characters of a token are plain ones.
    (!token.is_empty()).then(|| token.to_owned())
}

/// Refuses a page of another site: it could use the token in a cookie. A client without an origin is no browser.
pub(crate) fn check_origin(
    headers: &HeaderMap,
    options: &ConsoleProxyOptions,
) -> Result<(), OriginRefused> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let invalid = OriginRefused("the Origin header is not valid");
    let origin: Uri = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.parse().ok())
        .ok_or(invalid.clone())?;
    let (Some(scheme), Some(name)) = (origin.scheme_str(), origin.host()) else {
        return Err(invalid);
    };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let own: Option<Uri> = text(header::HOST.as_str()).and_then(|host| host.parse().ok());
    let is_own = own.as_ref().and_then(Uri::host) == Some(name);
    let is_allowed = options
        .allowed_origins
        .iter()
        .any(|allowed| allowed == name);
    if !is_own && !is_allowed {
        return Err(OriginRefused(
            "the Origin header does not match this host; [console] allowed_origins lists others",
        ));
    }
    // A proxy in front may speak TLS with the browser.
    let scheme = text("x-forwarded-proto").unwrap_or(scheme);
    let own = options.scheme.as_str();
    let is_right = match scheme {
        "http" => matches!(own, "http" | "ws"),
        "https" => matches!(own, "https" | "wss"),
        _ => false,
    };
    match is_right {
        true => Ok(()),
        false => Err(OriginRefused(
            "the Origin header has another protocol than the URLs of consoles",
        )),
    }
}

#[cfg(test)]
mod tests {
    use berth_model::ConsoleKind;
    use http::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn a_token_is_in_the_query_or_in_the_cookie_that_novnc_sets() {
        let of = |uri: &str, cookie: &str| {
            token_of(&uri.parse().unwrap(), &headers(&[("cookie", cookie)]))
        };
        assert_eq!(of("/?token=a-_1", "").as_deref(), Some("a-_1"));
        assert_eq!(
            of("/websockify?x=1&token=b", "token=c").as_deref(),
            Some("b")
        );
        assert_eq!(of("/", "x=1; token=c; y=2").as_deref(), Some("c"));
        assert_eq!(of("/?token=", ""), None);
        assert_eq!(of("/?mytoken=a", "mytoken=c"), None);
    }

    #[test]
    fn a_page_of_another_site_opens_no_console() {
        let mut options = ConsoleProxyOptions {
            kind: ConsoleKind::Vnc,
            web: None,
            allowed_origins: vec!["dashboard.example.org".to_owned()],
            scheme: "http".to_owned(),
            ends_with_token: false,
        };
        let check = |pairs: &[(&'static str, &str)], options: &ConsoleProxyOptions| {
            check_origin(&headers(pairs), options).is_ok()
        };
        let host = ("host", "cloud.example.org:6080");
        for (origin, is_right) in [
            ("http://cloud.example.org:6080", true),
            ("http://cloud.example.org", true),
            ("http://dashboard.example.org", true),
            ("https://cloud.example.org", false),
            ("http://evil.example.org", false),
            ("http://cloud.example.org.evil.example.org", false),
            ("null", false),
            ("http://", false),
        ] {
            assert_eq!(
                check(&[host, ("origin", origin)], &options),
                is_right,
                "{origin}"
            );
        }
        assert!(check(&[host], &options), "a client that is no browser");
        options.scheme = "wss".to_owned();
        let behind_a_proxy = [
            host,
            ("origin", "http://cloud.example.org"),
            ("x-forwarded-proto", "https"),
        ];
        assert!(check(&behind_a_proxy, &options));
    }
}
