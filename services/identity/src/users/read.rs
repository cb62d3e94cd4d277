//! From a file's text to users. Everything that is wrong is found in one pass, each with its place.

mod entries;
mod field;
mod people;

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeTable;

use self::field::Table;
use self::people::People;
use super::problem::Problems;
use super::{Problem, Users, UsersError};

impl Users {
    /// The users that a text describes. `file` is what it is called in what is said about it.
    ///
    /// # Errors
    /// The text is no TOML or describes no users; everything that is wrong is listed.
    pub fn from_text(file: &str, text: &str) -> Result<Self, UsersError> {
        read(text).map_err(|problems| UsersError {
            file: file.to_owned(),
            problems,
        })
    }
}

/// What is carried along while a text is read.
struct Reading<'t> {
    problems: Problems<'t>,
    /// What may be there only once, by what it is and its text, with the key of the first.
    taken: BTreeMap<(&'static str, String), String>,
}

impl Reading<'_> {
    fn wrong(&mut self, span: &Range<usize>, key: &str, text: impl Into<String>) {
        self.problems.add(span, key, text);
    }

    /// Refuses the second of what may be there only once.
    fn once(&mut self, what: &'static str, text: String, table: &Table<'_>) {
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

fn read(text: &str) -> Result<Users, Vec<Problem>> {
    let mut reading = Reading {
        problems: Problems::of(text),
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
    let users = People::read(&Table::top(document.get_ref()), &mut reading).into_users();
    let problems = reading.problems.found();
    if problems.is_empty() {
        Ok(users)
    } else {
        Err(problems)
    }
}
