//! A private libvirtd with its QEMU driver, started over `packaging/scripts/libvirtd.sh`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use virt::connect::Connect;

use crate::{cards, emulator};

/// The first start on a machine learns about QEMU, which takes ten quiet seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// libvirtd, under one directory for its whole life, however often it is started.
pub(crate) struct Daemon {
    directory: TempDir,
    sight: Sight,
    process: Option<Child>,
}

/// Which devices libvirtd sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    Machine,
    /// Those of [`cards`].
    Cards,
    /// This machine's, which has no firmware but QEMU's own.
    WithoutFirmware,
    /// This machine's, with UEFI firmware that keeps no variables.
    WithStatelessFirmware,
    /// This machine's, and a Linux bridge `br0` in a network namespace of its own.
    WithBridge,
}

/// A bridge and a tap for guests' interfaces, which nothing else sees.
const BRIDGE: &str = "ip link add br0 type bridge\n\
     ip link set br0 up\n\
     ip tuntap add dev tap88a15950-b8 mode tap\n\
     ip link set tap88a15950-b8 up\n\
     exec \"$@\"";

/// Where packages and operators say which firmware there is.
const FIRMWARE: &str = "for folder in /usr/share/qemu/firmware /etc/qemu/firmware; do\n\
     [ ! -d \"$folder\" ] || mount -t tmpfs none \"$folder\"\n\
     done\n\
     exec \"$@\"";

/// Debian's firmware without a place for its variables, as distributions ship it for confidential guests.
const STATELESS_FIRMWARE: &str = r#"folder=$0/firmware
mkdir "$folder"
cp /usr/share/qemu/firmware/*.json "$folder"
cat >"$folder/70-stateless.json" <<DESCRIPTION
{"description": "UEFI firmware without variables", "interface-types": ["uefi"],
 "mapping": {"device": "flash", "mode": "stateless", "executable": {"filename": "/usr/share/OVMF/OVMF_CODE_4M.fd", "format": "raw"}},
 "targets": [{"architecture": "x86_64", "machines": ["pc-q35-*"]}], "features": ["acpi-s3"], "tags": []}
DESCRIPTION
mount --bind "$folder" /usr/share/qemu/firmware
exec "$@""#;

impl Daemon {
    pub(crate) fn start() -> Self {
        Self::seeing(Sight::Machine)
    }

    /// A daemon that sees the cards of [`cards`] in place of this machine's devices.
    pub(crate) fn start_with_cards() -> Self {
        Self::seeing(Sight::Cards)
    }

    /// A daemon on a machine without UEFI firmware.
    pub(crate) fn start_without_firmware() -> Self {
        Self::seeing(Sight::WithoutFirmware)
    }

    /// A daemon on a machine with UEFI firmware that keeps no variables.
    pub(crate) fn start_with_stateless_firmware() -> Self {
        Self::seeing(Sight::WithStatelessFirmware)
    }

    /// A daemon in a network namespace with a Linux bridge, `br0`.
    pub(crate) fn start_with_bridge() -> Self {
        Self::seeing(Sight::WithBridge)
    }

    fn seeing(sight: Sight) -> Self {
        let mut daemon = Self {
            directory: tempfile::tempdir().expect("a directory for libvirtd"),
            sight,
            process: None,
        };
        cards::write(&daemon.device_tree());
        daemon.start_again();
        daemon
    }

    /// What it keeps of the variables of guests' firmware.
    pub(crate) fn variables(&self) -> Vec<PathBuf> {
        let folder = self.directory.path().join("lib/qemu/nvram");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.map(|file| file.path()).collect()
    }

    /// What it writes down of a guest of this name while that is on.
    pub(crate) fn status(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("run/qemu/{name}.xml"))
    }

    /// The device tree with the cards.
    pub(crate) fn device_tree(&self) -> PathBuf {
        self.directory.path().join("sys")
    }

    /// The script, with the cards' tree over `/sys` where libvirtd is to see that. The script's own mount namespace lies within
    /// this one.
    fn command(&self) -> Command {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/scripts/libvirtd.sh");
        if self.sight == Sight::Machine {
            return Command::new(script);
        }
        let mut command = Command::new("unshare");
        if self.sight == Sight::WithBridge {
            command
                .args(["--net", "--", "sh", "-euc", BRIDGE, "sh"])
                .arg(script);
            return command;
        }
        command.args(["--mount", "--propagation", "private", "--", "sh", "-euc"]);
        if self.sight == Sight::WithoutFirmware {
            command.args([FIRMWARE, "sh"]).arg(script);
            return command;
        }
        if self.sight == Sight::WithStatelessFirmware {
            command
                .arg(STATELESS_FIRMWARE)
                .arg(self.directory.path())
                .arg(script);
            return command;
        }
        command
            .arg(
                "mount --rbind /sys/devices/system \"$0/sys/devices/system\"\n\
                 mkdir -p \"$0/dev\"\n\
                 mount -t tmpfs dev \"$0/dev\"\n\
                 for node in null zero full random urandom tty; do cp -a \"/dev/$node\" \"$0/dev\"; done\n\
                 mkdir \"$0/dev/pts\" \"$0/dev/shm\" \"$0/dev/vfio\"\n\
                 mount --rbind /dev/pts \"$0/dev/pts\"\n\
                 ln -s pts/ptmx \"$0/dev/ptmx\"\n\
                 touch \"$0/dev/vfio/vfio\"\n\
                 for group in \"$0\"/sys/kernel/iommu_groups/*; do touch \"$0/dev/vfio/${group##*/}\"; done\n\
                 mount --rbind \"$0/sys\" /sys\n\
                 mount --rbind \"$0/dev\" /dev\n\
                 exec \"$@\"",
            )
            .arg(self.directory.path())
            .arg(script)
            // Else libudev refuses a /sys that is none of the kernel's.
            .env("SYSTEMD_DEVICE_VERIFY_SYSFS", "0")
            .env("LD_PRELOAD", emulator::memory_limits(self.directory.path()));
        command
    }

    pub(crate) fn start_again(&mut self) {
        let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("libvirt-cache");
        let log = self.directory.path().join("out");
        let output = || Stdio::from(File::create(&log).expect("a log for libvirtd"));
        let process = self
            .command()
            .arg(self.directory.path())
            .arg(cache)
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .spawn()
            .expect("the script that runs libvirtd starts");
        self.process = Some(process);
        let deadline = Instant::now() + PATIENCE;
        while Connect::open(Some(&self.uri())).is_err() {
            let process = self.process.as_mut().expect("it was just started");
            let ended = process.try_wait().expect("one's own child can be asked");
            let log_text = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "libvirtd ended: {}", log_text());
            assert!(
                Instant::now() < deadline,
                "libvirtd is not up: {}",
                log_text()
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("sock/libvirt-sock")
    }

    pub(crate) fn uri(&self) -> String {
        format!("qemu+unix:///system?socket={}", self.socket().display())
    }

    /// SIGKILL, and its end awaited.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("libvirtd runs");
        let number = i32::try_from(process.id()).expect("process numbers are small");
        kill(Pid::from_raw(number), signal).expect("one's own child can be signalled");
    }
}

impl Drop for Daemon {
    /// Guests outlive libvirtd; the guests of a failed test are ended too.
    fn drop(&mut self) {
        self.kill();
        let Ok(files) = std::fs::read_dir(self.directory.path().join("run/qemu")) else {
            return;
        };
        for path in files.flatten().map(|file| file.path()) {
            let number = std::fs::read_to_string(&path).ok();
            let number = number.and_then(|text| text.trim().parse::<i32>().ok());
            let is_guest = |number: &i32| {
                std::fs::read_to_string(format!("/proc/{number}/comm"))
                    .is_ok_and(|name| name.starts_with("qemu"))
            };
            if let Some(number) = number.filter(is_guest) {
                let _ = kill(Pid::from_raw(number), Signal::SIGKILL);
            }
        }
    }
}
