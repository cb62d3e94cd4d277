//! Allocates ports on loopback for programs that must know theirs in advance.
//!
//! A port that the kernel picks can become another connection's at once, and the tests of one or more binaries run
//! concurrently. Therefore these ports are below the kernel's range ([ip-sysctl], `ip_local_port_range`: from 32,768).
//! Each belongs to one test process until it ends, by a lock on a file of its number, which a killed process releases,
//! too.
//!
//! [ip-sysctl]: https://docs.kernel.org/networking/ip-sysctl.html

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, io, process};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

const PORTS: Range<u16> = 20_000..32_000;

/// Files that are locked for as long as this process lives.
static TAKEN: Mutex<Vec<Flock<File>>> = Mutex::new(Vec::new());

/// A port on loopback that nothing listens on, which no other call gives for as long as this process lives, nor another process
/// with this one's folder for temporary files.
pub fn free_port() -> io::Result<u16> {
    let folder = folder()?;
    let mut taken = TAKEN
        .lock()
        .map_err(|_| io::Error::other("a call panicked"))?;
    // Processes start at different ports, and each continues from its last one.
    let count = PORTS.len();
    let begin = process::id() as usize * 131 + taken.len();
    for port in (0..count).filter_map(|step| PORTS.clone().nth((begin + step) % count)) {
        let Some(lock) = lock(&folder, port)? else {
            continue;
        };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            taken.push(lock);
            return Ok(port);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("none of the ports {PORTS:?} is free"),
    ))
}

/// Where the locks are, for all users of the machine.
fn folder() -> io::Result<PathBuf> {
    let folder = env::temp_dir().join("berth-test-ports");
    match fs::create_dir(&folder) {
        Ok(()) => fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(folder)
}

/// None where another call has the port.
fn lock(folder: &Path, port: u16) -> io::Result<Option<Flock<File>>> {
    let path = folder.join(port.to_string());
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = match options.open(&path) {
        // Another user made it. To lock it, reading is enough.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(&path)?,
        opened => opened?,
    };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_port_is_allocated_twice() {
        let ports: BTreeSet<u16> = (0..50).map(|_| free_port().expect("a port")).collect();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|port| PORTS.contains(port)), "{ports:?}");
    }

    #[test]
    fn a_port_of_another_process_is_passed_over() {
        let port = free_port().expect("a port");
        let folder = folder().expect("a folder");
        assert!(lock(&folder, port).expect("a file").is_none());
    }
}
