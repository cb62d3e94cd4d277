//! Runs `qemu-img` with restrictions: formats are always explicit; memory, CPU time and file size are limited
//! (`prlimit`, as in Nova); it has a time limit and an empty environment.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use berth_virt::guest_spec::BaseImage;
use tokio::process::Command;
use tokio::time::timeout;

use crate::error::DiskError;

/// Limit of the address space in bytes. Nova's 1 GiB for `qemu-img info` is too little for conversions.
const ADDRESS_SPACE: u64 = 4 << 30;
/// Limit of CPU time in seconds.
const CPU_SECONDS: u64 = 1800;
/// Limit of an empty qcow2 file in bytes.
const EMPTY: u64 = 1 << 30;
/// The search path for programs.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Maximum length of qemu-img's output in an error, in characters.
const MESSAGE: usize = 300;

/// The program and its time limit.
#[derive(Debug, Clone)]
pub(super) struct QemuImg {
    pub(super) program: PathBuf,
    pub(super) deadline: Duration,
}

impl QemuImg {
    /// Converts a self-contained qcow2 file to a raw file of `size` bytes, with holes for empty parts.
    pub(super) async fn to_raw(&self, from: &Path, to: &Path, size: u64) -> Result<(), DiskError> {
        let words = ["-f", "qcow2", "-O", "raw", "-t", "writeback"].map(OsStr::new);
        let files = [from.as_os_str(), to.as_os_str()];
        self.run("convert", words.into_iter().chain(files), size)
            .await
    }

    /// Creates an empty qcow2 file of `size` bytes over a base.
    pub(super) async fn create(
        &self,
        to: &Path,
        base: Option<&BaseImage>,
        size: u64,
    ) -> Result<(), DiskError> {
        let size = size.to_string();
        let mut words = ["-q", "-f", "qcow2"].map(OsStr::new).to_vec();
        if let Some(base) = base {
            let format = match base.format {
                berth_virt::guest_spec::DiskFormat::Raw => "raw",
                berth_virt::guest_spec::DiskFormat::Qcow2 => "qcow2",
            };
            words.extend(["-F", format, "-b", base.path.as_str()].map(OsStr::new));
        }
        words.extend([to.as_os_str(), OsStr::new(&size)]);
        self.run("create", words.into_iter(), EMPTY).await
    }

    async fn run<'a>(
        &self,
        verb: &'static str,
        words: impl Iterator<Item = &'a OsStr>,
        largest_file: u64,
    ) -> Result<(), DiskError> {
        let mut command = Command::new(prlimit());
        command
            .arg(format!("--as={ADDRESS_SPACE}"))
            .arg(format!("--cpu={CPU_SECONDS}"))
            .arg(format!("--fsize={largest_file}"))
            .arg("--core=0")
            .arg("--")
            .arg(&self.program)
            .arg(verb)
            .args(words)
            .env_clear()
            .env("PATH", PATH)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let limit = self.deadline;
        let output = match timeout(limit, command.output()).await {
            Err(_) => return Err(DiskError::TimedOut { verb, limit }),
            Ok(Err(source)) => {
                let program = self.program.display().to_string();
                return Err(DiskError::NoProgram { program, source });
            }
            Ok(Ok(output)) => output,
        };
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let text: Vec<_> = text.split_whitespace().collect();
        let text = text.join(" ");
        let text = text.chars().filter(|c| !c.is_control()).take(MESSAGE);
        Err(DiskError::QemuImg {
            verb,
            status: output.status.to_string(),
            output: text.collect(),
        })
    }
}

/// The full path of `prlimit`. Searching a `PATH` other than its own would make the process use `fork`, which is slow
/// for a large process.
fn prlimit() -> PathBuf {
    let mut places = PATH
        .split(':')
        .map(|folder| Path::new(folder).join("prlimit"));
    let found = places.find(|program| program.is_file());
    found.unwrap_or_else(|| PathBuf::from("prlimit"))
}
