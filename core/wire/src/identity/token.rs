//! Responses with tokens and versions.

use serde::Serialize;

/// `{"token": {…}}`. The token itself is in the header `X-Subject-Token`.
#[derive(Debug, Serialize)]
pub struct IssuedTokenDocument<'a> {
    pub token: IssuedToken<'a>,
}

/// The properties of a token.
#[derive(Debug, Serialize)]
pub struct IssuedToken<'a> {
    /// The authentication methods: `password`, `token`.
    pub methods: &'a [String],
    pub user: TokenUser<'a>,
    /// Its audit id, and that of the first token of its chain if it was issued from another token.
    pub audit_ids: Vec<&'a str>,
    /// The expiry in UTC, for example `2026-11-20T17:00:00.000000Z`.
    pub expires_at: String,
    pub issued_at: String,
    /// The project of its scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<OfDomain<'a>>,
    /// False for a project scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_domain: Option<bool>,
    /// The domain of its scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<NamedId<'a>>,
    /// Set for the system scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemAll>,
    /// The roles including implied ones; missing if unscoped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<NamedId<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<&'a [CatalogEntry]>,
}

/// An id and a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NamedId<'a> {
    pub id: &'a str,
    pub name: &'a str,
}

/// A user or a project, and its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OfDomain<'a> {
    pub domain: NamedId<'a>,
    pub id: &'a str,
    pub name: &'a str,
}

/// The user of a token.
#[derive(Debug, Serialize)]
pub struct TokenUser<'a> {
    #[serde(flatten)]
    pub user: OfDomain<'a>,
    /// Always null: no password ends by itself.
    pub password_expires_at: Option<&'a str>,
}

/// The scope of the whole system: `{"all": true}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SystemAll {
    pub all: bool,
}

/// One service of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogEntry {
    pub endpoints: Vec<EndpointEntry>,
    pub id: String,
    /// Its type, `placement` for instance.
    #[serde(rename = "type")]
    pub service_type: String,
    pub name: String,
}

/// One endpoint of a service in the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndpointEntry {
    pub id: String,
    /// `public`, `internal` or `admin`.
    pub interface: &'static str,
    pub region_id: String,
    pub url: String,
    /// The region's id under its older name.
    pub region: String,
}

#[derive(Debug, Serialize)]
pub struct VersionDocument {
    pub version: Version,
}

#[derive(Debug, Serialize)]
pub struct VersionList {
    pub versions: VersionValues,
}

/// The versions, nested one level deeper than in other services.
#[derive(Debug, Serialize)]
pub struct VersionValues {
    pub values: [Version; 1],
}

/// One version of the API.
#[derive(Debug, Serialize)]
pub struct Version {
    /// The version's id: `v3.14`.
    pub id: &'static str,
    /// The status, always `stable`: there is one version.
    pub status: &'static str,
    /// The release date of the version.
    pub updated: &'static str,
    pub links: [VersionLink; 1],
    /// The media types of bodies.
    #[serde(rename = "media-types")]
    pub media_types: [MediaType; 1],
}

/// The link of a version.
#[derive(Debug, Serialize)]
pub struct VersionLink {
    /// The relation, always `self`: the version's own address.
    pub rel: &'static str,
    pub href: String,
}

#[derive(Debug, Serialize)]
pub struct MediaType {
    /// The base media type, always `application/json`.
    pub base: &'static str,
    /// The media type with the version.
    #[serde(rename = "type")]
    pub media_type: &'static str,
}
