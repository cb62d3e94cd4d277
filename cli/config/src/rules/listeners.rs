//! Rules for the listeners of the services: secrets do not cross the network without TLS unless the operator accepts that.

use berth_output::ErrorCode;

use super::Judge;
use crate::sections::AuthStrategy;

impl Judge<'_> {
    pub(super) fn service_listeners(&mut self) {
        let config = self.config;
        for listener in config.service_listeners() {
            let section = listener.section;
            let key = |option: &str| format!("{section}.{option}");
            let (listen, insecure) = (key("listen"), key("insecure_http"));
            let files = [
                ("tls_cert", listener.certificate.is_some()),
                ("tls_key", listener.key.is_some()),
            ];
            let broken = [
                "listen",
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
            let Some(address) = listener.address.filter(|it| !it.ip().is_loopback()) else {
                continue;
            };
            // A service without authentication is refused there anyway.
            let believes = listener.auth == AuthStrategy::Noauth2;
            if listener.exposes_secrets_at(address) && !believes {
                let (wrong, right) = listener.exposure_at(address);
                self.refuse(&listen, wrong, right, ErrorCode::BadValue);
            } else if listener.insecure_http && !listener.is_tls() {
                self.warn(
                    &insecure,
                    format!("{} are sent to {address} without TLS", listener.carries),
                    "let only a proxy with TLS reach this address, or write tls_cert and tls_key",
                );
            }
        }
    }
}
