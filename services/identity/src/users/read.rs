//! Parses a users file: the TOML file of the built-in identity service (`users_file`), with its domains, projects, roles,
//! users and role assignments. The error lists all problems of the file, each with its line and key.
//!
//! ```text
//! text -> TOML -> UsersTable, UsersField -> UsersBuilder -> Users
//!                 (typed access to values)   (entries so far)
//!                          \________ problems ________/ -> UsersParser
//! ```

mod entries;
mod field;
mod people;

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeTable;

use self::field::UsersTable;
use self::people::UsersBuilder;
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

/// What one parse collects in addition to the entries: the problems, and the values that must be unique.
struct UsersParser<'t> {
    problems: UsersProblems<'t>,
    /// The key of the first occurrence of each unique value, by its kind (such as "user id") and text.
    first_keys: BTreeMap<(&'static str, String), String>,
}

impl UsersParser<'_> {
    /// Records a problem at this span and key of the file.
    fn wrong(&mut self, span: &Range<usize>, key: &str, text: impl Into<String>) {
        self.problems.add(span, key, text);
    }

    /// Records a problem if an earlier table has the same unique value. `what` is the kind of the value.
    fn check_unique(&mut self, what: &'static str, text: String, table: &UsersTable<'_>) {
        let value = (what, text);
        if let Some(first) = self.first_keys.get(&value) {
            let text = format!(
                "there is one of this {what} already at {first}; take another, or leave one out"
            );
            self.wrong(&table.span, &table.key, text);
        } else {
            self.first_keys.insert(value, table.key.clone());
        }
    }
}

fn read(text: &str) -> Result<Users, Vec<UsersProblem>> {
    let mut parser = UsersParser {
        problems: UsersProblems::of(text),
        first_keys: BTreeMap::new(),
    };
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            let first = error.message().lines().next().unwrap_or("no TOML");
            parser.wrong(&span, "", format!("this is not valid TOML: {first}"));
            return Err(parser.problems.found());
        }
    };
    let users = UsersBuilder::read(&UsersTable::top(document.get_ref()), &mut parser).into_users();
    let problems = parser.problems.found();
    if problems.is_empty() {
        Ok(users)
    } else {
        Err(problems)
    }
}
