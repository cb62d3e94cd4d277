//! The configuration: one checked [`Config`] from files, environment and command line.
//!
//! [`load`] gives a [`LoadedConfig`], or every error at once, each with file, line, column and key. The options are declared in the crates that read
//! them and listed in [`table`]; the reference page and the sample file are written from them ([`reference`](mod@reference)).
//!
//! ```text
//! files, BERTH__*, --machine ... -> Setting (checked by its row) -> merged values -> Config -> rules
//! ```

mod authtoken;
mod command_line;
mod environment;
mod file;
mod ini;
mod listeners;
mod load;
mod nova;
mod pattern;
mod problem;
pub mod reference;
pub mod regular_file;
mod rules;
mod secret;
mod secret_file;
mod sections;
mod setting;
mod sources;
pub mod table;
mod trust;
mod view;

pub use authtoken::KeystoneAuthtoken;
pub use berth_compute_driver::{ComputeDriver, CpuMode, FakeSection, LibvirtSection, VirtType};
pub use berth_options::{ListenAddress, OptionEffect, OptionKind, OptionRow};
pub use file::ConfigDocument;
pub use listeners::ListenerSection;
pub use load::{ExaminedConfig, examine, load, resolve};
pub use problem::{ConfigProblem, ConfigRefusal};
pub use rules::SNAPSHOT_NEEDS_SQLITE;
pub use secret::{MASK, Secret};
pub use sections::{
    AcceleratorService, AcceleratorsSection, AgentClient, AgentSection, ApiSection, AuthStrategy,
    ComputeSection, ComputeService, ConductorAuthStrategy, ConductorService, Config,
    ConfigDriveLayout, ConsoleDefault, ConsoleSection, ConsoleauthSection, DevicesSection,
    FabricSection, HOST_PART, IdentityService, ImageCacheSection, MdevTypeSection, ModelSection,
    NovncproxySection, PciSection, PlacementService, ProxyAddress, ScrubPolicy,
    SerialConsoleSection, TrustedComputingSection, UpdateInterval, catalog_entry,
};
pub use sources::{DIRECTORY, FILE, Sources};
pub use view::{Effective, LoadedConfig, OptionChange, Public, after_reload, changes};
