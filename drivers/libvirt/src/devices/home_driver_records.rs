//! Records which driver a function belongs to while a guest may have it: one small file per function, replaced
//! atomically. The device tree does not show this. Files also record which mediated devices this agent created.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use berth_files::{make_folders, replace, temporary_name};
use berth_model::PciAddress;
use berth_sysfs::HomeDriver;
use uuid::Uuid;

/// The file content for "no driver"; driver names cannot begin with a dot.
const NONE: &str = ".none";

/// The records; without a directory nothing is recorded.
#[derive(Debug, Clone)]
pub(super) struct HomeDriverRecords {
    directory: Option<PathBuf>,
}

impl HomeDriverRecords {
    pub(super) fn at(directory: Option<PathBuf>) -> Self {
        Self { directory }
    }

    /// Whether anything is remembered.
    pub(super) fn is_enabled(&self) -> bool {
        self.directory.is_some()
    }

    /// The driver that a function returns to.
    pub(super) fn recall(&self, address: PciAddress) -> io::Result<HomeDriver> {
        let Some(file) = self.file(address) else {
            return Ok(HomeDriver::KernelsChoice);
        };
        match fs::read_to_string(file) {
            Ok(text) => Ok(match text.trim() {
                // The file system lost data that were not yet on disk.
                "" => HomeDriver::KernelsChoice,
                NONE => HomeDriver::Driver(None),
                driver => HomeDriver::Driver(Some(driver.to_owned())),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HomeDriver::KernelsChoice),
            Err(error) => Err(error),
        }
    }

    /// Remembers the driver that a function is on.
    pub(super) fn remember(&self, address: PciAddress, driver: Option<&str>) -> io::Result<()> {
        let (Some(directory), Some(file)) = (&self.directory, self.file(address)) else {
            return Ok(());
        };
        make_folders(directory, 0o700)?;
        let line = format!("{}\n", driver.unwrap_or(NONE));
        replace(&file, line.as_bytes(), 0o600)
    }

    pub(super) fn forget(&self, address: PciAddress) -> io::Result<()> {
        let (Some(directory), Some(file)) = (&self.directory, self.file(address)) else {
            return Ok(());
        };
        let mut forgotten = false;
        // Includes files that a kill left half-written.
        for file in [temporary_name(&file), file] {
            match fs::remove_file(file) {
                Ok(()) => forgotten = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if forgotten {
            settle(directory)?;
        }
        Ok(())
    }

    /// The functions with a record.
    pub(super) fn functions(&self) -> io::Result<Vec<PciAddress>> {
        let Some(directory) = &self.directory else {
            return Ok(Vec::new());
        };
        let files = match fs::read_dir(directory) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut functions = Vec::new();
        for file in files {
            let name = file?.file_name();
            let name = name.to_str();
            functions.extend(name.and_then(|name| PciAddress::from_nodedev_name(name).ok()));
        }
        functions.sort_unstable();
        Ok(functions)
    }

    /// Records that a mediated device is about to be created.
    pub(super) fn record_created_mdev(&self, mdev: Uuid) -> io::Result<()> {
        let (Some(directory), Some(file)) = (&self.directory, self.mdev_record_file(mdev)) else {
            return Ok(());
        };
        make_folders(directory, 0o700)?;
        replace(&file, b"", 0o600)
    }

    /// Whether a mediated device of this UUID was created, or was about to be.
    pub(super) fn is_recorded_mdev(&self, mdev: Uuid) -> io::Result<bool> {
        self.mdev_record_file(mdev)
            .map_or(Ok(false), |file| file.try_exists())
    }

    pub(super) fn forget_mdev(&self, mdev: Uuid) -> io::Result<()> {
        let (Some(directory), Some(file)) = (&self.directory, self.mdev_record_file(mdev)) else {
            return Ok(());
        };
        match fs::remove_file(file) {
            Ok(()) => settle(directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn mdev_record_file(&self, mdev: Uuid) -> Option<PathBuf> {
        let name = format!("mdev_{}", mdev.hyphenated());
        Some(self.directory.as_ref()?.join(name))
    }

    fn file(&self, address: PciAddress) -> Option<PathBuf> {
        let name = address.nodedev_name();
        Some(self.directory.as_ref()?.join(name))
    }
}

fn settle(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_remembered_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let home_drivers = HomeDriverRecords::at(Some(folder.path().join("resting")));
        let address = "81:00.0".parse().unwrap();
        let recall = || home_drivers.recall(address).unwrap();
        assert_eq!(recall(), HomeDriver::KernelsChoice);
        for driver in [Some("igb"), None, Some("vfio-pci")] {
            home_drivers.remember(address, driver).unwrap();
            assert_eq!(recall(), HomeDriver::Driver(driver.map(str::to_owned)));
        }
        assert_eq!(
            home_drivers.recall("81:00.1".parse().unwrap()).unwrap(),
            HomeDriver::KernelsChoice
        );
        let half_written = folder.path().join("resting/.pci_0000_81_00_0.new");
        std::fs::write(half_written, "ig").unwrap();
        for _ in 0..2 {
            home_drivers.forget(address).unwrap();
            assert_eq!(recall(), HomeDriver::KernelsChoice);
        }
        let mut left = std::fs::read_dir(folder.path().join("resting")).unwrap();
        assert!(left.next().is_none());
    }

    #[test]
    fn what_was_made_and_what_was_taken_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let home_drivers = HomeDriverRecords::at(Some(folder.path().join("resting")));
        let (address, mdev) = ("81:00.0".parse().unwrap(), Uuid::from_u128(1));
        assert!(home_drivers.functions().unwrap().is_empty());
        assert!(!home_drivers.is_recorded_mdev(mdev).unwrap());
        for _ in 0..2 {
            home_drivers.record_created_mdev(mdev).unwrap();
            home_drivers.remember(address, Some("igb")).unwrap();
            // A kill in the midst of a write.
            std::fs::write(folder.path().join("resting/.pci_0000_82_00_0.new"), "").unwrap();
            assert_eq!(home_drivers.functions().unwrap(), [address]);
            assert!(
                home_drivers.is_recorded_mdev(mdev).unwrap()
                    && !home_drivers.is_recorded_mdev(Uuid::from_u128(2)).unwrap()
            );
        }
        for _ in 0..2 {
            home_drivers.forget_mdev(mdev).unwrap();
            assert!(!home_drivers.is_recorded_mdev(mdev).unwrap());
        }
    }

    #[test]
    fn without_a_directory_nothing_is_remembered() {
        let home_drivers = HomeDriverRecords::at(None);
        let address = "81:00.0".parse().unwrap();
        home_drivers.remember(address, Some("igb")).unwrap();
        assert_eq!(
            home_drivers.recall(address).unwrap(),
            HomeDriver::KernelsChoice
        );
        home_drivers.forget(address).unwrap();
    }
}
