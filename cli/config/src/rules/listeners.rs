//! Rules for the listeners of the services: secrets do not cross the network without TLS unless the operator accepts that.

use std::net::SocketAddr;

use berth_output::ErrorCode;

use super::Judge;
use crate::listeners::ListenerSection;
use crate::sections::AuthStrategy;

impl Judge<'_> {
    pub(super) fn service_listeners(&mut self) {
        let config = self.config;
        for listener in config.service_listeners() {
            let section = listener.section;
            let key = |option: &str| format!("{section}.{option}");
            let listen = key(listener.option);
            let files = [
                ("tls_cert", listener.certificate().is_some()),
                ("tls_key", listener.key().is_some()),
            ];
            let broken = [
                listener.option,
                "tls_cert",
                "tls_key",
                "insecure_http",
                "auth_strategy",
            ];
            if broken.iter().any(|option| self.is_broken(&[&key(option)])) {
                continue;
            }
            if let [(set, true), (missing, false)] | [(missing, false), (set, true)] = files {
                self.refuse(
                    &key(set),
                    format!("{missing} is not set, and TLS needs both"),
                    format!("write {missing} in [{section}] too, or remove it"),
                    ErrorCode::Missing,
                );
                continue;
            }
            if let Some(address) = listener.address {
                self.exposure(&listener, &listen, address);
            }
        }
    }

    /// A proxy at every address of this host needs a URL for users.
    pub(super) fn console_urls(&mut self) {
        let config = self.config;
        for (listener, url, option) in [
            (
                config.novncproxy_listener(),
                config.novncproxy_base_url(),
                "novncproxy_base_url",
            ),
            (
                config.serialproxy_listener(),
                config.serial_base_url(),
                "base_url",
            ),
        ] {
            let section = listener.section;
            let key = format!("{section}.{option}");
            let is_every = listener.address.is_some_and(|it| it.ip().is_unspecified());
            if is_every && url.is_none() && !self.is_broken(&[&key]) {
                let wrong = "every address of this host is no URL that users can open";
                let right = format!("write {option} in [{section}]");
                let host = format!("{section}.{}", listener.option);
                self.refuse(&host, wrong, right, ErrorCode::Missing);
            }
        }
    }

    /// The internal listener has the TLS files of the front listener.
    pub(super) fn internal_api_exposure(&mut self) {
        let (config, key) = (self.config, "api.internal_listen");
        let broken = [key, "api.tls_cert", "api.tls_key", "api.insecure_http"];
        let address = config.api.internal_listen.address();
        if let Some(address) = address.filter(|_| !self.is_broken(&broken)) {
            self.exposure(&config.api_listener(), key, address);
        }
    }

    fn exposure(&mut self, listener: &ListenerSection<'_>, listen: &str, address: SocketAddr) {
        // A service without authentication is refused on other addresses anyway.
        let is_open = listener.auth == AuthStrategy::Noauth2;
        if listener.exposes_secrets_at(address) && !is_open {
            let (wrong, right) = listener.exposure_at(address);
            self.refuse(listen, wrong, right, ErrorCode::BadValue);
        } else if listener.accepts_http() && !listener.is_tls() && !address.ip().is_loopback() {
            self.warn(
                &format!("{}.insecure_http", listener.section),
                format!("{} are sent to {address} without TLS", listener.carries),
                "let only a proxy with TLS reach this address, or write tls_cert and tls_key",
            );
        }
    }
}
