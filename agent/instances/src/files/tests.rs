//! Tests of allowed files: names, links and missing files.

use std::os::unix::fs::symlink;

use berth_agent_journal::samples::{guest, spec};
use berth_virt::guest_spec::{BaseImage, DiskFormat, GuestDisks, KernelCommandLine, QcowDisk};

use super::*;

/// A host's folders: `instances`, `images`, `kernels`, and `etc` with a file that no guest may use.
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

    /// Whether an instance may use this path in this field.
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
    // An operator's folder may be a link; an instance's folder may not.
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
        host.files().check_present(&GuestSpec { boot, ..spec })
    };
    let (there, absent) = ("kernels/vmlinuz", "kernels/none");
    assert_eq!(boot(there, there), Ok(()));
    for (kernel, ramdisk, field) in [
        (absent, there, "boot.kernel"),
        (there, absent, "boot.ramdisk"),
    ] {
        let message = boot(kernel, ramdisk).unwrap_err().to_string();
        let named = host.path(absent).to_string();
        assert!(
            message.starts_with(field) && message.contains(&named),
            "{message}"
        );
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
    let message = host.files().allow(&spec).unwrap_err().to_string();
    assert!(
        message.contains("is a pipe; expected a regular file"),
        "{message}"
    );
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
