//! A user's query about hosts in JSON, evaluated by `JsonFilter`: `["and", [">=", "$free_ram_mb", 1024], ["<",
//! "$num_io_ops", 4]]`.
//!
//! A query is a list of an operator and its arguments. `= < > <= >=` hold if the first argument compares so with every other one.
//! `in` holds if the first argument equals one of the others. None of these holds with fewer than two arguments. `and` and `or` are
//! as usual. `not` negates each argument: as the whole query it holds if one negated argument is true, and as an argument it holds
//! if it has any argument at all. This is Nova's surprising rule: `["and", ["not", true], true]` holds.
//!
//! A text that begins with `$` is an attribute of the host, with dots between nested names. Attributes that the host does not have
//! are omitted, as are null and empty texts. An empty query holds. Where Nova would fail the request (for example when it compares a
//! number with a text), the host is rejected as [`Unanswerable`].
//!
//! Every host evaluates the query, so its size is limited: [`BYTES`] and [`PARTS`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::host_state::{Attribute, AttributeValue, Capability, CapabilityRef, ConsideredHost};
use crate::text::shortened;

/// The maximum length of a query.
pub const BYTES: usize = 65_536;

/// The maximum number of lists, objects, texts and numbers of a query, at any depth.
pub const PARTS: usize = 1_024;

/// The maximum number of variables whose values a rejection records.
pub const VALUES: usize = 16;

#[derive(Debug, Clone)]
pub struct Query {
    text: Arc<str>,
    root: QueryNode,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It is longer than [`BYTES`].
    #[error("it has {0} bytes, and should have at most {BYTES}")]
    TooLong(usize),
    /// It has more than [`PARTS`] parts.
    #[error("it is made of {0} lists, texts and numbers, and should be of at most {PARTS}")]
    TooManyParts(usize),
    /// It is not JSON.
    #[error("it is not valid JSON: {0}")]
    NoJson(String),
    /// It is not a list.
    #[error("it should be a list of an operator and its arguments")]
    NoList,
    /// The operator is unknown.
    #[error("there is no operator {0}; there are {all}", all = OPERATORS.map(|(name, _)| name).join(", "))]
    NoOperator(String),
}

/// The reason why a query cannot be evaluated on a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswerable {
    /// A path continues after a value that has no fields.
    #[error("{0} leads into what has no fields")]
    NoFields(Arc<str>),
    /// Two values have no order, for example a number and a text.
    #[error("{} and {} have no order", _0[0], _0[1])]
    Incomparable(Box<[String; 2]>),
}

#[derive(Debug, Clone)]
enum QueryNode {
    Holds,
    Operation(QueryOperator, Vec<Argument>),
}

#[derive(Debug, Clone)]
enum Argument {
    Constant(Capability),
    Variable(Variable),
    Query(QueryNode),
}

#[derive(Debug, Clone)]
struct Variable {
    name: Arc<str>,
    /// `None`: hosts have no such attribute.
    attribute: Option<Attribute>,
    fields: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
enum QueryOperator {
    Compare(QueryComparison),
    In,
    Not,
    Or,
    And,
}

#[derive(Debug, Clone, Copy)]
enum QueryComparison {
    Equal,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
}

const OPERATORS: [(&str, QueryOperator); 9] = [
    ("=", QueryOperator::Compare(QueryComparison::Equal)),
    ("<", QueryOperator::Compare(QueryComparison::Less)),
    (">", QueryOperator::Compare(QueryComparison::Greater)),
    ("<=", QueryOperator::Compare(QueryComparison::LessOrEqual)),
    (
        ">=",
        QueryOperator::Compare(QueryComparison::GreaterOrEqual),
    ),
    ("in", QueryOperator::In),
    ("not", QueryOperator::Not),
    ("or", QueryOperator::Or),
    ("and", QueryOperator::And),
];

/// The value of an argument on a host.
enum Term<'a> {
    Found(AttributeValue<'a>),
    Flag(bool),
    /// The result of `not`.
    Flags(Vec<bool>),
}

impl Query {
    pub fn new(text: &str) -> Result<Self, QueryError> {
        if text.len() > BYTES {
            return Err(QueryError::TooLong(text.len()));
        }
        let read = serde_json::from_str(text);
        let read: Capability = read.map_err(|error| QueryError::NoJson(error.to_string()))?;
        let parts = read.view().parts();
        if parts > PARTS {
            return Err(QueryError::TooManyParts(parts));
        }
        Ok(Self {
            text: text.into(),
            root: QueryNode::read(&read)?,
        })
    }

    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Whether the query holds for a host.
    pub fn holds_for(&self, host: &ConsideredHost) -> Result<bool, Unanswerable> {
        Ok(match self.root.on(host)? {
            Term::Flags(flags) => flags.contains(&true),
            other => other.is_truthy(),
        })
    }

    /// The values of the query's variables on a host, by name with the dollar sign. Missing attributes are `None`. At
    /// most [`VALUES`] variables are included, and long texts are truncated.
    #[must_use]
    pub fn values_on(&self, host: &ConsideredHost) -> BTreeMap<Arc<str>, String> {
        let mut values = BTreeMap::new();
        self.root.collect_values(host, &mut values);
        values
    }
}

impl QueryNode {
    fn read(query: &Capability) -> Result<Self, QueryError> {
        if !query.view().is_truthy() {
            return Ok(Self::Holds);
        }
        let Capability::List(list) = query else {
            return Err(QueryError::NoList);
        };
        let Some((operator, arguments)) = list.items().split_first() else {
            return Ok(Self::Holds);
        };
        let name = operator.view().text();
        let is_it = |it: &&(&str, QueryOperator)| matches!(operator, Capability::Text(name) if name == it.0);
        let (_, operator) = OPERATORS
            .iter()
            .find(is_it)
            .ok_or_else(|| QueryError::NoOperator(name.into_owned()))?;
        let arguments = arguments
            .iter()
            .filter_map(|it| Argument::read(it).transpose());
        Ok(Self::Operation(
            *operator,
            arguments.collect::<Result<_, _>>()?,
        ))
    }

    fn on<'a>(&'a self, host: &'a ConsideredHost) -> Result<Term<'a>, Unanswerable> {
        let (operator, arguments) = match self {
            Self::Holds => return Ok(Term::Flag(true)),
            Self::Operation(operator, arguments) => (operator, arguments),
        };
        let mut terms = arguments.iter().filter_map(|it| it.on(host).transpose());
        // All arguments are evaluated, because one that cannot be evaluated makes the whole query fail.
        Ok(match operator {
            QueryOperator::Compare(comparison) => Term::Flag(comparison.of(terms)?),
            QueryOperator::In => {
                let first = terms.next().transpose()?;
                let mut found = false;
                for term in terms {
                    let term = term?;
                    found |= first.as_ref().is_some_and(|first| first.equals(&term));
                }
                Term::Flag(found)
            }
            QueryOperator::Not => {
                let flags = terms.map(|term| term.map(|it| !it.is_truthy()));
                Term::Flags(flags.collect::<Result<_, _>>()?)
            }
            QueryOperator::Or => Term::Flag(fold(terms, false, |a, b| a | b)?),
            QueryOperator::And => Term::Flag(fold(terms, true, |a, b| a & b)?),
        })
    }

    fn collect_values(&self, host: &ConsideredHost, values: &mut BTreeMap<Arc<str>, String>) {
        let Self::Operation(_, arguments) = self else {
            return;
        };
        for argument in arguments {
            match argument {
                Argument::Constant(_) => {}
                Argument::Query(query) => query.collect_values(host, values),
                Argument::Variable(variable) => {
                    if values.len() >= VALUES || values.contains_key(&variable.name) {
                        continue;
                    }
                    let found = variable.on(host).ok().flatten();
                    let text = found.map_or_else(|| "None".to_owned(), |it| text(&it));
                    values.insert(Arc::clone(&variable.name), text);
                }
            }
        }
    }
}

impl Argument {
    /// `None`: the argument is omitted on every host.
    fn read(argument: &Capability) -> Result<Option<Self>, QueryError> {
        Ok(match argument {
            Capability::Null => None,
            Capability::List(_) => Some(Self::Query(QueryNode::read(argument)?)),
            Capability::Text(text) if text.is_empty() => None,
            Capability::Text(text) => Some(match text.strip_prefix('$') {
                Some(path) => Self::Variable(Variable::read(text, path)),
                None => Self::Constant(argument.clone()),
            }),
            other => Some(Self::Constant(other.clone())),
        })
    }

    fn on<'a>(&'a self, host: &'a ConsideredHost) -> Result<Option<Term<'a>>, Unanswerable> {
        match self {
            Self::Constant(it) => Ok(Some(Term::Found(AttributeValue::Value(it.view())))),
            Self::Variable(it) => Ok(it.on(host)?.map(Term::Found)),
            Self::Query(it) => it.on(host).map(Some),
        }
    }
}

impl Variable {
    fn read(name: &str, path: &str) -> Self {
        let mut parts = path.split('.');
        Self {
            name: name.into(),
            attribute: parts.next().and_then(Attribute::named),
            fields: parts.map(str::to_owned).collect(),
        }
    }

    fn on<'a>(&self, host: &'a ConsideredHost) -> Result<Option<AttributeValue<'a>>, Unanswerable> {
        let Some(attribute) = self.attribute else {
            return Ok(None);
        };
        let mut found = attribute.of(host);
        for field in &self.fields {
            if found.is_null() {
                return Ok(None);
            }
            let next = found.get(field);
            found = next.ok_or_else(|| Unanswerable::NoFields(Arc::clone(&self.name)))?;
        }
        Ok((!found.is_null()).then(|| found.into_plain()))
    }
}

impl QueryComparison {
    /// Whether the first value compares so with all others; there must be at least one other.
    fn of<'a>(
        self,
        mut terms: impl Iterator<Item = Result<Term<'a>, Unanswerable>>,
    ) -> Result<bool, Unanswerable> {
        let Some(first) = terms.next().transpose()? else {
            return Ok(false);
        };
        let (mut any, mut all) = (false, true);
        for term in terms {
            any = true;
            all &= self.holds(&first, &term?)?;
        }
        Ok(any && all)
    }

    fn holds(self, first: &Term<'_>, other: &Term<'_>) -> Result<bool, Unanswerable> {
        if matches!(self, Self::Equal) {
            return Ok(first.equals(other));
        }
        let order = first.order(other)?;
        Ok(match self {
            Self::Equal => order.is_some_and(Ordering::is_eq),
            Self::Less => order.is_some_and(Ordering::is_lt),
            Self::Greater => order.is_some_and(Ordering::is_gt),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        })
    }
}

impl Term<'_> {
    fn is_truthy(&self) -> bool {
        match self {
            Self::Flag(flag) => *flag,
            Self::Flags(flags) => !flags.is_empty(),
            Self::Found(found) => match found {
                AttributeValue::Opaque(it) => !it.is_empty,
                other => other.value().is_none_or(CapabilityRef::is_truthy),
            },
        }
    }

    /// The argument as a value, if it is one.
    fn value(&self) -> Option<CapabilityRef<'_>> {
        match self {
            Self::Flag(flag) => Some(CapabilityRef::Bool(*flag)),
            Self::Flags(_) => None,
            Self::Found(found) => found.value(),
        }
    }

    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Flags(a), Self::Flags(b)) => a == b,
            (Self::Found(AttributeValue::Opaque(a)), Self::Found(AttributeValue::Opaque(b))) => {
                a == b
            }
            (a, b) => matches!((a.value(), b.value()), (Some(a), Some(b)) if a.equals(b)),
        }
    }

    fn order(&self, other: &Self) -> Result<Option<Ordering>, Unanswerable> {
        let none = || Unanswerable::Incomparable(Box::new([self.text(), other.text()]));
        match (self, other) {
            (Self::Flags(a), Self::Flags(b)) => Ok(Some(a.cmp(b))),
            (a, b) => match (a.value(), b.value()) {
                (Some(a), Some(b)) => a.order(b).map_err(|_| none()),
                _ => Err(none()),
            },
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Flag(flag) => CapabilityRef::Bool(*flag).text().into_owned(),
            Self::Flags(flags) => shortened(&format!("{flags:?}")).into_owned(),
            Self::Found(found) => text(found),
        }
    }
}

fn text(found: &AttributeValue<'_>) -> String {
    let value = found.value();
    let value = value.map(|value| shortened(&value.text()).into_owned());
    value.unwrap_or_else(|| "an object".to_owned())
}

fn fold<'a>(
    terms: impl Iterator<Item = Result<Term<'a>, Unanswerable>>,
    start: bool,
    join: impl Fn(bool, bool) -> bool,
) -> Result<bool, Unanswerable> {
    let mut all = start;
    for term in terms {
        all = join(all, term?.is_truthy());
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
