//! The fake virt driver: a machine described by one TOML file.
