//! Tests of the configuration: wrong files, and the values of right ones.

mod errors;
mod files;
mod values;

use std::ffi::OsString;

use berth_config::{ConfigDocument, ConfigRefusal, LoadedConfig};

/// Resolves one file, `berth.toml`, and environment variables.
fn resolve(text: &str, environment: &[(&str, &str)]) -> Result<LoadedConfig, ConfigRefusal> {
    let document = ConfigDocument {
        name: "berth.toml".to_owned(),
        text: text.to_owned(),
    };
    let environment: Vec<(OsString, OsString)> = environment
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    berth_config::resolve(&[document], &environment)
}
