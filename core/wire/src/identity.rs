//! Bodies of the Identity v3 API that the built-in service reads and writes (Keystone's API, version 3.14).
//!
//! Caller: `services/identity`. The client's bodies of the same API are in [`crate::keystone`].

mod auth;
mod limits;
mod resources;
mod token;

pub use auth::{
    AuthAsked, AuthBody, DomainAsked, ProjectAsked, RequestedAuth, ScopeAsked, UserAsked,
};
pub use limits::{
    CreatedLimits, LimitModel, LimitModelDocument, LimitUpdate, LimitUpdateDocument, NewLimit,
    NewLimits,
};
pub use resources::{
    AssignmentLinks, AssignmentScope, CatalogDocument, DomainDocument, DomainResource, Domains,
    EndpointDocument, EndpointResource, Endpoints, Groups, ListLinks, ProjectDocument,
    ProjectLimitDocument, ProjectLimitResource, ProjectLimits, ProjectResource, Projects,
    Reference, RegionDocument, RegionResource, Regions, RegisteredLimitDocument,
    RegisteredLimitResource, RegisteredLimits, RoleAssignment, RoleAssignments, RoleDocument,
    RoleResource, Roles, SelfLink, ServiceDocument, ServiceResource, Services, SystemScopes,
    UserDocument, UserResource, Users,
};
pub use token::{
    CatalogEntry, EndpointEntry, IssuedToken, IssuedTokenDocument, MediaType, NamedId, OfDomain,
    SystemAll, TokenUser, Version, VersionDocument, VersionLink, VersionList, VersionValues,
};
