//! `[compute_service]`: the compute API built in.

use super::{Case, cases};

pub(super) const CASES: &[Case] = cases! {
    "[compute_service]\nauto_network = \"default\"" => ["berth.toml:2:16: compute_service.auto_network: \"default\" names neither a network nor a bridge; write \"network:NAME\" of a libvirt network, or \"bridge:NAME\" of a Linux bridge [BERTH-E0105]"];
    "[compute_service]\nauto_network = \"bridge:\"" => ["berth.toml:2:16: compute_service.auto_network: \"bridge:\" names neither a network nor a bridge; write \"network:NAME\" of a libvirt network, or \"bridge:NAME\" of a Linux bridge [BERTH-E0105]"];
    "[compute_service]\nimages_file = \"images.toml\"" => ["berth.toml:2:15: compute_service.images_file: \"images.toml\" is not absolute; write a path that begins with / [BERTH-E0105]"];
};
