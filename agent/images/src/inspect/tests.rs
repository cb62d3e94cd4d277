//! Tests of inspections with images built byte by byte.

use std::io;

use super::*;

const CLUSTER: usize = 1 << 16;
const MIB: u64 = 1 << 20;

struct MemoryImage(Vec<u8>);

impl Bytes for MemoryImage {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let found = self.0.get(start..start + into.len());
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Version 3, 1 MiB, clusters of 64 KiB: header, refcount table, refcount block, L1, L2, one cluster of data.
fn qcow2() -> Vec<u8> {
    let mut file = vec![0; 6 * CLUSTER];
    put(&mut file, 0, b"QFI\xfb");
    put(&mut file, 4, &3_u32.to_be_bytes());
    put(&mut file, 20, &16_u32.to_be_bytes());
    put(&mut file, 24, &MIB.to_be_bytes());
    put(&mut file, 36, &1_u32.to_be_bytes());
    put(&mut file, 40, &(3 * CLUSTER as u64).to_be_bytes());
    put(&mut file, 48, &(CLUSTER as u64).to_be_bytes());
    put(&mut file, 56, &1_u32.to_be_bytes());
    put(&mut file, 96, &4_u32.to_be_bytes());
    put(&mut file, 100, &104_u32.to_be_bytes());
    let copied = 1_u64 << 63;
    put(
        &mut file,
        3 * CLUSTER,
        &(copied | (4 * CLUSTER as u64)).to_be_bytes(),
    );
    put(
        &mut file,
        4 * CLUSTER,
        &(copied | (5 * CLUSTER as u64)).to_be_bytes(),
    );
    file
}

fn refusal(file: Vec<u8>, format: DiskFormat, most: u64) -> String {
    inspect(&MemoryImage(file), format, most)
        .unwrap_err()
        .to_string()
}

#[test]
fn a_complete_image_has_a_virtual_size_and_an_allocated_size() {
    let found = inspect(&MemoryImage(qcow2()), DiskFormat::Qcow2, MIB).unwrap();
    assert_eq!((found.virtual_size, found.allocated), (MIB, CLUSTER as u64));
    let found = inspect(&MemoryImage(vec![7; 1000]), DiskFormat::Raw, MIB).unwrap();
    assert_eq!((found.virtual_size, found.allocated), (1024, 1000));
}

#[test]
fn a_raw_image_that_is_a_larger_disk_than_fits_is_refused() {
    let message = refusal(vec![7; 1025], DiskFormat::Raw, 1024);
    assert!(
        message.contains("virtual size is 1536 bytes; the maximum is 1024"),
        "{message}"
    );
}

#[test]
fn each_bad_qcow2_is_refused_with_its_reason() {
    type Change = fn(&mut Vec<u8>);
    let table: &[(&str, Change, &str)] = &[
        (
            "backing file",
            |f| put(f, 8, &600_u64.to_be_bytes()),
            "has a backing file",
        ),
        (
            "backing name without a place",
            |f| put(f, 16, &9_u32.to_be_bytes()),
            "has a backing file",
        ),
        (
            "external data file",
            |f| put(f, 72, &4_u64.to_be_bytes()),
            "has an external data file",
        ),
        (
            "a data file's name",
            |f| put(f, 104, &[0x44, 0x41, 0x54, 0x41, 0, 0, 0, 8]),
            "names an external data file",
        ),
        (
            "LUKS header",
            |f| put(f, 104, &[0x05, 0x37, 0xbe, 0x77, 0, 0, 0, 16]),
            "encrypted",
        ),
        (
            "AES",
            |f| put(f, 32, &1_u32.to_be_bytes()),
            "encrypted (method 1)",
        ),
        (
            "unknown feature",
            |f| put(f, 72, &(1_u64 << 5).to_be_bytes()),
            "features 0x20",
        ),
        (
            "all features",
            |f| put(f, 72, &(!4_u64).to_be_bytes()),
            "not supported",
        ),
        (
            "corrupt",
            |f| put(f, 72, &2_u64.to_be_bytes()),
            "marked as corrupt",
        ),
        (
            "version",
            |f| put(f, 4, &4_u32.to_be_bytes()),
            "version is 4",
        ),
        (
            "cluster_bits",
            |f| put(f, 20, &63_u32.to_be_bytes()),
            "cluster_bits is 63",
        ),
        (
            "cluster_bits",
            |f| put(f, 20, &8_u32.to_be_bytes()),
            "cluster_bits is 8",
        ),
        ("no size", |f| put(f, 24, &0_u64.to_be_bytes()), "size is 0"),
        (
            "too large",
            |f| put(f, 24, &(2 * MIB).to_be_bytes()),
            "2097152 bytes; the maximum is 1048576",
        ),
        (
            "beyond all",
            |f| put(f, 24, &u64::MAX.to_be_bytes()),
            "the maximum is 1152921504606846976",
        ),
        (
            "too few L1 entries",
            |f| put(f, 36, &0_u32.to_be_bytes()),
            "fewer entries than the disk size needs",
        ),
        (
            "too many",
            |f| put(f, 36, &u32::MAX.to_be_bytes()),
            "at most 32 MiB",
        ),
        (
            "L1 beyond the end",
            |f| put(f, 40, &(1_u64 << 40).to_be_bytes()),
            "the L1 table ends at",
        ),
        (
            "L1 at 2^64",
            |f| put(f, 40, &(u64::MAX << 16).to_be_bytes()),
            "the L1 table ends at",
        ),
        (
            "L1 askew",
            |f| put(f, 40, &9_u64.to_be_bytes()),
            "l1_table_offset is 9",
        ),
        (
            "refcounts beyond",
            |f| put(f, 48, &(1_u64 << 40).to_be_bytes()),
            "the refcount table ends",
        ),
        (
            "refcounts too many",
            |f| put(f, 56, &u32::MAX.to_be_bytes()),
            "at most 8 MiB",
        ),
        (
            "refcount_order",
            |f| put(f, 96, &7_u32.to_be_bytes()),
            "refcount_order is 7",
        ),
        (
            "header_length",
            |f| put(f, 100, &96_u32.to_be_bytes()),
            "header_length is 96",
        ),
        (
            "a header longer than its cluster",
            |f| put(f, 100, &0xffff_fff8_u32.to_be_bytes()),
            "header_length is 4294967288; expected at most the size of a cluster",
        ),
        (
            "L2 beyond",
            |f| put(f, 3 * CLUSTER, &(1_u64 << 40).to_be_bytes()),
            "an L2 table ends at",
        ),
        (
            "L2 askew",
            |f| put(f, 3 * CLUSTER, &(512_u64).to_be_bytes()),
            "an L1 entry is 512",
        ),
        (
            "cluster beyond",
            |f| put(f, 4 * CLUSTER, &(1_u64 << 40).to_be_bytes()),
            "a cluster ends at",
        ),
        (
            "compressed beyond",
            |f| put(f, 4 * CLUSTER, &((1_u64 << 62) | (1 << 40)).to_be_bytes()),
            "a compressed cluster ends",
        ),
        (
            "extension beyond",
            |f| put(f, 104, &[1, 1, 1, 1, 0xff, 0xff, 0xff, 0xf0]),
            "expected extensions within",
        ),
        (
            "compression",
            |f| {
                put(f, 72, &8_u64.to_be_bytes());
                f[104] = 2;
                put(f, 100, &112_u32.to_be_bytes());
            },
            "compression_type is 2",
        ),
        (
            "cut in the data",
            |f| f.truncate(6 * CLUSTER - 1),
            "a cluster ends at",
        ),
        (
            "cut in L2",
            |f| f.truncate(4 * CLUSTER + 8),
            "an L2 table ends at",
        ),
        (
            "cut in the header",
            |f| f.truncate(60),
            "the header ends at",
        ),
        (
            "cut after the magic",
            |f| f.truncate(4),
            "the header ends at",
        ),
        ("empty", |f| f.clear(), "it is empty"),
    ];
    for (name, change, sentence) in table {
        let mut file = qcow2();
        change(&mut file);
        let message = refusal(file, DiskFormat::Qcow2, MIB);
        assert!(message.contains(sentence), "{name}: {message}");
    }
}

#[test]
fn an_l2_table_is_read_once_however_often_the_first_table_names_it() {
    let mut file = qcow2();
    let reach = (CLUSTER as u64 / 8) * CLUSTER as u64;
    put(&mut file, 24, &(2 * reach).to_be_bytes());
    put(&mut file, 36, &2_u32.to_be_bytes());
    put(
        &mut file,
        3 * CLUSTER + 8,
        &(4 * CLUSTER as u64).to_be_bytes(),
    );
    let message = refusal(file, DiskFormat::Qcow2, LARGEST);
    assert!(
        message.contains("expected a separate L2 table for each entry"),
        "{message}"
    );
}

#[test]
fn an_image_of_another_format_is_refused_as_raw() {
    let at_start = |mark: &[u8]| {
        let mut file = vec![0; 4096];
        put(&mut file, 0, mark);
        file
    };
    let at = |offset: usize, mark: &[u8]| {
        let mut file = vec![0; 4096];
        put(&mut file, offset, mark);
        file
    };
    for (name, file) in [
        ("qcow2", qcow2()),
        ("QED", at_start(b"QED\0")),
        ("VMDK", at_start(b"KDMV\x01\0\0\0")),
        (
            "VMDK",
            at_start(b"# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0\n"),
        ),
        ("VHD", at_start(b"conectix")),
        ("VHD", at(4096 - 512, b"conectix")),
        ("VHDX", at_start(b"vhdxfile")),
        ("VDI", at(0x40, b"\x7f\x10\xda\xbe")),
        ("LUKS", at_start(b"LUKS\xba\xbe\0\x01")),
        ("Parallels", at_start(b"WithoutFreeSpace")),
        ("gzip", at_start(b"\x1f\x8b\x08\0")),
        ("xz", at_start(b"\xfd7zXZ\0")),
        ("tar", at(257, b"ustar\0")),
    ] {
        let message = refusal(file, DiskFormat::Raw, LARGEST);
        assert!(
            message.contains(name) && message.contains("not raw"),
            "{message}"
        );
    }
    let message = refusal(vec![0; 512], DiskFormat::Qcow2, LARGEST);
    assert!(message.contains("raw?"), "{message}");
}

proptest::proptest! {
    /// No content makes the inspection panic.
    #[test]
    fn no_bytes_make_the_inspection_panic(at in 0_usize..(5 * CLUSTER), bytes: [u8; 8], cut in 0_usize..(6 * CLUSTER)) {
        let mut file = qcow2();
        put(&mut file, at, &bytes);
        file.truncate(cut.max(1));
        let _ = inspect(&MemoryImage(file), DiskFormat::Qcow2, LARGEST);
    }
}
