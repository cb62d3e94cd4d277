//! Users, projects, domains, roles, services, endpoints and regions as they are read: one, and in lists.

use std::collections::BTreeMap;

use serde::Serialize;

use super::token::{CatalogEntry, NamedId, OfDomain, SystemAll};

/// Where a resource is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelfLink {
    #[serde(rename = "self")]
    pub own: String,
}

/// Where a list is. It is always whole: nothing comes before or after it.
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
    pub id: &'a str,
    pub name: &'a str,
    pub domain_id: &'a str,
    /// Whether it may ask for tokens.
    pub enabled: bool,
    /// What it is, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<&'a str>,
    /// The project of a token that is asked for without a scope.
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
    /// What it is, in words.
    pub description: &'a str,
    /// Whether tokens may be good for it.
    pub enabled: bool,
    /// What it is below: its domain.
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
    /// What it is, in words.
    pub description: &'a str,
    /// Whether its users may ask for tokens.
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
    /// What it is, in words.
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
    /// What it is, in words.
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
    /// The id, which is its name.
    pub id: &'a str,
    /// What it is, in words.
    pub description: &'a str,
    pub parent_region_id: Option<&'a str>,
    pub links: SelfLink,
}

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
    pub role: Reference<'a>,
    pub user: Reference<'a>,
    pub scope: AssignmentScope<'a>,
}

/// Where an assignment would be taken away.
#[derive(Debug, Serialize)]
pub struct AssignmentLinks {
    pub assignment: String,
}

/// Where a role is had.
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
    /// The services and where they are.
    pub catalog: &'a [CatalogEntry],
    pub links: SelfLink,
}

#[derive(Debug, Serialize)]
pub struct SystemScopes {
    /// `{"all": true}`, or nothing.
    pub system: Vec<SystemAll>,
    pub links: SelfLink,
}

/// GET /v3/users/{id}/groups: there are none.
#[derive(Debug, Serialize)]
pub struct Groups {
    pub groups: [SelfLink; 0],
    /// Where the list is.
    pub links: ListLinks,
}
