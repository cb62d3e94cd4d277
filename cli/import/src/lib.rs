//! The import of a nova.conf: what `berth config import` does between reading files and writing them.
//!
//! [`parse`] reads oslo.config's syntax, [`NovaConf`] knows which assignment wins, [`ImportRule`] says what becomes of an option, and
//! [`import`] makes the berth.toml, the files of its secrets, and the report. Nothing here touches a file. No report holds a
//! secret.
//!
//! ```text
//! nova.conf, nova.conf.d -> ConfFile -> NovaConf -> ImportRule per option -> ImportedConfig
//! ```

mod convert;
mod facts;
mod plan;
mod render;
mod report;
mod rules;
mod syntax;
mod values;

pub use convert::{ConversionFault, value};
pub use facts::{NovaOption, NovaOptions, NovaType};
pub use plan::{ImportRequest, OptionCheck, import};
pub use render::berth_toml;
pub use report::{ImportReport, ImportedConfig, ImportedOption, ImportedSecret, ReportedOption};
pub use rules::ImportRule;
pub use syntax::{ConfAssignment, ConfFile, SyntaxError, SyntaxFault, parse};
pub use values::{FoundValue, NovaConf, ReferenceFault};
