//! The schema of OpenStack Placement's database: created by its own migrations up to any revision, and read by
//! SQLAlchemy.

use serde_json::{Value, json};

use super::PeerError;
use super::python::PythonProgram;
use crate::scratch::Scratch;

/// A program that inspects databases and migrates their schema. It ends when it is dropped, or with the thread that
/// started it.
#[derive(Debug)]
pub struct PlacementSchema {
    program: PythonProgram,
}

impl PlacementSchema {
    /// Starts one, for any number of databases.
    pub fn start() -> Result<Self, PeerError> {
        let scratch =
            Scratch::new().map_err(PeerError::files("make a directory for the migrations"))?;
        let program = PythonProgram::start("tests/peers/placement_schema.py", &[], scratch)?;
        Ok(Self { program })
    }

    /// Brings a database, named as SQLAlchemy does, up to a revision of Placement's migrations, for instance `head`; the one it
    /// is at then.
    pub fn upgrade(&mut self, url: &str, revision: &str) -> Result<String, PeerError> {
        let version = self.ask("upgrade", &json!({"url": url, "upgrade": revision}))?;
        Ok(version.as_str().unwrap_or_default().to_owned())
    }

    /// Writes the traits and resource classes that the service writes when it starts. One program does so in one database.
    pub fn add_standard_rows(&mut self, url: &str) -> Result<(), PeerError> {
        let asked = json!({"url": url, "standard_rows": true});
        self.ask("standard_rows", &asked).map(drop)
    }

    /// What `placement-status upgrade check` finds wrong in a database. One program looks so at one database.
    pub fn upgrade_check(&mut self, url: &str) -> Result<Value, PeerError> {
        self.ask("upgrade_check", &json!({"url": url, "upgrade_check": true}))
    }

    /// Every table with its columns in order, their types, defaults and whether they may be null; keys, unique constraints,
    /// indexes and foreign keys with their names.
    pub fn reflect(&mut self, url: &str) -> Result<Value, PeerError> {
        self.ask("reflect", &json!({"url": url, "reflect": true}))
    }

    fn ask(&mut self, what: &str, question: &Value) -> Result<Value, PeerError> {
        let mut answer = self.program.ask(question)?;
        match answer.get("error").and_then(Value::as_str) {
            None => Ok(answer["answer"].take()),
            Some(error) => Err(PeerError::Command {
                program: format!("placement_schema.py ({what})"),
                errors: error.to_owned(),
            }),
        }
    }
}
