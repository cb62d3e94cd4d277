//! The machines shipped with Berth, for demos and tests.

/// Names and texts of the shipped machines. A comment in each one names the value to change for its upgrade.
#[must_use]
pub fn machines() -> [(&'static str, &'static str); 7] {
    [
        (
            "eight-gpu-flat",
            include_str!("../machines/eight-gpu-flat.toml"),
        ),
        ("pcpu", include_str!("../machines/pcpu.toml")),
        (
            "two-numa-vfs",
            include_str!("../machines/two-numa-vfs.toml"),
        ),
        (
            "renamed-class",
            include_str!("../machines/renamed-class.toml"),
        ),
        (
            "shared-storage",
            include_str!("../machines/shared-storage.toml"),
        ),
        (
            "three-node-cluster",
            include_str!("../machines/three-node-cluster.toml"),
        ),
        (
            "accelerators",
            include_str!("../machines/accelerators.toml"),
        ),
    ]
}
