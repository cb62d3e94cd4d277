//! Starts a program that reads data of tenants (`qemu-img`) with nothing but the files of its task: no other file, no socket, no
//! capability, no way to get more (`docs/adr/0035`).
//!
//! The restrictions are those of a thread, and a child inherits them. So a thread is started for each program: it restricts itself,
//! starts the program and ends.
//!
//! | restriction | by |
//! |---|---|
//! | files, TCP, signals to others | Landlock |
//! | sockets, modes and owners of files, namespaces, tracing, kernel interfaces | a seccomp filter |
//! | capabilities | an empty set, and `no_new_privs`, so that root does not get it back by an exec |

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, PathFdError, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use nix::libc::{self, c_long};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The newest Landlock that is used; an older kernel enforces what it knows.
const LANDLOCK: ABI = ABI::V6;

/// Where programs and their libraries are.
const SYSTEM: [&str; 6] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
];

/// The files that a program may use, besides the system's programs and libraries.
#[derive(Debug, Clone, Default)]
pub(super) struct SandboxFiles {
    pub(super) programs: Vec<PathBuf>,
    pub(super) readable: Vec<PathBuf>,
    /// Files that exist, or folders.
    pub(super) writable: Vec<PathBuf>,
}

/// What of the sandbox this kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Confinement {
    pub(super) files: bool,
    pub(super) calls: bool,
}

#[derive(Debug, thiserror::Error)]
enum ConfineError {
    #[error("Landlock: {0}")]
    Rules(#[from] RulesetError),
    #[error("Landlock: {0}")]
    Path(#[from] PathFdError),
    #[error("capabilities: {0}")]
    Capabilities(#[from] rustix::io::Errno),
}

/// Starts the command in a sandbox. Call it within a runtime.
pub(super) async fn start(mut command: Command, files: SandboxFiles) -> io::Result<Child> {
    let (runtime, (sender, started)) = (Handle::current(), oneshot::channel());
    let work = move || {
        let _runtime = runtime.enter();
        let confined = confine(&files).map_err(io::Error::other);
        let child = confined.and_then(|confinement| {
            warn_once(confinement);
            command.spawn()
        });
        // The caller was cancelled. The runtime's threads end the program, because this one may send no signal.
        if let Err(abandoned) = sender.send(child) {
            runtime.spawn(async move { drop(abandoned) });
        }
    };
    thread::Builder::new()
        .name("sandbox".to_owned())
        .spawn(work)?;
    match started.await {
        Ok(child) => child,
        Err(_) => Err(io::Error::other("the thread of the sandbox ended")),
    }
}

/// Restricts the calling thread and its future children.
fn confine(files: &SandboxFiles) -> Result<Confinement, ConfineError> {
    let rules = rules(files)?;
    set_no_new_privs(true)?;
    let status = rules.restrict_self()?;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    Ok(Confinement {
        files: status.ruleset != RulesetStatus::NotEnforced,
        calls: deny_calls().is_ok(),
    })
}

fn rules(files: &SandboxFiles) -> Result<RulesetCreated, ConfineError> {
    let read = BitFlags::from(AccessFs::ReadFile);
    let run = AccessFs::Execute | AccessFs::ReadFile;
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?;
    for path in SYSTEM.iter().map(Path::new).filter(|path| path.exists()) {
        let access = if path.is_dir() {
            run | AccessFs::ReadDir
        } else {
            read
        };
        rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?;
    }
    // Standard input and output.
    let null = PathFd::new("/dev/null")?;
    rules = rules.add_rule(PathBeneath::new(
        null,
        AccessFs::ReadFile | AccessFs::WriteFile,
    ))?;
    for path in files.programs.iter().filter(|path| path.exists()) {
        rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, run))?;
    }
    for path in &files.readable {
        rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, read))?;
    }
    for path in &files.writable {
        let access = match path.is_dir() {
            true => AccessFs::from_all(LANDLOCK),
            false => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate,
        };
        rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?;
    }
    Ok(rules)
}

/// Calls that fail with EPERM. Landlock does not cover these, and no conversion needs them. The program may crash without a
/// signal of its own, so `tgkill` is among them.
const DENIED: &[c_long] = &[
    // Sockets, and what could open one in another way.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_io_uring_setup,
    // Modes, owners and attributes of files that belong to the user.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    libc::SYS_utimensat,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setpriority,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_ioprio_set,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Interfaces of the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_personality,
    libc::SYS_fanotify_init,
];

/// Newer than the names in `libc`; the numbers are the same on every architecture.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;

/// Calls that only this architecture has, by the older names.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[c_long] = &[];

/// On x86-64 each call has a second number (x32), where the kernel is built with it.
#[cfg(target_arch = "x86_64")]
const SECOND_NUMBERS: &[c_long] = &[0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const SECOND_NUMBERS: &[c_long] = &[0];

/// Denies the calls of [`DENIED`] to this thread and its future children.
fn deny_calls() -> Result<(), seccompiler::Error> {
    let denied = DENIED.iter().chain(DENIED_HERE);
    let numbers = denied.flat_map(|call| SECOND_NUMBERS.iter().map(move |bit| call | bit));
    let rules: BTreeMap<i64, _> = numbers.map(|number| (number, Vec::new())).collect();
    let errno = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(seccompiler::Error::Backend)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)
        .map_err(seccompiler::Error::Backend)?;
    let program = BpfProgram::try_from(filter).map_err(seccompiler::Error::Backend)?;
    seccompiler::apply_filter(&program)
}

/// The warning for a kernel that does not enforce all of it.
fn warning(confinement: Confinement) -> Option<&'static str> {
    match confinement {
        Confinement { files: false, .. } => Some(
            "qemu-img is not confined to the files that it converts: the kernel has no Landlock (add landlock to lsm= on its \
             command line)",
        ),
        Confinement { calls: false, .. } => {
            Some("qemu-img may open sockets: the kernel takes no seccomp filter")
        }
        Confinement {
            files: true,
            calls: true,
        } => None,
    }
}

fn warn_once(confinement: Confinement) {
    static WARNED: Once = Once::new();
    if let Some(warning) = warning(confinement) {
        WARNED.call_once(|| tracing::warn!("{warning}"));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;
    use std::process::Stdio;
    use std::sync::mpsc;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    struct ProgramResult {
        is_good: bool,
        output: String,
    }

    /// Runs a script of bash in the sandbox; it finds its folder in `$1`.
    async fn run(script: &str, folder: &Path, files: SandboxFiles) -> ProgramResult {
        let mut command = Command::new("/bin/bash");
        command
            .args(["-c", &format!("exec 2>&1; {script}"), "bash"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let child = start(command, files).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        ProgramResult {
            is_good: output.status.success(),
            output: String::from_utf8(output.stdout).unwrap(),
        }
    }

    #[test]
    fn the_agents_unit_allows_the_calls_that_make_a_sandbox() {
        let unit = include_str!("../../../systemd/berth-agent.service");
        let filters = unit
            .lines()
            .filter_map(|line| line.strip_prefix("SystemCallFilter="));
        let after_denials = filters.skip_while(|filter| !filter.starts_with('~'));
        let allowed: Vec<&str> = after_denials
            .skip(1)
            .flat_map(str::split_whitespace)
            .collect();
        // systemd's `@sandbox` has most of them, but older versions do not know it.
        for call in [
            "capset",
            "seccomp",
            "landlock_create_ruleset",
            "landlock_add_rule",
            "landlock_restrict_self",
        ] {
            assert!(allowed.contains(&call), "{call}: {allowed:?}");
        }
    }

    /// A folder with the files `input`, `output` and `other`; the first two may be used.
    fn folder() -> (tempfile::TempDir, SandboxFiles) {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for name in ["input", "output", "other"] {
            fs::write(file(name), name).unwrap();
        }
        let files = SandboxFiles {
            readable: vec![file("input")],
            writable: vec![file("output")],
            ..SandboxFiles::default()
        };
        (folder, files)
    }

    #[tokio::test]
    async fn a_program_uses_the_files_of_its_task_and_no_others() {
        let (folder, files) = folder();
        let used = run(
            "cat $1/input > $1/output && cat $1/output",
            folder.path(),
            files.clone(),
        );
        let used = used.await;
        assert!(used.is_good && used.output == "input", "{}", used.output);
        for script in [
            "cat $1/other",
            "echo > $1/other",
            "echo > $1/input",
            "echo > $1/new",
            "ls $1",
            "rm $1/output",
            "mv $1/output $1/new",
            "ln -s /etc/passwd $1/new",
            "cat /etc/passwd",
            "cat /proc/1/environ",
            "cat /proc/self/status",
            // Landlock alone would allow these to the owner.
            "chmod 0666 $1/other",
            "chmod 0666 $1/input",
            "chown 0:0 $1/input",
            "touch -d @0 $1/other",
        ] {
            let tried = run(script, folder.path(), files.clone()).await;
            let is_denied = ["Permission denied", "Operation not permitted"]
                .iter()
                .any(|words| tried.output.contains(words));
            assert!(!tried.is_good && is_denied, "{script}: {}", tried.output);
        }
        for name in ["input", "other"] {
            assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), name);
        }
    }

    #[tokio::test]
    async fn a_program_can_open_no_socket_and_send_no_signal() {
        let (folder, files) = folder();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let outside = std::process::Command::new("/bin/bash")
            .args(["-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")])
            .status();
        assert!(outside.unwrap().success(), "the script can succeed");
        for script in [
            format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
            format!("exec 3<>/dev/udp/127.0.0.1/{port}"),
            "kill -0 $PPID".to_owned(),
            "unshare --user true".to_owned(),
        ] {
            let tried = run(&script, folder.path(), files.clone()).await;
            assert!(
                !tried.is_good && tried.output.contains("Operation not permitted"),
                "{script}: {}",
                tried.output
            );
        }
    }

    #[tokio::test]
    async fn a_program_has_no_capabilities_and_cannot_get_any() {
        let (folder, files) = folder();
        let mut command = Command::new("/bin/bash");
        command
            .args(["-c", "echo; exec sleep 1000"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = start(command, files).await.unwrap();
        let mut line = [0; 1];
        let mut printed = child.stdout.take().unwrap();
        printed.read_exact(&mut line).await.unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
        let value = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            line[key.len()..].trim().to_owned()
        };
        for set in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
            assert_eq!(value(set), "0000000000000000", "{set}");
        }
        assert_eq!(value("NoNewPrivs:"), "1");
        assert_eq!(value("Seccomp:"), "2");
        drop(folder);
        child.kill().await.unwrap();
    }

    #[test]
    fn the_calling_thread_keeps_its_rights() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let (folder, files) = folder();
        let ended = runtime.unwrap().block_on(run("true", folder.path(), files));
        assert!(ended.is_good);
        assert_eq!(fs::read(folder.path().join("other")).unwrap(), b"other");
        TcpListener::bind("127.0.0.1:0").unwrap();
    }

    /// A kernel without Landlock is one where its calls do not exist: a filter of this test makes it so.
    #[test]
    fn a_kernel_without_landlock_is_reported_and_the_program_runs_all_the_same() {
        let (sender, found) = mpsc::channel();
        thread::spawn(move || {
            let calls = [libc::SYS_landlock_create_ruleset].map(|call| (call, Vec::new()));
            let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
            let arch = std::env::consts::ARCH.try_into().unwrap();
            let filter = SeccompFilter::new(calls.into(), SeccompAction::Allow, missing, arch);
            let program = BpfProgram::try_from(filter.unwrap()).unwrap();
            seccompiler::apply_filter(&program).unwrap();
            let (folder, files) = folder();
            let inner = files.clone();
            let confinement = thread::spawn(move || confine(&inner).unwrap()).join();
            sender.send(confinement.unwrap()).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let script = "cat $1/input > $1/output; exec 3<>/dev/tcp/127.0.0.1/1";
            let ended = runtime.unwrap().block_on(run(script, folder.path(), files));
            assert_eq!(fs::read(folder.path().join("output")).unwrap(), b"input");
            assert!(
                ended.output.contains("Operation not permitted"),
                "{}",
                ended.output
            );
        })
        .join()
        .unwrap();
        let confinement = found.recv().unwrap();
        let expected = Confinement {
            files: false,
            calls: true,
        };
        assert_eq!(confinement, expected);
        assert!(warning(confinement).unwrap().contains("Landlock"));
    }
}
