//! What a compute service asks of nova-conductor: calls as values, and their answers.
//!
//! A call is made by [`ConductorApi`], which refuses objects that are newer than the release. There is no other way to make one, so a
//! call that exists may be sent.

mod answer;
mod api;
mod call;
mod lists;
mod writes;

pub use answer::{ConductorAnswerError, ObjectUpdates};
pub use api::ConductorApi;
pub use call::{ConductorCall, ConductorMethod, ConductorRequest, NotACall};
pub use writes::{EventFailure, Reschedule};
