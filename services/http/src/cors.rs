//! Cross-origin requests (CORS): which other web sites' scripts may call a service.
//!
//! The options are those of OpenStack's `[cors]` section. By default no origin is allowed.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use berth_options::text::check_url;
use berth_options::{OptionKind, TextKind, WrongText, options, texts};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

options! {
    /// The web sites whose scripts may call the built-in Placement. The options have oslo.middleware's names.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CorsOptions in "cors" {
        /// Origins whose scripts may call the service, as browsers send them; `*` for all. Empty: none.
        pub allowed_origin: Vec<String> = Vec::new(), kind: ORIGINS, example: "[\"https://dashboard.example.org\"]";
        /// Methods that may be used.
        pub allow_methods: Vec<String> = texts(["GET", "PUT", "POST", "DELETE", "PATCH"]),
            kind: Choices(&["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS"]);
        /// Request headers that are allowed in addition to the simple ones.
        pub allow_headers: Vec<String> = texts(["X-Auth-Token", "OpenStack-API-Version", "X-Roles"]), kind: NAMES;
        /// Response headers that a script may read in addition to the simple ones.
        pub expose_headers: Vec<String> = texts(["X-Openstack-Request-Id", "OpenStack-API-Version"]), kind: NAMES;
        /// Seconds for which a browser may cache the answer to a preflight request.
        pub max_age: u32 = 3600, kind: Integer(0, 86_400);
    }
}

/// A list of origins as browsers name them, or `*`.
const ORIGINS: OptionKind = OptionKind::Texts(&TextKind::new(
    "list of SCHEME://HOST[:PORT], or of `*`",
    "write origins such as [\"https://dashboard.example.org\"], or [\"*\"]",
    |text| match text {
        "*" => Ok(()),
        _ => check_origin(text),
    },
));

/// An origin is compared with what a browser sends, so it is written as one does: no path, not even `/`.
fn check_origin(text: &str) -> Result<(), WrongText> {
    check_url(text, &["http", "https"])?;
    let host = text.split_once("://").map_or(text, |(_, host)| host);
    match host.contains('/') {
        true => Err(format!("{text:?} has a path, and an origin has none").into()),
        false => Ok(()),
    }
}

/// Request headers that need no permission.
const SIMPLE: [&str; 6] = [
    "accept",
    "accept-language",
    "content-type",
    "cache-control",
    "content-language",
    "last-modified",
];

/// Adds CORS responses to a router. Does nothing if no origin is allowed.
pub fn cors(router: Router, cors: CorsOptions) -> Router {
    if cors.allowed_origin.is_empty() {
        return router;
    }
    router.layer(from_fn_with_state(std::sync::Arc::new(cors), answer))
}

async fn answer(
    State(cors): State<std::sync::Arc<CorsOptions>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(origin) = request.headers().get(ORIGIN).cloned() else {
        return next.run(request).await;
    };
    if request.method() == Method::OPTIONS {
        // A browser sends preflight requests without a token. A refusal is a response without the CORS headers.
        let mut response = Response::new(Body::empty());
        cors.permit(&origin, request.headers(), response.headers_mut());
        return response;
    }
    let mut response = next.run(request).await;
    if cors.allows(&origin) {
        cors.stamp(&origin, response.headers_mut());
        let exposed = cors.expose_headers.join(",");
        set(
            response.headers_mut(),
            ACCESS_CONTROL_EXPOSE_HEADERS,
            &exposed,
        );
    }
    response
}

impl CorsOptions {
    fn allows(&self, origin: &HeaderValue) -> bool {
        let allowed = self.allowed_origin.iter().map(String::as_str);
        allowed.into_iter().any(|one| one == "*" || origin == one)
    }

    fn stamp(&self, origin: &HeaderValue, headers: &mut HeaderMap) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        // Credentials are allowed only for origins that are listed by name, never for `*`.
        if self.allowed_origin.iter().any(|one| origin == one) {
            set(headers, ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
        }
        headers.append(VARY, HeaderValue::from_static("origin"));
    }

    /// Answers a preflight request.
    fn permit(&self, origin: &HeaderValue, asked: &HeaderMap, headers: &mut HeaderMap) {
        let text = |name: HeaderName| asked.get(name).and_then(|value| value.to_str().ok());
        let method = text(ACCESS_CONTROL_REQUEST_METHOD)
            .and_then(|method| Method::from_bytes(method.as_bytes()).ok())
            .filter(|method| self.allow_methods.iter().any(|it| it == method.as_str()));
        let wanted: Vec<&str> = text(ACCESS_CONTROL_REQUEST_HEADERS)
            .into_iter()
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .collect();
        let (Some(method), true) = (method, self.allows(origin)) else {
            return;
        };
        if !wanted.iter().all(|name| self.may_send(name)) {
            return;
        }
        self.stamp(origin, headers);
        set(headers, ACCESS_CONTROL_ALLOW_METHODS, method.as_str());
        set(headers, ACCESS_CONTROL_MAX_AGE, &self.max_age.to_string());
        if !wanted.is_empty() {
            set(headers, ACCESS_CONTROL_ALLOW_HEADERS, &wanted.join(","));
        }
    }

    fn may_send(&self, header: &str) -> bool {
        let simple = SIMPLE.iter().copied();
        let mut allowed = simple.chain(self.allow_headers.iter().map(String::as_str));
        allowed.any(|name| name.eq_ignore_ascii_case(header))
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // The values come from headers or from lists of names, so they are valid header text.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
