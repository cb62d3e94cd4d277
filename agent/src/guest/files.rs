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

use std::fs;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{DesiredPower, GuestBoot, GuestSpec, HostPath};

use super::disks::InstancesPath;
use super::resources::ResourceError;

/// The folder of images below `instances_path`.
const CACHE: &str = "_base";

/// A file that a guest may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileRefused {
    /// It lies elsewhere.
    #[error(
        "{field}: {path} lies in none of the folders that it may lie in ({folders}), links followed"
    )]
    Elsewhere {
        /// The field of the spec.
        field: &'static str,
        /// The file.
        path: HostPath,
        /// Where it might lie.
        folders: String,
    },
    /// It cannot be looked at.
    #[error("{field}: {path} cannot be looked at: {reason}")]
    Unseen {
        /// The field of the spec.
        field: &'static str,
        /// The file.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// It is no plain file: whoever opens it may wait for ever.
    #[error("{field}: {path} is {found}; a plain file is expected")]
    NotPlain {
        /// The field of the spec.
        field: &'static str,
        /// The file.
        path: HostPath,
        /// What it is.
        found: &'static str,
    },
    /// It is not there, and nobody makes it for the guest.
    #[error(
        "{field}: there is no file {path} on this host; put it there, or name one that is there"
    )]
    Absent {
        /// The field of the spec.
        field: &'static str,
        /// The file.
        path: HostPath,
    },
}

impl From<FileRefused> for ResourceError {
    fn from(refused: FileRefused) -> Self {
        Self::Refused {
            what: "a file".to_owned(),
            reason: refused.to_string(),
        }
    }
}

/// A file that a guest may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedFile(HostPath);

impl AllowedFile {
    /// Its path.
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
    /// Where kernels lie.
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
    ///
    /// # Errors
    /// A file of it may not be the guest's.
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
    ///
    /// # Errors
    /// One is not, or cannot be looked at.
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
    ///
    /// # Errors
    /// It is not in the guest's own folder.
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
    /// Where kernels lie.
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
mod tests {
    use std::os::unix::fs::symlink;

    use berth_virt::guest_spec::{BaseImage, DiskFormat, GuestDisks, KernelCommandLine, QcowDisk};

    use super::*;
    use crate::guest::samples::{guest, spec};

    /// A host's folders: `instances`, `images`, `kernels`, and `etc` with a file that is nobody's business.
    struct Host {
        folder: tempfile::TempDir,
    }

    impl Host {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let host = Self { folder };
            for name in [
                "instances/_base",
                "instances/_config",
                "images",
                "kernels",
                "etc",
            ] {
                fs::create_dir_all(host.at(name)).unwrap();
            }
            fs::create_dir_all(host.own("")).unwrap();
            fs::create_dir_all(host.at(&format!("instances/{}", guest(2)))).unwrap();
            for name in [
                "etc/shadow",
                "images/one.raw",
                "kernels/vmlinuz",
                "instances/_base/abc",
            ] {
                fs::write(host.at(name), name).unwrap();
            }
            host
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn path(&self, name: &str) -> HostPath {
            HostPath::new(self.at(name).to_str().unwrap()).unwrap()
        }

        fn own(&self, name: &str) -> PathBuf {
            self.at(&format!("instances/{}/{name}", guest(1)))
        }

        fn files(&self) -> GuestFiles {
            GuestFiles {
                instances: InstancesPath::new(self.path("instances")),
                image_directories: vec![self.path("images")],
                kernel_directories: vec![self.path("kernels")],
            }
        }

        fn spec(&self) -> GuestSpec {
            let mut spec = spec(1);
            spec.console_log = self.files().instances.console_log(spec.uuid).unwrap();
            spec
        }

        /// Whether a guest may have this file in this place.
        fn may(&self, place: &str, path: &Path) -> bool {
            let path = HostPath::new(path.to_str().unwrap()).unwrap();
            let mut spec = self.spec();
            let disk = |path, base| QcowDisk { path, base };
            let format = DiskFormat::Raw;
            let own = HostPath::new(self.own("disk").to_str().unwrap()).unwrap();
            let disks = |root, drive| GuestDisks::new(root, Vec::new(), drive).unwrap();
            match place {
                "console" => spec.console_log = path,
                "disk" => spec.disks = disks(Some(disk(path, None)), None),
                "drive" => spec.disks = disks(None, Some(path)),
                "base" => {
                    let base = Some(BaseImage { path, format });
                    spec.disks = disks(Some(disk(own, base)), None);
                }
                "kernel" => {
                    spec.boot = GuestBoot::Kernel {
                        kernel: path,
                        ramdisk: None,
                        command_line: KernelCommandLine::new("").unwrap(),
                    }
                }
                "ramdisk" => {
                    spec.boot = GuestBoot::Kernel {
                        kernel: self.path("kernels/vmlinuz"),
                        ramdisk: Some(path),
                        command_line: KernelCommandLine::new("").unwrap(),
                    }
                }
                other => panic!("{other}"),
            }
            self.files().allow(&spec).is_ok()
        }
    }

    const PLACES: [&str; 6] = ["console", "disk", "drive", "base", "kernel", "ramdisk"];

    #[test]
    fn each_file_may_lie_in_its_folders_and_nowhere_else() {
        let host = Host::new();
        let other = format!("instances/{}/disk", guest(2));
        for (file, places) in [
            (host.own("file"), &["console", "disk", "drive", "base"][..]),
            (host.at("images/one.raw"), &["disk", "drive", "base"]),
            (
                host.at("images/not/there/yet.raw"),
                &["disk", "drive", "base"],
            ),
            (host.at("instances/_base/abc"), &["base"]),
            (host.at("kernels/vmlinuz"), &["kernel", "ramdisk"]),
            (host.at("instances/_config/secret"), &[]),
            (host.at("instances/elsewhere"), &[]),
            (host.at(&other), &[]),
            (host.at("etc/shadow"), &[]),
            (host.at("images"), &[]),
            (host.own(""), &[]),
            (PathBuf::from("/etc/shadow"), &[]),
            (PathBuf::from("/dev/sda"), &[]),
        ] {
            let file = PathBuf::from(file.to_str().unwrap().trim_end_matches('/'));
            for place in PLACES {
                let expected = places.contains(&place);
                assert_eq!(
                    host.may(place, &file),
                    expected,
                    "{place}: {}",
                    file.display()
                );
            }
        }
    }

    #[test]
    fn a_link_is_what_it_leads_to_and_one_to_nothing_is_refused() {
        let host = Host::new();
        symlink(host.at("etc/shadow"), host.own("log")).unwrap();
        symlink(host.at("etc"), host.own("folder")).unwrap();
        symlink(host.at("etc/not-there"), host.own("later")).unwrap();
        symlink(host.at("etc"), host.at("images/out")).unwrap();
        symlink(host.at("images/one.raw"), host.at("images/same.raw")).unwrap();
        symlink(
            host.at(&format!("instances/{}", guest(2))),
            host.at("images/two"),
        )
        .unwrap();
        for file in [
            host.own("log"),
            host.own("folder/shadow"),
            host.own("folder/new"),
            host.own("later"),
            host.at("images/out/shadow"),
            host.at("images/two/disk"),
        ] {
            for place in PLACES {
                assert!(!host.may(place, &file), "{place}: {}", file.display());
            }
        }
        assert!(host.may("disk", &host.at("images/same.raw")));
        // An operator's folder may be a link, a guest's own may not.
        let images = host.at("images");
        fs::rename(&images, host.at("large")).unwrap();
        symlink(host.at("large"), &images).unwrap();
        assert!(host.may("base", &images.join("one.raw")));
        fs::remove_dir_all(host.own("")).unwrap();
        symlink(host.at("etc"), host.at(&format!("instances/{}", guest(1)))).unwrap();
        assert!(!host.may("console", &host.own("shadow")));
    }

    #[test]
    fn a_kernel_and_a_ram_disk_that_are_not_there_are_named() {
        let host = Host::new();
        let boot = |kernel: &str, ramdisk: &str| {
            let spec = host.spec();
            let boot = GuestBoot::Kernel {
                kernel: host.path(kernel),
                ramdisk: Some(host.path(ramdisk)),
                command_line: KernelCommandLine::new("").unwrap(),
            };
            host.files().present(&GuestSpec { boot, ..spec })
        };
        let (there, absent) = ("kernels/vmlinuz", "kernels/none");
        assert_eq!(boot(there, there), Ok(()));
        for (kernel, ramdisk, field) in [
            (absent, there, "boot.kernel"),
            (there, absent, "boot.ramdisk"),
        ] {
            let said = boot(kernel, ramdisk).unwrap_err().to_string();
            let named = host.path(absent).to_string();
            assert!(said.starts_with(field) && said.contains(&named), "{said}");
        }
    }

    #[test]
    fn a_pipe_a_socket_and_a_folder_are_no_files_of_a_guest() {
        let host = Host::new();
        for folder in [host.at("images"), host.at("kernels"), host.own("")] {
            let mode = nix::sys::stat::Mode::S_IRWXU;
            nix::unistd::mkfifo(&folder.join("pipe"), mode).unwrap();
            let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
            fs::create_dir(folder.join("folder")).unwrap();
            symlink(folder.join("pipe"), folder.join("link")).unwrap();
            for name in ["pipe", "socket", "folder", "link"] {
                for place in PLACES {
                    let file = folder.join(name);
                    assert!(!host.may(place, &file), "{place}: {}", file.display());
                }
            }
        }
        let mut spec = host.spec();
        spec.console_log = HostPath::new(host.own("pipe").to_str().unwrap()).unwrap();
        let said = host.files().allow(&spec).unwrap_err().to_string();
        assert!(said.contains("is a pipe; a plain file"), "{said}");
    }

    #[test]
    fn a_path_with_dots_is_none() {
        for path in [
            "/images/../etc/shadow",
            "/images/./one",
            "images/one",
            "/images//one",
        ] {
            HostPath::new(path).unwrap_err();
        }
    }

    #[test]
    fn a_refusal_names_field_file_and_folders() {
        let host = Host::new();
        let mut spec = host.spec();
        spec.console_log = HostPath::new("/etc/shadow").unwrap();
        let refused = host.files().allow(&spec).unwrap_err().to_string();
        for part in ["console_log", "/etc/shadow", &guest(1).to_string()] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
