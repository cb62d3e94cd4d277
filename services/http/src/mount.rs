//! Mounts several services on one listener, each below a path of its own.

use std::sync::Arc;

use axum::{Extension, Router};

use crate::prefix::Prefix;

/// Mounts a service below a path of the router. Links of the service include the path. A service with an empty path is
/// the fallback for all other paths.
pub fn mount(several: Router, at: &Prefix, service: Router) -> Router {
    match at.to_string().as_str() {
        "" => several.fallback_service(service),
        path => several.nest_service(path, service.layer(Extension(at.clone()))),
    }
}

/// The URL of a listener for links, without a trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicEndpoint(pub(crate) Arc<str>);

/// Makes links of the router's services use this URL instead of the listener's address, which is different behind a
/// proxy. Routes that are added later are not affected.
pub fn found_at(router: Router, url: &str) -> Router {
    router.layer(Extension(PublicEndpoint(url.trim_end_matches('/').into())))
}

/// Marks the requests of a listener without internal routes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WithoutInternalRoutes;

/// Makes the router's services answer 404 for operations below `/internal/`, which only agents and services need.
pub fn without_internal_routes(router: Router) -> Router {
    router.layer(Extension(WithoutInternalRoutes))
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

    /// A service that responds with the path and the prefix that it saw.
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
