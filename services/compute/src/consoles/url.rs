//! The URLs of consoles. Pure.

use berth_model::percent_encoded;

/// The URL of noVNC's page with the token. noVNC opens its websocket at `path`, so the token is in that path's query.
pub(super) fn with_token_in_path(base: &str, token: &str) -> String {
    let (page, query) = base.split_once('?').unwrap_or((base, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let (paths, others): (Vec<&str>, Vec<&str>) = pairs.partition(|pair| pair.starts_with("path="));
    let path = paths.first().and_then(|pair| pair.strip_prefix("path="));
    let path = path.unwrap_or_default();
    let token = percent_encoded(&format!("?token={token}"));
    let mut url = format!("{page}?path={path}{token}");
    for pair in others {
        url.push('&');
        url.push_str(pair);
    }
    url
}

/// The URL of a websocket with the token.
pub(super) fn with_token(base: &str, token: &str) -> String {
    let separator = if base.contains('?') { '&' } else { '?' };
    format!("{base}{separator}token={token}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_in_the_path_that_novnc_connects_to() {
        for (base, url) in [
            (
                "http://127.0.0.1:6080/vnc_lite.html",
                "http://127.0.0.1:6080/vnc_lite.html?path=%3Ftoken%3Dt0",
            ),
            (
                "https://c/vnc.html?autoconnect=true&path=vnc%2Fws",
                "https://c/vnc.html?path=vnc%2Fws%3Ftoken%3Dt0&autoconnect=true",
            ),
        ] {
            assert_eq!(with_token_in_path(base, "t0"), url);
        }
    }

    #[test]
    fn a_serial_console_has_its_token_in_the_query() {
        assert_eq!(with_token("ws://c:6083/", "t"), "ws://c:6083/?token=t");
        assert_eq!(with_token("wss://c/?a=1", "t"), "wss://c/?a=1&token=t");
    }
}
