//! Users, projects, domains, roles, services, endpoints and regions as they are read: one, and in lists.

use std::collections::BTreeMap;

use serde::Serialize;

use super::token::{CatalogEntry, NamedId, OfDomain, SystemAll};

/// Where a resource is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelfLink {
    /// The URL.
    #[serde(rename = "self")]
    pub own: String,
}

/// Where a list is. It is always whole: nothing comes before or after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListLinks {
    /// Always null.
    pub next: Option<String>,
    /// The URL.
    #[serde(rename = "self")]
    pub own: String,
    /// Always null.
    pub previous: Option<String>,
}

macro_rules! documents {
    ($($resource:ident $one:ident $member:ident $many:ident $members:ident),* $(,)?) => {
        $(
            /// One, in a document.
            #[derive(Debug, Serialize)]
            pub struct $one<'a> {
                /// The one.
                pub $member: $resource<'a>,
            }

            /// A list, in a document.
            #[derive(Debug, Serialize)]
            pub struct $many<'a> {
                /// All that were asked for.
                pub $members: Vec<$resource<'a>>,
                /// Where the list is.
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
);

/// Options of a resource: none.
type NoOptions = BTreeMap<String, String>;

/// A user. Nothing of the password is in it.
#[derive(Debug, Serialize)]
pub struct UserResource<'a> {
    /// The id.
    pub id: &'a str,
    /// The name.
    pub name: &'a str,
    /// Its domain.
    pub domain_id: &'a str,
    /// Whether it may ask for tokens.
    pub enabled: bool,
    /// What it is, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    /// Its mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<&'a str>,
    /// The project of a token that is asked for without a scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_project_id: Option<&'a str>,
    /// Always null: no password ends by itself.
    pub password_expires_at: Option<&'a str>,
    /// Always empty.
    pub options: NoOptions,
    /// Where it is.
    pub links: SelfLink,
}

/// A project.
#[derive(Debug, Serialize)]
pub struct ProjectResource<'a> {
    /// The id.
    pub id: &'a str,
    /// The name.
    pub name: &'a str,
    /// Its domain.
    pub domain_id: &'a str,
    /// What it is, in words.
    pub description: &'a str,
    /// Whether tokens may be good for it.
    pub enabled: bool,
    /// What it is below: its domain.
    pub parent_id: &'a str,
    /// Always false.
    pub is_domain: bool,
    /// Always empty.
    pub tags: [&'a str; 0],
    /// Always empty.
    pub options: NoOptions,
    /// Where it is.
    pub links: SelfLink,
}

/// A domain.
#[derive(Debug, Serialize)]
pub struct DomainResource<'a> {
    /// The id.
    pub id: &'a str,
    /// The name.
    pub name: &'a str,
    /// What it is, in words.
    pub description: &'a str,
    /// Whether its users may ask for tokens.
    pub enabled: bool,
    /// Always empty.
    pub tags: [&'a str; 0],
    /// Always empty.
    pub options: NoOptions,
    /// Where it is.
    pub links: SelfLink,
}

/// A role.
#[derive(Debug, Serialize)]
pub struct RoleResource<'a> {
    /// The id.
    pub id: &'a str,
    /// The name.
    pub name: &'a str,
    /// Always null: roles are everybody's.
    pub domain_id: Option<&'a str>,
    /// What it is, in words.
    pub description: Option<&'a str>,
    /// Always empty.
    pub options: NoOptions,
    /// Where it is.
    pub links: SelfLink,
}

/// A service of the catalog.
#[derive(Debug, Serialize)]
pub struct ServiceResource<'a> {
    /// The id.
    pub id: &'a str,
    /// The name.
    pub name: &'a str,
    /// The type.
    #[serde(rename = "type")]
    pub service_type: &'a str,
    /// Always true.
    pub enabled: bool,
    /// What it is, in words.
    pub description: &'a str,
    /// Where it is.
    pub links: SelfLink,
}

/// An endpoint of the catalog.
#[derive(Debug, Serialize)]
pub struct EndpointResource<'a> {
    /// The id.
    pub id: &'a str,
    /// `public`, `internal` or `admin`.
    pub interface: &'a str,
    /// The region's id.
    pub region_id: &'a str,
    /// The region's id under its older name.
    pub region: &'a str,
    /// The service.
    pub service_id: &'a str,
    /// The base URL.
    pub url: &'a str,
    /// Always true.
    pub enabled: bool,
    /// Where it is.
    pub links: SelfLink,
}

/// A region of the catalog.
#[derive(Debug, Serialize)]
pub struct RegionResource<'a> {
    /// The id, which is its name.
    pub id: &'a str,
    /// What it is, in words.
    pub description: &'a str,
    /// Always null.
    pub parent_region_id: Option<&'a str>,
    /// Where it is.
    pub links: SelfLink,
}

/// GET /v3/role_assignments.
#[derive(Debug, Serialize)]
pub struct RoleAssignments<'a> {
    /// All that were asked for.
    pub role_assignments: Vec<RoleAssignment<'a>>,
    /// Where the list is.
    pub links: ListLinks,
}

/// That a user has a role somewhere. Names are there where they were asked for.
#[derive(Debug, Serialize)]
pub struct RoleAssignment<'a> {
    /// Where it would be taken away.
    pub links: AssignmentLinks,
    /// The role.
    pub role: Reference<'a>,
    /// The user.
    pub user: Reference<'a>,
    /// Where.
    pub scope: AssignmentScope<'a>,
}

/// Where an assignment would be taken away.
#[derive(Debug, Serialize)]
pub struct AssignmentLinks {
    /// The URL.
    pub assignment: String,
}

/// Where a role is had.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AssignmentScope<'a> {
    /// In a project.
    Project(Reference<'a>),
    /// In a domain.
    Domain(Reference<'a>),
    /// In the cloud itself.
    System(SystemAll),
}

/// An id, alone or with names.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reference<'a> {
    /// The id alone.
    Id {
        /// The id.
        id: &'a str,
    },
    /// With its name.
    Named(NamedId<'a>),
    /// With its name and its domain.
    OfDomain(OfDomain<'a>),
}

/// GET /v3/auth/catalog.
#[derive(Debug, Serialize)]
pub struct CatalogDocument<'a> {
    /// The services and where they are.
    pub catalog: &'a [CatalogEntry],
    /// Where this is.
    pub links: SelfLink,
}

/// GET /v3/auth/system.
#[derive(Debug, Serialize)]
pub struct SystemScopes {
    /// `{"all": true}`, or nothing.
    pub system: Vec<SystemAll>,
    /// Where this is.
    pub links: SelfLink,
}

/// GET /v3/users/{id}/groups: there are none.
#[derive(Debug, Serialize)]
pub struct Groups {
    /// Always empty.
    pub groups: [SelfLink; 0],
    /// Where the list is.
    pub links: ListLinks,
}
