//! Which database a command works on: one that is named, or the built-in Placement's own.

use std::path::PathBuf;

use berth_config::{Config, Secret};
use berth_output::Failure;

use super::placement_conf;

/// The database of a Placement, Berth's or OpenStack's.
#[derive(Debug, clap::Args)]
pub(super) struct DatabaseChoice {
    /// The database, else [placement_service] connection. file:PATH is the URL that stands in a file.
    #[arg(
        long,
        value_name = "URL",
        env = "BERTH_DATABASE_URL",
        hide_env_values = true
    )]
    database: Option<String>,
    /// The configuration of OpenStack's Placement: its [placement_database] connection is the database.
    #[arg(long, value_name = "FILE", conflicts_with = "database")]
    placement_config: Option<PathBuf>,
}

impl DatabaseChoice {
    /// Its URL.
    ///
    /// # Errors
    /// The configuration of OpenStack's Placement names none.
    pub(super) fn url(&self, config: &Config) -> Result<Secret, Failure> {
        match &self.placement_config {
            Some(file) => placement_conf::connection(file),
            None => Ok(placement_database(self.database.as_deref(), config)),
        }
    }
}

/// The database that the command line names, else `[placement_service] connection`.
pub(super) fn placement_database(given: Option<&str>, config: &Config) -> Secret {
    given.map_or_else(
        || config.placement_database(),
        |url| Secret::from(url.to_owned()),
    )
}
