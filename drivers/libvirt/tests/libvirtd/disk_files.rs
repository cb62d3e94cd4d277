//! Disk files for guests, made by hand: nothing that makes them need be installed.

use std::path::Path;

const CLUSTER: usize = 1 << 16;
const MIB: u64 = 1 << 20;

/// Writes an empty qcow2 file of 1 MiB with `backing` as the backing file in its header.
pub(crate) fn qcow2(path: &Path, backing: Option<&str>) {
    let mut file = vec![0_u8; 4 * CLUSTER];
    let mut header = Vec::new();
    let name = backing.unwrap_or_default();
    let name_at = if backing.is_some() { 112_u64 } else { 0 };
    let number = |n: usize| u32::try_from(n).expect("a small number");
    for (wide, value) in [
        (false, 0x5146_49fb),
        (false, 3),
        (true, name_at),
        (false, number(name.len()).into()),
        // 64 KiB clusters.
        (false, 16),
        (true, MIB),
        (false, 0),
        // One table of clusters, in the fourth cluster; the counts' table in the second.
        (false, 1),
        (true, 3 * CLUSTER as u64),
        (true, CLUSTER as u64),
        (false, 1),
        (false, 0),
        (true, 0),
        (true, 0),
        (true, 0),
        (true, 0),
        // Counts of 16 bits; the header's length.
        (false, 4),
        (false, 104),
    ] {
        match wide {
            true => header.extend(value.to_be_bytes()),
            false => header.extend(
                u32::try_from(value)
                    .expect("a value of four bytes")
                    .to_be_bytes(),
            ),
        }
    }
    assert_eq!(header.len(), 104);
    file[..104].copy_from_slice(&header);
    file[112..112 + name.len()].copy_from_slice(name.as_bytes());
    file[CLUSTER..CLUSTER + 8].copy_from_slice(&(2 * CLUSTER as u64).to_be_bytes());
    for used in 0..4 {
        file[2 * CLUSTER + 2 * used + 1] = 1;
    }
    std::fs::write(path, file).expect("a disk file");
}

/// Writes a raw file of 1 MiB.
pub(crate) fn raw(path: &Path) {
    std::fs::write(path, vec![0; MIB as usize]).expect("a disk file");
}
