//! A client of the Open vSwitch database protocol (OVSDB, [RFC 7047]): transactions over a UNIX socket or TCP.
//!
//! [`OvsdbClient::transact`] opens a connection, sends one transaction and closes the connection. A transaction is atomic:
//! the server applies all of its operations or none. Callers change a switch a few times per guest, so a lasting
//! connection would only add states that can be wrong.
//!
//! Callers: `drivers/net`, which adds guests' interfaces to Open vSwitch.
//!
//! [RFC 7047]: https://www.rfc-editor.org/rfc/rfc7047

mod client;
mod endpoint;
mod error;
mod operation;

pub use client::OvsdbClient;
pub use endpoint::{OvsdbEndpoint, OvsdbEndpointError};
pub use error::OvsdbError;
pub use operation::{Condition, Operation, OperationResult, Row, map, named_uuid, uuid_of};
