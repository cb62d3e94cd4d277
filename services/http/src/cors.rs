//! Cross-origin requests: which other web sites' scripts may call, told in the headers that browsers look for.
//!
//! As OpenStack's `[cors]` section has it. A service whose callers are programs needs none of it: the default allows nobody.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// Who may call from a browser, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Origins such as `https://dashboard.example.org`; `*` for all. None: nobody.
    pub allowed_origin: Vec<String>,
    /// Methods that may be used.
    pub allow_methods: Vec<Method>,
    /// Request headers that may be sent beside the simple ones.
    pub allow_headers: Vec<String>,
    /// Answer headers that the script may read beside the simple ones.
    pub expose_headers: Vec<String>,
    /// How long a browser may remember the answer, in seconds.
    pub max_age: u32,
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            allowed_origin: Vec::new(),
            allow_methods: vec![
                Method::GET,
                Method::PUT,
                Method::POST,
                Method::DELETE,
                Method::PATCH,
            ],
            allow_headers: ["X-Auth-Token", "OpenStack-API-Version", "X-Roles"]
                .map(str::to_owned)
                .to_vec(),
            expose_headers: ["X-Openstack-Request-Id", "OpenStack-API-Version"]
                .map(str::to_owned)
                .to_vec(),
            max_age: 3600,
        }
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

/// Puts the answers to browsers before a router. Nothing changes where no origin is allowed.
pub fn cors(router: Router, cors: Cors) -> Router {
    if cors.allowed_origin.is_empty() {
        return router;
    }
    router.layer(from_fn_with_state(std::sync::Arc::new(cors), answer))
}

async fn answer(
    State(cors): State<std::sync::Arc<Cors>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(origin) = request.headers().get(ORIGIN).cloned() else {
        return next.run(request).await;
    };
    if request.method() == Method::OPTIONS {
        // Such a question is the browser's own and bears no token. Who may not call is told so by headers that are missing.
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

impl Cors {
    fn allows(&self, origin: &HeaderValue) -> bool {
        let allowed = self.allowed_origin.iter().map(String::as_str);
        allowed.into_iter().any(|one| one == "*" || origin == one)
    }

    fn stamp(&self, origin: &HeaderValue, headers: &mut HeaderMap) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        // Only who named the site may be trusted with its cookies.
        if self.allowed_origin.iter().any(|one| origin == one) {
            set(headers, ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
        }
        headers.append(VARY, HeaderValue::from_static("origin"));
    }

    /// Answers the question whether a method and headers may be used.
    fn permit(&self, origin: &HeaderValue, asked: &HeaderMap, headers: &mut HeaderMap) {
        let text = |name: HeaderName| asked.get(name).and_then(|value| value.to_str().ok());
        let method = text(ACCESS_CONTROL_REQUEST_METHOD)
            .and_then(|method| Method::from_bytes(method.as_bytes()).ok())
            .filter(|method| self.allow_methods.contains(method));
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
    // What came in a header, or from a list of names, can be in one.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
