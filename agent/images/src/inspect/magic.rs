//! Detects file formats by their magic bytes ([`detect`]).

use std::io;

use crate::inspect::image_file::Bytes;

/// The name of the qcow2 format.
pub(super) const QCOW2: &str = "qcow2";

/// An offset from the start or the end of the file.
enum At {
    Start(u64),
    End(u64),
}

/// The format, the position of its magic bytes, and the bytes.
const MARKS: &[(&str, At, &[u8])] = &[
    (QCOW2, At::Start(0), b"QFI\xfb"),
    ("QED", At::Start(0), b"QED\0"),
    ("VMDK", At::Start(0), b"KDMV"),
    ("VMDK", At::Start(0), b"COWD"),
    ("a VMDK descriptor", At::Start(0), b"# Disk DescriptorFile"),
    ("VHD", At::Start(0), b"conectix"),
    ("VHD", At::End(512), b"conectix"),
    ("VHD", At::End(511), b"conectix"),
    ("VHDX", At::Start(0), b"vhdxfile"),
    ("VDI", At::Start(0x40), b"\x7f\x10\xda\xbe"),
    ("LUKS", At::Start(0), b"LUKS\xba\xbe"),
    ("Parallels", At::Start(0), b"WithoutFreeSpace"),
    ("Parallels", At::Start(0), b"WithouFreSpacExt"),
    ("Bochs", At::Start(0), b"Bochs Virtual HD Image"),
    ("cloop", At::Start(0), b"#!/bin/sh\n#V2.0 Format"),
    ("DMG", At::End(512), b"koly"),
    ("compressed by gzip", At::Start(0), b"\x1f\x8b\x08"),
    ("compressed by xz", At::Start(0), b"\xfd7zXZ\0"),
    ("compressed by zstd", At::Start(0), b"\x28\xb5\x2f\xfd"),
    ("compressed by bzip2", At::Start(0), b"BZh"),
    ("a ZIP archive", At::Start(0), b"PK\x03\x04"),
    ("a tar archive (an OVA?)", At::Start(257), b"ustar"),
];

/// The format of the image by its magic bytes; `None` if it may be raw.
pub(super) fn detect(image: &impl Bytes) -> io::Result<Option<&'static str>> {
    for (format, at, mark) in MARKS {
        let offset = match at {
            At::Start(offset) => Some(*offset),
            At::End(back) => image.len().checked_sub(*back),
        };
        let Some(offset) = offset else { continue };
        if offset + mark.len() as u64 > image.len() {
            continue;
        }
        let mut found = vec![0; mark.len()];
        image.read_at(offset, &mut found)?;
        if found == *mark {
            return Ok(Some(format));
        }
    }
    Ok(None)
}
