//! A policy rule as a value, its evaluation, and its text in the language of oslo.policy.

use std::borrow::Cow;
use std::fmt;

use crate::auth::{Caller, TokenScope};

/// A policy rule. [`fmt::Display`] writes the text that parses as the same rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyRule {
    /// Nothing: `@`, or no text.
    Everybody,
    /// Admits no caller: `!`.
    Nobody,
    Check(PolicyCheck),
    /// The negation of a rule.
    Not(Box<PolicyRule>),
    /// All of these rules; at least two.
    All(Vec<PolicyRule>),
    /// Any of these rules; at least two.
    Any(Vec<PolicyRule>),
}

/// A single condition on the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyCheck {
    /// `role:NAME`: the caller has the role, in any case of letters.
    Role(Template),
    /// `rule:NAME`: the caller passes another rule.
    Rule(Cow<'static, str>),
    /// `user_id:TEXT` and similar: a property of the caller equals the text.
    Credential(PolicyCredential, Template),
    /// `'TEXT':%(project_id)s`: a property of the target equals the text.
    Literal(String, Template),
}

/// A property of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyCredential {
    UserId,
    /// The id of the project that the token is for.
    ProjectId,
    /// `True` for the role `admin`, else `False`.
    IsAdmin,
    /// `all` for a token that is for the cloud itself.
    SystemScope,
    Roles,
    /// The host that the caller speaks for ([`crate::HostAccount`]).
    Host,
}

/// A property of the target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKey {
    /// The id of a project.
    ProjectId,
    /// The id of a user.
    UserId,
    /// The name of a host, which is the part `{host}` of the path.
    Host,
}

/// A text with placeholders for properties of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplatePart {
    /// Literal text: never empty, and never followed by another literal.
    Text(Cow<'static, str>),
    Target(TargetKey),
}

/// The target of a request. As in OpenStack, the caller's own ids are used where a request has no other target.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PolicyTarget<'a> {
    pub(super) project_id: Option<&'a str>,
    pub(super) user_id: Option<&'a str>,
    pub(super) host: Option<&'a str>,
}

impl PolicyRule {
    /// The rule `role:NAME`, which admits callers with this role.
    #[must_use]
    pub fn role(name: &'static str) -> Self {
        Self::Check(PolicyCheck::Role(Template::text(name)))
    }

    /// The rule `rule:NAME`, which refers to another rule.
    #[must_use]
    pub fn named(name: &'static str) -> Self {
        Self::Check(PolicyCheck::Rule(Cow::Borrowed(name)))
    }

    /// The rule `project_id:%(project_id)s`: the caller has the project of the target.
    #[must_use]
    pub fn own_project() -> Self {
        let target = Template(vec![TemplatePart::Target(TargetKey::ProjectId)]);
        Self::Check(PolicyCheck::Credential(PolicyCredential::ProjectId, target))
    }

    /// The rule `user_id:%(user_id)s`: the caller is the user of the target.
    #[must_use]
    pub fn own_user() -> Self {
        let target = Template(vec![TemplatePart::Target(TargetKey::UserId)]);
        Self::Check(PolicyCheck::Credential(PolicyCredential::UserId, target))
    }

    /// The rule `host:%(host)s`: the caller speaks for the host of the target.
    #[must_use]
    pub fn own_host() -> Self {
        let target = Template(vec![TemplatePart::Target(TargetKey::Host)]);
        Self::Check(PolicyCheck::Credential(PolicyCredential::Host, target))
    }

    /// The rule `is_admin:True`, which admits administrators.
    #[must_use]
    pub fn is_admin() -> Self {
        Self::Check(PolicyCheck::Credential(
            PolicyCredential::IsAdmin,
            Template::text("True"),
        ))
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::All(mut all) => {
                all.push(other);
                Self::All(all)
            }
            one => Self::All(vec![one, other]),
        }
    }

    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Any(mut any) => {
                any.push(other);
                Self::Any(any)
            }
            one => Self::Any(vec![one, other]),
        }
    }

    /// The names of the rules that this rule refers to.
    pub(super) fn references(&self) -> Vec<&str> {
        match self {
            Self::Check(PolicyCheck::Rule(name)) => vec![name],
            Self::Everybody | Self::Nobody | Self::Check(_) => Vec::new(),
            Self::Not(rule) => rule.references(),
            Self::All(rules) | Self::Any(rules) => {
                rules.iter().flat_map(Self::references).collect()
            }
        }
    }

    /// Whether the caller passes. `named` looks up rules that this rule refers to.
    pub(super) fn admits(
        &self,
        caller: &Caller,
        target: PolicyTarget<'_>,
        named: &dyn Fn(&str) -> bool,
    ) -> bool {
        match self {
            Self::Everybody => true,
            Self::Nobody => false,
            Self::Check(check) => check.admits(caller, target, named),
            Self::Not(rule) => !rule.admits(caller, target, named),
            Self::All(rules) => rules.iter().all(|rule| rule.admits(caller, target, named)),
            Self::Any(rules) => rules.iter().any(|rule| rule.admits(caller, target, named)),
        }
    }
}

impl PolicyCheck {
    fn admits(
        &self,
        caller: &Caller,
        target: PolicyTarget<'_>,
        named: &dyn Fn(&str) -> bool,
    ) -> bool {
        match self {
            Self::Rule(name) => named(name),
            Self::Role(role) => role.fill(target).is_some_and(|role| caller.has_role(&role)),
            Self::Credential(credential, text) => text
                .fill(target)
                .is_some_and(|text| credential.is(caller, &text)),
            Self::Literal(literal, text) => text.fill(target).is_some_and(|text| text == *literal),
        }
    }
}

impl PolicyCredential {
    pub(super) const ALL: [(&'static str, Self); 6] = [
        ("user_id", Self::UserId),
        ("project_id", Self::ProjectId),
        ("is_admin", Self::IsAdmin),
        ("system_scope", Self::SystemScope),
        ("roles", Self::Roles),
        ("host", Self::Host),
    ];

    fn is(self, caller: &Caller, text: &str) -> bool {
        match self {
            Self::UserId => caller.user_id == text,
            Self::ProjectId => caller.project_id() == Some(text),
            Self::IsAdmin => {
                text == if caller.has_role("admin") {
                    "True"
                } else {
                    "False"
                }
            }
            Self::SystemScope => caller.scope == TokenScope::System && text == "all",
            Self::Roles => caller.counting_roles().any(|role| role == text),
            Self::Host => caller.host.speaks_for(text),
        }
    }
}

impl TargetKey {
    pub(super) const ALL: [(&'static str, Self); 3] = [
        ("project_id", Self::ProjectId),
        ("user_id", Self::UserId),
        ("host", Self::Host),
    ];
}

impl Template {
    const fn empty() -> Self {
        Self(Vec::new())
    }

    /// A text without places.
    #[must_use]
    pub fn text(text: &'static str) -> Self {
        if text.is_empty() {
            return Self::empty();
        }
        Self(vec![TemplatePart::Text(Cow::Borrowed(text))])
    }

    pub(super) fn of(pieces: Vec<TemplatePart>) -> Self {
        Self(pieces)
    }

    /// The text for this target; `None` if the target lacks a property.
    fn fill(&self, target: PolicyTarget<'_>) -> Option<String> {
        let mut filled = String::new();
        for piece in &self.0 {
            filled.push_str(match piece {
                TemplatePart::Text(text) => text,
                TemplatePart::Target(TargetKey::ProjectId) => target.project_id?,
                TemplatePart::Target(TargetKey::UserId) => target.user_id?,
                TemplatePart::Target(TargetKey::Host) => target.host?,
            });
        }
        Some(filled)
    }
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], one: &T) -> &'static str {
    let found = all.iter().find(|(_, each)| each == one);
    found.map_or("", |(name, _)| name)
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, rules: &[PolicyRule], word: &str| {
            for (at, rule) in rules.iter().enumerate() {
                if at > 0 {
                    f.write_str(word)?;
                }
                rule.write_inside(f)?;
            }
            Ok(())
        };
        match self {
            Self::Everybody => f.write_str("@"),
            Self::Nobody => f.write_str("!"),
            Self::Check(check) => check.fmt(f),
            Self::Not(rule) => {
                f.write_str("not ")?;
                rule.write_inside(f)
            }
            Self::All(rules) => joined(f, rules, " and "),
            Self::Any(rules) => joined(f, rules, " or "),
        }
    }
}

impl PolicyRule {
    fn write_inside(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(_) | Self::Any(_) => write!(f, "({self})"),
            _ => write!(f, "{self}"),
        }
    }
}

impl fmt::Display for PolicyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => write!(f, "role:{role}"),
            Self::Rule(name) => write!(f, "rule:{name}"),
            Self::Credential(credential, text) => {
                write!(f, "{}:{text}", name_of(&PolicyCredential::ALL, credential))
            }
            Self::Literal(literal, text) => write!(f, "'{literal}':{text}"),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.0 {
            match piece {
                TemplatePart::Text(text) => f.write_str(&text.replace('%', "%%"))?,
                TemplatePart::Target(key) => write!(f, "%({})s", name_of(&TargetKey::ALL, key))?,
            }
        }
        Ok(())
    }
}
