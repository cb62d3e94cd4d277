//! Responses with users, projects, domains, roles, services, endpoints, regions and limits, single and in lists.

use std::collections::BTreeMap;

use serde::Serialize;

use super::token::{CatalogEntry, NamedId, OfDomain, SystemAll};

/// The link of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelfLink {
    #[serde(rename = "self")]
    pub own: String,
}

/// The links of a list. Lists are never paged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListLinks {
    pub next: Option<String>,
    #[serde(rename = "self")]
    pub own: String,
    pub previous: Option<String>,
}

macro_rules! documents {
    ($($resource:ident $one:ident $member:ident $many:ident $members:ident),* $(,)?) => {
        $(
            /// One, in a document.
            #[derive(Debug, Serialize)]
            pub struct $one<'a> {
                pub $member: $resource<'a>,
            }

            /// A list, in a document.
            #[derive(Debug, Serialize)]
            pub struct $many<'a> {
                pub $members: Vec<$resource<'a>>,
                /// The link of the list.
                pub links: ListLinks,
            }
        )*
    };
}

documents!(
    UserResource UserDocument user Users users,
    ProjectResource ProjectDocument project Projects projects,
    DomainResource DomainDocument domain Domains domains,
    RoleResource RoleDocument role Roles roles,
    ServiceResource ServiceDocument service Services services,
    EndpointResource EndpointDocument endpoint Endpoints endpoints,
    RegionResource RegionDocument region Regions regions,
    ProjectLimitResource ProjectLimitDocument limit ProjectLimits limits,
    RegisteredLimitResource RegisteredLimitDocument registered_limit RegisteredLimits registered_limits,
);

/// Options of a resource: none.
type NoOptions = BTreeMap<String, String>;

/// A user, without anything about the password.
#[derive(Debug, Serialize)]
pub struct UserResource<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub domain_id: &'a str,
    /// Whether the user may log in.
    pub enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<&'a str>,
    /// The scope of a token that is requested without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_project_id: Option<&'a str>,
    /// Always null: no password ends by itself.
    pub password_expires_at: Option<&'a str>,
    pub options: NoOptions,
    pub links: SelfLink,
}

#[derive(Debug, Serialize)]
pub struct ProjectResource<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub domain_id: &'a str,
    pub description: &'a str,
    /// Whether tokens may be scoped to it.
    pub enabled: bool,
    /// The parent: its domain.
    pub parent_id: &'a str,
    pub is_domain: bool,
    pub tags: [&'a str; 0],
    pub options: NoOptions,
    pub links: SelfLink,
}

#[derive(Debug, Serialize)]
pub struct DomainResource<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub description: &'a str,
    /// Whether its users may log in.
    pub enabled: bool,
    pub tags: [&'a str; 0],
    pub options: NoOptions,
    pub links: SelfLink,
}

#[derive(Debug, Serialize)]
pub struct RoleResource<'a> {
    pub id: &'a str,
    pub name: &'a str,
    /// Always null: roles are everybody's.
    pub domain_id: Option<&'a str>,
    pub description: Option<&'a str>,
    pub options: NoOptions,
    pub links: SelfLink,
}

/// A service of the catalog.
#[derive(Debug, Serialize)]
pub struct ServiceResource<'a> {
    pub id: &'a str,
    pub name: &'a str,
    #[serde(rename = "type")]
    pub service_type: &'a str,
    pub enabled: bool,
    pub description: &'a str,
    pub links: SelfLink,
}

/// An endpoint of the catalog.
#[derive(Debug, Serialize)]
pub struct EndpointResource<'a> {
    pub id: &'a str,
    /// `public`, `internal` or `admin`.
    pub interface: &'a str,
    pub region_id: &'a str,
    /// The region's id under its older name.
    pub region: &'a str,
    pub service_id: &'a str,
    pub url: &'a str,
    pub enabled: bool,
    pub links: SelfLink,
}

/// A region of the catalog.
#[derive(Debug, Serialize)]
pub struct RegionResource<'a> {
    /// The id, which equals the name.
    pub id: &'a str,
    pub description: &'a str,
    pub parent_region_id: Option<&'a str>,
    pub links: SelfLink,
}

/// The limit of a project, which replaces the registered one.
#[derive(Debug, Serialize)]
pub struct ProjectLimitResource<'a> {
    pub id: String,
    pub service_id: &'a str,
    /// Always null: limits are those of all regions.
    pub region_id: Option<&'a str>,
    pub project_id: &'a str,
    /// Always null: domains have no limits.
    pub domain_id: Option<&'a str>,
    pub resource_name: &'a str,
    /// -1: unlimited.
    pub resource_limit: i64,
    /// Always null.
    pub description: Option<&'a str>,
    pub links: SelfLink,
}

/// The limit of all projects without one of their own.
#[derive(Debug, Serialize)]
pub struct RegisteredLimitResource<'a> {
    pub id: String,
    pub service_id: &'a str,
    /// Always null: limits are those of all regions.
    pub region_id: Option<&'a str>,
    pub resource_name: &'a str,
    /// -1: unlimited.
    pub default_limit: i64,
    /// Always null.
    pub description: Option<&'a str>,
    pub links: SelfLink,
}

#[derive(Debug, Serialize)]
pub struct RoleAssignments<'a> {
    pub role_assignments: Vec<RoleAssignment<'a>>,
    /// The link of the list.
    pub links: ListLinks,
}

/// A role assignment. Names are included on request.
#[derive(Debug, Serialize)]
pub struct RoleAssignment<'a> {
    /// The URL of the assignment.
    pub links: AssignmentLinks,
    pub role: Reference<'a>,
    pub user: Reference<'a>,
    pub scope: AssignmentScope<'a>,
}

/// The URL of an assignment.
#[derive(Debug, Serialize)]
pub struct AssignmentLinks {
    pub assignment: String,
}

/// The target of an assignment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AssignmentScope<'a> {
    Project(Reference<'a>),
    Domain(Reference<'a>),
    /// In the cloud itself.
    System(SystemAll),
}

/// An id, alone or with names.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reference<'a> {
    Id {
        id: &'a str,
    },
    Named(NamedId<'a>),
    /// With its name and its domain.
    OfDomain(OfDomain<'a>),
}

#[derive(Debug, Serialize)]
pub struct CatalogDocument<'a> {
    pub catalog: &'a [CatalogEntry],
    pub links: SelfLink,
}

#[derive(Debug, Serialize)]
pub struct SystemScopes {
    /// `{"all": true}`, or nothing.
    pub system: Vec<SystemAll>,
    pub links: SelfLink,
}

/// GET /v3/users/{id}/groups: always empty.
#[derive(Debug, Serialize)]
pub struct Groups {
    pub groups: [SelfLink; 0],
    /// The link of the list.
    pub links: ListLinks,
}
