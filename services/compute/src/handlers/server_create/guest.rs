//! From what a body asks for to what the conductor is asked for: flavor, image, key, group and host are looked up.

use std::collections::BTreeMap;

use berth_conductor::BootRequest;
use berth_hosts::ServerGroupError;
use berth_http::{Call, Fault};
use berth_wire::conductor::CreateGuest;
use berth_wire::guest::{ConfigDriveBody, FlavorBody, GuestPower, SshKeyBody};
use uuid::Uuid;

use super::body::{Asked, Networks};
use crate::flavors::{Flavor, FlavorError};
use crate::handlers::hosts::{aggregate_fault, group_fault, host_fault};
use crate::handlers::{flavors, key_pairs};
use crate::images::{FoundImage, ImagesError};
use crate::key_pairs::{KeyPair, KeyPairError};
use crate::policies;
use crate::router::Api;
use crate::servers::{NewServers, ServerFlavor};

/// A name that any guest could have: its own is known once it is written down.
const SOME_NAME: &str = "instance-00000000";

/// Where a server is to be.
struct Destination {
    zone: Option<String>,
    node: Option<String>,
    filters: Filters,
}

/// Whether the scheduler's filters are asked about the node: not about one that is forced.
#[derive(Clone, Copy)]
enum Filters {
    Asked,
    Skipped,
}

impl Api {
    /// What is to be written down, and whether its reservation is to be told.
    pub(super) async fn new_servers(
        &self,
        call: &Call,
        asked: Asked,
    ) -> Result<(NewServers, bool), Fault> {
        let project_id = call.caller.project_id().ok_or_else(|| {
            Fault::forbidden("A server is a project's: log in to a project to ask for one.")
        })?;
        let flavor = self.flavor_of(call, &asked.flavor).await?;
        let image = self.image_of(asked.image, project_id).await?;
        let flavor = of_flavor(&flavor)?;
        self.check_room(call, &flavor.body, &image)?;
        let key = self.key_of(call, asked.key_name.as_deref()).await?;
        let server_group = self.group_of(call, &asked).await?;
        let Destination {
            zone,
            node,
            filters,
        } = self.destination_of(call, &asked).await?;
        let (asked_zone, node) = match (filters, node) {
            (Filters::Skipped, Some(node)) => {
                let zone = zone.as_deref().unwrap_or_default();
                (Some(format!("{zone}::{node}")), None)
            }
            (_, node) => (zone.clone(), node),
        };
        let guest = CreateGuest {
            uuid: None,
            name: SOME_NAME.to_owned(),
            project_id: Some(project_id.to_owned()),
            user_id: Some(call.caller.user_id.clone()),
            flavor: flavor.body.clone(),
            image: Some(image.body),
            kernel: None,
            networks: match asked.networks {
                Networks::None => Vec::new(),
                Networks::Auto => self
                    .compute
                    .inner
                    .options
                    .auto_network
                    .clone()
                    .into_iter()
                    .collect(),
            },
            device_profile: None,
            host: None,
            node,
            availability_zone: asked_zone,
            ignore_hosts: Vec::new(),
            scheduler_hints: asked.hints.clone(),
            config_drive: Some(drive(&asked, key.as_ref())),
            power: GuestPower::Running,
        };
        self.check(&guest)?;
        let new = NewServers {
            project_id: project_id.to_owned(),
            user_id: call.caller.user_id.clone(),
            name: asked.name,
            count: asked.count,
            description: asked.description,
            key_name: asked.key_name,
            image: Some(asked.image),
            flavor,
            zone,
            server_group,
            disk_config: asked.disk_config,
            access_ip_v4: asked.access_ip_v4,
            access_ip_v6: asked.access_ip_v6,
            metadata: asked.metadata,
            tags: asked.tags,
            guest,
            request_id: call.request_id.to_string(),
        };
        Ok((new, asked.return_reservation))
    }

    /// Refuses what the conductor would refuse.
    fn check(&self, guest: &CreateGuest) -> Result<(), Fault> {
        let request = BootRequest::new(guest.clone(), Uuid::nil())
            .map_err(|error| Fault::bad_request(error.to_string()))?;
        let checked = self.compute.inner.conductor.check(&request);
        checked.map_err(|error| Fault::bad_request(error.to_string()))
    }

    async fn flavor_of(&self, call: &Call, flavorid: &str) -> Result<Flavor, Fault> {
        let unknown = || {
            let flavorid = crate::fields::bounded(flavorid);
            Fault::bad_request(FlavorError::NotFound { flavorid }.to_string())
        };
        let flavor = match self.compute.flavor(flavorid).await {
            Err(FlavorError::NotFound { .. }) => return Err(unknown()),
            flavor => flavor.map_err(flavors::fault)?,
        };
        match self.is_admin(call) || flavor.is_for(call.caller.project_id()) {
            true => Ok(flavor),
            false => Err(unknown()),
        }
    }

    pub(in crate::handlers) async fn image_of(
        &self,
        image: Uuid,
        project_id: &str,
    ) -> Result<FoundImage, Fault> {
        match self.compute.inner.images.image(image, project_id).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => {
                let sentence = format!("Image {image} could not be found.");
                Err(Fault::bad_request(sentence))
            }
            Err(error @ ImagesError::Unfit { .. }) => Err(Fault::bad_request(error.to_string())),
            Err(error @ ImagesError::Service { .. }) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "image service");
                Err(Fault::unavailable(error.to_string()))
            }
        }
    }

    /// Refuses an image that a server of this flavor has no room for, or for which nobody says how much room it may take: a root
    /// disk of 0 GiB is as large as its image, and no `DISK_GB` is claimed for it.
    pub(in crate::handlers) fn check_room(
        &self,
        call: &Call,
        flavor: &FlavorBody,
        image: &FoundImage,
    ) -> Result<(), Fault> {
        if flavor.ram_mb < image.min_ram {
            let sentence = "Flavor's memory is too small for requested image.";
            return Err(Fault::bad_request(sentence));
        }
        if flavor.disk_gb == 0 && self.allow(call, policies::SERVER_ZERO_DISK).is_err() {
            let sentence = "Only volume-backed servers are allowed for flavors with zero disk.";
            return Err(Fault::forbidden(sentence));
        }
        if flavor.disk_gb != 0 && flavor.disk_gb < image.min_disk {
            let sentence = "Flavor's disk is too small for requested image.";
            return Err(Fault::bad_request(sentence));
        }
        Ok(())
    }

    async fn key_of(&self, call: &Call, name: Option<&str>) -> Result<Option<KeyPair>, Fault> {
        let Some(name) = name else {
            return Ok(None);
        };
        match self.compute.key_pair(&call.caller.user_id, name).await {
            Err(KeyPairError::NotFound { .. }) => {
                Err(Fault::bad_request("Invalid key_name provided."))
            }
            key => key.map(Some).map_err(key_pairs::fault),
        }
    }

    async fn group_of(&self, call: &Call, asked: &Asked) -> Result<Option<Uuid>, Fault> {
        let Some(text) = asked.hints.get("group").and_then(|group| group.first()) else {
            return Ok(None);
        };
        let unknown = || {
            let text = crate::fields::bounded(text);
            Fault::bad_request(format!("Instance group {text} could not be found."))
        };
        let uuid = Uuid::try_parse(text).map_err(|_| unknown())?;
        let group = match self.compute.inner.hosts.group(uuid).await {
            Err(ServerGroupError::NotFound { .. }) => return Err(unknown()),
            group => group.map_err(group_fault)?,
        };
        // An operator's, too: the members of a group are told to its project.
        match call.caller.project_id() == Some(group.project_id.as_str()) {
            true => Ok(Some(uuid)),
            false => Err(unknown()),
        }
    }

    /// The zone, and the node where an operator names one.
    async fn destination_of(&self, call: &Call, asked: &Asked) -> Result<Destination, Fault> {
        let text = asked.zone.as_deref().unwrap_or_default();
        let mut parts = text
            .splitn(3, ':')
            .map(|part| Some(part).filter(|it| !it.is_empty()));
        let mut part = || parts.next().flatten().map(str::to_owned);
        let (zone, mut host, mut node) = (part(), part(), part());
        let mut filters = Filters::Asked;
        if host.is_some() || node.is_some() {
            self.allow(call, policies::SERVER_FORCED_HOST)?;
            filters = Filters::Skipped;
        }
        if asked.host.is_some() || asked.node.is_some() {
            self.allow(call, policies::SERVER_REQUESTED_HOST)?;
            if host.is_some() || node.is_some() {
                let sentence = "host and hypervisor_hostname, or availability_zone with a host in it: not both";
                return Err(Fault::bad_request(sentence));
            }
            (host, node) = (asked.host.clone(), asked.node.clone());
        }
        self.check_zone(zone.as_deref()).await?;
        Ok(Destination {
            zone,
            node: self.node_of(host, node).await?,
            filters,
        })
    }

    async fn check_zone(&self, zone: Option<&str>) -> Result<(), Fault> {
        let Some(zone) = zone else {
            return Ok(());
        };
        let zones = self.compute.inner.hosts.availability_zones().await;
        match zones.map_err(aggregate_fault)?.contains_key(zone) {
            true => Ok(()),
            false => Err(Fault::bad_request(
                "The requested availability zone is not available",
            )),
        }
    }

    /// The node of a host, or that node, where it is one of the host's.
    async fn node_of(
        &self,
        host: Option<String>,
        node: Option<String>,
    ) -> Result<Option<String>, Fault> {
        if host.is_none() && node.is_none() {
            return Ok(None);
        }
        let hosts = self.compute.inner.hosts.hosts().await.map_err(host_fault)?;
        let meant = hosts
            .iter()
            .filter(|known| host.as_ref().is_none_or(|host| known.host == *host));
        let nodes = meant.flat_map(|known| &known.nodes);
        let nodes: Vec<&String> = nodes
            .map(|known| &known.hypervisor_hostname)
            .filter(|known| node.as_ref().is_none_or(|node| *known == node))
            .collect();
        match nodes.as_slice() {
            [one] => Ok(Some((*one).clone())),
            [] => {
                let named = crate::fields::bounded(&host.or(node).unwrap_or_default());
                Err(Fault::bad_request(format!(
                    "Compute host {named} could not be found."
                )))
            }
            _ => Err(Fault::bad_request(
                "The host has several nodes: name one of them as well.",
            )),
        }
    }
}

/// A flavor as a guest has it.
fn of_flavor(flavor: &Flavor) -> Result<ServerFlavor, Fault> {
    let made = &flavor.made;
    let large = || Fault::bad_request("The flavor is larger than a guest can be.");
    if made.swap != 0 {
        let sentence = "The flavor has swap, which guests do not get here: name one without.";
        return Err(Fault::bad_request(sentence));
    }
    let amount = |amount: i64| u64::try_from(amount).map_err(|_| large());
    Ok(ServerFlavor {
        flavorid: made.flavorid.clone(),
        swap: made.swap,
        body: FlavorBody {
            name: made.name.clone(),
            vcpus: u32::try_from(made.vcpus).map_err(|_| large())?,
            ram_mb: amount(made.memory_mb)?,
            disk_gb: amount(made.root_gb)?,
            ephemeral_gb: amount(made.ephemeral_gb)?,
            extra_specs: flavor.extra_specs.clone(),
        },
    })
}

/// What the guest is told by its config drive: there is no metadata service, so each has one.
fn drive(asked: &Asked, key: Option<&KeyPair>) -> ConfigDriveBody {
    let keys = key.map(|key| SshKeyBody {
        name: key.name.clone(),
        public_key: key.public_key.clone(),
    });
    ConfigDriveBody {
        hostname: None,
        metadata: BTreeMap::clone(&asked.metadata),
        user_data: asked.user_data.clone(),
        ssh_keys: keys.into_iter().collect(),
    }
}
