//! libvirt's event loop: one thread for the whole process, started before the first connection.
//!
//! libvirt requires an event loop to be registered once per process before any connection, and it cannot be unregistered. So the
//! thread lives as long as the process. It sleeps in `poll` except for events and keepalives.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::ConnectionError;
use crate::symbols;

/// Loads libvirt and starts its event loop; once that is done, later calls do nothing.
pub(super) fn start() -> Result<(), ConnectionError> {
    static RUNS: Mutex<bool> = Mutex::new(false);
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    if *runs {
        return Ok(());
    }
    symbols::load()?;
    // Without a callback libvirt prints every error to stderr, including handled ones.
    virt::error::clear_error_callback();
    virt::event::event_register_default_impl().map_err(ConnectionError::EventLoop)?;
    thread::Builder::new()
        .name("libvirt-events".to_owned())
        .spawn(run)
        .map_err(ConnectionError::Thread)?;
    *runs = true;
    Ok(())
}

fn run() {
    loop {
        if virt::event::event_run_default_impl().is_err() {
            // poll(2) failed, probably for lack of memory: avoid a busy loop.
            thread::sleep(Duration::from_secs(1));
        }
    }
}
