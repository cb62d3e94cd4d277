//! The rule language of oslo.policy: `role:admin and (project_id:%(project_id)s or not user_id:x)`, or the old lists of lists.
//!
//! What oslo.policy reads as "nobody" after a line in its log, because it cannot be read, is refused here, and so is what it
//! compares with nothing: a credential or a target that this service does not have.

use std::borrow::Cow;

use super::rule::{Check, Credential, Piece, Rule, TargetKey, Template};

/// How deep rules may stand in each other.
const DEEPEST: usize = 20;

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It holds nothing but blanks.
    #[error("it is blank; \"@\" lets everybody pass, \"!\" nobody")]
    Blank,
    /// It ends where something is missing.
    #[error("it ends where a check is expected")]
    Ends,
    /// A word stands where it cannot.
    #[error("{found:?} stands where {expected} is expected")]
    Misplaced {
        found: String,
        /// What could stand there.
        expected: &'static str,
    },
    /// A parenthesis is not closed.
    #[error("a parenthesis is not closed")]
    Open,
    /// It stands too deep.
    #[error("its parentheses and negations are more than {DEEPEST} deep")]
    Deep,
    /// A check without a colon.
    #[error("{0:?} is no check: KIND:TEXT is expected, role:admin say")]
    NoColon(String),
    /// Nothing of that name is known of a caller.
    #[error(
        "{0:?} is nothing that is known of a caller: role, rule, user_id, project_id, is_admin, system_scope, roles \
         or a 'text' in quotes is expected before the colon"
    )]
    UnknownKind(String),
    /// No service of that kind is asked.
    #[error("{0}: no other service is asked whether a caller may pass")]
    Remote(&'static str),
    /// Requests are not about it.
    #[error("%({0})s: project_id or user_id is expected there")]
    UnknownTarget(String),
    /// A percent sign that begins nothing.
    #[error("{0:?}: a % is written %%, and what the request is about %(project_id)s")]
    Percent(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    And(&'a str),
    Or(&'a str),
    Not,
    Check(&'a str),
}

/// Reads a rule's text. The empty text lets everybody pass.
pub fn parse(text: &str) -> Result<Rule, RuleError> {
    if text.is_empty() {
        return Ok(Rule::Everybody);
    }
    let tokens = tokens(text);
    if tokens.is_empty() {
        return Err(RuleError::Blank);
    }
    let mut reader = Reader { tokens, at: 0 };
    let rule = reader.any(0)?;
    match reader.next() {
        None => Ok(rule),
        Some(token) => Err(misplaced(&token, "and, or or the end")),
    }
}

/// Reads the old form: any of the lists, all checks of one. No list at all lets everybody pass.
pub fn parse_lists<S: AsRef<str>>(lists: &[Vec<S>]) -> Result<Rule, RuleError> {
    if lists.is_empty() {
        return Ok(Rule::Everybody);
    }
    let mut any = Vec::new();
    for list in lists.iter().filter(|list| !list.is_empty()) {
        let mut all = list
            .iter()
            .map(|check| self::check(check.as_ref()))
            .collect::<Result<Vec<Rule>, RuleError>>()?;
        any.push(match (all.pop(), all.is_empty()) {
            (Some(one), true) => one,
            (last, _) => {
                all.extend(last);
                Rule::All(all)
            }
        });
    }
    Ok(match (any.pop(), any.is_empty()) {
        (None, _) => Rule::Nobody,
        (Some(one), true) => one,
        (Some(last), false) => {
            any.push(last);
            Rule::Any(any)
        }
    })
}

/// Words between blanks; parentheses at their ends stand for themselves.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for word in text.split_whitespace() {
        let inner = word.trim_start_matches('(');
        tokens.extend((inner.len()..word.len()).map(|_| Token::Open));
        let clean = inner.trim_end_matches(')');
        match clean.to_ascii_lowercase().as_str() {
            "" => {}
            "and" => tokens.push(Token::And(clean)),
            "or" => tokens.push(Token::Or(clean)),
            "not" => tokens.push(Token::Not),
            _ => tokens.push(Token::Check(clean)),
        }
        tokens.extend((clean.len()..inner.len()).map(|_| Token::Close));
    }
    tokens
}

fn misplaced(token: &Token<'_>, expected: &'static str) -> RuleError {
    let found = match token {
        Token::Open => "(",
        Token::Close => ")",
        Token::Not => "not",
        Token::And(word) | Token::Or(word) | Token::Check(word) => word,
    };
    RuleError::Misplaced {
        found: found.to_owned(),
        expected,
    }
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    fn any(&mut self, depth: usize) -> Result<Rule, RuleError> {
        let mut any = vec![self.all(depth)?];
        while matches!(self.peek(), Some(Token::Or(_))) {
            self.at += 1;
            any.push(self.all(depth)?);
        }
        Ok(one_or(any, Rule::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Rule, RuleError> {
        let mut all = vec![self.one(depth)?];
        while matches!(self.peek(), Some(Token::And(_))) {
            self.at += 1;
            all.push(self.one(depth)?);
        }
        Ok(one_or(all, Rule::All))
    }

    fn one(&mut self, depth: usize) -> Result<Rule, RuleError> {
        if depth > DEEPEST {
            return Err(RuleError::Deep);
        }
        match self.next() {
            None => Err(RuleError::Ends),
            Some(Token::Not) => Ok(Rule::Not(Box::new(self.one(depth + 1)?))),
            Some(Token::Open) => {
                let inside = self.any(depth + 1)?;
                match self.next() {
                    Some(Token::Close) => Ok(inside),
                    None => Err(RuleError::Open),
                    Some(other) => Err(misplaced(&other, "and, or or a closing parenthesis")),
                }
            }
            Some(Token::Check(text)) => check(text),
            Some(other) => Err(misplaced(&other, "a check")),
        }
    }
}

fn one_or(mut rules: Vec<Rule>, several: fn(Vec<Rule>) -> Rule) -> Rule {
    if rules.len() == 1 {
        return rules.swap_remove(0);
    }
    several(rules)
}

/// One check, without blanks.
fn check(text: &str) -> Result<Rule, RuleError> {
    match text {
        "@" => return Ok(Rule::Everybody),
        "!" => return Ok(Rule::Nobody),
        _ => {}
    }
    let no_colon = || RuleError::NoColon(text.to_owned());
    if text.contains(char::is_whitespace) {
        return Err(no_colon());
    }
    let (kind, matched) = text.split_once(':').ok_or_else(no_colon)?;
    let check = match kind {
        "rule" => Check::Rule(Cow::Owned(matched.to_owned())),
        "role" => Check::Role(template(matched)?),
        "http" => return Err(RuleError::Remote("http:")),
        "https" => return Err(RuleError::Remote("https:")),
        _ => {
            let known = Credential::ALL.iter().find(|(name, _)| *name == kind);
            match (known, literal(kind)) {
                (Some((_, credential)), _) => Check::Credential(*credential, template(matched)?),
                (None, Some(literal)) => Check::Literal(literal, template(matched)?),
                (None, None) => return Err(RuleError::UnknownKind(kind.to_owned())),
            }
        }
    };
    Ok(Rule::Check(check))
}

/// What stands in quotes, or one of Python's `True`, `False` and `None`, or a whole number.
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
            pieces.push(Piece::Text(Cow::Owned(std::mem::take(&mut plain))));
        }
        pieces.push(Piece::Target(*key));
        rest = after;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(Cow::Owned(plain)));
    }
    Ok(Template::of(pieces))
}
