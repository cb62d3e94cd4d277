//! Users, projects, domains, roles and role assignments. They are read from a file and immutable.

mod assignments;
mod file;
mod ids;
mod read;

use std::collections::BTreeMap;

pub use assignments::{Assignment, AssignmentTarget};
pub use file::{ReloadOutcome, UsersFile, UsersFileError};
pub(crate) use ids::derived;
pub use read::UsersError;

use crate::passwords::PasswordHash;

/// A domain: names of users and projects are unique in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    pub id: String,
    pub name: String,
    /// A description; may be empty.
    pub description: String,
    /// Whether its users may log in and tokens may be scoped to its projects.
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: String,
    /// The name, unique in the domain.
    pub name: String,
    pub domain_id: String,
    /// A description; may be empty.
    pub description: String,
    /// Whether tokens may be scoped to it.
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: String,
    /// The name, unique in the domain.
    pub name: String,
    pub domain_id: String,
    pub password_hash: PasswordHash,
    pub email: Option<String>,
    pub description: Option<String>,
    /// Whether the user may log in.
    pub enabled: bool,
    /// The scope of a token that is requested without one.
    pub default_project_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleEntry {
    pub id: String,
    /// The name that policy rules refer to.
    pub name: String,
    pub description: Option<String>,
    /// The names of the roles that this role includes.
    pub implies: Vec<String>,
}

/// The content of one users file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    pub(crate) domains: BTreeMap<String, Domain>,
    pub(crate) projects: BTreeMap<String, Project>,
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) roles: BTreeMap<String, RoleEntry>,
    pub(crate) assignments: Vec<Assignment>,
    /// The hash that is most expensive to verify; unknown users are verified against it.
    pub(crate) costliest: Option<PasswordHash>,
}

impl Users {
    /// The domains, by id.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.values()
    }

    /// The projects, by id.
    pub fn projects(&self) -> impl Iterator<Item = &Project> {
        self.projects.values()
    }

    /// The users, by id.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values()
    }

    /// The roles, by name.
    pub fn roles(&self) -> impl Iterator<Item = &RoleEntry> {
        self.roles.values()
    }

    /// The role assignments in the file, without implied roles.
    #[must_use]
    pub fn assignments(&self) -> &[Assignment] {
        &self.assignments
    }

    /// The domain of an id.
    #[must_use]
    pub fn domain(&self, id: &str) -> Option<&Domain> {
        self.domains.get(id)
    }

    /// The project of an id.
    #[must_use]
    pub fn project(&self, id: &str) -> Option<&Project> {
        self.projects.get(id)
    }

    /// The user of an id.
    #[must_use]
    pub fn user(&self, id: &str) -> Option<&User> {
        self.users.get(id)
    }

    /// The domain of a name.
    #[must_use]
    pub fn domain_named(&self, name: &str) -> Option<&Domain> {
        named(self.domains(), name, |domain| &domain.name)
    }

    /// The project of a name in the domain of an id.
    #[must_use]
    pub fn project_named(&self, domain_id: &str, name: &str) -> Option<&Project> {
        let projects = self
            .projects()
            .filter(|project| project.domain_id == domain_id);
        named(projects, name, |project| &project.name)
    }

    /// The user of a name in the domain of an id.
    #[must_use]
    pub fn user_named(&self, domain_id: &str, name: &str) -> Option<&User> {
        let users = self.users().filter(|user| user.domain_id == domain_id);
        named(users, name, |user| &user.name)
    }

    /// Whether the user and its domain are enabled.
    #[must_use]
    pub fn may_log_in(&self, user: &User) -> bool {
        user.enabled && self.is_domain_enabled(&user.domain_id)
    }

    /// Whether a token may be scoped to the target.
    #[must_use]
    pub fn is_usable(&self, target: &AssignmentTarget) -> bool {
        match target {
            AssignmentTarget::System => true,
            AssignmentTarget::Domain(id) => self.is_domain_enabled(id),
            AssignmentTarget::Project(id) => self.project(id).is_some_and(|project| {
                project.enabled && self.is_domain_enabled(&project.domain_id)
            }),
        }
    }

    fn is_domain_enabled(&self, id: &str) -> bool {
        self.domain(id).is_some_and(|domain| domain.enabled)
    }
}

/// The entry of a name. As in Keystone on MariaDB, case does not count, unless two names differ in nothing else.
fn named<'a, T>(
    all: impl Iterator<Item = &'a T>,
    name: &str,
    name_of: impl Fn(&T) -> &str,
) -> Option<&'a T> {
    let lower = name.to_lowercase();
    let same: Vec<&T> = all
        .filter(|one| name_of(one).to_lowercase() == lower)
        .collect();
    match same[..] {
        [only] => Some(only),
        _ => same.into_iter().find(|one| name_of(one) == name),
    }
}
