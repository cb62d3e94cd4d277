//! RabbitMQ, which connects Cyborg's processes: a node with its own name and port mapper, on loopback and in a
//! directory of its own.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{PeerError, installed, write};
use crate::port::free_port;
use crate::process::{Process, Program};
use crate::scratch::Scratch;

/// It takes eight seconds on two busy cores; this is for a machine much slower.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Erlang's options: nothing listens beyond loopback, no port mapper that outlives us, and no spinning of idle schedulers.
const ERLANG: &str =
    "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false +S 1 +sbwt none";

/// A private RabbitMQ; it ends with the value.
#[derive(Debug)]
pub struct RabbitMq {
    port: u16,
    _broker: Process,
    _port_mapper: Process,
    /// Last: the broker ends before its files go.
    _scratch: Scratch,
}

impl RabbitMq {
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
            // Its cookie is kept here.
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
            // Its extension is added.
            .env("RABBITMQ_CONFIG_FILE", file("rabbitmq"))
            .env("RABBITMQ_CONF_ENV_FILE", file("environment"))
            // The script becomes the broker rather than its parent, so that the kernel's signal reaches it.
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

    /// Its URL as oslo.messaging takes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("rabbit://guest:guest@127.0.0.1:{}/", self.port)
    }
}

/// The only folder with this prefix; a version follows it.
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
