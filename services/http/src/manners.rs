//! Where OpenStack's services differ at the door: which paths are open, what a fault looks like, what a version header
//! may say. A service names its [`Manners`] in its [`crate::Door`].

use http::{HeaderMap, HeaderValue, Method};

use crate::microversion::{self, Microversion, MicroversionRange};

/// The header with a service's own token beside its caller's.
pub const SERVICE_TOKEN_HEADER: &str = "x-service-token";

/// Whose manners a service has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    /// Placement's: `{"errors": [...]}`, only `/` is open, a malformed version is a 400.
    Placement,
    /// Cyborg's: `{"error_message": "a document as text"}`, `/v2` is open too, a malformed version is a 406, a version may
    /// stand without the service's name, every versioned answer names the range, and a service token is looked at.
    Cyborg,
    /// Keystone's: `{"error": {...}}`, no microversions, `/`, `/v3` and the asking for a token are open, and a 401 says where
    /// tokens are from.
    Keystone,
    /// Nova's: `{"itemNotFound": {"code": 404, "message": "..."}}`, `/v2.1` is open too, a version may stand in Nova's own older
    /// header ([`microversion::NOVA_HEADER`]), and every answer has both headers.
    Compute,
    /// Glance's: a page of HTML unless the caller accepts JSON alone, which is `{"message": ..., "code": "404 Not Found", ...}`
    /// then; no microversions; `/versions` and `/v2` are open too.
    Image,
}

impl Manners {
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

    /// Whether requests say a version, and answers say it again.
    pub(crate) fn has_microversions(self) -> bool {
        !matches!(self, Self::Keystone | Self::Image)
    }

    /// The range of versions, on answers to requests for a versioned path.
    pub(crate) fn stamp(self, path: &str, range: &MicroversionRange, headers: &mut HeaderMap) {
        match self {
            // Nova and Glance tell their range in their version documents alone.
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
