//! The response: a token's properties with the service catalog.

use serde::{Deserialize, Serialize};

/// `{"token": {…}}`. The token itself is in the header `X-Subject-Token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenDocument {
    pub token: TokenBody,
}

/// The properties of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBody {
    /// The expiry, `2026-11-20T17:00:00.000000Z`; see [`super::parse_expiry`].
    pub expires_at: String,
    /// The service catalog; empty if unscoped.
    #[serde(default)]
    pub catalog: Vec<CatalogService>,
    /// The roles the user has in this scope.
    #[serde(default)]
    pub roles: Vec<Role>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Its name, `service` for instance.
    pub name: String,
}

/// One service of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogService {
    /// Its type, `placement` for instance.
    #[serde(rename = "type")]
    pub service_type: String,
    /// Its name, free text.
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub endpoints: Vec<CatalogEndpoint>,
}

/// One endpoint of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogEndpoint {
    /// `public`, `internal` or `admin`.
    pub interface: String,
    #[serde(default)]
    pub region_id: Option<String>,
    /// The region's id under its older name.
    #[serde(default)]
    pub region: Option<String>,
    pub url: String,
}

impl CatalogEndpoint {
    /// The region's id, from either field.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.region_id.as_deref().or(self.region.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn a_real_answer_is_read() {
        let body = br#"{"token": {"methods": ["password"], "user": {"domain": {"id": "default", "name": "Default"},
            "id": "u", "name": "nova", "password_expires_at": null}, "audit_ids": ["a"],
            "expires_at": "2026-11-20T18:00:00.000000Z", "issued_at": "2026-11-20T17:00:00.000000Z",
            "project": {"domain": {"id": "default", "name": "Default"}, "id": "p", "name": "service"},
            "is_domain": false, "roles": [{"id": "r", "name": "service"}],
            "catalog": [{"endpoints": [{"id": "e", "interface": "internal", "region_id": "RegionOne",
            "url": "http://127.0.0.1:8778", "region": "RegionOne"}], "id": "s", "type": "placement", "name": "placement"}]}}"#;
        let token = decode::<TokenDocument>(body).unwrap().token;
        assert_eq!(token.catalog[0].endpoints[0].region(), Some("RegionOne"));
        assert_eq!(token.roles[0].name, "service");
    }

    #[test]
    fn a_wrong_catalog_is_named() {
        let body = br#"{"token": {"expires_at": "x", "catalog": [{"type": "placement", "endpoints": [{"url": 1}]}]}}"#;
        let error = decode::<TokenDocument>(body).unwrap_err().to_string();
        assert!(
            error.starts_with("token.catalog[0].endpoints[0].url: "),
            "{error}"
        );
    }
}
