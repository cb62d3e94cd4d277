//! `berth guest create`: creates a guest at the conductor and waits for its boot.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_conductor::BootRequest;
use berth_model::DesiredPower;
use berth_output::progress::GuestProgress;
use berth_output::{ErrorCode, Failure, ListFormat, Listing};
use berth_wire::conductor::{CreateGuest, GuestShown};
use berth_wire::guest::{
    ConfigDriveBody, FlavorBody, KernelBody, NetworkBody, NetworkSource, PublicKeyBody,
};
use serde_json::json;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::clients::{GuestClients, failed};
use super::image::{OfImage, image as image_of, pair, pairs, text};
use super::show;
use super::size::{gibibytes, mebibytes};

/// How often the conductor is polled for progress.
const POLL: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
pub(super) struct CreateArguments {
    /// The name of the guest.
    #[arg(value_name = "NAME", required_unless_present = "spec")]
    name: Option<String>,
    /// The number of virtual CPUs.
    #[arg(long, value_name = "N", required_unless_present = "spec", value_parser = vcpus)]
    vcpus: Option<u32>,
    /// The guest's memory: in MiB, or with a unit such as 2G.
    #[arg(long, value_name = "SIZE", required_unless_present = "spec", value_parser = mebibytes)]
    ram: Option<u64>,
    /// Root disk: in GiB, or with a unit such as 1T; 0: the size of its image, or no disk without an image.
    #[arg(long, value_name = "SIZE", default_value_t = 0, value_parser = gibibytes)]
    disk: u64,
    /// Size of a second, empty disk: in GiB, or with a unit.
    #[arg(long, value_name = "SIZE", default_value_t = 0, value_parser = gibibytes)]
    ephemeral: u64,
    /// Size of a swap disk: in MiB, or with a unit such as 2G.
    #[arg(long, value_name = "SIZE", default_value_t = 0, value_parser = mebibytes)]
    swap: u64,
    /// A flavor extra spec, may be repeated: hw:cpu_policy=dedicated, resources:VGPU=1, trait:CUSTOM_X=required.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    property: Vec<(String, String)>,
    /// The device profile that defines the guest's accelerators.
    #[arg(long, value_name = "PROFILE")]
    device_profile: Option<String>,
    /// The image: a path on the host, an http(s) URL, or the UUID of an image in the image service.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    #[command(flatten)]
    of_image: OfImage,
    /// An image property, may be repeated: hw_firmware_type=uefi, os_secure_boot=required.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, requires = "image")]
    image_property: Vec<(String, String)>,
    /// Boot this kernel of the host directly: an absolute path in one of its [image_cache] image_directories.
    #[arg(long, value_name = "FILE")]
    kernel: Option<String>,
    /// The initial RAM disk of the kernel: an absolute path, too.
    #[arg(long, value_name = "FILE", requires = "kernel")]
    ramdisk: Option<String>,
    /// The command line of the kernel.
    #[arg(long, value_name = "TEXT", requires = "kernel", default_value = "")]
    cmdline: String,
    /// Attach an interface to this libvirt network; may be repeated. A host without it refuses the guest.
    #[arg(long, value_name = "NAME")]
    network: Vec<String>,
    /// Attach an interface to this Linux bridge, after those of --network; may be repeated.
    #[arg(long, value_name = "NAME")]
    bridge: Vec<String>,
    /// A file with cloud-init user data for the first boot.
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,
    /// A public SSH key that may log in; may be repeated.
    #[arg(long, value_name = "FILE")]
    ssh_key: Vec<PathBuf>,
    /// Metadata that the guest can read; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// The hostname of the guest; default: its name.
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// Schedule to this host only; filters still apply.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Schedule to this node only; filters still apply.
    #[arg(long, value_name = "NODE", visible_alias = "hypervisor-hostname")]
    node: Option<String>,
    /// The availability zone. ZONE:HOST, ZONE:HOST:NODE and ZONE::NODE force a host without filters.
    #[arg(long, value_name = "ZONE")]
    availability_zone: Option<String>,
    /// A host to exclude; may be repeated.
    #[arg(long, value_name = "HOST")]
    ignore_host: Vec<String>,
    /// A scheduler hint, may be repeated, also with the same key: same_host=UUID, group=UUID.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    hint: Vec<(String, String)>,
    /// The UUID of the guest. Repeating the command with the same UUID creates no second guest.
    #[arg(long, value_name = "UUID")]
    uuid: Option<Uuid>,
    /// The project that owns the guest.
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// The user that owns the guest.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Create the guest, but leave it switched off.
    #[arg(long)]
    off: bool,
    /// A complete request for the agent, as a JSON file. Nothing is scheduled, claimed or bound for it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "wait"])]
    spec: Option<PathBuf>,
    /// Wait until the guest is running or has failed. This is the default on a terminal, where progress is shown.
    #[arg(long)]
    wait: bool,
    /// Do not wait, even on a terminal.
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// The time limit of the wait; the boot continues afterwards.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10m", conflicts_with = "no_wait")]
    timeout: Duration,
    /// Check the request and print the query to Placement, without creating anything.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: ListFormat,
}

fn vcpus(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number of virtual CPUs from 1".to_owned())
}

impl CreateArguments {
    /// Whether the command waits for the end of the boot: by default on a terminal only.
    fn waits(&self, is_terminal: bool) -> bool {
        self.wait || (is_terminal && !self.no_wait)
    }

    fn body(&self) -> Result<CreateGuest, Failure> {
        let (Some(name), Some(vcpus), Some(ram_mb)) = (&self.name, self.vcpus, self.ram) else {
            let what = "NAME, --vcpus and --ram are required, or --spec";
            return Err(Failure::new(ErrorCode::Usage, what));
        };
        let extra_specs = pairs("--property", &self.property)?;
        let mut scheduler_hints: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (hint, value) in &self.hint {
            let values = scheduler_hints.entry(hint.clone()).or_default();
            values.push(value.clone());
        }
        let image = self.image.as_deref();
        let mut image = image.map(|it| image_of(it, &self.of_image)).transpose()?;
        if let Some(image) = &mut image {
            image.properties = pairs("--image-property", &self.image_property)?;
        }
        let kernel = self.kernel.as_ref().map(|kernel| KernelBody {
            kernel: kernel.clone(),
            ramdisk: self.ramdisk.clone(),
            command_line: self.cmdline.clone(),
        });
        if let Some(uuid) = self
            .network
            .iter()
            .find(|name| Uuid::try_parse(name).is_ok())
        {
            let what =
                format!("--network takes the name of a libvirt network, and {uuid} is a UUID");
            return Err(Failure::new(ErrorCode::Usage, what).hint(
                "openstack server create --network or --port gives a server ports of Neutron",
            ));
        }
        let networks = self.network.iter().cloned().map(NetworkSource::Network);
        let bridges = self.bridge.iter().cloned().map(NetworkSource::Bridge);
        Ok(CreateGuest {
            // The UUID is chosen here, so that a retry after a lost answer creates no second guest.
            uuid: Some(self.uuid.unwrap_or_else(Uuid::new_v4)),
            name: name.clone(),
            project_id: self.project.clone(),
            user_id: self.user.clone(),
            flavor: FlavorBody {
                name: format!("{vcpus}x{ram_mb}"),
                vcpus,
                ram_mb,
                disk_gb: self.disk,
                ephemeral_gb: self.ephemeral,
                swap_mb: self.swap,
                extra_specs,
            },
            image,
            kernel,
            networks: networks
                .chain(bridges)
                .map(|source| NetworkBody { source, mac: None })
                .collect(),
            requested_networks: Vec::new(),
            security_groups: Vec::new(),
            device_profile: self.device_profile.clone(),
            host: self.host.clone(),
            node: self.node.clone(),
            availability_zone: self.availability_zone.clone(),
            ignore_hosts: self.ignore_host.clone(),
            scheduler_hints,
            config_drive: self.config_drive()?,
            power: if self.off {
                DesiredPower::ShutOff
            } else {
                DesiredPower::Running
            },
        })
    }

    /// The contents of the config drive; none if no option sets any.
    fn config_drive(&self) -> Result<Option<ConfigDriveBody>, Failure> {
        let user_data = self.user_data.as_ref();
        let user_data = user_data
            .map(|path| text("--user-data", path))
            .transpose()?;
        let mut ssh_keys = Vec::new();
        for path in &self.ssh_key {
            let line = text("--ssh-key", path)?;
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if line.contains("PRIVATE KEY") {
                let what = format!("--ssh-key: {} is a private key", path.display());
                return Err(
                    Failure::new(ErrorCode::Usage, what).hint("name the .pub file next to it")
                );
            }
            let name = path.file_stem().unwrap_or_default();
            ssh_keys.push(PublicKeyBody {
                name: name.to_string_lossy().into_owned(),
                public_key: line,
            });
        }
        let drive = ConfigDriveBody {
            hostname: self.hostname.clone(),
            metadata: pairs("--meta", &self.meta)?,
            user_data: user_data.map(|bytes| STANDARD.encode(bytes)),
            ssh_keys,
            ..ConfigDriveBody::default()
        };
        Ok((drive != ConfigDriveBody::default()).then_some(drive))
    }
}

pub(super) async fn run(
    arguments: &CreateArguments,
    clients: &GuestClients,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if let Some(file) = &arguments.spec {
        return at_agent(arguments, file, clients, out).await;
    }
    let body = arguments.body()?;
    let fresh = body.uuid.unwrap_or_default();
    let request = BootRequest::new(body.clone(), fresh).map_err(|error| {
        Failure::caused(
            ErrorCode::Refused,
            "the request for the guest is invalid",
            &error,
        )
        .hint("berth guest create --help lists the options")
    })?;
    if arguments.dry_run {
        writeln!(out, "{} would be created", body.name)?;
        let query = request.groups().query();
        writeln!(out, "query to Placement: /allocation_candidates?{query}")?;
        if let Some(profile) = request.profile() {
            writeln!(out, "plus the groups of device profile {profile}")?;
        }
        return Ok(());
    }
    let made = clients.conductor.create(&body).await;
    let made = made.map_err(|error| failed(&error))?;
    let is_terminal = std::io::stderr().is_terminal();
    if !arguments.waits(is_terminal) {
        return brief(&made).print(&arguments.format, out);
    }
    let shown = GuestProgress::shown(is_terminal);
    let ended = wait(clients, made, arguments.timeout, &shown).await;
    shown.end();
    let ended = ended?;
    brief(&ended).print(&arguments.format, out)
}

fn brief(guest: &GuestShown) -> Listing {
    let mut listing = Listing::new(&["uuid", "name", "status", "node"]);
    listing.push([
        json!(guest.uuid),
        json!(guest.name),
        json!(guest.status),
        json!(guest.node),
    ]);
    listing
}

/// Waits until the guest runs, and shows each step.
async fn wait(
    clients: &GuestClients,
    mut guest: GuestShown,
    timeout: Duration,
    shown: &GuestProgress,
) -> Result<GuestShown, Failure> {
    let until = Instant::now() + timeout;
    loop {
        shown.is(progress(&guest), guest.image.as_ref());
        match guest.status.as_str() {
            "active" => return Ok(guest),
            "error" => {
                let fault = guest.fault.unwrap_or_default();
                let what = format!(
                    "guest {} ({}) failed to boot: {fault}",
                    guest.name, guest.uuid
                );
                // The rejected hosts are in the scheduler's explanation, the steps of the boot in the guest.
                let command = match fault.contains("No valid host") {
                    true => "berth scheduler explain --request",
                    false => "berth guest show",
                };
                return Err(Failure::new(ErrorCode::Refused, what)
                    .hint(format!("{command} {}", guest.uuid)));
            }
            _ => {}
        }
        if Instant::now() >= until {
            let (uuid, progress) = (guest.uuid, progress(&guest));
            let what = format!("guest {uuid} has not booted within {timeout:?}: {progress}");
            return Err(Failure::new(ErrorCode::Unavailable, what)
                .hint(format!("the boot continues: berth guest show {uuid}")));
        }
        sleep(POLL).await;
        let reported = clients.conductor.guest(guest.uuid.into()).await;
        let reported = reported.map_err(|error| failed(&error))?;
        guest = reported.ok_or_else(|| super::clients::unknown(&guest.uuid.to_string()))?;
    }
}

fn progress(guest: &GuestShown) -> String {
    let step = guest.steps.last();
    let step = step.map_or_else(String::new, |step| {
        format!(": {} {}", step.step, step.state)
    });
    let held = guest.fault.as_ref();
    let held = held.map_or_else(String::new, |fault| format!(" (waits: {fault})"));
    format!("{} {}{step}{held}", guest.name, guest.status)
}

/// Sends a complete request directly to the agent.
async fn at_agent(
    arguments: &CreateArguments,
    file: &std::path::Path,
    clients: &GuestClients,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let body = text("--spec", file)?;
    let parsed: serde_json::Value = serde_json::from_slice(&body).map_err(|error| {
        let what = format!("--spec: {} is not valid JSON", file.display());
        Failure::caused(ErrorCode::Usage, what, &error)
    })?;
    if arguments.dry_run {
        let keys = parsed
            .as_object()
            .map(|map| map.keys().cloned().collect::<Vec<_>>());
        let keys = keys.unwrap_or_default().join(", ");
        writeln!(out, "the agent would create a guest with {keys}")?;
        return Ok(());
    }
    let made = clients.agent.build_of(body).await;
    let made = made.map_err(|error| failed(&error))?;
    show::of_agent(&[made]).print(&arguments.format, out)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        create: CreateArguments,
    }

    fn asked(words: &[&str]) -> CreateArguments {
        let least = ["create", "web", "--vcpus", "1", "--ram", "64"];
        let words = least.iter().chain(words);
        Command::try_parse_from(words).unwrap().create
    }

    #[test]
    fn a_person_at_a_terminal_waits_and_a_script_asks_for_it() {
        for (words, at_terminal, in_pipe) in [
            (&[][..], true, false),
            (&["--wait"], true, true),
            (&["--no-wait"], false, false),
        ] {
            let asked = asked(words);
            assert_eq!(asked.waits(true), at_terminal, "{words:?}");
            assert_eq!(asked.waits(false), in_pipe, "{words:?}");
        }
    }

    #[test]
    fn a_network_of_neutron_is_refused_where_one_of_libvirt_is_named() {
        let refused = asked(&["--network", "11111111-2222-4333-8444-0000000000aa"]).body();
        let refused = format!("{:?}", refused.unwrap_err());
        assert!(refused.contains("openstack server create"), "{refused}");
        assert!(asked(&["--network", "default"]).body().is_ok());
    }

    #[test]
    fn the_machine_properties_of_an_image_are_sent_with_it() {
        let image = "11111111-2222-4333-8444-0000000000aa";
        let asked = asked(&[
            "--image",
            image,
            "--image-format",
            "qcow2",
            "--image-property",
            "hw_firmware_type=uefi",
            "--image-property",
            "os_secure_boot=required",
        ]);
        let properties = asked.body().unwrap().image.unwrap().properties;
        let properties: Vec<_> = properties.iter().collect();
        assert_eq!(
            format!("{properties:?}"),
            r#"[("hw_firmware_type", "uefi"), ("os_secure_boot", "required")]"#
        );
    }
}
