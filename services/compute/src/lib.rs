//! The cloud's compute API: Nova's REST API, microversions 2.1 to 2.82, for what Berth's conductor does.
//!
//! It keeps only what no other part of Berth keeps (ADR 21); what it shows besides it asks of those who know.
//!
//! | room | noun |
//! |---|---|
//! | `compute` | [`Compute`]: what the API itself keeps, as its users in one process have it |
//! | `flavors` | how large guests may be, what else they ask of their hosts, and whose flavors are |
//! | `key_pairs` | public keys that guests let in |
//! | `servers` | of each server what the API alone keeps |
//! | `owners`, `lost_servers` | whose journal knows a server's guest, and guests whose server has no row |
//! | `external_events` | what services tell of servers, to whoever waits for it |
//! | `courses`, `agents` | how far the conductor is with servers, and what their agents say |
//! | `aggregate_mirror` | host aggregates as Placement has them |
//! | `keeper` | goes on with what was written down and not done |
//! | `tasks` | what was asked for is done by agents |
//! | `instance_actions` | what was done with servers, by whom, and how it ended |
//! | `images` | who knows what an image is |
//! | `quota` | a program that is asked whether a project may have more servers |
//! | `server_state` | what a server is in Nova's words, and what it can be asked for; pure |
//! | `store` | the tables |
//! | `fields` | bodies, judged as Nova's schemas judge them |
//! | `paging` | pages of lists, and links |
//! | `moments` | moments as clients write them; pure |
//! | `microversions` | which microversion brought what |
//! | `project_path` | paths with a project in them |
//! | `router`, `policies`, `handlers`, `views` | the routes, who may call them, what they do, what they tell |
//!
//! [`prepare`] brings a database to the schema, [`router()`] makes the routes. Callers: `cli` (`berth up`, `berth compute serve`), `tests`.

mod agents;
mod aggregate_mirror;
mod compute;
mod courses;
mod external_events;
mod fields;
mod flavors;
mod handlers;
mod images;
mod instance_actions;
mod keeper;
mod key_pairs;
mod lost_servers;
mod microversions;
mod moments;
mod openapi;
mod owners;
mod pacing;
mod paging;
mod policies;
mod project_path;
mod quota;
mod router;
mod server_state;
mod servers;
mod store;
mod tasks;
mod views;

pub use aggregate_mirror::AggregateMirrorError;
pub use compute::{Compute, ComputeOptions, ComputeParts};
pub use flavors::{Flavor, FlavorError, NewFlavor};
pub use images::{FoundImage, ImageAnswer, Images, ImagesError};
pub use instance_actions::{InstanceAction, Outcome};
pub use key_pairs::{KeyPair, KeyPairError, NewKeyPair};
pub use openapi::openapi;
pub use policies::default_policy;
pub use quota::{
    OnQuotaFailure, QUOTA_SCHEMA, QuotaAmounts, QuotaHook, QuotaOptions, QuotaQuestion,
    QuotaRefused,
};
pub use router::{Options, router};
pub use server_state::{
    Action, ActionRefused, Boot, GuestStatus, PowerState, Seen, ServerFacts, ServerState,
    TaskState, UnknownWord, VmState,
};
pub use servers::{
    Handed, Lock, Locker, NewServers, NoLocker, Server, ServerError, ServerFlavor, ServerUpdate,
};
pub use store::TableError;
pub use store::schema::{VERSION as SCHEMA_VERSION, prepare};
