//! Chooses the database of a command: by an option, or the built-in Placement's own.

use std::path::PathBuf;

use berth_config::{Config, Secret};
use berth_output::Failure;

use super::placement_conf;

/// The options that choose a Placement's database, Berth's or OpenStack's.
#[derive(Debug, clap::Args)]
pub(super) struct DatabaseChoice {
    /// The database; default: [placement_service] connection. file:PATH reads the URL from a file.
    #[arg(
        long,
        value_name = "URL",
        env = "BERTH_DATABASE_URL",
        hide_env_values = true
    )]
    database: Option<String>,
    /// Read [placement_database] connection from this configuration file of OpenStack's Placement.
    #[arg(long, value_name = "FILE", conflicts_with = "database")]
    placement_config: Option<PathBuf>,
}

impl DatabaseChoice {
    /// The URL of the database.
    ///
    /// Errors: the configuration of OpenStack's Placement names no database.
    pub(super) fn url(&self, config: &Config) -> Result<Secret, Failure> {
        match &self.placement_config {
            Some(file) => placement_conf::connection(file),
            None => Ok(placement_database(self.database.as_deref(), config)),
        }
    }
}

/// The database of the command line; default: `[placement_service] connection`.
pub(super) fn placement_database(given: Option<&str>, config: &Config) -> Secret {
    given.map_or_else(
        || config.placement_database(),
        |url| Secret::from(url.to_owned()),
    )
}
