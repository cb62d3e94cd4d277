//! Rules for services that are reachable from other hosts: callers of their own addresses, and events to agents.

use berth_output::ErrorCode;

use super::Judge;
use crate::sections::{AuthStrategy, HOST_PART};

impl Judge<'_> {
    /// A service without authentication may listen on loopback only; events to agents need a certificate.
    pub(super) fn accelerator_service(&mut self) {
        self.believed_callers();
        self.events_to_agents();
    }

    /// An address with a placeholder for the host's name is the `[agent] listen` of each host's agent.
    fn events_to_agents(&mut self) {
        let (events, certificate) = (
            "accelerator_service.external_events_endpoint",
            "agent_client.certfile",
        );
        let endpoint = self
            .config
            .accelerator_service
            .external_events_endpoint
            .clone();
        let Some(endpoint) = endpoint.filter(|_| !self.is_broken(&[events, certificate])) else {
            return;
        };
        if !endpoint.contains(['{', '}']) {
            return;
        }
        let host = endpoint.strip_prefix("https://").unwrap_or_default();
        let host = host.split('/').next().unwrap_or_default();
        let rest = endpoint.replacen(HOST_PART, "", 1);
        if !host.contains(HOST_PART) || rest.contains(['{', '}']) {
            self.refuse(
                events,
                format!("{HOST_PART} must replace the host's name once in the https:// address of its agent"),
                format!("write \"https://{HOST_PART}:9178/v2.1\" with the port of [agent] listen, or one address for all hosts"),
                ErrorCode::BadValue,
            );
        } else if self.config.agent_client.certfile.is_none() {
            self.refuse(
                events,
                "agents require a client certificate, and none is set",
                "set certfile, and keyfile if the key is not in it, in [agent_client]",
                ErrorCode::Missing,
            );
        }
    }

    fn believed_callers(&mut self) {
        let (placement, accelerators, compute) = (
            &self.config.placement_service,
            &self.config.accelerator_service,
            &self.config.compute_service,
        );
        for (section, listen, strategy) in [
            (
                "placement_service",
                placement.own_listen(),
                placement.auth_strategy,
            ),
            (
                "accelerator_service",
                accelerators.own_listen(),
                accelerators.auth_strategy,
            ),
            (
                "compute_service",
                compute.listen.address(),
                compute.auth_strategy,
            ),
        ] {
            let key = format!("{section}.listen");
            if self.is_broken(&[&key, &format!("{section}.auth_strategy")]) {
                continue;
            }
            let believed = listen.filter(|it| !it.ip().is_loopback());
            if let (Some(address), AuthStrategy::Noauth2) = (believed, strategy.unwrap_or_default())
            {
                self.refuse(
                    &key,
                    format!("{address} is not on the loopback interface, and callers are not authenticated (noauth2)"),
                    format!("write 127.0.0.1 or [::1], or auth_strategy = \"keystone\" in [{section}]"),
                    ErrorCode::BadValue,
                );
            }
        }
    }
}
