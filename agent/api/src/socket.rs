//! The unix socket of the admin API and its lock. The file of a killed agent is replaced; the socket of a running agent
//! is an error.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use berth_files::{OwnerLock, OwnerLockError, own_folder};
use nix::sys::stat::{Mode, fchmod};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use crate::error::AdminError;

/// The limit of connections that are not accepted yet: tokio's default.
const BACKLOG: u32 = 1024;

/// The lock of a running agent: a file next to its socket. The kernel releases the lock when the process ends, however
/// it ends; the file stays.
#[derive(Debug)]
pub struct SocketLock {
    _lock: OwnerLock,
}

impl SocketLock {
    /// Takes the lock of the agent with this socket. Offline commands take it as well, so that no agent starts
    /// meanwhile.
    pub fn take(socket: &Path) -> Result<Self, AdminError> {
        let shown = || socket.display().to_string();
        let failed = |source| AdminError::Socket {
            socket: shown(),
            source,
        };
        if let Some(folder) = socket.parent() {
            // Members of the group pass through it.
            own_folder(folder, 0o750).map_err(|error| failed(error.into_io()))?;
        }
        let mut name = socket.as_os_str().to_owned();
        name.push(".lock");
        match OwnerLock::take(Path::new(&name)) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err(OwnerLockError::Held { .. }) => Err(AdminError::Held { socket: shown() }),
            Err(OwnerLockError::Io(source)) => Err(failed(source)),
        }
    }
}

/// Creates the socket, with access for its owner and the group.
pub(super) async fn bind(path: &Path, group: Option<u32>) -> Result<UnixListener, AdminError> {
    let shown = || path.display().to_string();
    let failed = |source| AdminError::Socket {
        socket: shown(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(AdminError::NotASocket { socket: shown() });
        }
        Ok(_) => {
            if UnixStream::connect(path).await.is_ok() {
                return Err(AdminError::Held { socket: shown() });
            }
            std::fs::remove_file(path).map_err(failed)?;
        }
    }
    let listener = listen(path).map_err(failed)?;
    // Each connection is checked as well, so a group that cannot be set is not an error.
    if let Some(group) = group
        && let Err(error) = std::os::unix::fs::chown(path, None, Some(group))
    {
        tracing::warn!(%error, socket = %path.display(), "the admin socket's group cannot be set");
    }
    std::fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(failed)?;
    Ok(listener)
}

/// Binds a new socket. The kernel creates its file with the mode of the socket, so others never have access, whatever the
/// umask.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    fchmod(&socket, Mode::from_bits_truncate(0o660))?;
    socket.bind(path)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_its_mode_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/agent.sock");
        let lock = SocketLock::take(&path).unwrap();
        drop(bind(&path, None).await.unwrap());
        assert!(path.exists(), "a dropped listener leaves its file");
        let _listener = bind(&path, None).await.unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o660
        );
        drop(lock);
    }

    #[tokio::test]
    async fn a_second_agent_is_refused_by_the_lock_and_by_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let lock = SocketLock::take(&path).unwrap();
        assert!(matches!(
            SocketLock::take(&path),
            Err(AdminError::Held { .. })
        ));
        let _listener = bind(&path, None).await.unwrap();
        drop(lock);
        let _lock = SocketLock::take(&path).unwrap();
        assert!(matches!(
            bind(&path, None).await,
            Err(AdminError::Held { .. })
        ));
    }

    #[test]
    fn an_agent_starts_while_a_child_of_a_killed_one_still_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        drop(SocketLock::take(&path).unwrap());
        let lock = folder.path().join("agent.sock.lock");
        // A pid that no process can have.
        std::fs::write(&lock, "4194305\n").unwrap();
        let child = std::fs::File::open(&lock).unwrap();
        child.lock().unwrap();
        let ends = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            drop(child);
        });
        SocketLock::take(&path).unwrap();
        ends.join().unwrap();
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(
            bind(&path, None).await,
            Err(AdminError::NotASocket { .. })
        ));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_a_socket_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x".repeat(120));
        let error = bind(&path, None).await.unwrap_err();
        assert!(error.to_string().contains("admin_socket"), "{error}");
    }
}
