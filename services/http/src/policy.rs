//! Access policy: rules with OpenStack's names, in the language of oslo.policy.
//!
//! A service has default rules ([`Policy::new`]); an operator's file replaces some of them ([`Policy::with_file`]).
//! Handlers call [`Policy::authorize`]. Unlike oslo.policy, a rule that cannot be evaluated is an error when the file
//! is read; it does not deny all callers when a request arrives.

mod file;
mod language;
mod rule;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use file::{PolicyFile, PolicyFileError, PolicyFileErrors};
pub use language::{RuleError, parse, parse_lists};
pub use rule::{PolicyCheck, PolicyCredential, PolicyRule, TargetKey, Template};

use crate::auth::{Caller, HOST_ACCOUNT_PREFIX, HostAccount, TokenScope};
use crate::call::ApiRequest;
use crate::fault::Fault;
use crate::operation::OperationSet;
use rule::PolicyTarget;

/// The maximum length of a chain of references between rules.
const MAX_REFERENCE_CHAIN: usize = 32;

/// A rule as a service declares it: its name, which is OpenStack's, and its default.
#[derive(Debug, Clone, Copy)]
pub struct RuleDefault {
    pub name: &'static str,
    /// A function, because rules own text.
    pub default: fn() -> PolicyRule,
}

/// Where a rule is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyOrigin {
    Default,
    File,
}

/// Why a caller who passes a rule for another host does not pass it for this one.
fn other_host(caller: &Caller, host: &str) -> String {
    if let Some(own) = caller.only_host() {
        return format!(" The account of host {own} does not speak for host {host}.");
    }
    let name = caller.user_name.as_deref().unwrap_or(&caller.user_id);
    let account = format!("{HOST_ACCOUNT_PREFIX}{host}");
    if name == account {
        return format!(
            " The account {name} speaks for no host, because it is not in the domain of the service accounts."
        );
    }
    format!(
        " The account {name} speaks for no host: log in as {account} (berth identity host-account {host}), or \
         replace the rule in the service's policy_file."
    )
}

/// The rules of one service.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: BTreeMap<Cow<'static, str>, (PolicyRule, PolicyOrigin)>,
}

impl Policy {
    /// The service's default rules, including rules that exist only as references. A rule that is not
    /// listed admits no caller.
    #[must_use]
    pub fn new(defaults: impl IntoIterator<Item = (&'static str, PolicyRule)>) -> Self {
        let rules = defaults
            .into_iter()
            .map(|(name, rule)| (Cow::Borrowed(name), (rule, PolicyOrigin::Default)))
            .collect();
        Self { rules }
    }

    #[must_use]
    pub fn with_rule(mut self, name: impl Into<Cow<'static, str>>, rule: PolicyRule) -> Self {
        self.rules.insert(name.into(), (rule, PolicyOrigin::File));
        self
    }

    /// Replaces the rules that an operator's file names.
    ///
    /// Errors: all invalid or unknown rules, references to unknown rules, and cycles.
    pub fn with_file(self, file: PolicyFile) -> Result<Self, PolicyFileErrors> {
        let own = self.rules.iter().map(|(name, (rule, _))| (&**name, rule));
        file.check(&own.collect())?;
        let rules = file.rules.into_iter();
        Ok(rules.fold(self, |policy, (name, (_, rule))| {
            policy.with_rule(name, rule)
        }))
    }

    /// All rules by name, with where each is defined.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &PolicyRule, PolicyOrigin)> {
        let rules = self.rules.iter();
        rules.map(|(name, (rule, origin))| (&**name, rule, *origin))
    }

    /// The service's default rules: those that its operations declare, and those that exist only as references.
    #[must_use]
    pub fn of_operations<S>(
        operations: &OperationSet<S>,
        base: impl IntoIterator<Item = (&'static str, PolicyRule)>,
    ) -> Self {
        let declared = operations.rules();
        let declared = declared.map(|rule| (rule.name, (rule.default)()));
        Self::new(base.into_iter().chain(declared))
    }

    /// The rules of two services that one policy file replaces. A rule of both has the definition of `self`.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        let mut rules = other.rules;
        rules.extend(self.rules);
        Self { rules }
    }

    /// Checks whether the caller passes the rule that the operation declares. `project` is the project of the target; by
    /// default the caller's own. The host of the target is the part `{host}` of the path.
    pub fn allow(&self, call: &ApiRequest, project: Option<&str>) -> Result<(), Fault> {
        let host = call.path("host").ok();
        self.check(&call.caller, call.rule()?, project, host)
    }

    /// Checks whether the caller passes the rule. `project` is the project of the target; by default the caller's own.
    pub fn authorize(
        &self,
        caller: &Caller,
        rule: &'static str,
        project: Option<&str>,
    ) -> Result<(), Fault> {
        self.check(caller, rule, project, None)
    }

    fn check(
        &self,
        caller: &Caller,
        rule: &'static str,
        project: Option<&str>,
        host: Option<&str>,
    ) -> Result<(), Fault> {
        let target = PolicyTarget {
            project_id: project.or(caller.project_id()),
            user_id: Some(&caller.user_id),
            host,
        };
        // All rules here have OpenStack's `scope_types: project`: administrators of a domain or of the cloud do not
        // pass them. Unlike in oslo.policy, an unscoped token does not count as one for a project.
        let has_project = caller.project_id().is_some();
        if has_project && self.admits(caller, rule, target, MAX_REFERENCE_CHAIN) {
            return Ok(());
        }
        let mut message = format!("Policy does not allow {rule} to be performed.");
        if caller.scope == TokenScope::Unscoped {
            message += " The token is not scoped to a project.";
        }
        let of_any_host = || Caller {
            host: HostAccount::AnyHost,
            ..caller.clone()
        };
        if let Some(host) = host
            && has_project
            && self.admits(&of_any_host(), rule, target, MAX_REFERENCE_CHAIN)
        {
            message = message + &other_host(caller, host);
        }
        Err(Fault::forbidden(message).by_rule(rule))
    }

    fn admits(&self, caller: &Caller, name: &str, target: PolicyTarget<'_>, way: usize) -> bool {
        let (Some((rule, _)), Some(way)) = (self.rules.get(name), way.checked_sub(1)) else {
            return false;
        };
        let named = |other: &str| self.admits(caller, other, target, way);
        rule.admits(caller, target, &named)
    }
}
