//! The real services as children of the test process: OpenStack Placement, Keystone, Glance, Cyborg and Neutron from PyPI, with
//! OpenStack's command line client; MariaDB, PostgreSQL, RabbitMQ, OVN and libvirtd from Debian. `make peers`
//! (`tests/peers/install.sh`) installs them where [`installed`] looks.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use crate::exchange::ExchangeError;
use crate::limit::Limit;
use crate::process::ProcessError;

mod cyborg;
mod cyborg_drivers;
mod gabbits;
mod glance;
mod keystone;
mod libvirtd;
mod mariadb;
mod neutron;
mod openstack_shell;
mod ovn;
mod placement;
mod placement_schema;
mod postgres;
mod python;
mod rabbitmq;
mod schemathesis;
mod sqlite;
mod uwsgi;

pub use cyborg::{Away, CyborgAgent, CyborgApi, CyborgSettings, PciFunction, RealCyborg};
pub use cyborg_drivers::intel_fpgas;
pub use gabbits::{GabbiFile, GabbiTest, Gabbits, gabbi_files};
pub use glance::RealGlance;
pub use keystone::{Credentials, KeystoneSettings, RealKeystone};
pub use libvirtd::Libvirtd;
pub use mariadb::{Database, MariaDb};
pub use neutron::{PortEvents, RealNeutron};
pub use openstack_shell::{AcceleratorPlugin, CommandOutput, OpenStackShell};
pub use ovn::{RealChassis, RealOvn};
pub use placement::{Auth, Lease, PlacementSettings, PolicyDefaults, RealPlacement, Storage};
pub use placement_schema::PlacementSchema;
pub use postgres::{Postgres, PostgresDatabase};
pub use rabbitmq::RabbitMq;
pub use schemathesis::{Schemathesis, report_bad_input};

/// Why a peer is not available to a test.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// `make peers` was not run, or not since its script changed.
    #[error("the real services are not installed in {}: run `make peers`", dir.display())]
    NotInstalled {
        /// Where they would be.
        dir: PathBuf,
    },
    /// A child process would not start or stay.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file of the peer's could not be read or written.
    #[error("could not {doing}: {source}")]
    Files {
        /// What was tried, as words after "could not".
        doing: &'static str,
        source: io::Error,
    },
    /// A command line tool failed.
    #[error("{program} failed: {errors}")]
    Command {
        program: String,
        /// What it wrote to its error output.
        errors: String,
    },
    /// The peer gave no answer.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The peer gave another answer than setting it up needs.
    #[error("{asked} was answered {status}: {body}")]
    Answer {
        asked: String,
        status: u16,
        body: String,
    },
}

impl PeerError {
    /// For `map_err` on file operations; `doing` follows "could not".
    fn files(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Files { doing, source }
    }
}

/// The folder that `make peers` filled: `$BERTH_PEERS`, else `peers` in the build's target directory, else
/// `target/peers` of the checkout.
pub fn installed() -> Result<PathBuf, PeerError> {
    let dir =
        env::var_os("BERTH_PEERS").map_or_else(|| checkout().join("target/peers"), PathBuf::from);
    if dir.join("stamp").is_file() {
        Ok(dir)
    } else {
        Err(PeerError::NotInstalled { dir })
    }
}

#[must_use]
pub fn checkout() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}

/// A file of the certificates that guard nothing: `authority.pem`, and `server.pem` with `server.key` for 127.0.0.1 and
/// `localhost`.
fn tls(name: &str) -> PathBuf {
    checkout().join("core/client/tests/client/tls").join(name)
}

/// Runs a tool to its end and gives what it wrote.
pub fn output(command: &mut Command) -> Result<String, PeerError> {
    output_of(command.stdin(Stdio::null()))
}

/// The same for a command that reads its standard input.
fn output_of(command: &mut Command) -> Result<String, PeerError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |errors: String| PeerError::Command {
        program: program.clone(),
        errors,
    };
    // The longest of them is a build of the fuzzer.
    let ended = ended(command, Duration::from_mins(30));
    let output = ended.map_err(|source| failed(source.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ))
    }
}

/// Runs a command to its end; it is killed when its time is over.
fn ended(command: &mut Command, time: Duration) -> io::Result<Output> {
    let outputs = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = outputs.spawn()?;
    let _limit = Limit::of(&child, time);
    child.wait_with_output()
}

/// Writes a file that a peer reads.
fn write(path: &Path, text: &str) -> Result<(), PeerError> {
    fs::write(path, text).map_err(PeerError::files("write a peer's configuration"))
}

/// Rows as the database's own tool prints them: a line each, cells between tabs.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}
