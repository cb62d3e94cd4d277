//! Audit records: who sent which request to this process, and what came of it. One JSON object with CADF's field names
//! (DMTF DSP0262) for each recorded request, to the log and to a file. Successful reads are recorded only if configured.
//!
//! ```text
//! listener -> audited() -> services, agent      each fills in what it knows: caller, operation, rule that refused
//!                 |  RequestAudit (in the request's extensions)
//!                 v
//!            AuditTrail -> log (target berth::audit), file
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `layer` | [`audited()`]: begins and ends the audit of each request of a router |
//! | `request` | [`RequestAudit`]: what is known of one request so far |
//! | `event` | the record as JSON; pure |
//! | `trail` | [`AuditTrail`]: which records are written, and where |
//! | `writer` | the thread that writes records to the file |
//! | `file` | the file, which is opened again after it was renamed |
//! | `options` | [`AuditOptions`]: the section `[audit]` |
//!
//! Calls inside a process come through no listener and leave no record. A record never contains a body, a token or a
//! password.

mod event;
mod file;
mod layer;
mod options;
mod request;
mod trail;
mod writer;

pub use event::{AuditInitiator, AuditPeer, AuditTarget};
pub use file::AuditFileError;
pub use layer::{ApiAudit, ListenerAudit, audited};
pub use options::AuditOptions;
pub use request::RequestAudit;
pub use trail::{AuditTrail, AuditUnavailable};
