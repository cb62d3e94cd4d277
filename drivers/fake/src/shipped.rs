//! The machines that come with Berth, for demos and tests.

/// The shipped machines: name and text. Each says in a comment which word to change for its upgrade.
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
