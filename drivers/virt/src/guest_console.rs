//! Where the consoles of a guest are served on its host: [`ConsoleAddress`].

use std::net::SocketAddr;
use std::path::PathBuf;

/// The address of a running guest's console. Only this host can connect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsoleAddress {
    /// A TCP port of the hypervisor, such as that of the guest's VNC server.
    Tcp(SocketAddr),
    /// A pseudo terminal in `/dev/pts` of the host. Its first reader gets the output, so it has one reader at a time.
    Terminal(PathBuf),
}
