//! The TCP listeners of the built-in services: where they listen, and with which files.

use std::net::SocketAddr;
use std::path::Path;

use crate::sections::{AuthStrategy, Config};

/// The TCP listener of a built-in service, as its section configures it.
#[derive(Debug, Clone, Copy)]
pub struct ListenerSection<'a> {
    /// The name of the section.
    pub section: &'static str,
    /// The configured address; `None` without one.
    pub address: Option<SocketAddr>,
    /// What others see on the way without TLS.
    pub carries: &'static str,
    /// How its callers are authenticated.
    pub auth: AuthStrategy,
    /// `tls_cert`.
    pub certificate: Option<&'a Path>,
    /// `tls_key`.
    pub key: Option<&'a Path>,
    pub insecure_http: bool,
}

impl ListenerSection<'_> {
    /// Whether it speaks HTTPS. A check has made sure that both files are set, or none.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.certificate.is_some() && self.key.is_some()
    }

    /// Whether other hosts could read what crosses the network at this address, and the operator has not accepted that.
    #[must_use]
    pub fn exposes_secrets_at(&self, address: SocketAddr) -> bool {
        !address.ip().is_loopback() && !self.is_tls() && !self.insecure_http
    }

    /// Why the address is refused, and the ways out.
    #[must_use]
    pub fn exposure_at(&self, address: SocketAddr) -> (String, String) {
        let Self {
            section, carries, ..
        } = self;
        (
            format!(
                "{address} is not on the loopback interface, and {carries} would cross the network without TLS"
            ),
            format!(
                "write tls_cert and tls_key in [{section}] (berth tls init makes them), or insecure_http = true to accept that"
            ),
        )
    }

    /// The URL of the listener at this address, without a path.
    #[must_use]
    pub fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.is_tls() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }
}

macro_rules! listener {
    ($config:ident . $section:ident, $address:expr, $auth:expr, $carries:literal) => {
        ListenerSection {
            section: stringify!($section),
            address: $address,
            carries: $carries,
            auth: $auth,
            certificate: $config.$section.tls_cert.as_deref(),
            key: $config.$section.tls_key.as_deref(),
            insecure_http: $config.$section.insecure_http,
        }
    };
}

impl Config {
    /// The front listener. All its callers need a token of the Identity service behind it.
    #[must_use]
    pub fn api_listener(&self) -> ListenerSection<'_> {
        let (address, auth) = (self.api_listen(), AuthStrategy::Keystone);
        listener!(self.api, address, auth, "passwords and tokens")
    }

    #[must_use]
    pub fn identity_listener(&self) -> ListenerSection<'_> {
        let (address, auth) = (
            self.identity_service.listen.address(),
            AuthStrategy::Keystone,
        );
        listener!(self.identity_service, address, auth, "passwords")
    }

    #[must_use]
    pub fn placement_listener(&self) -> ListenerSection<'_> {
        let service = &self.placement_service;
        let (address, auth) = (
            service.own_listen(),
            service.auth_strategy.unwrap_or_default(),
        );
        listener!(self.placement_service, address, auth, "tokens")
    }

    #[must_use]
    pub fn accelerator_listener(&self) -> ListenerSection<'_> {
        let service = &self.accelerator_service;
        let (address, auth) = (
            service.own_listen(),
            service.auth_strategy.unwrap_or_default(),
        );
        listener!(self.accelerator_service, address, auth, "tokens")
    }

    #[must_use]
    pub fn compute_listener(&self) -> ListenerSection<'_> {
        let service = &self.compute_service;
        let (address, auth) = (
            service.listen.address(),
            service.auth_strategy.unwrap_or_default(),
        );
        listener!(self.compute_service, address, auth, "tokens and user data")
    }

    /// The listener of a section; `None` if the section has no TLS of its own.
    #[must_use]
    pub fn listener_section(&self, section: &str) -> Option<ListenerSection<'_>> {
        let all = self.service_listeners().into_iter();
        all.clone().find(|listener| listener.section == section)
    }

    /// All of them.
    #[must_use]
    pub fn service_listeners(&self) -> [ListenerSection<'_>; 5] {
        [
            self.api_listener(),
            self.identity_listener(),
            self.placement_listener(),
            self.accelerator_listener(),
            self.compute_listener(),
        ]
    }
}
