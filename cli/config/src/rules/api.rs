//! Rules for `[api]` when the front listener is reachable from other hosts.

use berth_output::ErrorCode;

use super::Judge;

impl Judge<'_> {
    /// Callers cannot use an address such as 0.0.0.0.
    pub(super) fn api(&mut self) {
        let (listen, public) = ("api.listen", "api.public_endpoint");
        let Some(address) = self.config.api_listen() else {
            return;
        };
        if self.is_broken(&[listen, public]) {
            return;
        }
        if address.ip().is_unspecified() && self.config.api.public_endpoint.is_none() {
            self.refuse(
                listen,
                format!("{address} is every address of the host, so the catalog cannot name one for callers"),
                "write public_endpoint = \"https://cloud.example.org\" in [api]",
                ErrorCode::Missing,
            );
        } else if !address.ip().is_loopback() {
            self.warn(
                listen,
                format!("passwords are sent to {address} without TLS"),
                "write 127.0.0.1 or [::1], and put a proxy with TLS before it",
            );
        }
    }

    /// The catalog names the internal listener by its address.
    pub(super) fn internal_api(&mut self) {
        let key = "api.internal_listen";
        let Some(address) = self.config.api.internal_listen else {
            return;
        };
        if self.is_broken(&[key]) {
            return;
        }
        if address.ip().is_unspecified() {
            self.refuse(
                key,
                format!("{address} is every address of the host, so the catalog cannot name one for agents"),
                "write the host's address on the management network",
                ErrorCode::BadValue,
            );
        } else if !address.ip().is_loopback() {
            self.warn(
                key,
                format!("passwords are sent to {address} without TLS"),
                "write an address of a network that only agents and services use",
            );
        }
    }
}
