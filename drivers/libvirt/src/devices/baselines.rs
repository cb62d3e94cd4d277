//! The healthy state of devices, kept across restarts of the agent in one small file that is replaced atomically.
//! `observe` reads and writes it.
//!
//! One line per function: `0000:81:00.0 10de:1eb8 160x16 3/0/0`, with the link speed in tenths of a gigatransfer, the
//! link width, and the correctable, nonfatal and fatal errors; `-` for missing values.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use berth_files::{make_folders, replace};
use berth_model::PciAddress;
use berth_sysfs::{AerCounts, Baseline, Link};
use berth_virt::ObserveError;

type Baselines = BTreeMap<PciAddress, Baseline>;

/// The stored baselines; empty without a file.
///
/// Errors: [`ObserveError`] with file and line: an unreadable file must not hide device errors.
pub(crate) fn read(file: &Path) -> Result<Baselines, ObserveError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Baselines::new()),
        Err(source) => {
            let path = file.display().to_string();
            return Err(ObserveError::Unreadable { path, source });
        }
    };
    let lines = (1..).zip(text.lines());
    let read = lines.map(|(number, line)| {
        parsed(line).ok_or_else(|| ObserveError::Malformed {
            origin: format!("{}, line {number}", file.display()),
            reason: format!(
                "{line:?} is not a function with its ids, link and errors (0000:81:00.0 10de:1eb8 160x16 3/0/0); remove the \
                 file, and each device counts as well as it is then"
            ),
        })
    });
    read.collect()
}

pub(crate) fn write(file: &Path, baselines: &Baselines) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    make_folders(directory, 0o700)?;
    replace(file, text(baselines).as_bytes(), 0o600)
}

fn text(baselines: &Baselines) -> String {
    let mut text = String::new();
    for (address, baseline) in baselines {
        let (vendor, device) = baseline.ids;
        let link = baseline.link.map(|it| format!("{}x{}", it.speed, it.width));
        let aer = baseline.aer;
        let aer = aer.map(|it| format!("{}/{}/{}", it.correctable, it.nonfatal, it.fatal));
        let shown = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{address} {vendor:04x}:{device:04x} {} {}",
            shown(link),
            shown(aer)
        );
    }
    text
}

fn parsed(line: &str) -> Option<(PciAddress, Baseline)> {
    let parts: Vec<&str> = line.split(' ').collect();
    let [address, ids, link, aer] = parts.as_slice() else {
        return None;
    };
    let (vendor, device) = ids.split_once(':')?;
    let id = |text: &str| u16::from_str_radix(text, 16).ok();
    let link = match *link {
        "-" => None,
        link => {
            let (speed, width) = link.split_once('x')?;
            Some(Link {
                speed: speed.parse().ok()?,
                width: width.parse().ok()?,
            })
        }
    };
    let aer = match *aer {
        "-" => None,
        aer => {
            let counts: Vec<u64> = aer
                .split('/')
                .map(|count| count.parse().ok())
                .collect::<Option<_>>()?;
            let [correctable, nonfatal, fatal] = counts.as_slice() else {
                return None;
            };
            Some(AerCounts {
                correctable: *correctable,
                nonfatal: *nonfatal,
                fatal: *fatal,
            })
        }
    };
    let ids = (id(vendor)?, id(device)?);
    Some((address.parse().ok()?, Baseline { ids, link, aer }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_baselines() -> impl Strategy<Value = Baselines> {
        let link = (any::<u32>(), any::<u32>()).prop_map(|(speed, width)| Link { speed, width });
        let aer = any::<(u64, u64, u64)>().prop_map(|(correctable, nonfatal, fatal)| AerCounts {
            correctable,
            nonfatal,
            fatal,
        });
        let one = (
            any::<(u16, u16)>(),
            proptest::option::of(link),
            proptest::option::of(aer),
        );
        let one = one.prop_map(|(ids, link, aer)| Baseline { ids, link, aer });
        let address = (0_u8..=255, 0_u8..32, 0_u8..8);
        let address = address.prop_map(|(bus, slot, function)| {
            let text = format!("0000:{bus:02x}:{slot:02x}.{function}");
            text.parse::<PciAddress>().unwrap()
        });
        proptest::collection::btree_map(address, one, 0..4)
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read_again(baselines in any_baselines()) {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("state/baselines");
            for _ in 0..2 {
                write(&file, &baselines).unwrap();
                prop_assert_eq!(&read(&file).unwrap(), &baselines);
            }
        }
    }

    #[test]
    fn nothing_kept_is_nothing_and_nonsense_is_an_error_that_names_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("baselines");
        assert!(read(&file).unwrap().is_empty());
        let good = "0000:81:00.0 10de:1eb8 160x16 3/0/0\n";
        for bad in [
            "nonsense",
            "",
            "0000:81:00.0 10de:1eb8 160x16",
            "0000:81:00.0 10de:1eb8 160 3/0/0",
            "0000:81:00.0 10de:1eb8 160x16 3/0",
            "0000:81:00.0 10de 160x16 3/0/0",
            "81 10de:1eb8 160x16 3/0/0",
        ] {
            fs::write(&file, format!("{good}{bad}\n{good}")).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains("baselines, line 2"), "{error}");
        }
        fs::write(&file, [0xff]).unwrap();
        assert!(matches!(read(&file), Err(ObserveError::Unreadable { .. })));
    }
}
