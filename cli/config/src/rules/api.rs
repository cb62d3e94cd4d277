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
                format!("{address} means every address of the host, and the service catalog needs one concrete address"),
                "write public_endpoint = \"https://cloud.example.org\" in [api]",
                ErrorCode::Missing,
            );
        }
    }

    /// The catalog names the internal listener by its address.
    pub(super) fn internal_api(&mut self) {
        let key = "api.internal_listen";
        let Some(address) = self.config.api.internal_listen.address() else {
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
        }
    }
}
