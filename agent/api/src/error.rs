//! Errors of opening the admin API.

use std::net::SocketAddr;

/// The admin API cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Another agent uses the socket.
    #[error("another agent answers on {socket}; stop it first (systemctl stop berth-agent)")]
    Held { socket: String },
    /// The path exists and is not a socket.
    #[error("{socket} is not a socket; set [agent] admin_socket to a path that is free")]
    NotASocket { socket: String },
    /// The socket cannot be created.
    #[error("the admin socket {socket} cannot be created ([agent] admin_socket)")]
    Socket {
        socket: String,
        #[source]
        source: std::io::Error,
    },
    /// The address of the metrics is not a loopback address.
    #[error(
        "[agent] metrics_listen is {address}; only a loopback address (127.0.0.1, [::1]) is allowed"
    )]
    NotLoopback { address: SocketAddr },
    /// The agent cannot listen on the address of the metrics.
    #[error(
        "the metrics cannot be offered on {address} ([agent] metrics_listen, or the variable BERTH__AGENT__METRICS_LISTEN)"
    )]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// The agent cannot listen on the TLS address.
    #[error(
        "the agent's API cannot be offered on {address} ([agent] listen, or the variable BERTH__AGENT__LISTEN)"
    )]
    ListenTls {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}
