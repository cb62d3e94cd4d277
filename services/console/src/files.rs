//! noVNC's files: those below one folder, and no others.

use std::path::{Component, Path, PathBuf};

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode, header};

use crate::plain;

/// The largest file that is served, in bytes.
const LARGEST: u64 = 8 << 20;

/// Types of files, by the end of their names.
const TYPES: [(&str, &str); 13] = [
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("mp3", "audio/mpeg"),
    ("oga", "audio/ogg"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("ttf", "font/ttf"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
];

pub(crate) async fn answer(folder: &Path, path: &str, method: &Method) -> Response {
    let none = || {
        plain(
            StatusCode::NOT_FOUND,
            "there is no such file; openstack console url show prints the URL of a console",
        )
    };
    let Some((file, kind)) = file_of(folder, path) else {
        return none();
    };
    let size = match tokio::fs::metadata(&file).await {
        Ok(found) if found.is_file() && found.len() <= LARGEST => found.len(),
        _ => return none(),
    };
    let body = match *method == Method::HEAD {
        true => Body::empty(),
        false => match tokio::fs::read(&file).await {
            Ok(bytes) => Body::from(bytes),
            Err(_) => return none(),
        },
    };
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        // The URL of the page has the token.
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    (headers, body).into_response()
}

/// The file of a path, and its type. Names in noVNC need no encoding, so an encoded one is no file.
fn file_of(folder: &Path, path: &str) -> Option<(PathBuf, &'static str)> {
    let relative = Path::new(path.strip_prefix('/')?);
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => name.to_str().is_some_and(|name| !name.starts_with('.')),
        _ => false,
    };
    if path.contains(['%', '\\', '\0']) || !relative.components().all(is_plain) {
        return None;
    }
    let end = relative.extension()?.to_str()?;
    let (_, kind) = TYPES.iter().find(|(known, _)| *known == end)?;
    Some((folder.join(relative), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_folder_are_served() {
        let folder = Path::new("/usr/share/novnc");
        let file = |path: &str| file_of(folder, path).map(|(file, _)| file.display().to_string());
        let known = file("/core/rfb.js");
        assert_eq!(known.as_deref(), Some("/usr/share/novnc/core/rfb.js"));
        for path in [
            "/",
            "",
            "/core",
            "/../passwd.js",
            "/core/../../x.js",
            "/core/%2e%2e/x.js",
            "//etc/x.js",
            "/.hidden.js",
            "/key.pem",
        ] {
            assert_eq!(file(path), None, "{path}");
        }
    }

    #[tokio::test]
    async fn a_file_is_served_with_its_type_and_a_missing_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("vnc_lite.html"), "<html>").unwrap();
        let page = answer(folder.path(), "/vnc_lite.html", &Method::GET).await;
        assert_eq!(page.status(), StatusCode::OK);
        assert_eq!(page.headers()[header::CONTENT_TYPE], TYPES[1].1);
        assert_eq!(page.headers()[header::REFERRER_POLICY], "no-referrer");
        let missing = answer(folder.path(), "/vnc.html", &Method::GET).await;
        assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    }
}
