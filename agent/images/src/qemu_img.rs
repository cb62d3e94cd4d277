//! Runs `qemu-img` with restrictions: formats are always explicit; memory, CPU time and file size are limited
//! (`prlimit`, as in Nova); it has a time limit, an empty environment, and a [sandbox](crate::sandbox) with the files of its task.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use berth_files::{enforces_trust, trusted};
use berth_virt::guest_spec::BaseImage;
use nix::libc;
use tokio::process::Command;
use tokio::time::timeout;

use crate::error::DiskError;
use crate::sandbox::{self, SandboxFiles};

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
/// The exit code of qemu-img for an error that it found.
const ERROR: i32 = 1;
/// Errors that come from the host, not from the image: qemu-img's words, and those of the system.
const HOST_FAULTS: [&str; 11] = [
    "error while writing",
    "No space left on device",
    "Disk quota exceeded",
    "Permission denied",
    "Operation not permitted",
    "No such file or directory",
    "Cannot allocate memory",
    "Too many open files",
    "Read-only file system",
    "Stale file handle",
    "Failed to get",
];
/// Signals of a program that crashed over its input, or used more processor time than any image needs.
const CRASHES: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGXCPU,
];

/// The program and its time limit.
#[derive(Debug, Clone)]
pub(super) struct QemuImg {
    pub(super) program: PathBuf,
    pub(super) deadline: Duration,
    /// A folder that scripts in place of the program write to.
    #[cfg(test)]
    pub(super) scratch: Option<PathBuf>,
}

/// A run that did not end well.
struct FailedRun {
    verb: &'static str,
    status: ExitStatus,
    /// What it printed, on one line.
    output: String,
}

impl QemuImg {
    /// Converts a self-contained qcow2 file to a raw file of `size` bytes, with holes for empty parts. The existing file `to` is
    /// overwritten. `image` is the image's name in errors: a flaw that only qemu-img finds is the image's.
    pub(super) async fn to_raw(
        &self,
        image: &impl ToString,
        from: &Path,
        to: &Path,
        size: u64,
    ) -> Result<(), DiskError> {
        let words = ["-f", "qcow2", "-O", "raw", "-t", "writeback"].map(OsStr::new);
        let paths = [from.as_os_str(), to.as_os_str()];
        let files = SandboxFiles {
            readable: vec![from.to_owned()],
            writable: vec![to.to_owned()],
            ..SandboxFiles::default()
        };
        let words = words.into_iter().chain(paths);
        let Err(failed) = self.run("convert", words, files, size).await? else {
            return Ok(());
        };
        if !failed.is_of_image() {
            return Err(failed.into());
        }
        let shown = |path: &Path| path.display().to_string();
        let output = failed.output.replace(&shown(from), "the image");
        let output = shortened(&output.replace(&shown(to), "the disk"));
        Err(DiskError::Image {
            image: image.to_string(),
            reason: format!("qemu-img cannot convert it ({}): {output}", failed.status),
        })
    }

    /// Makes the existing file `to` an empty qcow2 file of `size` bytes over a base.
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
        let files = SandboxFiles {
            readable: base
                .iter()
                .map(|base| base.path.as_path().to_owned())
                .collect(),
            writable: vec![to.to_owned()],
            ..SandboxFiles::default()
        };
        let run = self.run("create", words.into_iter(), files, EMPTY).await?;
        run.map_err(DiskError::from)
    }

    /// Converts a raw file of the host's own, which is almost empty, to a qcow2 file. The existing file `to` is overwritten.
    pub(super) async fn to_qcow2(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let words = ["-f", "raw", "-O", "qcow2", "-t", "writeback"].map(OsStr::new);
        let paths = [from.as_os_str(), to.as_os_str()];
        let files = SandboxFiles {
            readable: vec![from.to_owned()],
            writable: vec![to.to_owned()],
            ..SandboxFiles::default()
        };
        let words = words.into_iter().chain(paths);
        let run = self.run("convert", words, files, EMPTY).await?;
        run.map_err(DiskError::from)
    }

    async fn run<'a>(
        &self,
        verb: &'static str,
        words: impl Iterator<Item = &'a OsStr>,
        files: SandboxFiles,
        largest_file: u64,
    ) -> Result<Result<(), FailedRun>, DiskError> {
        let no_program = |source| DiskError::NoProgram {
            program: self.program.display().to_string(),
            source,
        };
        match trusted(&self.program) {
            Err(error) if enforces_trust() && !error.is_inaccessible() => {
                let source = io::Error::new(io::ErrorKind::PermissionDenied, error);
                return Err(no_program(source));
            }
            _ => {}
        }
        let files = SandboxFiles {
            programs: vec![self.program.clone()],
            ..files
        };
        #[cfg(test)]
        let files = SandboxFiles {
            writable: files
                .writable
                .into_iter()
                .chain(self.scratch.clone())
                .collect(),
            ..files
        };
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
        let running = async {
            sandbox::start(command, files)
                .await?
                .wait_with_output()
                .await
        };
        let output = match timeout(limit, running).await {
            Err(_) => return Err(DiskError::TimedOut { verb, limit }),
            Ok(Err(source)) => return Err(no_program(source)),
            Ok(Ok(output)) => output,
        };
        match output.status.success() {
            true => Ok(Ok(())),
            false => Ok(Err(FailedRun::new(verb, &output))),
        }
    }
}

impl FailedRun {
    fn new(verb: &'static str, output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stderr).replace(char::is_control, " ");
        Self {
            verb,
            status: output.status,
            output: text.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }

    /// Whether another host would fail in the same way, because the image has a flaw.
    fn is_of_image(&self) -> bool {
        match (self.status.code(), self.status.signal()) {
            (Some(ERROR), _) => !HOST_FAULTS.iter().any(|it| self.output.contains(it)),
            (_, Some(signal)) => CRASHES.contains(&signal),
            _ => false,
        }
    }
}

impl From<FailedRun> for DiskError {
    fn from(failed: FailedRun) -> Self {
        Self::QemuImg {
            verb: failed.verb,
            status: failed.status.to_string(),
            output: shortened(&failed.output),
        }
    }
}

fn shortened(output: &str) -> String {
    output.chars().take(MESSAGE).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_images_unless_the_host_lacks_something() {
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let signal = ExitStatus::from_raw;
        for (status, output, is_of_image) in [
            (
                exit(1),
                "qemu-img: Could not open 'x': qcow2 header exceeds cluster size",
                true,
            ),
            (
                exit(1),
                "qemu-img: error while reading at byte 0: Input/output error",
                true,
            ),
            (
                exit(1),
                "qemu-img: error while writing at byte 0: Input/output error",
                false,
            ),
            (
                exit(1),
                "qemu-img: x: error while converting raw: No space left on device",
                false,
            ),
            (
                exit(1),
                "qemu-img: Could not open 'x': Permission denied",
                false,
            ),
            (exit(127), "error while loading shared libraries", false),
            (signal(libc::SIGSEGV), "", true),
            (signal(libc::SIGXCPU), "", true),
            (signal(libc::SIGKILL), "", false),
            (signal(libc::SIGXFSZ), "", false),
        ] {
            let failed = FailedRun {
                verb: "convert",
                status,
                output: output.to_owned(),
            };
            assert_eq!(failed.is_of_image(), is_of_image, "{status}: {output}");
        }
    }
}
