//! Checks of the configuration against this host: files that options name, KVM, the lists of devices.

use std::path::Path;
use std::time::SystemTime;

use berth_compose::tls;
use berth_config::{ComputeDriver, ConfigProblem, LoadedConfig, VirtType};
use berth_model::NodeName;
use berth_output::ErrorCode;
use berth_serve::TlsFiles;
use berth_sysfs::{AllowList, DeviceLists, Sysfs};
use berth_virt::PciInPlacement;

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
        "api.cafile",
        "accelerators.reset_hook",
        "accelerators.program_hook",
        "accelerators.health_hook",
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

/// The problem that this host's certificate is that of a client of every other host: whoever controls one host then controls all.
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
    let is_elsewhere = config.compute_driver != ComputeDriver::Libvirt
        || !config.libvirt.connection_uri().starts_with("qemu");
    if is_elsewhere || lists.are_empty() {
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
