//! The real libvirtd with its QEMU driver, private to the test; `packaging/scripts/libvirtd.sh` starts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use super::{PeerError, checkout, installed, output};
use crate::process::{Process, Program};
use crate::scratch::Scratch;

/// The folder with the cards.
const CARD_HOST: &str = "card-host";

fn card_host() -> PathBuf {
    checkout().join("packaging/scripts/card-host.sh")
}

/// A libvirtd of the test's own; guests it started end with it.
#[derive(Debug)]
pub struct Libvirtd {
    process: Option<Process>,
    /// The kernel of a host with simulated cards; none for this host.
    kernel: Option<Process>,
    scratch: Scratch,
}

impl Libvirtd {
    /// Starts one. The first on a machine takes ten seconds to learn about QEMU, later ones do not.
    pub fn start() -> Result<Self, PeerError> {
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for libvirtd"))?;
        let mut libvirtd = Self {
            process: None,
            kernel: None,
            scratch,
        };
        libvirtd.restart()?;
        Ok(libvirtd)
    }

    /// Starts one on a host with two graphics cards (1234:1111) that are files: `packaging/scripts/card-host.sh`.
    pub fn start_with_cards() -> Result<Self, PeerError> {
        Self::start_on_card_host(&["make"])
    }

    /// The same with one more card, whose virtual functions take a vGPU type (10de:2235).
    pub fn start_with_vgpu_card() -> Result<Self, PeerError> {
        Self::start_on_card_host(&["make", "add-vgpu"])
    }

    fn start_on_card_host(verbs: &[&str]) -> Result<Self, PeerError> {
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for libvirtd"))?;
        let card_host_of =
            |verb: &str, at: &Path| output(Command::new(card_host()).arg(verb).arg(at));
        card_host_of("make", &installed()?.join(CARD_HOST))?;
        let cards = scratch.join(CARD_HOST);
        for verb in verbs {
            card_host_of(verb, &cards)?;
        }
        let kernel = Program::new(card_host())
            .arg("kernel")
            .arg(&cards)
            .start(&scratch.join("kernel.log"))?;
        let mut libvirtd = Self {
            process: None,
            kernel: Some(kernel),
            scratch,
        };
        libvirtd.restart()?;
        Ok(libvirtd)
    }

    /// What comes before a command that is to see the cards as `/sys`.
    #[must_use]
    pub fn run_in_scope(&self) -> Vec<OsString> {
        let cards = self.scratch.join(CARD_HOST);
        vec![card_host().into(), "run".into(), cards.into()]
    }

    /// The emulator for guests with cards. It is the same for all tests: libvirt remembers what it learnt of it by its path.
    pub fn emulator(&self) -> Result<PathBuf, PeerError> {
        Ok(installed()?.join(CARD_HOST).join("emulator"))
    }

    /// Its own folder, which each of its guests has in its command line.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// What the cards' host sees as `/sys`.
    #[must_use]
    pub fn device_tree(&self) -> PathBuf {
        self.scratch.join(CARD_HOST).join("sys")
    }

    /// The driver that has a card; none where it rests.
    #[must_use]
    pub fn driver(&self, card: &str) -> Option<String> {
        let cards = self.device_tree().join("bus/pci/devices");
        let link = cards.join(card).join("driver");
        let driver = fs::read_link(link).ok()?;
        Some(driver.file_name()?.to_string_lossy().into_owned())
    }

    /// Starts it again over the same state, where it does not run: guests of before are found again.
    pub fn restart(&mut self) -> Result<(), PeerError> {
        if self
            .process
            .as_mut()
            .is_some_and(|process| process.ended().is_none())
        {
            return Ok(());
        }
        let script = checkout().join("packaging/scripts/libvirtd.sh");
        let (program, cache) = match self.kernel {
            None => (Program::new(script), "libvirt-cache"),
            Some(_) => {
                let words = self.run_in_scope();
                let program = Program::new(card_host()).args(&words[1..]).arg(script);
                (program, "libvirt-cache-cards")
            }
        };
        let mut process = program
            .arg(self.scratch.path())
            .arg(installed()?.join(cache))
            .start(&self.scratch.join("libvirtd.log"))?;
        process.wait_until(Duration::from_secs(60), || self.virsh(&["version"]).is_ok())?;
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
    pub fn virsh(&self, args: &[&str]) -> Result<String, PeerError> {
        output(
            Command::new("virsh")
                .arg("-q")
                .args(["-c", &self.uri()])
                .args(args),
        )
    }

    /// Removes libvirtd's record of a guest that it was starting when it was killed: its next run sees the guest as
    /// switched off.
    pub fn forget(&self, guest: &str) -> io::Result<()> {
        fs::remove_file(self.scratch.join("run/qemu").join(format!("{guest}.xml")))
    }

    /// The kernel of the cards does nothing until [`Libvirtd::resume_kernel`]: a write below `/sys` is stored and does not
    /// return.
    pub fn pause_kernel(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.signal(Signal::SIGSTOP);
        }
    }

    /// What was written meanwhile is acted on.
    pub fn resume_kernel(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.signal(Signal::SIGCONT);
        }
    }

    /// What a loss of power leaves: libvirtd and its guests are gone, and so is what libvirtd had in `/run`.
    pub fn lose_power(&mut self) -> io::Result<()> {
        self.kill();
        self.kill_guests();
        for file in fs::read_dir(self.scratch.join("run/qemu"))?.flatten() {
            if file.file_type()?.is_file() {
                fs::remove_file(file.path())?;
            }
        }
        Ok(())
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

    fn kill_guests(&self) {
        for file in self.guests().unwrap_or_default() {
            let pid = fs::read_to_string(&file)
                .ok()
                .and_then(|text| text.trim().parse::<i32>().ok());
            // A pid file may outlive its guest, and another process may have the number.
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

impl Drop for Libvirtd {
    fn drop(&mut self) {
        self.process = None;
        self.kill_guests();
    }
}
