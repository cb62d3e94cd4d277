//! A private RabbitMQ, which can be killed and started again with its data.
//!
//! The harness in `tests/` has one as well, but it belongs to a crate that needs the whole workspace.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Child;
use std::sync::{Mutex, OnceLock};

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::process::{command, log_to, only, peers, spawn, wait_until};

/// Listen on loopback only, start no port mapper, and use one scheduler thread that does not spin.
const ERLANG: &str =
    "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false +S 1 +sbwt none";

pub(crate) struct Broker {
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    distribution: u16,
    mapper_port: u16,
    server: Mutex<Child>,
    mapper: Mutex<Child>,
    pub(crate) certificates: Certificates,
    folder: TempDir,
}

impl Broker {
    /// The one that tests without restarts share.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Broker> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let certificates = Certificates::write(folder.path());
        let [port, tls_port, distribution, mapper_port] = free_ports();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("plugins"), "[].\n").unwrap();
        std::fs::write(path("environment"), "").unwrap();
        let configuration = format!(
            "listeners.tcp.1 = 127.0.0.1:{port}\nlisteners.ssl.1 = 127.0.0.1:{tls_port}\n\
             ssl_options.cacertfile = {}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n\
             ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n",
            certificates.authority.display(),
            certificates.server.display(),
            certificates.server_key.display(),
        );
        std::fs::write(path("rabbitmq.conf"), configuration).unwrap();
        let mapper = start_mapper(mapper_port, folder.path());
        let server = start_server(distribution, mapper_port, folder.path());
        let broker = Self {
            port,
            tls_port,
            distribution,
            mapper_port,
            server: Mutex::new(server),
            mapper: Mutex::new(mapper),
            certificates,
            folder,
        };
        broker.wait();
        broker
    }

    pub(crate) fn url(&self) -> String {
        format!("rabbit://guest:guest@127.0.0.1:{}/", self.port)
    }

    /// Ends it without a farewell.
    pub(crate) fn kill(&self) {
        let mut server = self.server.lock().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// Starts it again with its data, on the same port.
    pub(crate) fn start_again(&self) {
        // The port mapper forgets a node some time after its end; a new mapper knows none.
        let mut mapper = self.mapper.lock().unwrap();
        mapper.kill().unwrap();
        mapper.wait().unwrap();
        *mapper = start_mapper(self.mapper_port, self.folder.path());
        *self.server.lock().unwrap() =
            start_server(self.distribution, self.mapper_port, self.folder.path());
        self.wait();
    }

    fn wait(&self) {
        wait_until("RabbitMQ starts", || {
            if let Some(status) = self.server.lock().unwrap().try_wait().unwrap() {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
                panic!("RabbitMQ ended ({status}):\n{log}");
            }
            let open = |port| TcpStream::connect(("127.0.0.1", port)).is_ok();
            open(self.port) && open(self.tls_port)
        });
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        for child in [&self.server, &self.mapper] {
            let mut child = child.lock().unwrap();
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn start_mapper(port: u16, folder: &Path) -> Child {
    let erlang = peers().join("rabbitmq/system/usr/lib/erlang");
    let mut mapper = command(&only(&erlang, "erts-").join("bin/epmd"));
    mapper.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
    log_to(&mut mapper, &folder.join("epmd.log"));
    let child = spawn(mapper);
    wait_until("epmd starts", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    child
}

fn start_server(distribution: u16, mapper_port: u16, folder: &Path) -> Child {
    let system = peers().join("rabbitmq/system/usr/lib");
    let server =
        only(&system.join("rabbitmq/lib"), "rabbitmq_server-").join("sbin/rabbitmq-server");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut server = command(&server);
    server
        .env(
            "PATH",
            format!("{}:{path}", system.join("erlang/bin").display()),
        )
        .env("HOME", folder)
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("ERL_EPMD_PORT", mapper_port.to_string())
        .env(
            "RABBITMQ_NODENAME",
            format!("amqp-{distribution}@localhost"),
        )
        .env("RABBITMQ_DIST_PORT", distribution.to_string())
        .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", folder)
        .env("RABBITMQ_PID_FILE", folder.join("pid"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("plugins"))
        .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq"))
        .env("RABBITMQ_CONF_ENV_FILE", folder.join("environment"))
        // The script then becomes the broker, so that a signal reaches it.
        .env("RUNNING_UNDER_SYSTEMD", "true")
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", ERLANG);
    log_to(&mut server, &folder.join("log"));
    spawn(server)
}

/// Ports that nothing listens on now, below those that the kernel gives to connections.
fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: Mutex<u16> = Mutex::new(0);
    let mut next = NEXT.lock().unwrap();
    let offset = u16::try_from(std::process::id() % 400).unwrap() * 28;
    std::array::from_fn(|_| {
        loop {
            let port = 12_000 + (offset + *next) % 7_000;
            *next += 1;
            assert!(*next < 7_000, "no port is free");
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    })
}
