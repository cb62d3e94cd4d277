//! Converts users, projects, roles, tokens, the catalog and limits to the documents of the API.

use std::collections::BTreeMap;

use berth_http::ApiRequest;
use berth_wire::identity::{
    AssignmentLinks, AssignmentScope, CatalogEntry, DomainResource, EndpointEntry,
    EndpointResource, IssuedToken, IssuedTokenDocument, ListLinks, NamedId, OfDomain,
    ProjectLimitResource, ProjectResource, Reference, RegionResource, RegisteredLimitResource,
    RoleAssignment, RoleResource, SelfLink, ServiceResource, SystemAll, TokenUser, UserResource,
};

use crate::catalog::Catalog;
use crate::router::IdentityApi;
use crate::tokens::{ValidToken, written};
use crate::unified_limits::{DefaultLimit, ProjectLimit, ServiceLimits};
use crate::users::{Assignment, AssignmentTarget, Domain, Project, RoleEntry, User, Users};

/// Builds the URLs in one response.
pub(crate) struct Links {
    base: String,
    query: String,
}

impl Links {
    pub(crate) fn of(api: &IdentityApi, call: &ApiRequest) -> Self {
        let pairs = call
            .query
            .pairs()
            .map(|(key, value)| format!("{key}={value}"));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~=".contains(c);
        // A query that would need escaping is left out of the link.
        let query: Vec<String> = pairs.filter(|pair| pair.chars().all(plain)).collect();
        Self {
            base: api.url(call, ""),
            query: query.join("&"),
        }
    }

    pub(crate) fn list(&self, path: &str) -> ListLinks {
        let own = match self.query.as_str() {
            "" => format!("{}{path}", self.base),
            query => format!("{}{path}?{query}", self.base),
        };
        ListLinks {
            next: None,
            own,
            previous: None,
        }
    }

    fn one(&self, kind: &str, id: &str) -> SelfLink {
        SelfLink {
            own: format!("{}/{kind}/{id}", self.base),
        }
    }
}

fn named(domain: &Domain) -> NamedId<'_> {
    NamedId {
        id: &domain.id,
        name: &domain.name,
    }
}

/// An object that belongs to a domain. Its domain always exists.
fn of_domain<'a>(users: &'a Users, domain_id: &'a str, id: &'a str, name: &'a str) -> OfDomain<'a> {
    let unknown = NamedId {
        id: domain_id,
        name: domain_id,
    };
    OfDomain {
        domain: users.domain(domain_id).map_or(unknown, named),
        id,
        name,
    }
}

/// The document of a token. The catalog is omitted for unscoped tokens.
pub(crate) fn token<'a>(
    token: &'a ValidToken,
    catalog: Option<&'a Catalog>,
) -> IssuedTokenDocument<'a> {
    let (row, users) = (&token.row, &*token.users);
    let user = match token.user() {
        Some(user) => of_domain(users, &user.domain_id, &user.id, &user.name),
        None => of_domain(users, "", &row.user_id, &row.user_id),
    };
    let target = token.target();
    let project = match target {
        Some(AssignmentTarget::Project(id)) => users.project(id),
        _ => None,
    };
    let domain = match target {
        Some(AssignmentTarget::Domain(id)) => users.domain(id),
        _ => None,
    };
    let roles = token.roles().into_iter().map(|role| NamedId {
        id: &role.id,
        name: &role.name,
    });
    IssuedTokenDocument {
        token: IssuedToken {
            methods: &row.methods,
            user: TokenUser {
                user,
                password_expires_at: None,
            },
            audit_ids: token.audit_ids(),
            expires_at: written(row.expires_at),
            issued_at: written(row.issued_at),
            project: project.map(|it| of_domain(users, &it.domain_id, &it.id, &it.name)),
            is_domain: project.map(|_| false),
            domain: domain.map(named),
            system: (target == Some(&AssignmentTarget::System)).then_some(SystemAll { all: true }),
            roles: target.map(|_| roles.collect()),
            catalog: catalog.filter(|_| target.is_some()).map(entries),
        },
    }
}

pub(crate) fn entries(catalog: &Catalog) -> &[CatalogEntry] {
    catalog.entries()
}

pub(crate) fn user<'a>(user: &'a User, links: &Links) -> UserResource<'a> {
    UserResource {
        id: &user.id,
        name: &user.name,
        domain_id: &user.domain_id,
        enabled: user.enabled,
        description: user.description.as_deref(),
        email: user.email.as_deref(),
        default_project_id: user.default_project_id.as_deref(),
        password_expires_at: None,
        options: BTreeMap::new(),
        links: links.one("users", &user.id),
    }
}

pub(crate) fn project<'a>(project: &'a Project, links: &Links) -> ProjectResource<'a> {
    ProjectResource {
        id: &project.id,
        name: &project.name,
        domain_id: &project.domain_id,
        description: &project.description,
        enabled: project.enabled,
        parent_id: &project.domain_id,
        is_domain: false,
        tags: [],
        options: BTreeMap::new(),
        links: links.one("projects", &project.id),
    }
}

pub(crate) fn domain<'a>(domain: &'a Domain, links: &Links) -> DomainResource<'a> {
    DomainResource {
        id: &domain.id,
        name: &domain.name,
        description: &domain.description,
        enabled: domain.enabled,
        tags: [],
        options: BTreeMap::new(),
        links: links.one("domains", &domain.id),
    }
}

pub(crate) fn role<'a>(role: &'a RoleEntry, links: &Links) -> RoleResource<'a> {
    RoleResource {
        id: &role.id,
        name: &role.name,
        domain_id: None,
        description: role.description.as_deref(),
        options: BTreeMap::new(),
        links: links.one("roles", &role.id),
    }
}

pub(crate) fn service<'a>(entry: &'a CatalogEntry, links: &Links) -> ServiceResource<'a> {
    ServiceResource {
        id: &entry.id,
        name: &entry.name,
        service_type: &entry.service_type,
        enabled: true,
        description: "",
        links: links.one("services", &entry.id),
    }
}

pub(crate) fn endpoint<'a>(
    service: &'a CatalogEntry,
    endpoint: &'a EndpointEntry,
    links: &Links,
) -> EndpointResource<'a> {
    EndpointResource {
        id: &endpoint.id,
        interface: endpoint.interface,
        region_id: &endpoint.region_id,
        region: &endpoint.region_id,
        service_id: &service.id,
        url: &endpoint.url,
        enabled: true,
        links: links.one("endpoints", &endpoint.id),
    }
}

pub(crate) fn region<'a>(name: &'a str, links: &Links) -> RegionResource<'a> {
    RegionResource {
        id: name,
        description: "",
        parent_region_id: None,
        links: links.one("regions", name),
    }
}

pub(crate) fn limit<'a>(
    own: &'a ServiceLimits,
    limit: &'a ProjectLimit,
    links: &Links,
) -> ProjectLimitResource<'a> {
    let id = own.id(limit);
    ProjectLimitResource {
        service_id: &own.service_id,
        region_id: None,
        project_id: &limit.project_id,
        domain_id: None,
        resource_name: &limit.resource_name,
        resource_limit: limit.resource_limit,
        description: None,
        links: links.one("limits", &id),
        id,
    }
}

pub(crate) fn registered_limit<'a>(
    own: &'a ServiceLimits,
    limit: &'a DefaultLimit,
    links: &Links,
) -> RegisteredLimitResource<'a> {
    let id = own.default_id(limit);
    RegisteredLimitResource {
        service_id: &own.service_id,
        region_id: None,
        resource_name: &limit.resource_name,
        default_limit: limit.default_limit,
        description: None,
        links: links.one("registered_limits", &id),
        id,
    }
}

/// The document of an assignment; `None` if its user or target does not exist, which a valid file excludes.
pub(crate) fn assignment<'a>(
    users: &'a Users,
    one: &'a Assignment,
    role: &'a RoleEntry,
    with_names: bool,
    links: &Links,
) -> Option<RoleAssignment<'a>> {
    let user = users.user(&one.user_id)?;
    let of = |domain_id: &'a str, id: &'a str, name: &'a str| match with_names {
        true => Reference::OfDomain(of_domain(users, domain_id, id, name)),
        false => Reference::Id { id },
    };
    let plain = |id: &'a str, name: &'a str| match with_names {
        true => Reference::Named(NamedId { id, name }),
        false => Reference::Id { id },
    };
    let (scope, place) = match &one.target {
        AssignmentTarget::Project(id) => {
            let project = users.project(id)?;
            let scope = of(&project.domain_id, id, &project.name);
            (AssignmentScope::Project(scope), format!("projects/{id}"))
        }
        AssignmentTarget::Domain(id) => {
            let scope = plain(id, &users.domain(id)?.name);
            (AssignmentScope::Domain(scope), format!("domains/{id}"))
        }
        AssignmentTarget::System => {
            let scope = AssignmentScope::System(SystemAll { all: true });
            (scope, "system".to_owned())
        }
    };
    let (user_id, role_id) = (&user.id, &role.id);
    Some(RoleAssignment {
        links: AssignmentLinks {
            assignment: format!("{}/{place}/users/{user_id}/roles/{role_id}", links.base),
        },
        role: plain(role_id, &role.name),
        user: of(&user.domain_id, user_id, &user.name),
        scope,
    })
}
