//! What a token says, and which versions there are.

use serde::Serialize;

/// `{"token": {…}}`. The token itself travels in the header `X-Subject-Token`.
#[derive(Debug, Serialize)]
pub struct IssuedTokenDocument<'a> {
    /// What the token stands for.
    pub token: IssuedToken<'a>,
}

/// What a token stands for.
#[derive(Debug, Serialize)]
pub struct IssuedToken<'a> {
    /// By what its user proved who it is: `password`, `token`.
    pub methods: &'a [String],
    pub user: TokenUser<'a>,
    /// Its own audit id, and that of the first token it was made from, where it was.
    pub audit_ids: Vec<&'a str>,
    /// Until when it is good, `2026-11-20T17:00:00.000000Z`.
    pub expires_at: String,
    pub issued_at: String,
    /// The project it is good for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<OfDomain<'a>>,
    /// False, where it is good for a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_domain: Option<bool>,
    /// The domain it is good for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<NamedId<'a>>,
    /// That it is good for the cloud itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemAll>,
    /// The roles, implied ones included; none where it is good for nothing in particular.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<NamedId<'a>>>,
    /// The services and where they are.
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

/// Whose a token is.
#[derive(Debug, Serialize)]
pub struct TokenUser<'a> {
    #[serde(flatten)]
    pub user: OfDomain<'a>,
    /// Always null: no password ends by itself.
    pub password_expires_at: Option<&'a str>,
}

/// `{"all": true}`.
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

/// The versions, one level further in than other services have them.
#[derive(Debug, Serialize)]
pub struct VersionValues {
    /// All there are: one.
    pub values: [Version; 1],
}

/// One version of the API.
#[derive(Debug, Serialize)]
pub struct Version {
    /// `v3.14`.
    pub id: &'static str,
    /// `stable`.
    pub status: &'static str,
    /// When the version came.
    pub updated: &'static str,
    pub links: [VersionLink; 1],
    /// In what its bodies are written.
    #[serde(rename = "media-types")]
    pub media_types: [MediaType; 1],
}

/// Where a version is.
#[derive(Debug, Serialize)]
pub struct VersionLink {
    /// `self`.
    pub rel: &'static str,
    pub href: String,
}

/// In what bodies are written.
#[derive(Debug, Serialize)]
pub struct MediaType {
    /// `application/json`.
    pub base: &'static str,
    /// The same with the version's name.
    #[serde(rename = "type")]
    pub media_type: &'static str,
}
