//! Parses a users file. All problems are found in one pass, each with its place.

mod entries;
mod field;
mod people;

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeTable;

use self::field::UsersTable;
use self::people::People as UsersBuilder;
use super::problem::UsersProblems;
use super::{Users, UsersError, UsersProblem};

impl Users {
    /// Parses the text of a users file. `file` is the name that messages use.
    ///
    /// Errors: The text is not valid TOML or not a valid users file; the error lists all problems.
    pub fn from_text(file: &str, text: &str) -> Result<Self, UsersError> {
        read(text).map_err(|problems| UsersError {
            file: file.to_owned(),
            problems,
        })
    }
}

/// State of one parse.
struct UsersParser<'t> {
    problems: UsersProblems<'t>,
    /// Unique values by kind and text, with the key of the first occurrence.
    taken: BTreeMap<(&'static str, String), String>,
}

impl UsersParser<'_> {
    fn wrong(&mut self, span: &Range<usize>, key: &str, text: impl Into<String>) {
        self.problems.add(span, key, text);
    }

    /// Reports the second occurrence of a unique value.
    fn once(&mut self, what: &'static str, text: String, table: &UsersTable<'_>) {
        let place = (what, text);
        if let Some(first) = self.taken.get(&place) {
            let text = format!(
                "there is one of this {what} already at {first}; take another, or leave one out"
            );
            self.wrong(&table.span, &table.key, text);
        } else {
            self.taken.insert(place, table.key.clone());
        }
    }
}

fn read(text: &str) -> Result<Users, Vec<UsersProblem>> {
    let mut reading = UsersParser {
        problems: UsersProblems::of(text),
        taken: BTreeMap::new(),
    };
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            let first = error.message().lines().next().unwrap_or("no TOML");
            reading.wrong(&span, "", format!("this is no TOML: {first}"));
            return Err(reading.problems.found());
        }
    };
    let users = UsersBuilder::read(&UsersTable::top(document.get_ref()), &mut reading).into_users();
    let problems = reading.problems.found();
    if problems.is_empty() {
        Ok(users)
    } else {
        Err(problems)
    }
}
