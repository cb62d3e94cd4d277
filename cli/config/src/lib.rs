//! The configuration: one checked [`Config`] from files, environment and command line.
//!
//! [`load`] gives a [`Loaded`] configuration or every error at once, each with file, line, column and key. The options are rows of
//! [`table`]; the reference page and the sample file are written from them ([`reference`](mod@reference)).
//!
//! ```text
//! files, BERTH__*, --machine ... -> Setting (checked by its row) -> merged layers -> Config -> rules
//! ```

mod authtoken;
mod command_line;
mod environment;
mod file;
mod json_value;
mod kind;
mod load;
mod login;
mod option;
mod pattern;
mod problem;
pub mod reference;
pub mod regular_file;
mod rules;
mod secret;
mod sections;
mod setting;
mod sources;
pub mod table;
mod view;

pub use authtoken::KeystoneAuthtoken;
pub use file::Document;
pub use kind::Kind;
pub use load::{load, resolve};
pub use option::{Default, Effect, OptionRow};
pub use problem::{Problem, Refused};
pub use rules::SNAPSHOT_BESIDE_OTHERS;
pub use secret::{MASK, Secret};
pub use sections::{
    AcceleratorService, Accelerators, Agent, AgentClient, AllocationCandidatesFrom, Api,
    AuthStrategy, CacheMode, Compute, ComputeDriver, ComputeService, ConductorService, Config,
    ConfigDriveLayout, Cors, CpuMode, Devices, Fake, HOST_PART, IdentityService, ImageCache,
    Libvirt, MdevType, Model, Pci, PlacementService, ScrubPolicy, TrustedComputing, UpdateInterval,
    VirtType, catalog_entry,
};
pub use sources::{DIRECTORY, FILE, Sources};
pub use view::{Change, Effective, Loaded, Public, after_reload, changes};
