//! The cloud's compute API: Nova's REST API, microversions 2.1 to 2.82, for what Berth's conductor does.
//!
//! It keeps only what no other part of Berth keeps (ADR 21); what it shows besides it asks of those who know.
//!
//! | room | noun |
//! |---|---|
//! | `compute` | [`Compute`]: what the API itself keeps, as its users in one process have it |
//! | `flavors` | how large guests may be, what else they ask of their hosts, and whose flavors are |
//! | `key_pairs` | public keys that guests let in |
//! | `server_state` | what a server is in Nova's words, and what it can be asked for; pure |
//! | `store` | the tables |
//! | `fields` | bodies, judged as Nova's schemas judge them |
//! | `paging` | pages of lists, and links |
//! | `microversions` | which microversion brought what |
//! | `router`, `policies`, `handlers`, `views` | the routes, who may call them, what they do, what they tell |
//!
//! [`prepare`] brings a database to the schema, [`router()`] makes the routes. Callers: `tests`; `cli` will compose it.

mod compute;
mod fields;
mod flavors;
mod handlers;
mod key_pairs;
mod microversions;
mod paging;
mod policies;
mod router;
mod server_state;
mod store;
mod views;

pub use compute::Compute;
pub use flavors::{Flavor, FlavorError, NewFlavor};
pub use key_pairs::{KeyPair, KeyPairError, NewKeyPair};
pub use policies::default_policy;
pub use router::{Options, router};
pub use server_state::{
    Action, ActionRefused, Boot, GuestStatus, PowerState, Seen, ServerFacts, ServerState,
    TaskState, UnknownWord, VmState,
};
pub use store::TableError;
pub use store::schema::{SchemaError, VERSION as SCHEMA_VERSION, prepare};
