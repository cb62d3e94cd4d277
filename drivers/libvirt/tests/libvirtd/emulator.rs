//! QEMU for guests with devices in a device tree of files: each VFIO device is replaced by one of QEMU's own test
//! devices. libvirt does everything as with a real device, up to QEMU's command line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Takes the place of QEMU; each device that is the host's becomes `pci-testdev`, in the same slot under the same name.
const EMULATOR: &str = r#"#!/bin/bash
set -eu
arguments=()
for argument; do
    case $argument in
    '{"driver":"vfio-pci"'*)
        argument=$(sed -E 's/"driver":"vfio-pci"/"driver":"pci-testdev"/; s/,"(host|sysfsdev|display|ramfb)":("[^"]*"|[a-z]+)//g' <<<"$argument")
        ;;
    esac
    arguments+=("$argument")
done
exec /usr/bin/qemu-system-x86_64 "${arguments[@]}"
"#;

/// Says yes to a change of how much memory a process may lock, where the test has no leave to change it.
const MEMORY_LIMITS: &str = r"
#include <sys/syscall.h>
long syscall(long number, ...);
enum { MEMLOCK = 8 };
int prlimit64(int process, int limit, const void *wanted, void *found)
{
    if (limit == MEMLOCK && wanted != 0)
        return 0;
    return (int)syscall(SYS_prlimit64, process, limit, wanted, found);
}
int prlimit(int process, int limit, const void *wanted, void *found)
{
    return prlimit64(process, limit, wanted, found);
}
";

/// The emulator's path: always the same, since libvirt remembers what it learnt of it by path and time.
pub(crate) fn emulator() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulator");
    if fs::read_to_string(&path).is_ok_and(|text| text == EMULATOR) {
        return path;
    }
    let new = path.with_extension(std::process::id().to_string());
    fs::write(&new, EMULATOR).expect("the emulator is written");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&new, executable).expect("the emulator can be run");
    fs::rename(&new, &path).expect("the emulator is in its place");
    path
}

/// A library to be loaded before libvirtd's own.
pub(crate) fn memory_limits(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("limits.c"), folder.join("limits.so"));
    fs::write(&source, MEMORY_LIMITS).expect("the library's source is written");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "cc makes the library"
    );
    library
}
