//! Reads host states and request specs from the JSON of a scheduler case.
//!
//! A case is a request for servers with the hosts to choose from. `berth scheduler explain` and `replay` read cases from
//! files. Each error names the path of its field: `hosts[1].free_ram_mb`.

mod field;
mod host;
mod request;

pub use field::{CaseField, FieldError};
pub use host::{allocation_candidates, host_state};
pub use request::request_spec;

/// A request spec that cannot be read.
#[derive(Debug)]
pub enum CaseRequestError {
    /// A field has a wrong type or value.
    Field(FieldError),
    /// Nova's API would refuse the request.
    Refused(String),
}

impl From<FieldError> for CaseRequestError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}
