//! Receivers of the accelerator service's external events: one compute API, or the agent of each bind's host.

use berth_accelerator::EventReceivers;
use berth_client::keystone::system_clock;
use berth_client::{
    AdapterOptions, Auth, AuthOptions, ComputeClient, HttpService, TransportOptions,
};
use berth_config::{AuthStrategy, Config, HOST_PART, Secret};
use berth_model::NodeName;
use berth_output::{ErrorCode, Failure};

use crate::agents::EVENTS_TIMEOUT;
use crate::{AgentReceivers, EMBEDDED_TOKEN};

pub enum ConfiguredReceivers {
    /// One receiver for all hosts: Nova, or the only agent.
    One(ComputeClient),
    /// The agent of each host, at an address that contains the host's name.
    OfHost(AtHost),
    /// The agents that `berth up` knows.
    Agents(AgentReceivers),
}

/// An address with a placeholder for the host's name, and the connections to it.
pub struct AtHost {
    address: String,
    http: HttpService,
    options: AdapterOptions,
}

impl ConfiguredReceivers {
    /// The receivers of `[accelerator_service] external_events_endpoint`; `None` if it is not set.
    pub fn new(config: &Config) -> Result<Option<Self>, Failure> {
        let Some(endpoint) = &config.accelerator_service.external_events_endpoint else {
            return Ok(None);
        };
        Ok(Some(match endpoint.contains(HOST_PART) {
            true => Self::OfHost(AtHost::new(config, endpoint)?),
            false => Self::One(one(config, endpoint)?),
        }))
    }
}

impl EventReceivers for ConfiguredReceivers {
    fn of_host(&self, host: &str) -> Option<ComputeClient> {
        match self {
            Self::One(receiver) => receiver.of_host(host),
            Self::OfHost(at) => at.of_host(host),
            Self::Agents(agents) => agents.of_host(host),
        }
    }
}

impl AtHost {
    /// Agents require a certificate and no token.
    fn new(config: &Config, address: &str) -> Result<Self, Failure> {
        let files = &config.agent_client;
        let transport = TransportOptions {
            cafile: files.cafile.clone(),
            certfile: files.certfile.clone(),
            keyfile: files.keyfile.clone(),
            ..TransportOptions::default()
        };
        Ok(Self {
            address: address.to_owned(),
            http: HttpService::network(&transport).map_err(|error| endpoint_failure(&error))?,
            options: AdapterOptions {
                timeout: EVENTS_TIMEOUT,
                ..AdapterOptions::default()
            },
        })
    }

    /// The client for a host; `None` if the host's name cannot be part of an address. The name comes from the caller of
    /// a bind.
    fn of_host(&self, host: &str) -> Option<ComputeClient> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        let node = NodeName::new(host).ok()?;
        let plain = Some(node.as_str()).filter(|name| name.chars().all(is_plain))?;
        let auth = Auth::none(&self.address.replace(HOST_PART, plain)).ok()?;
        Some(ComputeClient::new(self.http.clone(), auth, &self.options))
    }
}

fn one(config: &Config, endpoint: &str) -> Result<ComputeClient, Failure> {
    let service = &config.accelerator_service;
    let account = AuthOptions {
        endpoint_override: Some(endpoint.to_owned()),
        timeout: Some(EVENTS_TIMEOUT),
        ..config.keystone_authtoken.account.clone()
    };
    let http =
        HttpService::network(&account.transport()).map_err(|error| endpoint_failure(&error))?;
    let options = AdapterOptions::from(&account);
    let auth = match service.auth_strategy.unwrap_or_default() {
        AuthStrategy::Noauth2 => Auth::admin_token(endpoint, &Secret::from(EMBEDDED_TOKEN)),
        AuthStrategy::Keystone => Auth::from_options(&account, &http, system_clock(), &options),
    }
    .map_err(|error| endpoint_failure(&error))?;
    Ok(ComputeClient::new(http, auth, &options))
}

fn endpoint_failure(error: &(dyn std::error::Error + 'static)) -> Failure {
    let what = "cannot use [accelerator_service] external_events_endpoint";
    Failure::caused(ErrorCode::Missing, what, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_name_is_part_of_an_address_and_can_be_nothing_else() {
        let at = AtHost {
            address: "https://{host}:9178/v2.1".to_owned(),
            http: HttpService::network(&TransportOptions::default()).unwrap(),
            options: AdapterOptions::default(),
        };
        for host in ["compute-2", "compute2.example.org", "192.0.2.11"] {
            assert!(at.of_host(host).is_some(), "{host}");
        }
        for host in ["", "evil.example/x?", "a@b", "a:1", "two words", "a#", "é"] {
            assert!(at.of_host(host).is_none(), "{host}");
        }
    }
}
