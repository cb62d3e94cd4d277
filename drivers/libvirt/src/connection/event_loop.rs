//! libvirt's event loop: one thread for the whole process, started before the first connection is opened.
//!
//! libvirt wants its loop registered before any connection exists, once per process, and never takes it back; so the thread
//! lives as long as the process. It sleeps in `poll` but for events and keepalives.

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
    // Else libvirt prints every error to stderr, those that are handled included.
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
            // poll(2) failed, for want of memory at the worst. Not as fast as it can.
            thread::sleep(Duration::from_secs(1));
        }
    }
}
