//! `[placement_service]`: the built-in Placement.

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "[placement_service]\nconnection = \"oracle://u:hunter2@h/d\"" => ["berth.toml:2:14: placement_service.connection: this is no database URL; write sqlite:PATH with an absolute path [BERTH-E0105]"];
    "[placement_service]\nlisten = \"8778\"" => ["berth.toml:2:10: placement_service.listen: \"8778\" is no address and port; write a loopback address and port such as \"127.0.0.1:9177\" [BERTH-E0105]"];
    "[placement_service]\nlisten = \"0.0.0.0:8778\"" => ["berth.toml:2:10: placement_service.listen: 0.0.0.0:8778 is not on the loopback interface; write a loopback address and port such as \"127.0.0.1:9177\" [BERTH-E0105]"];
    "[placement_service]\nconnection = \"sqlite:/x?key=1\"" => ["berth.toml:2:14: placement_service.connection: this is no database URL; write sqlite:PATH with an absolute path [BERTH-E0105]"];
};
