//! Clients of agents: this host's over its admin socket or in the same process, another host's over `[agent] listen`
//! with the certificate of `[agent_client]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_accelerator::EventReceivers;
use berth_agent::host_state::OwnHostName;
use berth_agent_api::body::STATE_FILES;
use berth_agent_api::client::{AdminClient, AdminClientError};
use berth_agent_tracker::KnownTrees;
use berth_client::{
    AdapterOptions, Auth, ComputeClient, GuestClient, HttpService, TransportError, TransportOptions,
};
use berth_conductor::{Agents, HostNode};
use berth_config::Config;
use berth_model::NodeName;
use berth_output::{ErrorCode, Failure};

/// Timeout of the receiver of external events. Other events of its host wait meanwhile.
pub(crate) const EVENTS_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest response that is read: a console's log, a thousand guests, the devices of a large host.
const BODY_LIMIT: usize = 64 << 20;

/// Another host's agent, as a command line names it.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Agent")]
pub struct AgentAt {
    /// Use the agent of another host, by its `[agent]` listen; without this option this host's agent is used through
    /// its admin socket.
    #[arg(long = "agent", value_name = "https://HOST:PORT", global = true)]
    pub url: Option<String>,
    /// PEM file of the authorities that signed that agent's certificate, else `[agent_client]` cafile, else the system's.
    #[arg(long = "agent-cacert", value_name = "FILE", global = true)]
    pub cafile: Option<PathBuf>,
    /// PEM file with the certificate to show, else `[agent_client]` certfile.
    #[arg(long = "agent-cert", value_name = "FILE", global = true)]
    pub certfile: Option<PathBuf>,
    /// PEM file with its key, else `[agent_client]` keyfile.
    #[arg(long = "agent-key", value_name = "FILE", global = true)]
    pub keyfile: Option<PathBuf>,
}

impl AgentAt {
    /// Connections to the agent, and its root URL; `None` for this host's agent.
    ///
    /// # Errors
    /// The URL is not one of an agent, there is no client certificate, or a file cannot be used.
    pub fn service(&self, config: &Config) -> Result<Option<(HttpService, String)>, Failure> {
        let Some(url) = &self.url else {
            return Ok(None);
        };
        let root = url.trim_end_matches('/');
        let host = root.strip_prefix("https://").unwrap_or_default();
        if host.is_empty() || host.contains(['/', '?', '#', '@']) {
            let what = format!("--agent: {url:?} is not the address of an agent");
            return Err(Failure::new(ErrorCode::Usage, what)
                .hint("write https://HOST:PORT, the value of [agent] listen of that host"));
        }
        let own = &config.agent_client;
        let or = |given: &Option<PathBuf>, own: &Option<PathBuf>| given.clone().or(own.clone());
        let certfile = or(&self.certfile, &own.certfile);
        if certfile.is_none() {
            let what = format!("{root} requires a client certificate, and none is configured");
            return Err(Failure::new(ErrorCode::Missing, what).hint(
                "give --agent-cert and --agent-key, or set certfile and keyfile in [agent_client]",
            ));
        }
        let options = TransportOptions {
            cafile: or(&self.cafile, &own.cafile),
            keyfile: match &self.certfile {
                // A certificate from the command line has a key of its own.
                Some(_) => self.keyfile.clone(),
                None => or(&self.keyfile, &own.keyfile),
            },
            certfile,
            body_limit: BODY_LIMIT,
            ..TransportOptions::default()
        };
        Ok(Some((network(&options)?, root.to_owned())))
    }

    /// The guests API of the selected agent.
    ///
    /// # Errors
    /// As for [`AgentAt::service`], or the admin socket's path is invalid.
    pub fn guests(&self, config: &Config) -> Result<GuestClient, Failure> {
        let (http, root) = match self.service(config)? {
            Some(other) => other,
            None => {
                let options = TransportOptions {
                    body_limit: BODY_LIMIT,
                    ..TransportOptions::default()
                };
                let http = HttpService::unix(&config.agent.admin_socket, &options);
                let http = http.map_err(|error| unusable(&error))?;
                (http, "http://agent".to_owned())
            }
        };
        guests_of(http, &root)
    }

    /// The receiver of external events of the selected agent; `None` for this host's agent.
    ///
    /// # Errors
    /// As for [`AgentAt::service`].
    fn external_events(&self, config: &Config) -> Result<Option<ComputeClient>, Failure> {
        let Some((http, root)) = self.service(config)? else {
            return Ok(None);
        };
        let auth = Auth::none(&format!("{root}/v2.1")).map_err(|error| unusable(&error))?;
        let options = AdapterOptions {
            timeout: EVENTS_TIMEOUT,
            ..AdapterOptions::default()
        };
        Ok(Some(ComputeClient::new(http, auth, &options)))
    }

    /// The admin API of the selected agent.
    ///
    /// # Errors
    /// As for [`AgentAt::guests`].
    pub fn admin(&self, config: &Config) -> Result<AdminClient, Failure> {
        Ok(match self.service(config)? {
            Some((http, root)) => AdminClient::remote(http, &root),
            None => AdminClient::new(&config.agent.admin_socket).map_err(admin_failure)?,
        })
    }
}

/// The failure of a request to an agent's admin API.
pub fn admin_failure(error: AdminClientError) -> Failure {
    match &error {
        AdminClientError::Unreachable { socket, source } => {
            // systemd makes the folder below /run when it starts the agent.
            let folder = Path::new(socket)
                .parent()
                .filter(|folder| !folder.starts_with("/run") && !folder.exists());
            match folder {
                Some(folder) => Failure::from_error(ErrorCode::AgentAway, &error).hint(format!(
                    "{} does not exist: name the agent's folder with --state-dir",
                    folder.display()
                )),
                None => agent_away(&error, source),
            }
        }
        AdminClientError::Refused { code, .. } if code == STATE_FILES => {
            Failure::from_error(ErrorCode::State, &error)
                .hint("nothing was changed; free space in the state folder (df -h), then repeat")
        }
        AdminClientError::Refused { .. } => Failure::from_error(ErrorCode::Refused, &error),
        AdminClientError::InvalidResponse { .. } => {
            Failure::from_error(ErrorCode::AgentAnswer, &error)
        }
    }
}

/// The failure of a request to this host's agent that got no answer. `reason` is the error of the connection.
pub fn agent_away(error: &(dyn std::error::Error + 'static), reason: &TransportError) -> Failure {
    if let TransportError::Denied { .. } = reason {
        return socket_denied(reason);
    }
    Failure::from_error(ErrorCode::AgentAway, error).hint("systemctl status berth-agent")
}

/// The failure of a user who may not use a socket of this host's agent or conductor.
pub fn socket_denied(reason: &TransportError) -> Failure {
    Failure::from_error(ErrorCode::AgentAway, reason)
        .hint("run as root, or join the group of the socket: usermod -aG berth USER")
}

fn network(options: &TransportOptions) -> Result<HttpService, Failure> {
    HttpService::network(options).map_err(|error| unusable(&error))
}

fn unusable(error: &(dyn std::error::Error + 'static)) -> Failure {
    let what = "cannot connect to the agent with these files";
    Failure::caused(ErrorCode::BadValue, what, error).hint(
        "see [agent] and [agent_client] in /usr/share/doc/berth/guide/reference/configuration.md",
    )
}

fn guests_of(http: HttpService, root: &str) -> Result<GuestClient, Failure> {
    let auth = Auth::none(root).map_err(|error| unusable(&error))?;
    Ok(GuestClient::new(http, auth, &AdapterOptions::default()))
}

/// The agents that the conductor knows: those of `[conductor_service] agents`, and this process's own agent for the
/// nodes that it reported. Only these agents can confirm that a guest does not exist.
pub struct KnownAgents {
    here: GuestClient,
    own_name: OwnHostName,
    nodes: KnownTrees,
    others: BTreeMap<String, GuestClient>,
}

impl KnownAgents {
    /// `here` is the agent of this process, which reports its host under `own_name`; `nodes` are the nodes that it
    /// reported.
    ///
    /// # Errors
    /// A host's name is invalid, or a file of `[agent_client]` cannot be used.
    pub fn new(
        config: &Config,
        here: GuestClient,
        (own_name, nodes): (OwnHostName, KnownTrees),
    ) -> Result<Self, Failure> {
        let others = listed(config, |at| at.guests(config))?;
        Ok(Self {
            here,
            own_name,
            nodes,
            others,
        })
    }
}

impl Agents for KnownAgents {
    fn agent(&self, node: &HostNode) -> Option<GuestClient> {
        let is_here = || self.own_name.is(&node.host) && self.nodes.of(&node.node).is_some();
        let here = || is_here().then_some(&self.here);
        self.others.get(&node.host).or_else(here).cloned()
    }
}

/// Receivers of external events in a process that knows agents: the agent of each listed host, and this process's own
/// agent for all other hosts.
pub struct AgentReceivers {
    here: Option<ComputeClient>,
    others: BTreeMap<String, ComputeClient>,
}

impl AgentReceivers {
    /// `here` is the agent of this process, if it has one.
    ///
    /// # Errors
    /// As for [`KnownAgents::new`].
    pub fn new(config: &Config, here: Option<ComputeClient>) -> Result<Self, Failure> {
        let others = listed(config, |at| at.external_events(config))?;
        Ok(Self {
            here,
            others: others.into_iter().filter_map(with_receiver).collect(),
        })
    }
}

fn with_receiver(
    (host, receiver): (String, Option<ComputeClient>),
) -> Option<(String, ComputeClient)> {
    Some((host, receiver?))
}

impl EventReceivers for AgentReceivers {
    fn of_host(&self, host: &str) -> Option<ComputeClient> {
        let other = self.others.get(host);
        other.or(self.here.as_ref()).cloned()
    }
}

/// The agents of other hosts, for a process without an agent.
///
/// # Errors
/// As for [`KnownAgents::new`].
pub fn agents_elsewhere(config: &Config) -> Result<BTreeMap<String, GuestClient>, Failure> {
    listed(config, |at| at.guests(config))
}

/// The agents of `[conductor_service] agents`, each by its host.
fn listed<T>(
    config: &Config,
    way: impl Fn(AgentAt) -> Result<T, Failure>,
) -> Result<BTreeMap<String, T>, Failure> {
    let agents = config.conductor_service.agents.iter();
    let agents = agents.map(|agent| {
        let (host, url) = agent.split_once('=').unwrap_or_default();
        // An agent reports under a host's name that is also valid for a node.
        NodeName::new(host).map_err(|error| {
            let what = format!("[conductor_service] agents: {error}");
            Failure::new(ErrorCode::BadValue, what)
        })?;
        let at = AgentAt {
            url: Some(url.to_owned()),
            ..AgentAt::default()
        };
        Ok((host.to_owned(), way(at)?))
    });
    agents.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away(source: TransportError) -> String {
        admin_failure(AdminClientError::Unreachable {
            socket: "/run/berth/agent.sock".to_owned(),
            source,
        })
        .explain()
    }

    #[test]
    fn a_mistyped_state_folder_is_named() {
        let socket = "/nowhere/at/all/agent.sock";
        let text = admin_failure(AdminClientError::Unreachable {
            socket: socket.to_owned(),
            source: TransportError::Refused {
                peer: socket.to_owned(),
            },
        })
        .explain();
        let hint =
            "hint: /nowhere/at/all does not exist: name the agent's folder with --state-dir\n";
        assert!(text.ends_with(hint), "{text}");
    }

    #[test]
    fn a_socket_of_another_group_names_the_group_to_join() {
        let peer = "/run/berth/agent.sock".to_owned();
        assert_eq!(
            away(TransportError::Denied { peer: peer.clone() }),
            "error: permission denied on /run/berth/agent.sock [BERTH-E0201]\n\
             hint: run as root, or join the group of the socket: usermod -aG berth USER\n"
        );
        assert_eq!(
            away(TransportError::Refused { peer }),
            "error: the agent does not answer on /run/berth/agent.sock [BERTH-E0201]\n\
             cause: /run/berth/agent.sock refuses connections\n\
             hint: systemctl status berth-agent\n"
        );
    }
}
