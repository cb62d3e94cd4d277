//! Checks which host files an instance may use: [`GuestFiles::allow`] turns a [`GuestSpec`] into an [`AllowedSpec`].
//!
//! The hypervisor opens every file that a spec names, with more rights than the requester has, and the agent reads console logs
//! itself. So the driver accepts only an [`AllowedSpec`], and the log reader only an [`AllowedFile`]. Only [`GuestFiles`] creates
//! these, after resolving all links:
//!
//! | file | allowed folders |
//! |---|---|
//! | console log | the instance's folder |
//! | disks and config drive | the instance's folder, `image_directories` |
//! | base of a disk | the instance's folder, `image_directories`, the image cache |
//! | kernel and RAM disk | `kernel_directories` |
//!
//! An existing file must be a regular file, because opening a pipe would block. A file that does not exist yet is checked by its
//! folder, and a dangling link is refused. The folder of another instance is never allowed, even if an operator configures the
//! parent folder. The check runs when an instance is accepted, and before every definition in the hypervisor.

use std::ops::Deref;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use berth_agent_images::InstancesPath;
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{DesiredPower, GuestBoot, GuestSpec, HostPath};

/// The image cache below `instances_path`.
const CACHE: &str = "_base";

/// Why an instance may not use a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileRefusal {
    #[error("{field}: {path} is not in an allowed folder ({folders}), after resolving links")]
    OutsideFolders {
        /// The field of the spec.
        field: &'static str,
        path: HostPath,
        folders: String,
    },
    #[error("{field}: {path} cannot be checked: {reason}")]
    Unreadable {
        /// The field of the spec.
        field: &'static str,
        path: HostPath,
        reason: String,
    },
    /// Opening such a file may block.
    #[error("{field}: {path} is {found}; expected a regular file")]
    NotPlain {
        /// The field of the spec.
        field: &'static str,
        path: HostPath,
        found: &'static str,
    },
    /// The file does not exist, and the agent does not create it.
    #[error("{field}: file {path} does not exist on this host; create it or name an existing file")]
    Missing {
        /// The field of the spec.
        field: &'static str,
        path: HostPath,
    },
}

/// A path that an instance may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedFile(HostPath);

impl AllowedFile {
    #[must_use]
    pub fn as_path(&self) -> &Path {
        self.0.as_path()
    }
}

/// A spec with only allowed files. The driver accepts no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSpec(GuestSpec);

impl Deref for AllowedSpec {
    type Target = GuestSpec;

    fn deref(&self) -> &GuestSpec {
        &self.0
    }
}

impl AllowedSpec {
    /// The same spec with the guest shut off.
    #[must_use]
    pub(super) fn off(&self) -> Self {
        Self(GuestSpec {
            power: DesiredPower::ShutOff,
            ..self.0.clone()
        })
    }
}

/// The folders for the files of instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFiles {
    /// `instances_path`, with one folder per instance.
    pub instances: InstancesPath,
    /// `[image_cache] image_directories`: images, and disks that Berth does not manage.
    pub image_directories: Vec<HostPath>,
    pub kernel_directories: Vec<HostPath>,
}

impl GuestFiles {
    /// The folders for instances whose disks Berth creates. No spec may name an image or kernel by its path.
    #[must_use]
    pub fn below(instances: InstancesPath) -> Self {
        Self {
            instances,
            image_directories: Vec::new(),
            kernel_directories: Vec::new(),
        }
    }

    /// Checks every file in the spec. Blocks on file system access.
    pub fn allow(&self, spec: &GuestSpec) -> Result<AllowedSpec, FileRefusal> {
        self.console(spec)?;
        let uuid = spec.uuid;
        for disk in spec.disks.root().into_iter().chain(spec.disks.ephemeral()) {
            self.check_file("disks", &disk.path, &FileRole::Disk(uuid))?;
            if let Some(base) = &disk.base {
                self.check_file("disks.base", &base.path, &FileRole::Base(uuid))?;
            }
        }
        if let Some(drive) = spec.disks.config_drive() {
            self.check_file("disks.config_drive", drive, &FileRole::Disk(uuid))?;
        }
        if let GuestBoot::Kernel {
            kernel, ramdisk, ..
        } = &spec.boot
        {
            self.check_file("boot.kernel", kernel, &FileRole::Kernel)?;
            if let Some(ramdisk) = ramdisk {
                self.check_file("boot.ramdisk", ramdisk, &FileRole::Kernel)?;
            }
        }
        Ok(AllowedSpec(spec.clone()))
    }

    /// Checks that the kernel and RAM disk exist. Called only for new requests and rescues: an existing guest may be
    /// started before the file system with its kernel is mounted.
    pub fn check_present(&self, spec: &GuestSpec) -> Result<(), FileRefusal> {
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
                    return Err(FileRefusal::Missing { field, path });
                }
                Err(error) => {
                    let reason = error.to_string();
                    return Err(FileRefusal::Unreadable {
                        field,
                        path,
                        reason,
                    });
                }
            }
        }
        Ok(())
    }

    /// The console log of the instance.
    pub fn console(&self, spec: &GuestSpec) -> Result<AllowedFile, FileRefusal> {
        self.check_file(
            "console_log",
            &spec.console_log,
            &FileRole::InstanceFile(spec.uuid),
        )
    }

    fn check_file(
        &self,
        field: &'static str,
        path: &HostPath,
        role: &FileRole,
    ) -> Result<AllowedFile, FileRefusal> {
        let unreadable = |reason: io::Error| FileRefusal::Unreadable {
            field,
            path: path.clone(),
            reason: reason.to_string(),
        };
        let resolved = resolve_links(path.as_path()).map_err(unreadable)?;
        let instances = resolve_links(self.instances.path().as_path()).map_err(unreadable)?;
        let is_allowed = match resolved.strip_prefix(&instances) {
            // Below `instances_path`, the configured folders do not count: the file may belong to another instance or
            // to the agent.
            Ok(below) => role.allows_below(below),
            Err(_) => {
                let mut folders = role.outside_folders(self).iter();
                folders.any(|folder| {
                    resolve_links(folder.as_path())
                        .is_ok_and(|folder| resolved.starts_with(&folder) && resolved != folder)
                })
            }
        };
        if is_allowed {
            return match special_file(&resolved).map_err(unreadable)? {
                None => Ok(AllowedFile(path.clone())),
                Some(found) => Err(FileRefusal::NotPlain {
                    field,
                    path: path.clone(),
                    found,
                }),
            };
        }
        let own = match role {
            FileRole::InstanceFile(uuid) | FileRole::Disk(uuid) | FileRole::Base(uuid) => {
                Some(format!("{}/{uuid}", self.instances.path()))
            }
            FileRole::Kernel => None,
        };
        let others = role.outside_folders(self).iter().map(ToString::to_string);
        let folders: Vec<String> = own.into_iter().chain(others).collect();
        Err(FileRefusal::OutsideFolders {
            field,
            path: path.clone(),
            folders: match folders.is_empty() {
                true => "none; see [image_cache] image_directories".to_owned(),
                false => folders.join(", "),
            },
        })
    }
}

/// The purpose of a file, which determines the allowed folders.
enum FileRole {
    /// Only in the instance's folder.
    InstanceFile(ConsumerUuid),
    /// In the instance's folder or an image folder.
    Disk(ConsumerUuid),
    /// In the instance's folder, an image folder or the cache.
    Base(ConsumerUuid),
    Kernel,
}

impl FileRole {
    /// Whether a file with this path below `instances_path` is allowed.
    fn allows_below(&self, below: &Path) -> bool {
        let mut parts = below.iter();
        let (folder, file) = (parts.next(), parts.next());
        let is_own = |uuid: &ConsumerUuid| folder.is_some_and(|name| *name == *uuid.to_string());
        file.is_some()
            && match self {
                Self::InstanceFile(uuid) | Self::Disk(uuid) => is_own(uuid),
                Self::Base(uuid) => is_own(uuid) || folder.is_some_and(|name| name == CACHE),
                Self::Kernel => false,
            }
    }

    /// The allowed folders outside `instances_path`.
    fn outside_folders<'a>(&self, files: &'a GuestFiles) -> &'a [HostPath] {
        match self {
            Self::InstanceFile(_) => &[],
            Self::Disk(_) | Self::Base(_) => &files.image_directories,
            Self::Kernel => &files.kernel_directories,
        }
    }
}

/// The type of a file that is not a regular file; `None` for a regular or missing file.
fn special_file(path: &Path) -> io::Result<Option<&'static str>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(match found {
        file if file.is_file() => None,
        folder if folder.is_dir() => Some("a folder"),
        pipe if pipe.is_fifo() => Some("a pipe"),
        socket if socket.is_socket() => Some("a socket"),
        _ => Some("a device, or its type is changing"),
    })
}

/// Resolves all links. Components that do not exist yet are kept.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
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
                    return Err(io::Error::other("it is a dangling link"));
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
