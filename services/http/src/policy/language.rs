//! Parser for the rule language of oslo.policy: `role:admin and (project_id:%(project_id)s or not user_id:x)`, or the
//! old lists of lists.
//!
//! Text that oslo.policy cannot read and treats as a denial is an error here, and so is a comparison with a credential
//! or target that this service does not have.

use std::borrow::Cow;

use super::rule::{PolicyCheck, PolicyCredential, PolicyRule, TargetKey, Template, TemplatePart};

/// The maximum nesting depth of a rule.
const DEEPEST: usize = 20;

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The text is blank.
    #[error("it is blank; \"@\" admits all callers, \"!\" none")]
    Blank,
    /// The text ends too early.
    #[error("it ends where a check is expected")]
    Ends,
    /// A token is in the wrong place.
    #[error("{found:?} stands where {expected} is expected")]
    Misplaced {
        found: String,
        /// What is expected instead.
        expected: &'static str,
    },
    /// A parenthesis is not closed.
    #[error("a parenthesis is not closed")]
    Open,
    /// The rule is nested too deeply.
    #[error("its parentheses and negations are more than {DEEPEST} deep")]
    Deep,
    /// A check without a colon.
    #[error("{0:?} is no check: KIND:TEXT is expected, role:admin say")]
    NoColon(String),
    /// Nothing of that name is known of a caller.
    #[error(
        "{0:?} is nothing that is known of a caller: role, rule, user_id, project_id, host, is_admin, system_scope, \
         roles or a 'text' in quotes is expected before the colon"
    )]
    UnknownKind(String),
    /// Rules that ask an external service (`http:`) are not supported.
    #[error("{0}: no other service is asked whether a caller may pass")]
    Remote(&'static str),
    /// Requests have no such target.
    #[error("%({0})s: project_id, user_id or host is expected there")]
    UnknownTarget(String),
    /// A percent sign that begins nothing.
    #[error("{0:?}: a % is written %%, and what the request is about %(project_id)s")]
    Percent(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PolicyToken<'a> {
    Open,
    Close,
    And(&'a str),
    Or(&'a str),
    Not,
    Check(&'a str),
}

/// Reads a rule's text. The empty text lets everybody pass.
pub fn parse(text: &str) -> Result<PolicyRule, RuleError> {
    if text.is_empty() {
        return Ok(PolicyRule::Everybody);
    }
    let tokens = tokens(text);
    if tokens.is_empty() {
        return Err(RuleError::Blank);
    }
    let mut reader = PolicyParser { tokens, at: 0 };
    let rule = reader.any(0)?;
    match reader.next() {
        None => Ok(rule),
        Some(token) => Err(misplaced(&token, "and, or or the end")),
    }
}

/// Reads the old form: any of the lists, all checks of one. No list at all lets everybody pass.
pub fn parse_lists<S: AsRef<str>>(lists: &[Vec<S>]) -> Result<PolicyRule, RuleError> {
    if lists.is_empty() {
        return Ok(PolicyRule::Everybody);
    }
    let mut any = Vec::new();
    for list in lists.iter().filter(|list| !list.is_empty()) {
        let mut all = list
            .iter()
            .map(|check| self::check(check.as_ref()))
            .collect::<Result<Vec<PolicyRule>, RuleError>>()?;
        any.push(match (all.pop(), all.is_empty()) {
            (Some(one), true) => one,
            (last, _) => {
                all.extend(last);
                PolicyRule::All(all)
            }
        });
    }
    Ok(match (any.pop(), any.is_empty()) {
        (None, _) => PolicyRule::Nobody,
        (Some(one), true) => one,
        (Some(last), false) => {
            any.push(last);
            PolicyRule::Any(any)
        }
    })
}

/// Splits the text at blanks; parentheses at either end of a part are separate tokens.
fn tokens(text: &str) -> Vec<PolicyToken<'_>> {
    let mut tokens = Vec::new();
    for word in text.split_whitespace() {
        let inner = word.trim_start_matches('(');
        tokens.extend((inner.len()..word.len()).map(|_| PolicyToken::Open));
        let clean = inner.trim_end_matches(')');
        match clean.to_ascii_lowercase().as_str() {
            "" => {}
            "and" => tokens.push(PolicyToken::And(clean)),
            "or" => tokens.push(PolicyToken::Or(clean)),
            "not" => tokens.push(PolicyToken::Not),
            _ => tokens.push(PolicyToken::Check(clean)),
        }
        tokens.extend((clean.len()..inner.len()).map(|_| PolicyToken::Close));
    }
    tokens
}

fn misplaced(token: &PolicyToken<'_>, expected: &'static str) -> RuleError {
    let found = match token {
        PolicyToken::Open => "(",
        PolicyToken::Close => ")",
        PolicyToken::Not => "not",
        PolicyToken::And(word) | PolicyToken::Or(word) | PolicyToken::Check(word) => word,
    };
    RuleError::Misplaced {
        found: found.to_owned(),
        expected,
    }
}

struct PolicyParser<'a> {
    tokens: Vec<PolicyToken<'a>>,
    at: usize,
}

impl<'a> PolicyParser<'a> {
    fn next(&mut self) -> Option<PolicyToken<'a>> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn peek(&self) -> Option<&PolicyToken<'a>> {
        self.tokens.get(self.at)
    }

    fn any(&mut self, depth: usize) -> Result<PolicyRule, RuleError> {
        let mut any = vec![self.all(depth)?];
        while matches!(self.peek(), Some(PolicyToken::Or(_))) {
            self.at += 1;
            any.push(self.all(depth)?);
        }
        Ok(one_or(any, PolicyRule::Any))
    }

    fn all(&mut self, depth: usize) -> Result<PolicyRule, RuleError> {
        let mut all = vec![self.one(depth)?];
        while matches!(self.peek(), Some(PolicyToken::And(_))) {
            self.at += 1;
            all.push(self.one(depth)?);
        }
        Ok(one_or(all, PolicyRule::All))
    }

    fn one(&mut self, depth: usize) -> Result<PolicyRule, RuleError> {
        if depth > DEEPEST {
            return Err(RuleError::Deep);
        }
        match self.next() {
            None => Err(RuleError::Ends),
            Some(PolicyToken::Not) => Ok(PolicyRule::Not(Box::new(self.one(depth + 1)?))),
            Some(PolicyToken::Open) => {
                let inside = self.any(depth + 1)?;
                match self.next() {
                    Some(PolicyToken::Close) => Ok(inside),
                    None => Err(RuleError::Open),
                    Some(other) => Err(misplaced(&other, "and, or or a closing parenthesis")),
                }
            }
            Some(PolicyToken::Check(text)) => check(text),
            Some(other) => Err(misplaced(&other, "a check")),
        }
    }
}

fn one_or(mut rules: Vec<PolicyRule>, several: fn(Vec<PolicyRule>) -> PolicyRule) -> PolicyRule {
    if rules.len() == 1 {
        return rules.swap_remove(0);
    }
    several(rules)
}

/// One check, without blanks.
fn check(text: &str) -> Result<PolicyRule, RuleError> {
    match text {
        "@" => return Ok(PolicyRule::Everybody),
        "!" => return Ok(PolicyRule::Nobody),
        _ => {}
    }
    let no_colon = || RuleError::NoColon(text.to_owned());
    if text.contains(char::is_whitespace) {
        return Err(no_colon());
    }
    let (kind, matched) = text.split_once(':').ok_or_else(no_colon)?;
    let check = match kind {
        "rule" => PolicyCheck::Rule(Cow::Owned(matched.to_owned())),
        "role" => PolicyCheck::Role(template(matched)?),
        "http" => return Err(RuleError::Remote("http:")),
        "https" => return Err(RuleError::Remote("https:")),
        _ => {
            let known = PolicyCredential::ALL.iter().find(|(name, _)| *name == kind);
            match (known, literal(kind)) {
                (Some((_, credential)), _) => {
                    PolicyCheck::Credential(*credential, template(matched)?)
                }
                (None, Some(literal)) => PolicyCheck::Literal(literal, template(matched)?),
                (None, None) => return Err(RuleError::UnknownKind(kind.to_owned())),
            }
        }
    };
    Ok(PolicyRule::Check(check))
}

/// A literal: text in quotes, Python's `True`, `False` or `None`, or a whole number.
fn literal(kind: &str) -> Option<String> {
    for quote in ['\'', '"'] {
        let inside = kind
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inside) = inside {
            let plain = !inside.contains(['\'', '"', '\\']);
            return plain.then(|| inside.to_owned());
        }
    }
    let number = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_digit());
    let number = number && (kind == "0" || !kind.starts_with('0'));
    (number || ["True", "False", "None"].contains(&kind)).then(|| kind.to_owned())
}

fn template(text: &str) -> Result<Template, RuleError> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            plain.push('%');
            rest = after;
            continue;
        }
        let inside = rest
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(")s"));
        let (name, after) = inside.ok_or_else(|| RuleError::Percent(text.to_owned()))?;
        let known = TargetKey::ALL.iter().find(|(key, _)| *key == name);
        let (_, key) = known.ok_or_else(|| RuleError::UnknownTarget(name.to_owned()))?;
        if !plain.is_empty() {
            pieces.push(TemplatePart::Text(Cow::Owned(std::mem::take(&mut plain))));
        }
        pieces.push(TemplatePart::Target(*key));
        rest = after;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(TemplatePart::Text(Cow::Owned(plain)));
    }
    Ok(Template::of(pieces))
}
