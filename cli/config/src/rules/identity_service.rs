//! Rules for `[identity_service]` when it is reachable from other hosts.

use berth_output::ErrorCode;

use super::Judge;

impl Judge<'_> {
    /// Callers cannot use an address such as 0.0.0.0.
    pub(super) fn identity_service(&mut self) {
        let (listen, public) = (
            "identity_service.listen",
            "identity_service.public_endpoint",
        );
        if self.is_broken(&[listen, public]) {
            return;
        }
        let service = &self.config.identity_service;
        let Some(address) = service.listen.address() else {
            return;
        };
        if address.ip().is_unspecified() && service.public_endpoint.is_none() {
            self.refuse(
                listen,
                format!("{address} means every address of the host, and the service catalog needs one concrete address"),
                "write public_endpoint = \"https://cloud.example.org/identity\" in [identity_service]",
                ErrorCode::Missing,
            );
        }
    }
}
