//! The real Neutron with ML2/OVN behind a Keystone, on its own database and its own OVN.

use std::fs;

use serde_json::{Value, json};

use super::uwsgi::Uwsgi;
use super::{Database, MariaDb, PeerError, RealKeystone, RealOvn, installed, write};
use crate::scratch::Scratch;

/// A running Neutron, in the catalog of its Keystone.
#[derive(Debug)]
pub struct RealNeutron {
    service: Uwsgi,
    database: Database,
    pub ovn: RealOvn,
    /// Last: the service ends before its files go.
    scratch: Scratch,
}

/// Whether Neutron tells the catalog's service `compute` about changes of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortEvents {
    Sent,
    NotSent,
}

impl RealNeutron {
    /// Starts one and enters it in the catalog.
    pub fn start(keystone: &RealKeystone, events: PortEvents) -> Result<Self, PeerError> {
        let peers = installed()?;
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for Neutron"))?;
        let ovn = RealOvn::start()?;
        let database = MariaDb::shared()?.create()?;
        database.load(&peers.join("templates/neutron.sql"))?;
        let etc = scratch.join("etc");
        for folder in ["etc/plugins/ml2", "state", "tmp"] {
            fs::create_dir_all(scratch.join(folder))
                .map_err(PeerError::files("make a directory for Neutron"))?;
        }
        let paste = "api-paste.ini";
        fs::copy(peers.join("venv/etc/neutron").join(paste), etc.join(paste))
            .map_err(PeerError::files("copy what comes with Neutron"))?;
        let configuration = include_str!("../../peers/neutron.conf")
            .replace("@DIR@", &scratch.path().display().to_string())
            .replace("@OVN@", &ovn.folder().display().to_string())
            .replace("@DATABASE@", &database.sqlalchemy_url())
            .replace("@KEYSTONE@", &keystone.url())
            .replace(
                "@EVENTS@",
                match events {
                    PortEvents::Sent => "true",
                    PortEvents::NotSent => "false",
                },
            );
        write(&etc.join("neutron.conf"), &configuration)?;
        // It is read beside the other.
        write(&etc.join("plugins/ml2/ml2_conf.ini"), "")?;
        let log = scratch.join("log");
        let environment = ("OS_NEUTRON_CONFIG_DIR", etc);
        let mut service = Uwsgi::new("neutron.wsgi.api:application", environment, 1, log)?
            // Neutron keeps its start time there in a file named by its parent's process id, and believes an old one.
            .with_temporary(scratch.join("tmp"));
        service.start("/")?;
        let neutron = Self {
            service,
            database,
            ovn,
            scratch,
        };
        keystone.set_network_endpoint(&neutron.url())?;
        Ok(neutron)
    }

    /// `http://127.0.0.1:PORT`, the same over a restart.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.service.port())
    }

    /// The rows of its database.
    pub fn query(&self, sql: &str) -> Result<Vec<Vec<String>>, PeerError> {
        self.database.query(sql)
    }

    /// Enters an SR-IOV agent for a host that is connected to this physical network. The agent itself needs a network card.
    pub fn add_sriov_agent(&self, host: &str, physical_network: &str) -> Result<(), PeerError> {
        let configurations = json!({"device_mappings": {physical_network: ["ens5"]}, "devices": 0});
        let agent = ("NIC Switch agent", "neutron-sriov-nic-agent");
        self.add_agent(agent, host, &configurations)
    }

    /// Enters an agent of Open vSwitch for a host whose bridge is connected to this physical network. The agent would report to
    /// Placement how much the bridge and the host can guarantee.
    pub fn add_switch_agent(
        &self,
        host: &str,
        (bridge, physical_network): (&str, &str),
    ) -> Result<(), PeerError> {
        let configurations = json!({
            "bridge_mappings": {physical_network: bridge},
            "tunnel_types": [],
            "resource_provider_bandwidths": {bridge: {"egress": 10_000, "ingress": 10_000}},
            "resource_provider_packet_processing_without_direction": {"": 100},
        });
        let agent = ("Open vSwitch agent", "neutron-openvswitch-agent");
        self.add_agent(agent, host, &configurations)
    }

    fn add_agent(
        &self,
        (agent_type, binary): (&str, &str),
        host: &str,
        configurations: &Value,
    ) -> Result<(), PeerError> {
        self.query(&format!(
            "INSERT INTO agents (id, agent_type, `binary`, topic, host, admin_state_up, created_at, started_at, \
             heartbeat_timestamp, configurations, `load`) VALUES (uuid(), '{agent_type}', '{binary}', 'N/A', \
             '{host}', 1, utc_timestamp(), utc_timestamp(), utc_timestamp() + INTERVAL 1 DAY, '{configurations}', 0)"
        ))?;
        Ok(())
    }

    /// A graceful end. Connections are refused afterwards.
    pub fn stop(&mut self) {
        self.service.stop();
    }

    /// Starts it again on the same port and rows, where it does not run.
    pub fn restart(&mut self) -> Result<(), PeerError> {
        let temporary = self.scratch.join("tmp");
        fs::remove_dir_all(&temporary)
            .and_then(|()| fs::create_dir(&temporary))
            .map_err(PeerError::files("empty Neutron's temporary folder"))?;
        self.service.start("/")
    }

    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.service.log()).unwrap_or_default()).into_owned()
    }
}
