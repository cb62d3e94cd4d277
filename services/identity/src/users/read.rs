//! Parses a users file: the TOML file of the built-in identity service (`users_file`), with its domains, projects, roles,
//! users and role assignments. The error lists all problems of the file, each with its line and key.
//!
//! ```text
//! text -> TOML -> DocumentTable, DocumentField -> UsersBuilder -> Users
//!                    (typed access to values)   (entries so far)
//! ```

mod entries;
mod people;

use berth_options::document::{DocumentProblem, listed, parse_document};

use self::people::UsersBuilder;
use super::Users;

/// All problems of an invalid users file, in the order of its lines. They contain no password and no hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(file, problems))]
pub struct UsersError {
    /// The file's name in messages.
    pub file: String,
    pub problems: Vec<DocumentProblem>,
}

impl Users {
    /// Parses the text of a users file. `file` is the name that messages use.
    ///
    /// Errors: The text is not valid TOML or not a valid users file; the error lists all problems.
    pub fn from_text(file: &str, text: &str) -> Result<Self, UsersError> {
        let users = parse_document(text, |top, parser| {
            Some(UsersBuilder::read(top, parser).into_users())
        });
        users.map_err(|problems| UsersError {
            file: file.to_owned(),
            problems,
        })
    }
}
