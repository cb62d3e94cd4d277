//! Who there is: domains, projects, users, roles, and who has which role where. Read from a file, never changed.

mod assignments;
mod file;
mod ids;
mod problem;
mod read;

use std::collections::BTreeMap;

pub use assignments::{Assignment, Target};
pub use file::{Look, UsersFile, UsersFileError};
pub(crate) use ids::derived;
pub use problem::{Problem, UsersError};

use crate::passwords::PasswordHash;

/// A domain: names of users and projects are unique in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    pub id: String,
    pub name: String,
    /// What it is, in words; may be empty.
    pub description: String,
    /// Whether its users may ask for tokens, and tokens be good for its projects.
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: String,
    /// The name, unique in the domain.
    pub name: String,
    pub domain_id: String,
    /// What it is, in words; may be empty.
    pub description: String,
    /// Whether tokens may be good for it.
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: String,
    /// The name, unique in the domain.
    pub name: String,
    pub domain_id: String,
    /// What the password is checked against.
    pub password_hash: PasswordHash,
    pub email: Option<String>,
    /// What it is, in words.
    pub description: Option<String>,
    /// Whether it may ask for tokens.
    pub enabled: bool,
    /// The project of a token that is asked for without a scope.
    pub default_project_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    pub id: String,
    /// The name, which services' policies ask for.
    pub name: String,
    /// What it is, in words.
    pub description: Option<String>,
    /// The names of those that whoever has it has, too.
    pub implies: Vec<String>,
}

/// All of it, as one file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    pub(crate) domains: BTreeMap<String, Domain>,
    pub(crate) projects: BTreeMap<String, Project>,
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) roles: BTreeMap<String, Role>,
    pub(crate) assignments: Vec<Assignment>,
    /// The hash that takes longest to check: what a password for nobody is checked against.
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
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// Who has which role where, as the file says it: without implied roles.
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
        self.domains().find(|domain| domain.name == name)
    }

    /// The project of a name in the domain of an id.
    #[must_use]
    pub fn project_named(&self, domain_id: &str, name: &str) -> Option<&Project> {
        self.projects()
            .find(|project| project.domain_id == domain_id && project.name == name)
    }

    /// The user of a name in the domain of an id.
    #[must_use]
    pub fn user_named(&self, domain_id: &str, name: &str) -> Option<&User> {
        self.users()
            .find(|user| user.domain_id == domain_id && user.name == name)
    }

    /// Whether the user may have tokens: it and its domain are enabled.
    #[must_use]
    pub fn may_log_in(&self, user: &User) -> bool {
        user.enabled && self.is_domain_enabled(&user.domain_id)
    }

    /// Whether a token may be good for it.
    #[must_use]
    pub fn is_usable(&self, target: &Target) -> bool {
        match target {
            Target::System => true,
            Target::Domain(id) => self.is_domain_enabled(id),
            Target::Project(id) => self.project(id).is_some_and(|project| {
                project.enabled && self.is_domain_enabled(&project.domain_id)
            }),
        }
    }

    fn is_domain_enabled(&self, id: &str) -> bool {
        self.domain(id).is_some_and(|domain| domain.enabled)
    }
}
