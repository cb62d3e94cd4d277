//! The differences between OpenStack's services that the service layer must imitate: which paths need no token, the
//! shape of an error body, the format of the version header. A service names its [`ApiDialect`] in its
//! [`crate::ServiceLayer`].

use http::{HeaderMap, HeaderValue, Method};

use crate::microversion::{self, Microversion, MicroversionRange};

/// The header in which a service sends its own token, in addition to its caller's.
pub const SERVICE_TOKEN_HEADER: &str = "x-service-token";

/// The OpenStack service that an API imitates in its conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiDialect {
    /// Placement's: `{"errors": [...]}`, only `/` is open, a malformed version is a 400.
    Placement,
    /// Cyborg: errors are `{"error_message": "a document as text"}`; `/v2` needs no token; a malformed version is a
    /// 406; the version header may omit the service's name; every versioned response names the supported range; a
    /// service token is validated.
    Cyborg,
    /// Keystone: errors are `{"error": {...}}`; no microversions; `/`, `/v3` and the POST of a token need no token; a
    /// 401 names the URL of the identity service.
    Keystone,
    /// Nova: errors are `{"itemNotFound": {"code": 404, "message": "..."}}`; `/v2.1` needs no token; the version may be
    /// in Nova's older header ([`microversion::NOVA_HEADER`]), and every response has both headers.
    Compute,
    /// Glance: errors are an HTML page, or `{"message": ..., "code": "404 Not Found", ...}` if the caller accepts only
    /// JSON; no microversions; `/versions` and `/v2` need no token.
    Image,
}

impl ApiDialect {
    /// Whether a path needs no token.
    pub(crate) fn is_open(self, method: &Method, path: &str) -> bool {
        match path {
            "/" | "" => true,
            "/v3" | "/v3/" => self == Self::Keystone,
            "/v3/auth/tokens" => self == Self::Keystone && method == Method::POST,
            "/v2" | "/v2/" => matches!(self, Self::Cyborg | Self::Image),
            "/versions" | "/versions/" => self == Self::Image,
            "/v2.1" | "/v2.1/" => self == Self::Compute,
            _ => false,
        }
    }

    /// Whether requests and responses carry a microversion.
    pub(crate) fn has_microversions(self) -> bool {
        !matches!(self, Self::Keystone | Self::Image)
    }

    /// Adds the supported version range to the response of a versioned path.
    pub(crate) fn stamp(self, path: &str, range: &MicroversionRange, headers: &mut HeaderMap) {
        match self {
            // These services state their range only in their version documents.
            Self::Placement | Self::Compute | Self::Image => return,
            Self::Keystone => {
                headers.insert("vary", HeaderValue::from_static("X-Auth-Token"));
                return;
            }
            Self::Cyborg if matches!(path, "/" | "") => return,
            Self::Cyborg => {}
        }
        let mut set = |name: &'static str, version: Microversion| {
            // Digits and a dot are header text.
            if let Ok(value) = HeaderValue::from_str(&version.to_string()) {
                headers.insert(name, value);
            }
        };
        set("openstack-api-minimum-version", range.min);
        set("openstack-api-maximum-version", range.max);
        headers.insert("vary", HeaderValue::from_static(microversion::HEADER));
    }
}
