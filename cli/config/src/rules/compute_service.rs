//! `[compute_service]`: the compute API built in.

use berth_output::ErrorCode;

use super::Judge;

impl Judge<'_> {
    pub(super) fn compute_service(&mut self) {
        let key = "compute_service.auto_network";
        let service = &self.config.compute_service;
        let Some(text) = &service.auto_network else {
            return;
        };
        if !self.is_broken(&[key]) && service.auto_network().is_none() {
            self.refuse(
                key,
                format!("{text:?} names neither a network nor a bridge"),
                "write \"network:NAME\" of a libvirt network, or \"bridge:NAME\" of a Linux bridge",
                ErrorCode::BadValue,
            );
        }
    }
}
