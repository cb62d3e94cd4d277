//! What every subcommand gets from the command line: where the configuration is, and a runtime when it needs one.

use std::future::Future;

use crate::config::{self, Loaded, Sources};
use crate::failure::{ErrorCode, Failure};

/// The global options, read.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Where the configuration is read from.
    pub sources: Sources,
}

impl Context {
    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// Everything that is wrong in it, at once.
    pub fn load(&self) -> Result<Loaded, Failure> {
        Ok(config::load(&self.sources)?)
    }

    /// Runs a short conversation on a runtime of its own; long-running commands build theirs.
    ///
    /// # Errors
    /// The runtime cannot be built (no file descriptors, no memory).
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::caused(ErrorCode::Bug, "cannot start the runtime", &error))?;
        Ok(runtime.block_on(future))
    }
}
