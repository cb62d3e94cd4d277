//! Rules for requirements on values, in extra specs.

use super::{LintCode, LintFinding, LintSeverity, LintSubject};
use berth_scheduler_objects::numbers::{float, words};

const NUMBERS: [&str; 5] = ["=", ">=", "==", "!=", "<="];
const TEXTS: [&str; 6] = ["s==", "s!=", "s<=", "s>=", "s<", "s>"];
const PARTS: [&str; 3] = ["<in>", "<all-in>", "<or>"];

/// Checks a requirement in `capabilities:`, for aggregates, or without a scope.
pub(super) fn lint(place: &LintSubject, text: &str, findings: &mut Vec<LintFinding>) {
    let all: Vec<&str> = words(text).collect();
    let Some((first, rest)) = all.split_first() else {
        return;
    };
    let find = |severity, code, text: String| place.finds(severity, code, text);
    let is = |operators: &[&str]| operators.contains(first);
    if !is(&NUMBERS) && !is(&TEXTS) && !is(&PARTS) {
        findings.extend(no_operator(place, text.trim(), first));
        return;
    }
    let Some(operand) = rest.first() else {
        let text = format!("nothing follows `{first}`, so no host matches");
        findings.push(find(LintSeverity::Error, LintCode::BadOperand, text));
        return;
    };
    if is(&NUMBERS) && float(operand).is_none() {
        let sentence = format!(
            "`{first}` compares numbers, and `{operand}` is not a number, so no host matches"
        );
        let found = find(LintSeverity::Error, LintCode::BadOperand, sentence);
        findings.push(match *first {
            "==" | "!=" => found.hint(format!("s{first} {operand}")),
            _ => found,
        });
    }
    let one_word = !matches!(*first, "<all-in>" | "<or>");
    if one_word && rest.len() > 1 {
        let sentence = format!("only `{operand}` is read of what follows `{first}`");
        let found = find(LintSeverity::Warning, LintCode::IdleWords, sentence);
        findings.push(match *first {
            "<in>" => found.hint(format!("<all-in> {}", rest.join(" "))),
            _ => found.hint(format!("{first} {operand}")),
        });
    }
}

/// A text without an operator is the required value itself.
fn no_operator(place: &LintSubject, text: &str, first: &str) -> Option<LintFinding> {
    let glued = PARTS.iter().chain(&TEXTS).chain(&NUMBERS);
    // The longest one: `>=` before `=`.
    let glued = glued.filter(|it| first.starts_with(**it));
    if let Some(operator) = glued.max_by_key(|it| it.len()) {
        let operand = text.get(operator.len()..).unwrap_or_default().trim();
        let sentence = format!(
            "`{operator}` and `{operand}` have no blank between them, so the whole text is what the value should be"
        );
        let found = place.finds(LintSeverity::Error, LintCode::GluedOperator, sentence);
        return Some(found.hint(format!("{operator} {operand}")));
    }
    let operator = ["<", ">"].into_iter().find(|it| first.starts_with(it))?;
    let operand = text.get(1..).unwrap_or_default().trim();
    let sentence =
        format!("`{operator}` is no operator, so the whole text is what the value should be");
    let found = place.finds(LintSeverity::Error, LintCode::NoSuchOperator, sentence);
    let hint = match float(operand) {
        Some(_) => format!("{operator}= {operand}"),
        None => format!("s{operator} {operand}"),
    };
    Some(if operand.is_empty() {
        found
    } else {
        found.hint(hint)
    })
}
