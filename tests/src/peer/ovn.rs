//! OVN's central part: the northbound and southbound databases and northd, on unix sockets in a scratch folder. Its chassis
//! are rows, not hosts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{PeerError, installed, output};
use crate::process::{Process, Program};
use crate::scratch::Scratch;

const READY_LIMIT: Duration = Duration::from_secs(60);
/// Neutron takes a chassis for alive while it is not behind the cloud's configuration number.
const AHEAD_OF_ALL: u32 = 1_000_000_000;

/// A running OVN without hosts.
#[derive(Debug)]
pub struct RealOvn {
    /// The number of the last chassis: each needs a tunnel address of its own.
    chassis: AtomicU8,
    _northd: Process,
    _databases: [Process; 2],
    /// Last: the processes end before their files go.
    scratch: Scratch,
}

impl RealOvn {
    pub fn start() -> Result<Self, PeerError> {
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for OVN"))?;
        let databases = [database(&scratch, "nb")?, database(&scratch, "sb")?];
        let northd = in_folder(Program::new(system("usr/bin/ovn-northd")?), &scratch)
            .arg(format!("--ovnnb-db={}", address(&scratch, "nb")))
            .arg(format!("--ovnsb-db={}", address(&scratch, "sb")))
            .start(&scratch.join("northd.log"))?;
        Ok(Self {
            chassis: AtomicU8::new(0),
            _northd: northd,
            _databases: databases,
            scratch,
        })
    }

    /// The folder with its sockets `nb.sock` and `sb.sock`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Adds a chassis, which Neutron takes for a live host of this name.
    pub fn add_chassis(&self, host: &str) -> Result<(), PeerError> {
        let chassis = format!("chassis-{host}");
        let number = self.chassis.fetch_add(1, Ordering::Relaxed) + 1;
        let address = format!("127.0.0.{number}");
        self.southbound(&["chassis-add", &chassis, "geneve", &address])?;
        let name = format!("hostname={host}");
        self.southbound(&[
            "set",
            "chassis",
            &chassis,
            &name,
            "other_config:datapath-type=netdev",
            "other_config:ovn-bridge-mappings=public:br-ex",
        ])?;
        let uuid = self.southbound(&["get", "chassis", &chassis, "_uuid"])?;
        let (name, of) = (
            format!("name={chassis}"),
            format!("chassis={}", uuid.trim()),
        );
        let number = format!("nb_cfg={AHEAD_OF_ALL}");
        self.southbound(&["create", "Chassis_Private", &name, &of, &number])
            .map(drop)
    }

    /// Plugs a port as `ovn-controller` of the host would: Neutron then reports it as `ACTIVE`.
    pub fn plug(&self, port: &str, host: &str) -> Result<(), PeerError> {
        self.southbound(&["lsp-bind", port, &format!("chassis-{host}")])?;
        let uuid = self.southbound(&[
            "--bare",
            "--columns=_uuid",
            "find",
            "Port_Binding",
            &format!("logical_port={port}"),
        ])?;
        self.southbound(&["set", "Port_Binding", uuid.trim(), "up=true"])
            .map(drop)
    }

    /// Runs `ovn-sbctl` and gives what it wrote.
    pub fn southbound(&self, words: &[&str]) -> Result<String, PeerError> {
        control(
            "ovn-sbctl",
            words,
            &self.scratch.join("sb.sock"),
            self.folder(),
        )
    }

    /// Runs `ovn-nbctl` and gives what it wrote.
    pub fn northbound(&self, words: &[&str]) -> Result<String, PeerError> {
        control(
            "ovn-nbctl",
            words,
            &self.scratch.join("nb.sock"),
            self.folder(),
        )
    }
}

fn control(
    program: &str,
    words: &[&str],
    socket: &Path,
    folder: &Path,
) -> Result<String, PeerError> {
    let mut command = Command::new(program);
    command
        .arg("--timeout=30")
        .arg(format!("--db=unix:{}", socket.display()))
        .args(words)
        .env("OVN_RUNDIR", folder);
    output(&mut command)
}

fn database(scratch: &Scratch, name: &str) -> Result<Process, PeerError> {
    let file = scratch.join(format!("{name}.db"));
    let schema = system(&format!("usr/share/ovn/ovn-{name}.ovsschema"))?;
    output(
        Command::new("ovsdb-tool")
            .arg("create")
            .arg(&file)
            .arg(schema),
    )?;
    let socket = scratch.join(format!("{name}.sock"));
    let mut server = in_folder(Program::new("ovsdb-server"), scratch)
        .arg(&file)
        .arg(format!("--remote=punix:{}", socket.display()))
        .arg(format!(
            "--unixctl={}",
            scratch.join(format!("{name}.ctl")).display()
        ))
        .start(&scratch.join(format!("{name}.log")))?;
    server.wait_until(READY_LIMIT, || socket.exists())?;
    Ok(server)
}

/// A file of the packages that are unpacked and not installed.
fn system(path: &str) -> Result<PathBuf, PeerError> {
    Ok(installed()?.join("ovn/system").join(path))
}

/// A program that writes nothing into the machine's folders.
fn in_folder(program: Program, scratch: &Scratch) -> Program {
    let folders = ["OVS_RUNDIR", "OVN_RUNDIR", "OVS_LOGDIR", "OVN_LOGDIR"];
    folders
        .into_iter()
        .fold(program, |program, key| program.env(key, scratch.path()))
}

fn address(scratch: &Scratch, name: &str) -> String {
    format!("unix:{}", scratch.join(format!("{name}.sock")).display())
}

/// A host of OVN: the real Open vSwitch with its userspace datapath, and `ovn-controller`. Its bridges are links of the network
/// namespace in which it is started, so a test needs a namespace of its own.
#[derive(Debug)]
pub struct RealChassis {
    controller: Process,
    _switch: Process,
    _database: Process,
    /// Last: the processes end before their files go.
    scratch: Scratch,
}

impl RealChassis {
    /// Starts one with the integration bridge `br-int` and the bridge `br-ex` of the physical network `public`, known to OVN
    /// under the name `host`.
    pub fn start(ovn: &RealOvn, host: &str) -> Result<Self, PeerError> {
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for a chassis"))?;
        let file = scratch.join("conf.db");
        let schema = system("usr/share/openvswitch/vswitch.ovsschema")?;
        let create = ["create".into(), file.clone(), schema];
        output(Command::new("ovsdb-tool").args(create))?;
        let socket = scratch.join("db.sock");
        let mut database = in_folder(Program::new("ovsdb-server"), &scratch)
            .arg(&file)
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", scratch.join("db.ctl").display()))
            .start(&scratch.join("db.log"))?;
        database.wait_until(READY_LIMIT, || socket.exists())?;
        vsctl(&scratch, &["--no-wait", "init"])?;
        let switch = Program::new(system("usr/lib/openvswitch-switch/ovs-vswitchd")?);
        let switch = in_folder(switch, &scratch)
            .arg(address(&scratch, "db"))
            .arg(format!(
                "--unixctl={}",
                scratch.join("switch.ctl").display()
            ))
            .start(&scratch.join("switch.log"))?;
        for bridge in ["br-int", "br-ex"] {
            let datapath = ["--", "set", "bridge", bridge, "datapath_type=netdev"];
            vsctl(
                &scratch,
                &[["add-br", bridge].as_slice(), &datapath].concat(),
            )?;
        }
        let names = [
            format!("external-ids:system-id=chassis-{host}"),
            format!("external-ids:hostname={host}"),
            format!("external-ids:ovn-remote={}", address(&ovn.scratch, "sb")),
            "external-ids:ovn-encap-type=geneve".to_owned(),
            "external-ids:ovn-encap-ip=127.0.0.1".to_owned(),
            "external-ids:ovn-bridge-mappings=public:br-ex".to_owned(),
            "external-ids:ovn-cms-options=enable-chassis-as-gw".to_owned(),
        ];
        let mut words = vec!["set", "open", "."];
        words.extend(names.iter().map(String::as_str));
        vsctl(&scratch, &words)?;
        // Last: it crashes if a bridge of its mappings is missing.
        let controller = in_folder(Program::new(system("usr/bin/ovn-controller")?), &scratch)
            .arg(address(&scratch, "db"))
            .start(&scratch.join("controller.log"))?;
        Ok(Self {
            controller,
            _switch: switch,
            _database: database,
            scratch,
        })
    }

    /// The socket of the switch's database.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.scratch.join("db.sock")
    }

    /// `ovn-controller` does nothing until [`RealChassis::resume_controller`]: no port that is plugged meanwhile works.
    pub fn pause_controller(&mut self) {
        self.controller.signal(Signal::SIGSTOP);
    }

    pub fn resume_controller(&mut self) {
        self.controller.signal(Signal::SIGCONT);
    }

    /// Runs `ovs-vsctl` and gives what it wrote.
    pub fn vsctl(&self, words: &[&str]) -> Result<String, PeerError> {
        vsctl(&self.scratch, words)
    }
}

fn vsctl(scratch: &Scratch, words: &[&str]) -> Result<String, PeerError> {
    let mut command = Command::new(system("usr/bin/ovs-vsctl")?);
    command
        .arg("--timeout=60")
        .arg(format!("--db={}", address(scratch, "db")))
        .args(words);
    output(&mut command)
}
