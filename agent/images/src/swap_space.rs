//! The header of a Linux swap space (`mkswap`). Pure.

use uuid::Uuid;

/// A page of x86_64. A kernel with other pages does not recognise the header.
const PAGE: u64 = 4096;
/// The end of the first page has this text.
const MAGIC: &[u8; 10] = b"SWAPSPACE2";
/// The start of the header: a boot sector precedes it.
const START: usize = 1024;

/// The first page of a swap space of this size in bytes: version 1, without bad pages.
pub(super) fn header(size: u64, uuid: Uuid) -> Vec<u8> {
    let mut page = vec![0; PAGE as usize];
    let last_page = u32::try_from(size / PAGE)
        .unwrap_or(u32::MAX)
        .saturating_sub(1);
    let fields = [1_u32.to_le_bytes(), last_page.to_le_bytes(), [0; 4]];
    page[START..START + 12].copy_from_slice(fields.as_flattened());
    page[START + 12..START + 28].copy_from_slice(uuid.as_bytes());
    let magic = page.len() - MAGIC.len();
    page[magic..].copy_from_slice(MAGIC);
    page
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn util_linux_recognises_the_swap_space() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("swap");
        let uuid = Uuid::from_u128(0x1111_2222_3333_4444_5555_6666_7777_8888);
        let size = 64 << 20;
        std::fs::write(&file, header(size, uuid)).unwrap();
        std::fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(size)
            .unwrap();
        let found = Command::new("swaplabel").arg(&file).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        assert!(
            found.contains("11112222-3333-4444-5555-666677778888"),
            "{found}"
        );
        let probed = Command::new("blkid")
            .args(["-p", "-o", "export"])
            .arg(&file)
            .output()
            .unwrap();
        let probed = String::from_utf8(probed.stdout).unwrap();
        assert!(
            probed.contains("TYPE=swap") && probed.contains("VERSION=1"),
            "{probed}"
        );
    }
}
