//! The schema of OpenStack Placement's database: created by its own migrations up to any revision, and read by
//! SQLAlchemy.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::PeerError;
use super::python::PythonProgram;
use crate::scratch::Scratch;

/// Programs that no test uses now.
static IDLE: Mutex<Vec<PythonProgram>> = Mutex::new(Vec::new());

/// A program that inspects databases and migrates their schema. Its start takes two seconds of processor time, so the next
/// test gets it when this value is dropped.
#[derive(Debug)]
pub struct PlacementSchema {
    /// `None` only during the drop.
    program: Option<PythonProgram>,
    /// False once it is configured for one database, or did not answer.
    is_reusable: bool,
}

impl Drop for PlacementSchema {
    fn drop(&mut self) {
        if let Some(program) = self.program.take().filter(|_| self.is_reusable) {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(program);
        }
    }
}

impl PlacementSchema {
    /// An idle one, else a new one, for any number of databases.
    pub fn lease() -> Result<Self, PeerError> {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let program = match idle {
            Some(program) => program,
            None => {
                let scratch = Scratch::new()
                    .map_err(PeerError::files("make a directory for the migrations"))?;
                PythonProgram::start("tests/peers/placement_schema.py", &[], scratch)?
            }
        };
        Ok(Self {
            program: Some(program),
            is_reusable: true,
        })
    }

    /// Brings a database, named as SQLAlchemy does, up to a revision of Placement's migrations, for instance `head`; the one it
    /// is at then.
    pub fn upgrade(&mut self, url: &str, revision: &str) -> Result<String, PeerError> {
        let version = self.ask("upgrade", &json!({"url": url, "upgrade": revision}))?;
        Ok(version.as_str().unwrap_or_default().to_owned())
    }

    /// Writes the traits and resource classes that the service writes when it starts. One program does so in one database.
    pub fn add_standard_rows(&mut self, url: &str) -> Result<(), PeerError> {
        self.is_reusable = false;
        let asked = json!({"url": url, "standard_rows": true});
        self.ask("standard_rows", &asked).map(drop)
    }

    /// What `placement-status upgrade check` finds wrong in a database. One program looks so at one database.
    pub fn upgrade_check(&mut self, url: &str) -> Result<Value, PeerError> {
        self.is_reusable = false;
        self.ask("upgrade_check", &json!({"url": url, "upgrade_check": true}))
    }

    /// Every table with its columns in order, their types, defaults and whether they may be null; keys, unique constraints,
    /// indexes and foreign keys with their names.
    pub fn reflect(&mut self, url: &str) -> Result<Value, PeerError> {
        self.ask("reflect", &json!({"url": url, "reflect": true}))
    }

    fn ask(&mut self, what: &str, question: &Value) -> Result<Value, PeerError> {
        let program = self.program.as_mut().expect("taken only when dropped");
        let answer = program.ask(question);
        self.is_reusable &= answer.is_ok();
        let mut answer = answer?;
        match answer.get("error").and_then(Value::as_str) {
            None => Ok(answer["answer"].take()),
            Some(error) => Err(PeerError::Command {
                program: format!("placement_schema.py ({what})"),
                errors: error.to_owned(),
            }),
        }
    }
}
