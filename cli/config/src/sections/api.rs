//! `[api]`: the front listener.

use std::net::SocketAddr;
use std::path::PathBuf;

use berth_http::TrustedProxies;
use berth_options::{ListenAddress, options};

use super::services::loopback;
use super::{Config, Secret};

options! {
    /// The front listener of `berth up` and `berth controller`: identity, compute, placement and accelerator at one
    /// address.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ApiSection in "api" {
        /// Address and port where all APIs are served to callers with a token of the Identity service in this process:
        /// `/identity`, `/compute`, `/placement`, `/accelerator`, and `/image` if `[glance]` names no image service.
        /// A service has an address of its own as well if its section has `listen`. `none`: no such listener.
        pub(super) listen: ListenAddress = ListenAddress::at(loopback(8770));
        /// Address and port of a second listener, for agents and services: it serves all APIs too, and `listen` then does
        /// not serve the internal routes of agents. It has connections of its own, so that users of `listen` cannot delay agents,
        /// and the same TLS files. The catalog names it as the interface `internal`, which agents use first; set their
        /// `auth_url` to it, too. Write an address of the management network.
        pub internal_listen: ListenAddress = ListenAddress::NONE, example: "\"192.0.2.10:8771\"";
        /// The URL of the listener for callers, as in the catalog and in `clouds.yaml`.
        pub public_endpoint: Option<String> = None,
            kind: URL, derived: "the address of `listen`", example: "\"https://cloud.example.org\"";
        /// PEM file of the authority that signed `tls_cert`, for `clouds.yaml` and the commands of this host. Unset: the
        /// system's authorities.
        pub cafile: Option<PathBuf> = None, example: "\"/etc/berth/tls/ca.pem\"";
        /// Proxies in front of the services of this process: addresses and networks. Only their X-Forwarded-For and
        /// X-Forwarded-Proto are read. The client is the last address there that is none of them; logins are throttled by
        /// it.
        pub trusted_proxies: TrustedProxies = TrustedProxies::default(), example: "[\"10.0.0.0/8\"]";
    }
}

impl Config {
    /// The address of the front listener; `None`: there is none.
    #[must_use]
    pub fn api_listen(&self) -> Option<SocketAddr> {
        self.api.listen.address()
    }

    /// The configuration with another address for the one listener.
    #[must_use]
    pub fn with_api_listen(mut self, address: SocketAddr) -> Self {
        self.api.listen = ListenAddress::at(address);
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
    fn the_front_listener_is_there_unless_none_is_wanted() {
        let keystone = "[keystone_authtoken]\nauth_url = \"http://k/v3\"\nusername = \"u\"\npassword = \"p\"\n\
                        project_name = \"service\"\nuser_domain_name = \"Default\"\nproject_domain_name = \"Default\"\n\
                        [placement_service]\nauth_strategy = \"keystone\"\n";
        for (text, listen) in [
            (String::new(), Some("127.0.0.1:8770")),
            (keystone.to_owned(), Some("127.0.0.1:8770")),
            (
                format!("[api]\nlisten = \"[::1]:80\"\n{keystone}"),
                Some("[::1]:80"),
            ),
            ("[api]\nlisten = \"none\"\n".to_owned(), None),
        ] {
            let address = loaded(&text).config.api_listen();
            let address = address.map(|it| it.to_string());
            assert_eq!(address.as_deref(), listen, "{text}");
        }
    }

    #[test]
    fn every_address_of_the_host_is_no_endpoint() {
        let text = "[api]\nlisten = \"0.0.0.0:8770\"\n";
        let refused = read(text).unwrap_err();
        assert!(refused.to_string().contains("public_endpoint"), "{refused}");
        let named = format!("{text}public_endpoint = \"https://cloud.example.org\"\n");
        let refused = read(&named).unwrap_err();
        assert!(refused.to_string().contains("without TLS"), "{refused}");
        let warned = loaded(&format!("{named}insecure_http = true\n")).warnings;
        assert!(warned[0].to_string().contains("without TLS"), "{warned:?}");
    }

    #[test]
    fn the_internal_listener_has_one_address_and_needs_tls_as_the_other_one() {
        let every = read("[api]\ninternal_listen = \"0.0.0.0:8771\"\n").unwrap_err();
        assert!(every.to_string().contains("management network"), "{every}");
        let text = "[api]\ninternal_listen = \"192.0.2.1:8771\"\n";
        let plain = read(text).unwrap_err();
        assert!(plain.to_string().contains("without TLS"), "{plain}");
        let warned = loaded(&format!("{text}insecure_http = true\n")).warnings;
        assert!(warned[0].to_string().contains("without TLS"), "{warned:?}");
        let encrypted = format!("{text}tls_cert = \"/c.pem\"\ntls_key = \"/k.pem\"\n");
        assert!(read(&encrypted).is_ok());
        let loopback = loaded("[api]\ninternal_listen = \"127.0.0.1:8771\"\n");
        assert!(loopback.warnings.is_empty());
    }
}
