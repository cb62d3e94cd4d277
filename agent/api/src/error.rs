//! Why the admin API cannot be opened.

use std::net::SocketAddr;

/// The API cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Another agent has the socket.
    #[error("another agent answers on {socket}; stop it first (systemctl stop berth-agent)")]
    Held { socket: String },
    /// Something else stands where the socket is to be.
    #[error("{socket} is not a socket; set [agent] admin_socket to a path that is free")]
    NotASocket { socket: String },
    /// The socket cannot be made.
    #[error("the admin socket {socket} cannot be made ([agent] admin_socket)")]
    Socket {
        socket: String,
        #[source]
        source: std::io::Error,
    },
    /// The metrics' address is reachable from outside.
    #[error(
        "[agent] metrics_listen is {address}; only a loopback address (127.0.0.1, [::1]) is allowed"
    )]
    NotLoopback { address: SocketAddr },
    /// The metrics' address cannot be listened on.
    #[error("the metrics cannot be offered on {address} ([agent] metrics_listen)")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// The address for TLS cannot be listened on.
    #[error("the agent's API cannot be offered on {address} ([agent] listen)")]
    ListenTls {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}
