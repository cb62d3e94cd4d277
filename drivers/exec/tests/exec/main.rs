//! The driver with real children: the documented sample driver, and scripts that violate the protocol.

#![cfg(test)]

mod misbehaviour;
mod sample_driver;

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_exec::{Backoff, Deadlines, ExecOptions};

/// Starts are not waited for, and deadlines are never met by a child that only lacks a processor.
fn options(program: &Path, state: &Path) -> ExecOptions {
    ExecOptions {
        deadlines: Deadlines::Each(Duration::from_mins(2)),
        backoff: Backoff {
            first: Duration::from_millis(1),
            longest: Duration::from_millis(10),
            well_after: Duration::from_hours(1),
        },
        ..ExecOptions::new(program.to_owned(), state.to_owned())
    }
}

fn sample() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../../docs/examples/exec-driver/driver.py")
        .canonicalize()
        .unwrap()
}
