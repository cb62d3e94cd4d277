//! Which files of the host guests may have: the only way from a [`GuestSpec`] to the hypervisor leads through here.
//!
//! The hypervisor opens whatever a guest's document names, with rights that whoever asked for the guest does not have; the
//! console's log is read by the agent itself. So a document is taken to the hypervisor only as an [`AllowedSpec`], a log is read
//! only as an [`AllowedFile`], and both are made nowhere but by [`GuestFiles`], which follows every link first:
//!
//! | file | where it may lie |
//! |---|---|
//! | the console's log | in the guest's own folder |
//! | disks and config drive | there, or where images lie |
//! | what a disk lies over | there, where images lie, or in the cache |
//! | kernel and RAM disk | where kernels lie |
//!
//! What is there is a plain file: who opens a pipe waits for its other end. A file that is not there yet lies where its folder does; a link to nothing would be followed by whoever makes the file, and is
//! refused. Another guest's folder is nobody else's, even where an operator allows the folder of all of them. It is asked when a guest is accepted and again whenever it goes to the hypervisor: after a kill, rescued, rebuilt,
//! switched on.

use std::ops::Deref;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use berth_agent_images::InstancesPath;
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{DesiredPower, GuestBoot, GuestSpec, HostPath};

/// The folder of images below `instances_path`.
const CACHE: &str = "_base";

/// A file that a guest may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileRefused {
    #[error(
        "{field}: {path} lies in none of the folders that it may lie in ({folders}), links followed"
    )]
    Elsewhere {
        /// The field of the spec.
        field: &'static str,
        path: HostPath,
        /// Where it might lie.
        folders: String,
    },
    /// It cannot be looked at.
    #[error("{field}: {path} cannot be looked at: {reason}")]
    Unseen {
        /// The field of the spec.
        field: &'static str,
        path: HostPath,
        reason: String,
    },
    /// It is no plain file: whoever opens it may wait for ever.
    #[error("{field}: {path} is {found}; a plain file is expected")]
    NotPlain {
        /// The field of the spec.
        field: &'static str,
        path: HostPath,
        found: &'static str,
    },
    /// It is not there, and nobody makes it for the guest.
    #[error(
        "{field}: there is no file {path} on this host; put it there, or name one that is there"
    )]
    Absent {
        /// The field of the spec.
        field: &'static str,
        path: HostPath,
    },
}

/// A file that a guest may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedFile(HostPath);

impl AllowedFile {
    #[must_use]
    pub fn as_path(&self) -> &Path {
        self.0.as_path()
    }
}

/// A guest's document, of which every file is one that the guest may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSpec(GuestSpec);

impl Deref for AllowedSpec {
    type Target = GuestSpec;

    fn deref(&self) -> &GuestSpec {
        &self.0
    }
}

impl AllowedSpec {
    /// The same guest, off.
    #[must_use]
    pub(super) fn off(&self) -> Self {
        Self(GuestSpec {
            power: DesiredPower::ShutOff,
            ..self.0.clone()
        })
    }
}

/// Where guests' files may lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFiles {
    /// `instances_path`: each guest has a folder there.
    pub instances: InstancesPath,
    /// `[image_cache] image_directories`: where an operator puts images, and disks that berth does not make.
    pub image_directories: Vec<HostPath>,
    pub kernel_directories: Vec<HostPath>,
}

impl GuestFiles {
    /// Folders for guests whose disks are berth's: no image and no kernel of the host is named by its path.
    #[must_use]
    pub fn below(instances: InstancesPath) -> Self {
        Self {
            instances,
            image_directories: Vec::new(),
            kernel_directories: Vec::new(),
        }
    }

    /// The document for the hypervisor. It may have to wait for the file system.
    pub fn allow(&self, spec: &GuestSpec) -> Result<AllowedSpec, FileRefused> {
        self.console(spec)?;
        let uuid = spec.uuid;
        for disk in spec.disks.root().into_iter().chain(spec.disks.ephemeral()) {
            self.file("disks", &disk.path, &Place::Disk(uuid))?;
            if let Some(base) = &disk.base {
                self.file("disks.base", &base.path, &Place::Base(uuid))?;
            }
        }
        if let Some(drive) = spec.disks.config_drive() {
            self.file("disks.config_drive", drive, &Place::Disk(uuid))?;
        }
        if let GuestBoot::Kernel {
            kernel, ramdisk, ..
        } = &spec.boot
        {
            self.file("boot.kernel", kernel, &Place::Kernel)?;
            if let Some(ramdisk) = ramdisk {
                self.file("boot.ramdisk", ramdisk, &Place::Kernel)?;
            }
        }
        Ok(AllowedSpec(spec.clone()))
    }

    /// Whether what nobody makes for the guest is there: its kernel and RAM disk. Asked where somebody asks for the guest, or for a
    /// rescue, and hears the answer; a guest that is there already may come before the file system with its kernel.
    pub fn present(&self, spec: &GuestSpec) -> Result<(), FileRefused> {
        let GuestBoot::Kernel {
            kernel, ramdisk, ..
        } = &spec.boot
        else {
            return Ok(());
        };
        let ramdisk = ramdisk.iter().map(|path| ("boot.ramdisk", path));
        for (field, path) in std::iter::once(("boot.kernel", kernel)).chain(ramdisk) {
            let path = path.clone();
            match fs::metadata(path.as_path()) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(FileRefused::Absent { field, path });
                }
                Err(error) => {
                    let reason = error.to_string();
                    return Err(FileRefused::Unseen {
                        field,
                        path,
                        reason,
                    });
                }
            }
        }
        Ok(())
    }

    /// What the guest's serial console is written to.
    pub fn console(&self, spec: &GuestSpec) -> Result<AllowedFile, FileRefused> {
        self.file("console_log", &spec.console_log, &Place::Own(spec.uuid))
    }

    fn file(
        &self,
        field: &'static str,
        path: &HostPath,
        place: &Place,
    ) -> Result<AllowedFile, FileRefused> {
        let unseen = |reason: io::Error| FileRefused::Unseen {
            field,
            path: path.clone(),
            reason: reason.to_string(),
        };
        let lies = real(path.as_path()).map_err(unseen)?;
        let instances = real(self.instances.path().as_path()).map_err(unseen)?;
        let is_allowed = match lies.strip_prefix(&instances) {
            // Whoever else's folder it is, and whatever else an operator allows: it is another guest's, or the agent's own.
            Ok(below) => place.has(below),
            Err(_) => {
                let mut elsewhere = place.elsewhere(self).iter();
                elsewhere.any(|folder| {
                    real(folder.as_path())
                        .is_ok_and(|folder| lies.starts_with(&folder) && lies != folder)
                })
            }
        };
        if is_allowed {
            return match kind(&lies).map_err(unseen)? {
                None => Ok(AllowedFile(path.clone())),
                Some(found) => Err(FileRefused::NotPlain {
                    field,
                    path: path.clone(),
                    found,
                }),
            };
        }
        let own = match place {
            Place::Own(uuid) | Place::Disk(uuid) | Place::Base(uuid) => {
                Some(format!("{}/{uuid}", self.instances.path()))
            }
            Place::Kernel => None,
        };
        let others = place.elsewhere(self).iter().map(ToString::to_string);
        let folders: Vec<String> = own.into_iter().chain(others).collect();
        Err(FileRefused::Elsewhere {
            field,
            path: path.clone(),
            folders: match folders.is_empty() {
                true => "there are none: see [image_cache] image_directories".to_owned(),
                false => folders.join(", "),
            },
        })
    }
}

/// Where a file of a guest may lie.
enum Place {
    /// In the guest's own folder.
    Own(ConsumerUuid),
    /// There, or where images lie.
    Disk(ConsumerUuid),
    /// There, or in the cache.
    Base(ConsumerUuid),
    Kernel,
}

impl Place {
    /// Whether it is there, for a file below `instances_path`.
    fn has(&self, below: &Path) -> bool {
        let mut parts = below.iter();
        let (folder, file) = (parts.next(), parts.next());
        let is_own = |uuid: &ConsumerUuid| folder.is_some_and(|it| *it == *uuid.to_string());
        file.is_some()
            && match self {
                Self::Own(uuid) | Self::Disk(uuid) => is_own(uuid),
                Self::Base(uuid) => is_own(uuid) || folder.is_some_and(|it| it == CACHE),
                Self::Kernel => false,
            }
    }

    /// The folders outside of `instances_path`.
    fn elsewhere<'a>(&self, files: &'a GuestFiles) -> &'a [HostPath] {
        match self {
            Self::Own(_) => &[],
            Self::Disk(_) | Self::Base(_) => &files.image_directories,
            Self::Kernel => &files.kernel_directories,
        }
    }
}

/// What lies there, where that is no plain file; none also where nothing does.
fn kind(lies: &Path) -> io::Result<Option<&'static str>> {
    let found = match fs::symlink_metadata(lies) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(match found {
        file if file.is_file() => None,
        folder if folder.is_dir() => Some("a folder"),
        pipe if pipe.is_fifo() => Some("a pipe"),
        socket if socket.is_socket() => Some("a socket"),
        _ => Some("a device, or changes while it is looked at"),
    })
}

/// The path with every link followed. What is not there yet keeps its name below what is there.
fn real(path: &Path) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        match at.canonicalize() {
            Ok(found) => {
                return Ok(missing
                    .iter()
                    .rev()
                    .fold(found, |path, name| path.join(name)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(at).is_ok() {
                    return Err(io::Error::other("it is a link to nothing"));
                }
                let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
                    return Err(error);
                };
                missing.push(name);
                at = parent;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
