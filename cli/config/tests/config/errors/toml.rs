//! Files that are not TOML.

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "host = " => ["berth.toml:1:8: this is not TOML: string values must be quoted, expected literal string [BERTH-E0101]"];
    "host = \"a\"\nhost = \"b\"" => ["berth.toml:2:1: this is not TOML: duplicate key [BERTH-E0101]"];
    "[compute\ncpu_shared_set = \"0\"" => ["berth.toml:1:9: this is not TOML: unclosed table, expected `]` [BERTH-E0101]"];
    "[DEFAULT]\ndebug = True\ncompute_driver = libvirt.LibvirtDriver" => ["berth.toml:2:9: this is an oslo.config (INI) file such as nova.conf, and berth reads TOML; write texts in quotes and lists in brackets; /usr/share/doc/berth/guide/howto/from-nova-compute.md lists Nova's options [BERTH-E0101]"];
    "host = 'a\nstate_path = \"/x\"" => ["berth.toml:1:10: this is not TOML: invalid literal string, expected `'` [BERTH-E0101]"];
};
