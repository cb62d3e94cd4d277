//! What the built-in Placement needs before it may be heard outside its host.

use super::Judge;
use crate::config::sections::AuthStrategy;
use crate::failure::ErrorCode;

impl Judge<'_> {
    /// A service that believes its callers is for this host alone.
    pub(super) fn placement_service(&mut self) {
        let (listen, strategy) = (
            "placement_service.listen",
            "placement_service.auth_strategy",
        );
        if self.is_broken(&[listen, strategy]) {
            return;
        }
        let service = &self.config.placement_service;
        let address = service.listen;
        if service.auth_strategy == AuthStrategy::Noauth2 && !address.ip().is_loopback() {
            self.refuse(
                listen,
                format!(
                    "{address} is not on the loopback interface, and callers are believed (noauth2)"
                ),
                "write 127.0.0.1 or [::1], or auth_strategy = \"keystone\" in [placement_service]",
                ErrorCode::BadValue,
            );
        }
    }
}
