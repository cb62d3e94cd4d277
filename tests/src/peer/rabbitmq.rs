//! [`RabbitMq`]: starts a private RabbitMQ broker, which Cyborg's processes need to call each other.
//!
//! The broker listens on loopback only, and keeps its files in a temporary directory. It has its own node name and its
//! own Erlang port mapper (`epmd`), so that several tests, and a RabbitMQ of the machine, do not interfere.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{PeerError, installed, write};
use crate::port::free_port;
use crate::process::{Process, Program};
use crate::scratch::Scratch;

/// How long the broker may take to start. It takes eight seconds on two busy cores; a minute is for much slower machines.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Options of Erlang's virtual machine: listen on loopback only, do not start a port mapper, which would outlive the
/// test, and use one scheduler thread that does not spin when idle.
const ERLANG: &str =
    "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false +S 1 +sbwt none";

/// A running broker. Dropping it stops the broker and removes its files.
#[derive(Debug)]
pub struct RabbitMq {
    port: u16,
    _broker: Process,
    _port_mapper: Process,
    /// The last field, because fields are dropped in order: the broker stops before its files are removed.
    _scratch: Scratch,
}

impl RabbitMq {
    /// Starts a broker and waits until it accepts connections.
    pub fn start() -> Result<Self, PeerError> {
        let system = installed()?.join("rabbitmq/system/usr/lib");
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for RabbitMQ"))?;
        let ports = || free_port().map_err(PeerError::files("find a free port"));
        let (port, distribution, mapper) = (ports()?, ports()?, ports()?.to_string());
        write(&scratch.join("plugins"), "[].\n")?;
        write(&scratch.join("rabbitmq.conf"), "")?;
        write(&scratch.join("environment"), "")?;
        let erlang = system.join("erlang");
        let port_mapper = Program::new(only(&erlang, "erts-")?.join("bin/epmd"))
            .args(["-address", "127.0.0.1", "-port", &mapper])
            .start(&scratch.join("epmd.log"))?;
        let server = only(&system.join("rabbitmq/lib"), "rabbitmq_server-")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", erlang.join("bin").display());
        let file = |name: &str| scratch.join(name);
        let mut broker = Program::new(server.join("sbin/rabbitmq-server"))
            .env("PATH", path)
            // Erlang stores its authentication cookie here.
            .env("HOME", scratch.path())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", mapper)
            .env(
                "RABBITMQ_NODENAME",
                format!("berth-{}@localhost", std::process::id()),
            )
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("RABBITMQ_DIST_PORT", distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", file("mnesia"))
            .env("RABBITMQ_LOG_BASE", scratch.path())
            .env("RABBITMQ_PID_FILE", file("pid"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", file("plugins"))
            // RabbitMQ adds `.conf`.
            .env("RABBITMQ_CONFIG_FILE", file("rabbitmq"))
            .env("RABBITMQ_CONF_ENV_FILE", file("environment"))
            // With this, the script replaces itself by the broker (`exec`), so that signals reach the broker.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", ERLANG)
            .start(&file("log"))?;
        broker.wait_until(READY_LIMIT, || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })?;
        Ok(Self {
            port,
            _broker: broker,
            _port_mapper: port_mapper,
            _scratch: scratch,
        })
    }

    /// The URL of the broker for oslo.messaging (`transport_url`).
    #[must_use]
    pub fn url(&self) -> String {
        format!("rabbit://guest:guest@127.0.0.1:{}/", self.port)
    }
}

/// The folder whose name is this prefix and a version; exactly one is installed.
fn only(folder: &Path, prefix: &str) -> Result<PathBuf, PeerError> {
    let entries = fs::read_dir(folder).map_err(PeerError::files("read RabbitMQ's folder"))?;
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(prefix)
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(named)
        .ok_or_else(|| PeerError::NotInstalled {
            dir: folder.to_path_buf(),
        })
}
