//! The TCP listeners of the built-in services: where they listen, and with which files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use berth_options::options;

use crate::sections::{AuthStrategy, Config, ConsoleDefault};

options! {
    /// TLS of a service's listener.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct ListenerTls in "api" {
        /// PEM file with the certificate of this section's listener, followed by its intermediate certificates: it then speaks
        /// HTTPS. Both files are read again at each SIGHUP.
        tls_cert: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/tls/controller.pem\"";
        /// PEM file with the key of `tls_cert`, without a password.
        tls_key: Option<PathBuf> = None, kind: SECRET_FILE, example: "\"/etc/berth/tls/controller.key\"";
        /// Whether the listener may use plain HTTP on an address that is not loopback. Then tokens, passwords and user data cross the
        /// network in clear text.
        insecure_http: bool = false;
    }
}

/// The sections with these options.
pub(super) const TLS_SECTIONS: [&str; 7] = [
    "api",
    "placement_service",
    "accelerator_service",
    "compute_service",
    "identity_service",
    "vnc",
    "serial_console",
];

/// The TCP listener of a built-in service, as its section configures it.
#[derive(Debug, Clone, Copy)]
pub struct ListenerSection<'a> {
    /// The name of the section.
    pub section: &'static str,
    /// The option with the address.
    pub option: &'static str,
    /// The configured address; `None` without one.
    pub address: Option<SocketAddr>,
    /// What others see on the way without TLS.
    pub carries: &'static str,
    /// How its callers are authenticated.
    pub auth: AuthStrategy,
    /// `None`: its TLS options have their defaults.
    tls: Option<&'a ListenerTls>,
}

impl<'a> ListenerSection<'a> {
    /// `tls_cert`.
    #[must_use]
    pub fn certificate(&self) -> Option<&'a Path> {
        self.tls?.tls_cert.as_deref()
    }

    /// `tls_key`.
    #[must_use]
    pub fn key(&self) -> Option<&'a Path> {
        self.tls?.tls_key.as_deref()
    }

    /// `insecure_http`.
    #[must_use]
    pub fn accepts_http(&self) -> bool {
        self.tls.is_some_and(|tls| tls.insecure_http)
    }

    /// Whether it speaks HTTPS. A check has made sure that both files are set, or none.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.certificate().is_some() && self.key().is_some()
    }

    /// Whether other hosts could read what crosses the network at this address, and the operator has not accepted that.
    #[must_use]
    pub fn exposes_secrets_at(&self, address: SocketAddr) -> bool {
        !address.ip().is_loopback() && !self.is_tls() && !self.accepts_http()
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

impl Config {
    fn listener(
        &self,
        section: &'static str,
        carries: &'static str,
        address: Option<SocketAddr>,
        auth: AuthStrategy,
    ) -> ListenerSection<'_> {
        ListenerSection {
            section,
            option: "listen",
            address,
            carries,
            auth,
            tls: self.listener_tls.get(section),
        }
    }

    /// The front listener. All its callers need a token of the Identity service behind it.
    #[must_use]
    pub fn api_listener(&self) -> ListenerSection<'_> {
        let (address, auth) = (self.api_listen(), AuthStrategy::Keystone);
        self.listener("api", "passwords and tokens", address, auth)
    }

    #[must_use]
    pub fn identity_listener(&self) -> ListenerSection<'_> {
        let address = self.identity_service.listen.address();
        let auth = AuthStrategy::Keystone;
        self.listener("identity_service", "passwords", address, auth)
    }

    #[must_use]
    pub fn placement_listener(&self) -> ListenerSection<'_> {
        let service = &self.placement_service;
        let (address, auth) = (service.own_listen(), service.auth_strategy);
        let auth = auth.unwrap_or_default();
        self.listener("placement_service", "tokens", address, auth)
    }

    #[must_use]
    pub fn accelerator_listener(&self) -> ListenerSection<'_> {
        let service = &self.accelerator_service;
        let (address, auth) = (service.own_listen(), service.auth_strategy);
        let auth = auth.unwrap_or_default();
        self.listener("accelerator_service", "tokens", address, auth)
    }

    #[must_use]
    pub fn compute_listener(&self) -> ListenerSection<'_> {
        let service = &self.compute_service;
        let (address, auth) = (service.listen.address(), service.auth_strategy);
        let auth = auth.unwrap_or_default();
        self.listener("compute_service", "tokens and user data", address, auth)
    }

    /// The proxy of VNC consoles. Each connection needs a token of the compute API.
    #[must_use]
    pub fn novncproxy_listener(&self) -> ListenerSection<'_> {
        let address = self.novncproxy(ConsoleDefault::None);
        let address = address.map(|it| it.address);
        ListenerSection {
            option: "novncproxy_host",
            ..self.listener("vnc", "screens and keys", address, AuthStrategy::Keystone)
        }
    }

    /// The proxy of serial consoles.
    #[must_use]
    pub fn serialproxy_listener(&self) -> ListenerSection<'_> {
        let address = self.serialproxy(ConsoleDefault::None);
        let address = address.map(|it| it.address);
        let carries = "consoles and keys";
        ListenerSection {
            option: "serialproxy_host",
            ..self.listener("serial_console", carries, address, AuthStrategy::Keystone)
        }
    }

    /// The listener of a section; `None` if the section has no TLS of its own.
    #[must_use]
    pub fn listener_section(&self, section: &str) -> Option<ListenerSection<'_>> {
        let all = self.service_listeners().into_iter();
        all.clone().find(|listener| listener.section == section)
    }

    /// All of them.
    #[must_use]
    pub fn service_listeners(&self) -> [ListenerSection<'_>; 7] {
        [
            self.api_listener(),
            self.identity_listener(),
            self.placement_listener(),
            self.accelerator_listener(),
            self.compute_listener(),
            self.novncproxy_listener(),
            self.serialproxy_listener(),
        ]
    }
}
