//! Validates the header and tables of a qcow2 file (QEMU's `docs/interop/qcow2`).
//!
//! Each table is read once, one cluster at a time. So a malicious header cannot cause more memory use than two clusters and the L1
//! table (at most 32 MiB), or more reads than the file has bytes.

use std::collections::HashSet;

use crate::inspect::image_file::{Bytes, ImageFlaw, InspectedImage, LARGEST};

const DIRTY: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const DATA_FILE: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;
/// Header extensions: an external data file's name, and the pointer to a LUKS header.
const DATA_FILE_NAME: u32 = 0x4441_5441;
const ENCRYPTION: u32 = 0x0537_be77;
/// QEMU's limit in bytes.
const MOST_L1: u64 = 32 << 20;
const MOST_REFCOUNT_TABLE: u64 = 8 << 20;
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;

struct Header {
    cluster_bits: u32,
    size: u64,
    l1_entries: u64,
    l1_offset: u64,
    extended_l2: bool,
}

impl Header {
    fn cluster(&self) -> u64 {
        1 << self.cluster_bits
    }

    fn l2_entry(&self) -> u64 {
        if self.extended_l2 { 16 } else { 8 }
    }

    /// The bytes of the disk that one L2 table covers; `None` on overflow.
    fn l2_reach(&self) -> u64 {
        (self.cluster() / self.l2_entry()).saturating_mul(self.cluster())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4]
        .iter()
        .fold(0, |n, b| n << 8 | u32::from(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8]
        .iter()
        .fold(0, |n, b| n << 8 | u64::from(*b))
}

pub(super) fn read(image: &impl Bytes) -> Result<InspectedImage, ImageFlaw> {
    let header = header(image)?;
    let allocated = clusters(image, &header)?;
    Ok(InspectedImage {
        virtual_size: header.size,
        allocated,
    })
}

/// The backing file of one of our own qcow2 disks; `None` for any other file.
pub(crate) fn backing_name(image: &impl Bytes) -> Option<String> {
    let mut head = [0; 24];
    image.read_at(0, &mut head).ok()?;
    let (offset, length) = (u64_at(&head, 8), u32_at(&head, 16));
    // QEMU's limit is 1023 bytes.
    if &head[..4] != b"QFI\xfb" || offset == 0 || !(1..=1023).contains(&length) {
        return None;
    }
    let mut name = vec![0; usize::try_from(length).ok()?];
    image.read_at(offset, &mut name).ok()?;
    String::from_utf8(name).ok()
}

fn whole(image: &impl Bytes, what: &'static str, start: u64, length: u64) -> Result<(), ImageFlaw> {
    let (end, len) = (start.saturating_add(length), image.len());
    match end <= len {
        true => Ok(()),
        false => Err(ImageFlaw::CutOff { what, end, len }),
    }
}

fn sane(
    holds: bool,
    field: &'static str,
    found: u64,
    expected: &'static str,
) -> Result<(), ImageFlaw> {
    match holds {
        true => Ok(()),
        false => Err(ImageFlaw::Header {
            field,
            found,
            expected,
        }),
    }
}

fn header(image: &impl Bytes) -> Result<Header, ImageFlaw> {
    let mut head = [0; 112];
    whole(image, "the header", 0, 72)?;
    image.read_at(0, &mut head[..72])?;
    let version = u32_at(&head, 4);
    sane(
        matches!(version, 2 | 3),
        "version",
        version.into(),
        "expected 2 or 3",
    )?;
    let (mut features, mut length) = (0, 72);
    if version == 3 {
        whole(image, "the header", 0, 104)?;
        image.read_at(72, &mut head[72..104])?;
        features = u64_at(&head, 72);
        length = u32_at(&head, 100);
        sane(
            length >= 104 && length.is_multiple_of(8),
            "header_length",
            length.into(),
            "expected a multiple of 8 of at least 104",
        )?;
        let refcount_order = u32_at(&head, 96);
        sane(
            refcount_order <= 6,
            "refcount_order",
            refcount_order.into(),
            "expected 0 to 6",
        )?;
    }
    if u64_at(&head, 8) != 0 || u32_at(&head, 16) != 0 {
        return Err(ImageFlaw::Leans {
            what: "has a backing file",
        });
    }
    if features & DATA_FILE != 0 {
        return Err(ImageFlaw::Leans {
            what: "has an external data file",
        });
    }
    let method = u32_at(&head, 32);
    if method != 0 {
        return Err(ImageFlaw::Encrypted { method });
    }
    let unknown = features & !(DIRTY | CORRUPT | DATA_FILE | COMPRESSION | EXTENDED_L2);
    if unknown != 0 {
        return Err(ImageFlaw::Features { bits: unknown });
    }
    sane(
        features & CORRUPT == 0,
        "incompatible_features",
        features,
        "it is marked as corrupt; qemu-img check -r all may repair it",
    )?;
    let cluster_bits = u32_at(&head, 20);
    sane(
        (9..=21).contains(&cluster_bits),
        "cluster_bits",
        cluster_bits.into(),
        "expected 9 to 21",
    )?;
    sane(
        u64::from(length) <= 1 << cluster_bits,
        "header_length",
        length.into(),
        "expected at most the size of a cluster",
    )?;
    let header = Header {
        cluster_bits,
        size: u64_at(&head, 24),
        l1_entries: u32_at(&head, 36).into(),
        l1_offset: u64_at(&head, 40),
        extended_l2: features & EXTENDED_L2 != 0,
    };
    if features & COMPRESSION != 0 {
        whole(image, "the header", 0, 105)?;
        image.read_at(104, &mut head[104..105])?;
        sane(
            head[104] <= 1,
            "compression_type",
            head[104].into(),
            "expected 0 (zlib) or 1 (zstd)",
        )?;
    }
    sane(
        !header.extended_l2 || header.cluster_bits >= 14,
        "cluster_bits",
        cluster_bits.into(),
        "expected at least 14 with extended L2 entries",
    )?;
    sane(header.size > 0, "size", 0, "expected more than 0 bytes")?;
    if header.size > LARGEST {
        return Err(ImageFlaw::TooLarge {
            size: header.size,
            most: LARGEST,
        });
    }
    tables(image, &header, &head)?;
    extensions(image, length.into(), header.cluster())?;
    Ok(header)
}

/// Checks that the tables in the header are within the file.
fn tables(image: &impl Bytes, header: &Header, head: &[u8]) -> Result<(), ImageFlaw> {
    let cluster = header.cluster();
    let needed = header.size.div_ceil(header.l2_reach());
    sane(
        header.l1_entries >= needed,
        "l1_size",
        header.l1_entries,
        "it has fewer entries than the disk size needs",
    )?;
    sane(
        header.l1_entries * 8 <= MOST_L1,
        "l1_size",
        header.l1_entries,
        "expected a table of at most 32 MiB",
    )?;
    sane(
        header.l1_offset.is_multiple_of(cluster) && header.l1_offset != 0,
        "l1_table_offset",
        header.l1_offset,
        "expected the start of a cluster",
    )?;
    whole(
        image,
        "the L1 table",
        header.l1_offset,
        header.l1_entries * 8,
    )?;
    let (offset, clusters) = (u64_at(head, 48), u64::from(u32_at(head, 56)));
    let length = clusters.saturating_mul(cluster);
    sane(
        offset.is_multiple_of(cluster) && offset != 0,
        "refcount_table_offset",
        offset,
        "expected the start of a cluster",
    )?;
    sane(
        clusters > 0 && length <= MOST_REFCOUNT_TABLE.max(cluster),
        "refcount_table_clusters",
        clusters,
        "expected a table of at most 8 MiB",
    )?;
    whole(image, "the refcount table", offset, length)
}

/// Checks the header extensions, which are all in the first cluster.
fn extensions(image: &impl Bytes, start: u64, cluster: u64) -> Result<(), ImageFlaw> {
    let end = cluster.min(image.len());
    let mut at = start;
    while at + 8 <= end {
        let mut head = [0; 8];
        image.read_at(at, &mut head)?;
        let (kind, length) = (u32_at(&head, 0), u64::from(u32_at(&head, 4)));
        match kind {
            0 => return Ok(()),
            DATA_FILE_NAME => {
                return Err(ImageFlaw::Leans {
                    what: "names an external data file",
                });
            }
            ENCRYPTION => return Err(ImageFlaw::Encrypted { method: 2 }),
            _ => {}
        }
        at += 8 + length.next_multiple_of(8);
        sane(
            at <= cluster,
            "a header extension's length",
            length,
            "expected extensions within the first cluster",
        )?;
    }
    Ok(())
}

/// The allocated bytes of the disk. Checks that all clusters are within the file.
fn clusters(image: &impl Bytes, header: &Header) -> Result<u64, ImageFlaw> {
    let cluster = header.cluster();
    let entries = header.size.div_ceil(header.l2_reach());
    let mut l1 = vec![0; usize::try_from(entries * 8).unwrap_or(usize::MAX)];
    image.read_at(header.l1_offset, &mut l1)?;
    let mut seen = HashSet::new();
    let mut table = vec![0; usize::try_from(cluster).unwrap_or(usize::MAX)];
    let mut allocated = 0_u64;
    for (number, entry) in l1.chunks_exact(8).enumerate() {
        let offset = u64_at(entry, 0) & OFFSET;
        if offset == 0 {
            continue;
        }
        sane(
            offset.is_multiple_of(cluster),
            "an L1 entry",
            offset,
            "expected the start of a cluster",
        )?;
        sane(
            seen.insert(offset),
            "an L1 entry",
            offset,
            "expected a separate L2 table for each entry",
        )?;
        whole(image, "an L2 table", offset, cluster)?;
        image.read_at(offset, &mut table)?;
        let start = number as u64 * header.l2_reach();
        let step = usize::from(header.extended_l2) * 8 + 8;
        for (place, entry) in table.chunks_exact(step).enumerate() {
            let at = start.saturating_add(place as u64 * cluster);
            if at >= header.size {
                break;
            }
            let used = cluster.min(header.size - at);
            if placed(image, header, u64_at(entry, 0), used)? {
                allocated += used;
            }
        }
    }
    Ok(allocated)
}

/// Whether a cluster is allocated. Checks that it is within the file.
fn placed(image: &impl Bytes, header: &Header, entry: u64, used: u64) -> Result<bool, ImageFlaw> {
    if entry >> 62 & 1 == 1 {
        let bits = 62 - (header.cluster_bits - 8);
        let offset = entry & ((1 << bits) - 1);
        let sectors = (entry & ((1 << 62) - 1)) >> bits;
        let end = (offset & !511) + (sectors + 1) * 512;
        let padded = image.len().next_multiple_of(512);
        return match offset < image.len() && end <= padded {
            true => Ok(true),
            false => Err(ImageFlaw::CutOff {
                what: "a compressed cluster",
                end,
                len: image.len(),
            }),
        };
    }
    let offset = entry & OFFSET;
    // A zero cluster may be allocated, too.
    if offset == 0 || (entry & 1 == 1 && !header.extended_l2) {
        return Ok(false);
    }
    sane(
        offset.is_multiple_of(header.cluster()),
        "an L2 entry",
        offset,
        "expected the start of a cluster",
    )?;
    whole(image, "a cluster", offset, used)?;
    Ok(true)
}
