//! Role assignments, with implied roles.

use std::collections::BTreeSet;

use super::{Project, RoleEntry, Users};

/// The target of a role assignment, and the scope of a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssignmentTarget {
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
    pub target: AssignmentTarget,
    pub role: String,
}

impl Users {
    /// The roles that a user has somewhere, implied ones included, by name.
    #[must_use]
    pub fn roles_of(&self, user_id: &str, target: &AssignmentTarget) -> Vec<&RoleEntry> {
        let held = self
            .assignments
            .iter()
            .filter(|one| one.user_id == user_id && one.target == *target)
            .map(|one| one.role.as_str());
        self.with_implied(held)
    }

    /// These roles and all roles that they imply, by name.
    pub(crate) fn with_implied<'a>(
        &'a self,
        names: impl Iterator<Item = &'a str>,
    ) -> Vec<&'a RoleEntry> {
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

    /// The projects in which a user has a role.
    pub fn projects_of(&self, user_id: &str) -> impl Iterator<Item = &Project> {
        let ids: BTreeSet<&str> = self
            .targets_of(user_id)
            .filter_map(|target| match target {
                AssignmentTarget::Project(id) => Some(id.as_str()),
                AssignmentTarget::Domain(_) | AssignmentTarget::System => None,
            })
            .collect();
        ids.into_iter().filter_map(|id| self.project(id))
    }

    /// The targets on which a user has a role; may repeat.
    pub fn targets_of(&self, user_id: &str) -> impl Iterator<Item = &AssignmentTarget> {
        self.assignments
            .iter()
            .filter(move |one| one.user_id == user_id)
            .map(|one| &one.target)
    }
}
