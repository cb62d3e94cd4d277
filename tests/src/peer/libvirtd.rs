//! The real libvirtd with its QEMU driver, private to the test: `packaging/scripts/libvirtd.sh` starts it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use super::{PeerError, checkout, installed, output};
use crate::process::{Process, Program};
use crate::scratch::Scratch;

/// A libvirtd of the test's own; guests it started end with it.
#[derive(Debug)]
pub struct Libvirtd {
    process: Option<Process>,
    scratch: Scratch,
}

impl Libvirtd {
    /// Starts one. The first on a machine takes ten seconds to learn about QEMU, later ones do not.
    ///
    /// # Errors
    /// When libvirtd is not installed, this is not root, or it does not answer.
    pub fn start() -> Result<Self, PeerError> {
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for libvirtd"))?;
        let mut libvirtd = Self {
            process: None,
            scratch,
        };
        libvirtd.restart()?;
        Ok(libvirtd)
    }

    /// Starts it again over the same state, where it does not run: guests of before are found again.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn restart(&mut self) -> Result<(), PeerError> {
        if self
            .process
            .as_mut()
            .is_some_and(|process| process.ended().is_none())
        {
            return Ok(());
        }
        let mut process = Program::new(checkout().join("packaging/scripts/libvirtd.sh"))
            .arg(self.scratch.path())
            .arg(installed()?.join("libvirt-cache"))
            .start(&self.scratch.join("libvirtd.log"))?;
        process.wait_until(Duration::from_secs(120), || {
            self.virsh(&["version"]).is_ok()
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// What libvirt clients connect to.
    #[must_use]
    pub fn uri(&self) -> String {
        format!(
            "qemu+unix:///system?socket={}",
            self.scratch.join("sock/libvirt-sock").display()
        )
    }

    /// Runs virsh on it and gives what it printed.
    ///
    /// # Errors
    /// With virsh's own words.
    pub fn virsh(&self, args: &[&str]) -> Result<String, PeerError> {
        output(
            Command::new("virsh")
                .arg("-q")
                .args(["-c", &self.uri()])
                .args(args),
        )
    }

    /// A graceful end; guests run on.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate(Duration::from_secs(10));
        }
    }

    /// SIGKILL; guests run on.
    pub fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            // The process alone: guests lead sessions of their own, but a helper of libvirt's may not.
            process.signal(Signal::SIGKILL);
            let _ = process.wait(Duration::from_secs(10));
        }
        self.process = None;
    }

    fn guests(&self) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(self.scratch.join("run/qemu"))?;
        let files = entries.flatten().map(|entry| entry.path());
        // driver.pid is libvirtd's own.
        Ok(files
            .filter(|path| {
                path.extension().is_some_and(|it| it == "pid") && !path.ends_with("driver.pid")
            })
            .collect())
    }
}

impl Drop for Libvirtd {
    fn drop(&mut self) {
        self.process = None;
        for file in self.guests().unwrap_or_default() {
            let pid = fs::read_to_string(&file)
                .ok()
                .and_then(|text| text.trim().parse::<i32>().ok());
            // A pid file may outlive its guest, and the number may be another's by now.
            let is_qemu = |pid: &i32| {
                fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|it| it.starts_with("qemu"))
            };
            if let Some(pid) = pid.filter(is_qemu) {
                let _ = signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}
