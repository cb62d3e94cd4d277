//! Who may do what: rules by their OpenStack names.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::auth::{Caller, Scope};
use crate::fault::Fault;

/// One way to satisfy a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The caller has this role.
    Role(Cow<'static, str>),
    /// The caller has the role `reader` in the project that the request is about.
    ReaderOfTheProject,
}

/// What a rule asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// Nothing.
    Everybody,
    /// Any one of these.
    AnyOf(Cow<'static, [Check]>),
}

/// Whether OpenStack's deprecated defaults (role `admin` passes every rule) still count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeprecatedDefaults {
    /// They do not: `enforce_new_defaults = true`, the default.
    #[default]
    Ignored,
    /// They do: `enforce_new_defaults = false`.
    Honoured,
}

/// The rules of one service.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: BTreeMap<Cow<'static, str>, Requirement>,
    deprecated: DeprecatedDefaults,
}

impl Policy {
    /// The service's own defaults. A rule that is not listed admits nobody.
    #[must_use]
    pub fn new(
        defaults: impl IntoIterator<Item = (&'static str, Requirement)>,
        deprecated: DeprecatedDefaults,
    ) -> Self {
        let rules = defaults
            .into_iter()
            .map(|(name, requirement)| (Cow::Borrowed(name), requirement))
            .collect();
        Self { rules, deprecated }
    }

    /// Replaces a rule. An overridden rule has no deprecated default.
    #[must_use]
    pub fn with_rule(mut self, name: impl Into<Cow<'static, str>>, rule: Requirement) -> Self {
        self.rules.insert(name.into(), rule);
        self
    }

    /// Lets the caller pass or not. `project` is the one the request is about, where that counts.
    ///
    /// # Errors
    /// A 403 that names the rule.
    pub fn authorize(
        &self,
        caller: &Caller,
        rule: &'static str,
        project: Option<&str>,
    ) -> Result<(), Fault> {
        if self.admits(caller, rule, project) {
            return Ok(());
        }
        Err(Fault::forbidden(format!(
            "Policy does not allow {rule} to be performed."
        )))
    }

    fn admits(&self, caller: &Caller, rule: &str, project: Option<&str>) -> bool {
        // Every rule here is about projects.
        if caller.scope == Scope::System {
            return false;
        }
        if self.deprecated == DeprecatedDefaults::Honoured && caller.has_role("admin") {
            return true;
        }
        match self.rules.get(rule) {
            None => false,
            Some(Requirement::Everybody) => true,
            Some(Requirement::AnyOf(checks)) => checks.iter().any(|check| match check {
                Check::Role(role) => caller.has_role(role),
                Check::ReaderOfTheProject => {
                    caller.has_role("reader") && project.is_some() && caller.project_id() == project
                }
            }),
        }
    }
}
