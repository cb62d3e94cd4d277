//! `[api]`: the front listener, and when it is enabled by default.

use std::fmt;
use std::net::{AddrParseError, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use berth_options::text::LISTEN_OR_NONE;
use berth_options::{options, text_type};

use super::{AuthStrategy, Config, Secret};

/// The default address of the front listener.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8770);

options! {
    /// The front listener of `berth up` and `berth controller`: identity, compute, placement and accelerator at one
    /// address.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ApiSection in "api" {
        /// Address and port where all APIs are served to callers with a token of the Identity service in this process:
        /// `/identity`, `/compute`, `/placement`, `/accelerator`, and `/image` if `[glance]` names no image service.
        /// The services keep their own addresses as well. The listener speaks HTTP: use a proxy with TLS for callers of
        /// other hosts. `none`: no such listener.
        pub(super) listen: Option<ApiListen> = None,
            derived: "`127.0.0.1:8770`; in `berth up` `none` if a service uses Keystone (`auth_strategy`)", example: "\"127.0.0.1:8770\"";
        /// Address and port of a second listener, for agents and services: it serves all APIs too, and `listen` then does
        /// not serve the internal routes of agents. It has connections of its own, so that users of `listen` cannot delay agents.
        /// The catalog names it as the interface `internal`, which agents use first; set their `auth_url` to it, too. Write an
        /// address of the management network.
        pub internal_listen: Option<SocketAddr> = None, example: "\"192.0.2.10:8771\"";
        /// The URL of the listener for callers, as in the catalog and in `clouds.yaml`.
        pub public_endpoint: Option<String> = None,
            kind: URL, derived: "the address of `listen`", example: "\"https://cloud.example.org\"";
    }
}

/// `[api] listen` in its written form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiListen {
    None,
    At(SocketAddr),
}

impl FromStr for ApiListen {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            text => text.parse().map(Self::At),
        }
    }
}

impl fmt::Display for ApiListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::At(address) => address.fmt(f),
        }
    }
}

text_type!(ApiListen, LISTEN_OR_NONE);

impl Config {
    /// The address of the front listener of `berth up`; `None`: it has none. By default it is enabled if no service
    /// uses Keystone, because the cloud has an Identity service otherwise.
    #[must_use]
    pub fn api_listen(&self) -> Option<SocketAddr> {
        match self.api.listen {
            Some(ApiListen::At(address)) => Some(address),
            Some(ApiListen::None) => None,
            None => {
                let strategies = [
                    self.placement_service.auth_strategy,
                    self.accelerator_service.auth_strategy,
                    self.compute_service.auth_strategy,
                ];
                let are_believed = strategies.iter().all(|it| *it == AuthStrategy::Noauth2);
                are_believed.then_some(DEFAULT)
            }
        }
    }

    /// The address for `berth controller`, which always has a front listener.
    #[must_use]
    pub fn controller_listen(&self) -> Option<SocketAddr> {
        match self.api.listen {
            Some(ApiListen::At(address)) => Some(address),
            Some(ApiListen::None) => None,
            None => Some(DEFAULT),
        }
    }

    /// The configuration with another address for the one listener.
    #[must_use]
    pub fn with_api_listen(mut self, address: SocketAddr) -> Self {
        self.api.listen = Some(ApiListen::At(address));
        self
    }
}

impl Config {
    /// The configuration with one database for all services.
    #[must_use]
    pub fn with_database(mut self, url: &Secret) -> Self {
        for connection in [
            &mut self.placement_service.connection,
            &mut self.accelerator_service.connection,
            &mut self.conductor_service.connection,
            &mut self.compute_service.connection,
            &mut self.identity_service.connection,
        ] {
            *connection = Some(url.clone());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::{ConfigDocument, ConfigRefusal, LoadedConfig, resolve};

    fn read(text: &str) -> Result<LoadedConfig, ConfigRefusal> {
        let document = ConfigDocument {
            name: "berth.toml".to_owned(),
            text: text.to_owned(),
        };
        resolve(&[document], &[])
    }

    fn loaded(text: &str) -> LoadedConfig {
        read(text).unwrap()
    }

    #[test]
    fn the_one_listener_is_there_unless_a_keystone_is_asked_or_none_is_wanted() {
        let keystone = "[keystone_authtoken]\nauth_url = \"http://k/v3\"\nusername = \"u\"\npassword = \"p\"\n\
                        project_name = \"service\"\nuser_domain_name = \"Default\"\nproject_domain_name = \"Default\"\n\
                        [placement_service]\nauth_strategy = \"keystone\"\n";
        for (text, up, controller) in [
            (
                String::new(),
                Some("127.0.0.1:8770"),
                Some("127.0.0.1:8770"),
            ),
            (keystone.to_owned(), None, Some("127.0.0.1:8770")),
            (
                format!("[api]\nlisten = \"[::1]:80\"\n{keystone}"),
                Some("[::1]:80"),
                Some("[::1]:80"),
            ),
            ("[api]\nlisten = \"none\"\n".to_owned(), None, None),
        ] {
            let config = loaded(&text).config;
            let shown = |address: Option<std::net::SocketAddr>| address.map(|it| it.to_string());
            assert_eq!(shown(config.api_listen()).as_deref(), up, "{text}");
            assert_eq!(
                shown(config.controller_listen()).as_deref(),
                controller,
                "{text}"
            );
        }
    }

    #[test]
    fn every_address_of_the_host_is_no_endpoint() {
        let text = "[api]\nlisten = \"0.0.0.0:8770\"\n";
        let refused = read(text).unwrap_err();
        assert!(refused.to_string().contains("public_endpoint"), "{refused}");
        let named = format!("{text}public_endpoint = \"https://cloud.example.org\"\n");
        let warned = loaded(&named).warnings;
        assert!(warned[0].to_string().contains("without TLS"), "{warned:?}");
    }

    #[test]
    fn the_internal_listener_has_one_address_and_is_warned_of_without_tls() {
        let every = read("[api]\ninternal_listen = \"0.0.0.0:8771\"\n").unwrap_err();
        assert!(every.to_string().contains("management network"), "{every}");
        let one = loaded("[api]\ninternal_listen = \"192.0.2.1:8771\"\n").warnings;
        assert!(one[0].to_string().contains("without TLS"), "{one:?}");
        let loopback = loaded("[api]\ninternal_listen = \"127.0.0.1:8771\"\n");
        assert!(loopback.warnings.is_empty());
    }
}
