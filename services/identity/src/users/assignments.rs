//! Who has which role where, implied roles included.

use std::collections::BTreeSet;

use super::{Project, Role, Users};

/// Where a role is had, and what a token may be good for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The project of this id.
    Project(String),
    /// The domain of this id.
    Domain(String),
    System,
}

/// That a user has a role somewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assignment {
    pub user_id: String,
    pub target: Target,
    pub role: String,
}

impl Users {
    /// The roles that a user has somewhere, implied ones included, by name.
    #[must_use]
    pub fn roles_of(&self, user_id: &str, target: &Target) -> Vec<&Role> {
        let held = self
            .assignments
            .iter()
            .filter(|one| one.user_id == user_id && one.target == *target)
            .map(|one| one.role.as_str());
        self.with_implied(held)
    }

    /// These roles and all that they imply, by name.
    pub(crate) fn with_implied<'a>(
        &'a self,
        names: impl Iterator<Item = &'a str>,
    ) -> Vec<&'a Role> {
        let mut found = BTreeSet::new();
        let mut next: Vec<&str> = names.collect();
        while let Some(name) = next.pop() {
            if let Some(role) = self.roles.get(name)
                && found.insert(role.name.as_str())
            {
                next.extend(role.implies.iter().map(String::as_str));
            }
        }
        found
            .into_iter()
            .filter_map(|name| self.roles.get(name))
            .collect()
    }

    /// The projects in which a user has any role.
    pub fn projects_of(&self, user_id: &str) -> impl Iterator<Item = &Project> {
        let ids: BTreeSet<&str> = self
            .targets_of(user_id)
            .filter_map(|target| match target {
                Target::Project(id) => Some(id.as_str()),
                Target::Domain(_) | Target::System => None,
            })
            .collect();
        ids.into_iter().filter_map(|id| self.project(id))
    }

    /// Where a user has any role; the same may come more than once.
    pub fn targets_of(&self, user_id: &str) -> impl Iterator<Item = &Target> {
        self.assignments
            .iter()
            .filter(move |one| one.user_id == user_id)
            .map(|one| &one.target)
    }
}
