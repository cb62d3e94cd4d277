//! Several services behind one listener, each below a path of its own.

use std::sync::Arc;

use axum::{Extension, Router};

use crate::prefix::Prefix;

/// Puts a service below a path of a router of several. Its links have the path before them, as its callers wrote it. Without a path
/// it is what answers whatever nobody else does.
pub fn mount(several: Router, at: &Prefix, service: Router) -> Router {
    match at.to_string().as_str() {
        "" => several.fallback_service(service),
        path => several.nest_service(path, service.layer(Extension(at.clone()))),
    }
}

/// Where callers find a listener: a URL without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicEndpoint(pub(crate) Arc<str>);

/// Links of a router's services name this URL, and not the host that a request says it came to: behind a proxy that is another.
/// Routes that are added later are not meant.
pub fn found_at(router: Router, url: &str) -> Router {
    router.layer(Extension(PublicEndpoint(url.trim_end_matches('/').into())))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use axum::response::Response;
    use axum::routing::get;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    /// A service that says which path it saw, and below what.
    fn service() -> Router {
        let shown = |request: Request| async move {
            let prefix = request.extensions().get::<Prefix>().cloned();
            format!("{} {}", prefix.unwrap_or_default(), request.uri())
        };
        Router::new()
            .route("/", get(shown))
            .route("/v3/{id}", get(shown))
            .fallback(|| async { "nothing here" })
    }

    async fn ask(path: &str) -> String {
        let several = mount(Router::new(), &"/identity".parse().unwrap(), service());
        let several = several.fallback(|| async { "elsewhere" });
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer: Response = several.oneshot(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_service_sees_its_own_paths_and_knows_what_stands_before_them() {
        for (path, seen) in [
            ("/identity", "/identity /"),
            ("/identity/", "/identity /"),
            ("/identity?a=%20b", "/identity /?a=%20b"),
            ("/identity/v3/x%2Fy?q", "/identity /v3/x%2Fy?q"),
            ("/identity/v2", "nothing here"),
            ("/identities", "elsewhere"),
            ("/v3/x", "elsewhere"),
        ] {
            assert_eq!(ask(path).await, seen, "{path}");
        }
    }
}
