//! What a flavor's extra spec demands of a value: an operator and operands, in one text.
//!
//! | operator | holds where |
//! |---|---|
//! | `=`, `>=` | the value is a number and at least the operand |
//! | `==`, `!=`, `<=` | both are numbers, and compare so |
//! | `s==`, `s!=`, `s<`, `s<=`, `s>`, `s>=` | both as texts compare so, by code points |
//! | `<in>` | the value contains the operand |
//! | `<all-in>` | the value contains every word |
//! | `<or> A <or> B` | the value is one of them |
//!
//! The operator is a separate word, and only the next word is the operand, except for the last two operators. A text that begins with no
//! operator is itself the value that is demanded, blanks and all: `>=24` is no operator. Read once for a request by the filters of
//! capabilities and of aggregates.

use crate::host_state::CapabilityRef;
use crate::numbers::{float, words};

#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    text: String,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    /// No operator: the text is the value.
    Whole,
    /// An operator without an operand.
    Never,
    /// `<or>` without an operand.
    NoAlternative,
    Number(RequirementComparison, Operand),
    Text(RequirementComparison, String),
    /// The value contains all of these.
    Contains(Vec<String>),
    OneOf(Vec<String>),
}

/// The operand of a numeric comparison.
#[derive(Debug, Clone, PartialEq)]
struct Operand {
    text: String,
    number: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequirementComparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Why a value and a demand cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableRequirement {
    /// The operator compares numbers.
    #[error("`{0}` is no number")]
    NoNumber(String),
    /// `<or>` without an operand.
    #[error("nothing follows `<or>`")]
    NoAlternative,
}

impl RequirementComparison {
    fn holds<T: PartialOrd + ?Sized>(self, value: &T, operand: &T) -> bool {
        match self {
            Self::Equal => value == operand,
            Self::NotEqual => value != operand,
            Self::Less => value < operand,
            Self::LessOrEqual => value <= operand,
            Self::Greater => value > operand,
            Self::GreaterOrEqual => value >= operand,
        }
    }
}

impl Requirement {
    /// Reads a demand; every text is one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            rule: Rule::read(text),
        }
    }

    /// The text in the flavor.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a value satisfies the requirement. Text is `CapabilityRef::Text`; null counts as missing.
    pub fn holds_for(&self, value: CapabilityRef<'_>) -> Result<bool, UnreadableRequirement> {
        if value == CapabilityRef::Null {
            return Ok(false);
        }
        match &self.rule {
            Rule::Whole => Ok(value.text() == self.text),
            Rule::Never => Ok(false),
            Rule::NoAlternative => Err(UnreadableRequirement::NoAlternative),
            Rule::Number(comparison, operand) => {
                let none = |text: &str| UnreadableRequirement::NoNumber(text.to_owned());
                let number = value.number().ok_or_else(|| none(&value.text()))?;
                let operand = operand.number.ok_or_else(|| none(&operand.text))?;
                Ok(comparison.holds(&number, &operand))
            }
            Rule::Text(comparison, operand) => Ok(comparison.holds(&*value.text(), operand)),
            Rule::Contains(parts) => {
                let text = value.text();
                Ok(parts.iter().all(|part| text.contains(part)))
            }
            Rule::OneOf(alternatives) => {
                let text = value.text();
                Ok(alternatives.iter().any(|it| *it == text))
            }
        }
    }
}

impl Rule {
    fn read(text: &str) -> Self {
        let mut words = words(text);
        let operator = words.next().unwrap_or_default();
        let operand = words.next();
        let rest = words;
        if let Some((_, comparison)) = NUMBERS.iter().find(|(it, _)| *it == operator) {
            let read = |text: &str| Operand {
                text: text.to_owned(),
                number: float(text),
            };
            return operand.map_or(Self::Never, |it| Self::Number(*comparison, read(it)));
        }
        if let Some((_, comparison)) = TEXTS.iter().find(|(it, _)| *it == operator) {
            return operand.map_or(Self::Never, |it| Self::Text(*comparison, it.to_owned()));
        }
        let own = |all: &mut dyn Iterator<Item = &str>| all.map(str::to_owned).collect();
        match (operator, operand) {
            ("<in>" | "<all-in>", None) => Self::Never,
            ("<in>", Some(part)) => Self::Contains(vec![part.to_owned()]),
            ("<all-in>", Some(part)) => Self::Contains(own(&mut [part].into_iter().chain(rest))),
            ("<or>", None) => Self::NoAlternative,
            // Every second token must be `<or>`.
            ("<or>", Some(first)) => {
                Self::OneOf(own(&mut [first].into_iter().chain(rest).step_by(2)))
            }
            _ => Self::Whole,
        }
    }
}

const NUMBERS: [(&str, RequirementComparison); 5] = [
    ("=", RequirementComparison::GreaterOrEqual),
    (">=", RequirementComparison::GreaterOrEqual),
    ("==", RequirementComparison::Equal),
    ("!=", RequirementComparison::NotEqual),
    ("<=", RequirementComparison::LessOrEqual),
];

const TEXTS: [(&str, RequirementComparison); 6] = [
    ("s==", RequirementComparison::Equal),
    ("s!=", RequirementComparison::NotEqual),
    ("s<", RequirementComparison::Less),
    ("s<=", RequirementComparison::LessOrEqual),
    ("s>", RequirementComparison::Greater),
    ("s>=", RequirementComparison::GreaterOrEqual),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_is_compared_by_the_operator() {
        for (requirement, value, expected) in [
            ("= 5", "6", true),
            ("= 5", " 5 ", true),
            (">= 1_000", "999", false),
            ("== 5.0", "5", true),
            ("== nan", "nan", false),
            ("!= 5 6", "6", true),
            ("<= inf", "1e300", true),
            ("s== 5", "5.0", false),
            ("s< abc", "ABC", true),
            ("s>= \u{e9}", "z", false),
            ("<in> es", "['aes', 'mmx']", true),
            ("<in> mmx aes", "mmx", true),
            ("<all-in> aes mmx", "['aes', 'mmx']", true),
            ("<all-in> aes sse", "['aes', 'mmx']", false),
            ("<or> a <or> b", "b", true),
            ("<or> a b c", "c", true),
            ("<or> a b", "b", false),
            ("  <or>  a ", "a", true),
            ("> 5", "6", false),
            (">=5", "6", false),
            (">=5", ">=5", true),
            ("a b", "a b", true),
            (" a", "a", false),
            ("", "", true),
            (">=", "5", false),
            ("<in>", "", false),
            ("s==", "", false),
        ] {
            let read = Requirement::new(requirement);
            let got = read.holds_for(CapabilityRef::Text(value));
            assert_eq!(got, Ok(expected), "{requirement:?} {value:?}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_reported() {
        for (requirement, value, sentence) in [
            (">= 5", "abc", "`abc` is no number"),
            (">= abc", "5", "`abc` is no number"),
            ("== 0x1f", "5", "`0x1f` is no number"),
            ("<or>", "5", "nothing follows `<or>`"),
        ] {
            let read = Requirement::new(requirement);
            let error = read
                .holds_for(CapabilityRef::Text(value))
                .expect_err(sentence);
            assert_eq!(error.to_string(), sentence);
        }
        let error = Requirement::new(">= 1").holds_for(CapabilityRef::Bool(true));
        assert_eq!(
            error,
            Err(UnreadableRequirement::NoNumber("True".to_owned()))
        );
    }

    #[test]
    fn null_is_as_nothing_should_be() {
        for requirement in ["= 5", "None", "<or>", ">= abc", ""] {
            let got = Requirement::new(requirement).holds_for(CapabilityRef::Null);
            assert_eq!(got, Ok(false), "{requirement:?}");
        }
    }

    proptest! {
        #[test]
        fn a_number_is_compared_as_its_text_is(number in any::<i64>(), operand in any::<i32>()) {
            for operator in ["=", "==", "!=", "<=", "s<", "<in>", "<or>"] {
                let read = Requirement::new(&format!("{operator} {operand}"));
                let text = number.to_string();
                prop_assert_eq!(
                    read.holds_for(CapabilityRef::Int(number)),
                    read.holds_for(CapabilityRef::Text(&text))
                );
            }
        }

        #[test]
        fn every_text_is_a_requirement(text in "[<>=s! a-b0-9or-]{0,12}", value in "[ a-b0-9]{0,4}") {
            let _ = Requirement::new(&text).holds_for(CapabilityRef::Text(&value));
        }
    }
}
