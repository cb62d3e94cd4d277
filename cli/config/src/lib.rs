//! The configuration: one checked [`Config`] from files, environment and command line.
//!
//! [`load`] gives a [`LoadedConfig`], or every error at once, each with file, line, column and key. The options are rows of [`table`]; the
//! reference page and the sample file are written from them ([`reference`](mod@reference)).
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
pub use file::ConfigDocument;
pub use kind::OptionKind;
pub use load::{load, resolve};
pub use option::{Default, OptionEffect, OptionRow};
pub use problem::{ConfigProblem, ConfigRefusal};
pub use rules::SNAPSHOT_BESIDE_OTHERS;
pub use secret::{MASK, Secret};
pub use sections::{
    AcceleratorService, AcceleratorsSection, AgentClient, AgentSection, AllocationCandidatesFrom,
    ApiSection, AuthStrategy, CacheMode, ComputeDriver, ComputeSection, ComputeService,
    ConductorService, Config, ConfigDriveLayout, CorsSection, CpuMode, DevicesSection, FakeSection,
    HOST_PART, IdentityService, ImageCacheSection, LibvirtSection, MdevTypeSection, ModelSection,
    PciSection, PlacementService, ScrubPolicy, TrustedComputingSection, UpdateInterval, VirtType,
    catalog_entry,
};
pub use sources::{DIRECTORY, FILE, Sources};
pub use view::{Effective, LoadedConfig, OptionChange, Public, after_reload, changes};
