//! What the data of an image come to.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use md5::Md5;
use sha2::{Digest as _, Sha512};

use crate::image::{Checksum, Data, HashAlgorithm};

/// How much is read at a time, in bytes.
const PIECE: usize = 1 << 20;

/// A file with an image's data, and what they come to.
pub(super) struct Summed {
    pub(super) data: Data,
    pub(super) checksum: Checksum,
    /// None where nothing was read.
    pub(super) md5: Option<String>,
}

impl Summed {
    /// Of this file. Where its checksum is said, its data are not read.
    pub(super) fn of(path: &Path, said: Option<Checksum>) -> io::Result<Self> {
        let mut file = Data::open_file(path)?;
        let found = file.metadata()?;
        let (length, modified) = (found.len(), found.modified()?);
        let (checksum, md5) = match said {
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

fn sum(file: &mut File, length: u64) -> io::Result<(Checksum, String)> {
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
        return Err(io::Error::other("it changed while it was read"));
    }
    let hex = format!("{:x}", sha512.finalize());
    let checksum = Checksum {
        algorithm: HashAlgorithm::Sha512,
        hex,
    };
    Ok((checksum, format!("{:x}", md5.finalize())))
}
