//! Computes checksums of image data.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use md5::Md5;
use sha2::{Digest as _, Sha512};

use crate::image::{ChecksumAlgorithm, Data, DataChecksum};

/// How much is read at a time, in bytes.
const PIECE: usize = 1 << 20;

/// A file with image data, and its checksums.
pub(super) struct DataSums {
    pub(super) data: Data,
    pub(super) checksum: DataChecksum,
    /// `None` if the data were not read.
    pub(super) md5: Option<String>,
}

impl DataSums {
    /// Computes the checksums of a file, or takes the given checksum without reading the data.
    pub(super) fn of(path: &Path, stated: Option<DataChecksum>) -> io::Result<Self> {
        let mut file = Data::open_file(path)?;
        let found = file.metadata()?;
        let (length, modified) = (found.len(), found.modified()?);
        let (checksum, md5) = match stated {
            Some(checksum) => (checksum, None),
            None => {
                let (checksum, md5) = sum(&mut file, length)?;
                (checksum, Some(md5))
            }
        };
        let data = Data {
            path: path.to_owned(),
            length,
            modified,
        };
        Ok(Self {
            data,
            checksum,
            md5,
        })
    }
}

fn sum(file: &mut File, length: u64) -> io::Result<(DataChecksum, String)> {
    let (mut md5, mut sha512) = (Md5::new(), Sha512::new());
    let mut piece = vec![0; PIECE];
    let mut came = 0_u64;
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            break;
        }
        md5.update(&piece[..read]);
        sha512.update(&piece[..read]);
        came += u64::try_from(read).unwrap_or(u64::MAX);
    }
    if came != length {
        return Err(io::Error::other("the file changed while it was read"));
    }
    let hex = format!("{:x}", sha512.finalize());
    let checksum = DataChecksum {
        algorithm: ChecksumAlgorithm::Sha512,
        hex,
    };
    Ok((checksum, format!("{:x}", md5.finalize())))
}
