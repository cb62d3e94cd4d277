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
}
