//! `[placement_service]`: the built-in Placement.

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "[placement_service]\nconnection = \"oracle://u:hunter2@h/d\"" => ["berth.toml:2:14: placement_service.connection: this is not a database URL; write sqlite:PATH with an absolute path, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, or file:PATH of a file with that in it [BERTH-E0105]"];
    "[placement_service]\nlisten = \"8778\"" => ["berth.toml:2:10: placement_service.listen: \"8778\" is not an address and port; write address and port such as \"127.0.0.1:8778\" or \"[::1]:8778\", or \"none\" [BERTH-E0105]"];
    "[placement_service]\nlisten = \"0.0.0.0:8778\"" => ["berth.toml:2:10: placement_service.listen: 0.0.0.0:8778 is not on the loopback interface, and callers are not authenticated (noauth2); write 127.0.0.1 or [::1], or auth_strategy = \"keystone\" in [placement_service] [BERTH-E0105]"];
    "[placement_service]\nconnection = \"sqlite:/x?key=1\"" => ["berth.toml:2:14: placement_service.connection: this is not a database URL; write sqlite:PATH with an absolute path, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, or file:PATH of a file with that in it [BERTH-E0105]"];
    "[placement_service]\nconnection = \"mysql://u:hunter2@h/d?charset\"" => ["berth.toml:2:14: placement_service.connection: the option \"charset\" of the database URL must be utf8mb4, utf8mb3 or utf8; write sqlite:PATH with an absolute path, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, or file:PATH of a file with that in it [BERTH-E0105]"];
    "[placement_service]\nauth_strategy = \"noauth\"" => ["berth.toml:2:17: placement_service.auth_strategy: \"noauth\" is not one of the words accepted; did you mean \"noauth2\"? write one of noauth2, keystone [BERTH-E0105]"];
    "[placement_service]\npolicy_file = \"policy.yaml\"" => ["berth.toml:2:15: placement_service.policy_file: \"policy.yaml\" is not absolute; write a path that begins with / [BERTH-E0105]"];
    "[placement_service]\nenforce_new_defaults = 1" => ["berth.toml:2:24: placement_service.enforce_new_defaults: true or false is wanted, not the number 1; write true or false, without quotes [BERTH-E0104]"];
    "[placement_service]\npath_prefix = \"placement/\"" => ["berth.toml:2:15: placement_service.path_prefix: \"placement/\" cannot stand before paths: a path begins with /, ends without, and has letters, digits, -, ., _ and ~ between; write a path such as \"/placement\" [BERTH-E0105]"];
    "[placement_service]\nallocation_candidates_from = \"memory\"" => ["berth.toml:2:30: placement_service.allocation_candidates_from: \"memory\" is not one of the words accepted; write one of auto, snapshot, sql [BERTH-E0105]"];
    "[placement_service]\nconnection = \"postgresql://u:hunter2@h/d\"\nallocation_candidates_from = \"snapshot\"" => ["berth.toml:3:30: placement_service.allocation_candidates_from: \"snapshot\" is for SQLite: a database on a server may have other writers, whose changes the snapshot would miss; write \"auto\" or \"sql\" [BERTH-E0105]"];
    "[cors]\nallowed_origin = [\"https://a.example.org/\"]" => ["berth.toml:2:19: cors.allowed_origin: \"https://a.example.org/\" has a path, and an origin has none; write origins such as [\"https://dashboard.example.org\"], or [\"*\"] [BERTH-E0105]"];
    "[cors]\nallow_methods = [\"GETS\"]" => ["berth.toml:2:18: cors.allow_methods: \"GETS\" is not one of the words accepted; did you mean \"GET\"? write a list of: GET, PUT, POST, DELETE, PATCH, HEAD, OPTIONS [BERTH-E0105]"];
};
