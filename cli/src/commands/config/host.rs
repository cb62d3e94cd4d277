//! Checks of the configuration against this host: files that options name, KVM, the lists of devices.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use berth_compose::state_lock::WITHOUT_GUESTS;
use berth_compose::{state_files, tls};
use berth_config::{ComputeDriver, Config, ConfigProblem, LoadedConfig, VirtType};
use berth_files::{FolderError, own_folder};
use berth_model::NodeName;
use berth_output::ErrorCode;
use berth_serve::TlsFiles;
use berth_sysfs::{AllowList, DeviceLists, Sysfs};
use berth_virt::{CpuSet, PciInPlacement};

use super::named_files::at_option;
use super::roles::StartRole;

/// The problem that guests are configured to run on KVM and this host has none: they cannot start, and
/// their traits are missing.
pub(super) fn without_kvm(loaded: &LoadedConfig, device: &Path) -> Option<ConfigProblem> {
    let libvirt = &loaded.config.libvirt;
    let wanted = loaded.config.compute_driver == ComputeDriver::Libvirt
        && libvirt.virt_type == VirtType::Kvm
        && libvirt.connection_uri().starts_with("qemu");
    if !wanted || device.exists() {
        return None;
    }
    let mut all = loaded.effective.iter();
    let option = all.find(|each| each.name == "libvirt.virt_type");
    Some(ConfigProblem {
        at: option.map_or("default", |each| &each.origin).to_owned(),
        key: "libvirt.virt_type".to_owned(),
        wrong: format!(
            "guests are to run on KVM, but this host has no {}",
            device.display()
        ),
        right: "modprobe kvm_intel or kvm_amd; without hardware: virt_type = \"qemu\" in [libvirt]"
            .to_owned(),
        code: ErrorCode::Doubtful,
    })
}

/// Everything that the configuration names on this host and the host lacks.
pub(super) fn on_this_host(loaded: &LoadedConfig) -> Vec<ConfigProblem> {
    let files = [
        "placement.cafile",
        "placement.certfile",
        "placement.keyfile",
        "cyborg.cafile",
        "cyborg.certfile",
        "cyborg.keyfile",
        "conductor.cafile",
        "conductor.certfile",
        "conductor.keyfile",
        "glance.cafile",
        "glance.certfile",
        "glance.keyfile",
        "neutron.cafile",
        "neutron.certfile",
        "neutron.keyfile",
        "api.cafile",
        "accelerators.reset_hook",
        "accelerators.program_hook",
        "accelerators.health_hook",
        "fabric.partition_hook",
        "libvirt.emulator",
        "compute_driver",
    ];
    let mut problems = Vec::new();
    for each in loaded
        .effective
        .iter()
        .filter(|each| files.contains(&each.name.as_str()))
    {
        let Some(path) = each.shown().as_str().map(str::to_owned) else {
            continue;
        };
        let path = match each.name.as_str() {
            "compute_driver" => match path.strip_prefix("exec:") {
                Some(program) => program.to_owned(),
                None => continue,
            },
            _ => path,
        };
        if let Err(error) = std::fs::File::open(&path) {
            problems.push(ConfigProblem {
                at: each.origin.clone(),
                key: each.name.clone(),
                wrong: format!("{path:?} cannot be read: {error}"),
                right: String::new(),
                code: ErrorCode::Missing,
            });
        }
    }
    problems.extend(tls_files(loaded));
    problems
}

/// A state folder that cannot be created, and addresses that are not this host's.
pub(super) fn paths_and_addresses(loaded: &LoadedConfig) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let state = &loaded.config.state_path;
    let above = state.parent().filter(|it| !it.as_os_str().is_empty());
    if let Some(above) = above.filter(|above| !above.is_dir()) {
        let wrong = format!("{} does not exist", above.display());
        problems.push(at_option(loaded, "state_path", wrong, ErrorCode::BadValue));
    } else if state.exists() && !state.is_dir() {
        let wrong = format!("{} is not a directory", state.display());
        problems.push(at_option(loaded, "state_path", wrong, ErrorCode::BadValue));
    }
    for each in &loaded.effective {
        let address = each.shown();
        let address = address.as_str().and_then(|text| text.parse().ok());
        let Some(address) = address.filter(|_| each.is_set()) else {
            continue;
        };
        if let Some(wrong) = foreign_address(address) {
            problems.push(ConfigProblem {
                right: "ip addr shows the addresses of this host".to_owned(),
                ..at_option(loaded, &each.name, wrong, ErrorCode::BadValue)
            });
        }
    }
    problems
}

/// The state folder and the files of state that the start refuses, because another user owns or can change them.
pub(super) fn state_files(loaded: &LoadedConfig, role: Option<StartRole>) -> Vec<ConfigProblem> {
    let config = &loaded.config;
    let folder = &config.state_path;
    let problem = |key: &str, wrong: String, right: String| ConfigProblem {
        right,
        ..at_option(loaded, key, wrong, ErrorCode::Untrusted)
    };
    let mut problems = Vec::new();
    // The controller may run as another user than this check.
    if matches!(role, Some(StartRole::Agent | StartRole::Up)) {
        for (key, what, folder) in own_folders(config) {
            if folder.is_dir()
                && let Err(error @ FolderError::Untrusted(_)) = own_folder(&folder, WITHOUT_GUESTS)
            {
                let wrong = format!("{what} {} is refused: {error}", folder.display());
                let found = problem(key, wrong, error.hint());
                // Folders below an untrusted one have the same remedy.
                if problems
                    .iter()
                    .all(|it: &ConfigProblem| it.right != found.right)
                {
                    problems.push(found);
                }
            }
        }
    }
    let databases = match role {
        Some(StartRole::Agent) => Vec::new(),
        None | Some(StartRole::Up | StartRole::Controller) => vec![
            config.placement_database(),
            config.accelerator_database(),
            config.hosts_database(),
            config.compute_database(),
            config.identity_database(),
        ],
    };
    for refused in state_files::untrusted(folder, &databases) {
        let wrong = format!("{}: {}", refused.what(), refused.reason);
        problems.push(problem("state_path", wrong, refused.hint().to_owned()));
    }
    problems
}

/// The folders that only the agent's user may change: option, noun, path.
fn own_folders(config: &Config) -> Vec<(&'static str, &'static str, PathBuf)> {
    let socket = config.agent.admin_socket.parent().map(Path::to_owned);
    let socket = socket.filter(|it| !it.as_os_str().is_empty());
    let mut folders = vec![
        ("state_path", "the state folder", config.state_path.clone()),
        (
            "instances_path",
            "the folder of the guests' disks",
            config.instances_path(),
        ),
    ];
    folders.extend(socket.map(|it| ("agent.admin_socket", "the socket's folder", it)));
    folders
}

/// Why nothing can listen on this address, if it is not one of this host's. Another port is tried, because a running
/// service may have this one.
fn foreign_address(address: SocketAddr) -> Option<String> {
    let error = TcpListener::bind((address.ip(), 0)).err()?;
    (error.kind() == io::ErrorKind::AddrNotAvailable)
        .then(|| format!("{} is not an address of this host", address.ip()))
}

/// CPUs of the CPU sets that are not online on this host.
pub(super) fn offline_cpus(loaded: &LoadedConfig, online: &Path) -> Vec<ConfigProblem> {
    if is_elsewhere(loaded) {
        return Vec::new();
    }
    let listed = std::fs::read_to_string(online).ok();
    let Some(listed) = listed.and_then(|text| text.trim().parse::<CpuSet>().ok()) else {
        // `berth doctor` reports a host without this list.
        return Vec::new();
    };
    let compute = &loaded.config.compute;
    let sets = [
        ("compute.cpu_shared_set", &compute.cpu_shared_set),
        ("compute.cpu_dedicated_set", &compute.cpu_dedicated_set),
    ];
    let problem = |(key, set): (&str, &Option<CpuSet>)| {
        let offline = set.as_ref()?.difference(&listed);
        let wrong = format!("CPU {offline} is not online on this host");
        (!offline.is_empty()).then(|| ConfigProblem {
            right: format!("this host has the CPUs {listed}"),
            ..at_option(loaded, key, wrong, ErrorCode::BadValue)
        })
    };
    sets.into_iter().filter_map(problem).collect()
}

/// Whether the guests run elsewhere than on this host.
fn is_elsewhere(loaded: &LoadedConfig) -> bool {
    let config = &loaded.config;
    config.compute_driver != ComputeDriver::Libvirt
        || !config.libvirt.connection_uri().starts_with("qemu")
}

/// Why the APIs of the agent and of the services cannot be served over TLS with these files.
fn tls_files(loaded: &LoadedConfig) -> Vec<ConfigProblem> {
    let config = &loaded.config;
    let agent = tls::named(config).map(|(_, files)| ("agent", files));
    let services = config.service_listeners();
    let services = services
        .iter()
        .filter_map(|listener| Some((listener.section, tls::files_of(listener)?)));
    let unusable = agent.into_iter().chain(services);
    unusable
        .filter_map(|(section, files)| unusable_files(loaded, section, &files))
        .collect()
}

fn unusable_files(loaded: &LoadedConfig, section: &str, files: &TlsFiles) -> Option<ConfigProblem> {
    let error = files.read(SystemTime::now()).err()?;
    let key = format!("{section}.{}", error.file().option());
    let sentence = error.to_string();
    let prefix = format!("{}: ", error.file());
    Some(ConfigProblem {
        at: loaded.origin(&key),
        key,
        wrong: sentence
            .strip_prefix(&prefix)
            .unwrap_or(&sentence)
            .to_owned(),
        right: error.hint().to_owned(),
        code: tls::code(&error),
    })
}

/// A warning if the other hosts accept this host's certificate as a client's: who controls one host then controls all.
pub(super) fn powerful_certificate(loaded: &LoadedConfig) -> Option<ConfigProblem> {
    let agent = &loaded.config.agent;
    let (_, files) = tls::named(&loaded.config).filter(|_| agent.allowed_clients.is_empty())?;
    let is_client = files.admit_own_certificate(SystemTime::now());
    let key = "agent.client_ca".to_owned();
    is_client.unwrap_or_default().then(|| ConfigProblem {
        at: loaded.origin(&key),
        key,
        wrong: "an authority in it signed tls_cert too, so every host with such a certificate may control this one".to_owned(),
        right: "write allowed_clients = [\"DNS:controller\"] in [agent], with a name of the controller's certificate".to_owned(),
        code: ErrorCode::Doubtful,
    })
}

/// Devices of this machine that match a list and that the agent would refuse at its start.
pub(super) fn refused_devices(loaded: &LoadedConfig, sysfs: &Sysfs) -> Vec<ConfigProblem> {
    let config = &loaded.config;
    let read = |list| AllowList::read(list).ok();
    let lists = read(&config.pci.device_spec).zip(read(&config.accelerators.device_spec));
    // The node's own name does not matter here.
    let (Some((compute, accelerator)), Ok(node)) = (&lists, NodeName::new("this-host")) else {
        return Vec::new();
    };
    let lists = DeviceLists {
        compute,
        pci: match config.pci.report_in_placement {
            true => PciInPlacement::Reported,
            false => PciInPlacement::NotReported,
        },
        accelerator,
    };
    if is_elsewhere(loaded) || lists.are_empty() {
        return Vec::new();
    }
    // An unreadable device tree is no error of the configuration.
    let refused = sysfs.refused_devices(&node, lists).unwrap_or_default();
    let problem = |refused: berth_sysfs::DeviceRefusal| {
        let key = match refused.option() {
            "[accelerators] device_spec" => "accelerators.device_spec",
            _ => "pci.device_spec",
        };
        let mut all = loaded.effective.iter();
        let option = all.find(|each| each.name == key);
        ConfigProblem {
            at: option.map_or("default", |each| &each.origin).to_owned(),
            key: key.to_owned(),
            wrong: refused.to_string(),
            right: String::new(),
            code: ErrorCode::Contradiction,
        }
    };
    refused.into_iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use berth_config::{ConfigDocument, resolve};

    #[test]
    fn a_host_without_kvm_is_reported_if_guests_need_it() {
        let here = Path::new("/");
        let nowhere = Path::new("/no/such/kvm");
        for (text, device, reported) in [
            ("", nowhere, true),
            ("", here, false),
            ("[libvirt]\nvirt_type = \"kvm\"\n", nowhere, true),
            ("[libvirt]\nvirt_type = \"qemu\"\n", nowhere, false),
            (
                "[libvirt]\nconnection_uri = \"test:///default\"\n",
                nowhere,
                false,
            ),
            (
                "compute_driver = \"fake\"\n[fake]\nmachine = \"/m\"\n",
                nowhere,
                false,
            ),
        ] {
            let document = ConfigDocument {
                name: "berth.toml".to_owned(),
                text: text.to_owned(),
            };
            let loaded = resolve(&[document], &[]).unwrap();
            let problem = without_kvm(&loaded, device);
            assert_eq!(problem.is_some(), reported, "{text}");
            let shown = problem
                .map(|problem| problem.to_string())
                .unwrap_or_default();
            assert!(
                !reported || shown.contains("/no/such/kvm") && shown.contains("qemu"),
                "{shown}"
            );
        }
    }

    fn resolved(text: &str) -> LoadedConfig {
        let document = ConfigDocument {
            name: "berth.toml".to_owned(),
            text: text.to_owned(),
        };
        resolve(&[document], &[]).unwrap()
    }

    #[test]
    fn cpus_that_this_host_has_not_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let online = folder.path().join("online");
        fs::write(&online, "0-1\n").unwrap();
        let loaded = resolved("[compute]\ncpu_dedicated_set = \"0-999\"\n");
        let problems = offline_cpus(&loaded, &online);
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "berth.toml:2:21: compute.cpu_dedicated_set: CPU 2-999 is not online on this host; this host has the \
                 CPUs 0-1 [BERTH-E0105]"
            ]
        );
        let fits = resolved("[compute]\ncpu_dedicated_set = \"1\"\n");
        assert_eq!(offline_cpus(&fits, &online), []);
    }

    #[test]
    fn a_mistyped_state_folder_and_a_foreign_address_are_reported() {
        let loaded = resolved(
            "state_path = \"/nope/deep/state\"\n[api]\nlisten = \"192.0.2.55:24880\"\ninsecure_http = true\n",
        );
        let problems = paths_and_addresses(&loaded);
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "berth.toml:1:14: state_path: /nope/deep does not exist [BERTH-E0105]",
                "berth.toml:3:10: api.listen: 192.0.2.55 is not an address of this host; ip addr shows \
                 the addresses of this host [BERTH-E0105]"
            ]
        );
    }

    #[test]
    fn the_check_reports_the_folders_of_disks_and_of_the_socket_that_others_can_change() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt as _;

        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name).display().to_string();
        for name in ["state", "state/instances", "run"] {
            fs::create_dir(at(name)).unwrap();
        }
        let loaded = resolved(&format!(
            "state_path = \"{}\"\n[agent]\nadmin_socket = \"{}/agent.sock\"\n",
            at("state"),
            at("run")
        ));
        let set = |name: &str, mode| {
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        };
        let shown = |role| -> Vec<String> {
            let problems = state_files(&loaded, role);
            problems.iter().map(ToString::to_string).collect()
        };
        for name in ["state", "state/instances", "run"] {
            set(name, 0o755);
        }
        assert_eq!(shown(Some(StartRole::Agent)), [""; 0]);
        set("state/instances", 0o777);
        set("run", 0o775);
        let found = shown(Some(StartRole::Up));
        let disks = format!(
            "instances_path: the folder of the guests' disks {} is refused: ",
            at("state/instances")
        );
        let socket = format!(
            "agent.admin_socket: the socket's folder {} is refused: ",
            at("run")
        );
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains(&disks) && found[1].contains(&socket),
            "{found:?}"
        );
        assert_eq!(shown(Some(StartRole::Controller)), [""; 0]);
        // One remedy is reported once.
        set("state/instances", 0o755);
        set("run", 0o755);
        set("state", 0o777);
        assert_eq!(shown(Some(StartRole::Agent)).len(), 1);
    }

    #[test]
    fn the_check_reports_every_file_of_state_that_another_user_owns_or_can_change() {
        use std::fs::Permissions;
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

        let folder = tempfile::tempdir().unwrap();
        let loaded = resolved(&format!("state_path = \"{}\"\n", folder.path().display()));
        let shown = |role| -> Vec<String> {
            let problems = state_files(&loaded, role);
            problems.iter().map(ToString::to_string).collect()
        };
        let names = ["clouds.yaml", "identity.sqlite", "identity.toml"];
        for name in names {
            let file = folder.path().join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        }
        let roles = [
            Some(StartRole::Agent),
            Some(StartRole::Up),
            Some(StartRole::Controller),
            None,
        ];
        for role in roles {
            assert_eq!(shown(role), [""; 0], "{role:?}");
        }
        for name in names {
            let open = Permissions::from_mode(0o666);
            fs::set_permissions(folder.path().join(name), open).unwrap();
        }
        for role in roles {
            let found = shown(role);
            assert_eq!(found.len(), names.len(), "{role:?}: {found:?}");
            for (problem, name) in found.iter().zip(names) {
                let file = folder.path().join(name);
                let begin = format!(
                    "berth.toml:1:14: state_path: the file of state {} is refused: ",
                    file.display()
                );
                let end = format!("chmod go-w {} [BERTH-E0110]", file.display());
                assert!(
                    problem.starts_with(&begin) && problem.ends_with(&end),
                    "{problem}"
                );
            }
        }
        for name in names {
            let closed = Permissions::from_mode(0o600);
            fs::set_permissions(folder.path().join(name), closed).unwrap();
        }
        // Only root can give files away.
        if fs::metadata(folder.path()).unwrap().uid() == 0 {
            chown(folder.path().join(names[2]), Some(65534), None).unwrap();
            let found = shown(Some(StartRole::Up));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].contains("identity.toml") && found[0].contains("(user 65534"),
                "{found:?}"
            );
            // A controller may run as the user that owns its folder; an agent does not.
            chown(folder.path(), Some(65534), None).unwrap();
            assert_eq!(shown(Some(StartRole::Controller)), [""; 0]);
            let found = shown(Some(StartRole::Agent));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("the state folder"), "{found:?}");
        }
    }

    /// A machine with two cards of one vendor.
    fn machine() -> (tempfile::TempDir, Sysfs) {
        let folder = tempfile::tempdir().unwrap();
        for address in ["0000:81:00.0", "0000:82:00.0"] {
            let at = folder.path().join("bus/pci/devices").join(address);
            fs::create_dir_all(&at).unwrap();
            for (file, content) in [
                ("vendor", "0x10de\n"),
                ("device", "0x1eb8\n"),
                ("class", "0x030200\n"),
            ] {
                fs::write(at.join(file), content).unwrap();
            }
        }
        let sysfs = Sysfs::at(folder.path());
        (folder, sysfs)
    }

    #[test]
    fn a_device_of_this_machine_that_both_lists_mean_is_refused() {
        let (_folder, sysfs) = machine();
        let lists = |of_service: &str| {
            format!(
                "[pci]\ndevice_spec = [{{vendor_id = \"10de\"}}]\n[accelerators]\ndevice_spec = [{of_service}]\n"
            )
        };
        let both = lists("{address = \"0000:82:00.0\"}");
        let elsewhere = format!("compute_driver = \"fake\"\n[fake]\nmachine = \"/m\"\n{both}");
        for (text, problems) in [
            (both.clone(), 1),
            (lists("{address = \"0000:83:00.0\"}"), 0),
            (elsewhere, 0),
        ] {
            let document = ConfigDocument {
                name: "berth.toml".to_owned(),
                text: text.clone(),
            };
            let loaded = resolve(&[document], &[]).unwrap();
            let refused = refused_devices(&loaded, &sysfs);
            assert_eq!(refused.len(), problems, "{text}: {refused:?}");
            for problem in refused {
                let shown = problem.to_string();
                assert!(
                    shown.contains("accelerators.device_spec") && shown.contains("0000:82:00.0"),
                    "{shown}"
                );
            }
        }
    }
}
