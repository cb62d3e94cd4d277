//! Who may do what: rules by their OpenStack names, in OpenStack's language.
//!
//! A service has its defaults ([`Policy::new`]); an operator's file replaces some of them ([`Policy::with_file`]). Handlers ask
//! with [`Policy::authorize`]. The language and what of it is understood is in `language`; the difference to oslo.policy is
//! that what cannot be meant is refused when the file is read, not taken for "nobody" when somebody asks.

mod file;
mod language;
mod rule;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use file::{PolicyFile, PolicyFileError};
pub use language::{RuleError, parse, parse_lists};
pub use rule::{Check, Credential, Rule, TargetKey, Template};

use crate::auth::{Caller, Scope};
use crate::fault::Fault;
use rule::Target;

/// How many rules may refer to one another in a row.
const LONGEST_WAY: usize = 32;

/// Who said what a rule asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Default,
    File,
}

/// The rules of one service.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: BTreeMap<Cow<'static, str>, (Rule, Origin)>,
}

impl Policy {
    /// The service's own defaults, those that stand there only to be referred to included. A rule that is not listed admits
    /// nobody.
    #[must_use]
    pub fn new(defaults: impl IntoIterator<Item = (&'static str, Rule)>) -> Self {
        let rules = defaults
            .into_iter()
            .map(|(name, rule)| (Cow::Borrowed(name), (rule, Origin::Default)))
            .collect();
        Self { rules }
    }

    #[must_use]
    pub fn with_rule(mut self, name: impl Into<Cow<'static, str>>, rule: Rule) -> Self {
        self.rules.insert(name.into(), (rule, Origin::File));
        self
    }

    /// Replaces the rules that an operator's file names.
    ///
    /// # Errors
    /// The file names a rule that is none here, refers to one that is not there, or to itself.
    pub fn with_file(self, file: PolicyFile) -> Result<Self, PolicyFileError> {
        let own = self.rules.iter().map(|(name, (rule, _))| (&**name, rule));
        file.check(&own.collect())?;
        let rules = file.rules.into_iter();
        Ok(rules.fold(self, |policy, (name, (_, rule))| {
            policy.with_rule(name, rule)
        }))
    }

    /// Every rule with what it asks for and who said so, by name.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &Rule, Origin)> {
        let rules = self.rules.iter();
        rules.map(|(name, (rule, origin))| (&**name, rule, *origin))
    }

    /// Lets the caller pass or not. `project` is the one the request is about; the caller's own where none is given.
    pub fn authorize(
        &self,
        caller: &Caller,
        rule: &'static str,
        project: Option<&str>,
    ) -> Result<(), Fault> {
        let target = Target {
            project_id: project.or(caller.project_id()),
            user_id: Some(&caller.user_id),
        };
        // Every rule here is about projects (OpenStack's `scope_types`): who is an administrator of one domain, or of the cloud
        // itself, is none of its projects.
        let is_of_projects = !matches!(caller.scope, Scope::System | Scope::Domain(_));
        if is_of_projects && self.admits(caller, rule, target, LONGEST_WAY) {
            return Ok(());
        }
        Err(Fault::forbidden(format!(
            "Policy does not allow {rule} to be performed."
        )))
    }

    fn admits(&self, caller: &Caller, name: &str, target: Target<'_>, way: usize) -> bool {
        let (Some((rule, _)), Some(way)) = (self.rules.get(name), way.checked_sub(1)) else {
            return false;
        };
        let named = |other: &str| self.admits(caller, other, target, way);
        rule.admits(caller, target, &named)
    }
}
