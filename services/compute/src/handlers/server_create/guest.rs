//! Resolves a parsed request: looks up flavor, image, key pair, server group and host, and builds the request to the
//! conductor.

use std::collections::BTreeMap;

use berth_conductor::{BootRequest, ConductorError};
use berth_hosts::ServerGroupError;
use berth_http::fields::invalid_field;
use berth_http::{ApiRequest, Fault, RuleDefault};
use berth_model::{DesiredPower, check_image_property};
use berth_networks::{
    NetworkChoiceError, NetworkWish, PortRefusal, choose_networks, choose_security_groups,
    is_default_group,
};
use berth_quota::GuestResources;
use berth_wire::conductor::{CreateGuest, RequestedNetwork};
use berth_wire::guest::{ConfigDriveBody, FlavorBody, NetworkBody, PublicKeyBody};
use serde_json::json;
use uuid::Uuid;

use super::body::ServerCreateRequest;
use crate::flavors::{ComputeFlavor, ComputeFlavorError};
use crate::handlers::hosts::{aggregate_fault, group_fault, host_fault};
use crate::handlers::{flavors, key_pairs};
use crate::images::{FoundImage, ImagesError};
use crate::key_pairs::{KeyPair, KeyPairError};
use crate::microversions::PORT_RESOURCES;
use crate::policies::admin;
use crate::servers::{NewServers, ServerFlavor};
use crate::state::ComputeApi;

/// Name the host of a new server together with its zone.
pub(super) const FORCED_HOST: RuleDefault = admin("os_compute_api:servers:create:forced_host");
/// Name the host of a new server.
pub(super) const REQUESTED_HOST: RuleDefault =
    admin("os_compute_api:compute:servers:create:requested_destination");
/// Create a server with a flavor of disk 0, whose root disk is as large as its image.
pub(super) const ZERO_DISK: RuleDefault = admin("os_compute_api:servers:create:zero_disk_flavor");

/// A placeholder for the check. The real name follows from the row number.
const PLACEHOLDER_NAME: &str = "instance-00000000";

/// The requested zone and node.
struct ServerDestination {
    zone: Option<String>,
    node: Option<String>,
    filters: FilterUse,
}

/// Whether the scheduler's filters apply to the requested node. They do not if the host is forced.
#[derive(Clone, Copy)]
enum FilterUse {
    Applied,
    Skipped,
}

/// The interfaces of each new server.
#[derive(Default)]
struct ServerNetworks {
    /// Links of the hosts.
    links: Vec<NetworkBody>,
    /// Ports of the network service.
    requested: Vec<RequestedNetwork>,
    security_groups: Vec<Uuid>,
}

/// Servers of one request cannot share a port or an address.
fn check_count(request: &ServerCreateRequest) -> Result<(), Fault> {
    let NetworkWish::Named(named) = &request.networks else {
        return Ok(());
    };
    let (_, most) = request.counts;
    if most > 1 && named.iter().any(|wanted| wanted.port.is_some()) {
        return Err(Fault::bad_request(
            "Unable to launch multiple instances with a single configured port ID. Please launch your instance one by one \
             with different ports.",
        ));
    }
    if most > 1 && named.iter().any(|wanted| wanted.fixed_ip.is_some()) {
        return Err(Fault::bad_request(
            "Failed to launch instances: max_count cannot be greater than 1 if an fixed_ip is specified.",
        ));
    }
    Ok(())
}

pub(in crate::handlers) fn network_fault(error: NetworkChoiceError) -> Fault {
    let sentence = error.to_string();
    match error {
        NetworkChoiceError::Port(PortRefusal::InUse(_))
        | NetworkChoiceError::Ambiguous
        | NetworkChoiceError::AmbiguousSecurityGroup(_) => Fault::conflict(sentence),
        NetworkChoiceError::External(_) => Fault::forbidden(sentence),
        NetworkChoiceError::Service(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the network service was not asked"
            );
            Fault::unavailable("The network service did not answer as expected.")
        }
        _ => Fault::bad_request(sentence),
    }
}

impl ComputeApi {
    /// Resolves the request. The flag is whether the response is the reservation id.
    pub(super) async fn new_servers(
        &self,
        call: &ApiRequest,
        request: ServerCreateRequest,
    ) -> Result<(NewServers, bool), Fault> {
        let project_id = call.caller.project_id().ok_or_else(|| {
            Fault::forbidden("Creating a server requires a token with a project.")
        })?;
        let flavor = self.flavor_of(call, &request.flavor).await?;
        let image = self.image_of(request.image, project_id).await?;
        let flavor = server_flavor(&flavor)?;
        self.check_image_fits(call, &flavor.body, &image)?;
        let key = self.key_of(call, request.key_name.as_deref()).await?;
        let server_group = self.group_of(call, &request).await?;
        let ServerDestination {
            zone,
            node,
            filters,
        } = self.destination_of(call, &request).await?;
        let (asked_zone, node) = match (filters, node) {
            (FilterUse::Skipped, Some(node)) => {
                let zone = zone.as_deref().unwrap_or_default();
                (Some(format!("{zone}::{node}")), None)
            }
            (_, node) => (zone.clone(), node),
        };
        let networks = self.networks_of(call, &request, project_id).await?;
        let guest = CreateGuest {
            uuid: None,
            name: PLACEHOLDER_NAME.to_owned(),
            project_id: Some(project_id.to_owned()),
            user_id: Some(call.caller.user_id.clone()),
            flavor: flavor.body.clone(),
            image: Some(image.body),
            kernel: None,
            networks: networks.links,
            requested_networks: networks.requested,
            security_groups: networks.security_groups,
            device_profile: None,
            host: None,
            node,
            availability_zone: asked_zone,
            ignore_hosts: Vec::new(),
            scheduler_hints: request.hints.clone(),
            config_drive: Some(config_drive(&request, key.as_ref())),
            power: DesiredPower::Running,
        };
        let resources = self.check(&guest).await?;
        let new = NewServers {
            project_id: project_id.to_owned(),
            user_id: call.caller.user_id.clone(),
            name: request.name,
            count: request.counts.1,
            min_count: request.counts.0,
            resources,
            description: request.description,
            key_name: request.key_name,
            image: Some(request.image),
            flavor,
            zone,
            server_group,
            disk_config: request.disk_config,
            access_ip_v4: request.access_ip_v4,
            access_ip_v6: request.access_ip_v6,
            metadata: request.metadata,
            tags: request.tags,
            guest,
            request_id: call.request_id.to_string(),
        };
        Ok((new, request.return_reservation))
    }

    /// The interfaces of each server. Without a network service they are on the network of the options.
    async fn networks_of(
        &self,
        call: &ApiRequest,
        request: &ServerCreateRequest,
        project_id: &str,
    ) -> Result<ServerNetworks, Fault> {
        let (wish, groups) = (&request.networks, &request.security_groups);
        let Some(service) = self.compute.inner.conductor.networks() else {
            return self.networks_without_service(request);
        };
        check_count(request)?;
        let has_groups = !is_default_group(groups);
        let requested = choose_networks(service, wish, project_id, has_groups).await;
        let groups = choose_security_groups(service, groups, project_id).await;
        let requested = requested.map_err(network_fault)?;
        let needs_resources = |wanted: &RequestedNetwork| !wanted.resource_request.is_empty();
        if !call.version.has(PORT_RESOURCES) && requested.iter().any(needs_resources) {
            return Err(Fault::bad_request(
                "Creating servers with ports having resource requests, like a port with a QoS minimum bandwidth policy, is not \
                 supported until microversion 2.72.",
            ));
        }
        Ok(ServerNetworks {
            links: Vec::new(),
            requested,
            security_groups: groups.map_err(network_fault)?,
        })
    }

    fn networks_without_service(
        &self,
        request: &ServerCreateRequest,
    ) -> Result<ServerNetworks, Fault> {
        if request.security_groups.iter().any(|name| name != "default") {
            let reason = "there is no network service, so there are no security groups";
            return Err(invalid_field(
                "security_groups",
                &json!(request.security_groups),
                reason,
            ));
        }
        let links = match &request.networks {
            NetworkWish::None => None,
            NetworkWish::Unspecified | NetworkWish::Auto => {
                self.compute.inner.options.auto_network.clone()
            }
            NetworkWish::Named(named) => {
                let reason =
                    "there is no network service: only auto and none are supported, from 2.37 on";
                return Err(invalid_field("networks", &json!(named), reason));
            }
        };
        Ok(ServerNetworks {
            links: links.into_iter().collect(),
            ..ServerNetworks::default()
        })
    }

    /// Checks what the conductor would refuse. Returns what a guest will claim, by resource class, if that is known.
    async fn check(&self, guest: &CreateGuest) -> Result<Option<GuestResources>, Fault> {
        let boot_request = BootRequest::new(guest.clone(), Uuid::nil())
            .map_err(|error| Fault::bad_request(error.to_string()))?;
        let conductor = &self.compute.inner.conductor;
        let refused = |error: ConductorError| Fault::bad_request(error.to_string());
        conductor.check(&boot_request).map_err(refused)?;
        conductor
            .check_names(&boot_request)
            .await
            .map_err(refused)?;
        Ok(conductor.resources(&boot_request).await)
    }

    async fn flavor_of(&self, call: &ApiRequest, flavorid: &str) -> Result<ComputeFlavor, Fault> {
        let unknown = || {
            let flavorid = berth_http::fields::bounded(flavorid);
            Fault::bad_request(ComputeFlavorError::NotFound { flavorid }.to_string())
        };
        let flavor = match self.compute.flavor(flavorid).await {
            Err(ComputeFlavorError::NotFound { .. }) => return Err(unknown()),
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
            Ok(Some(found)) => check_properties(image, found),
            Ok(None) => {
                let sentence = format!("Image {image} could not be found.");
                Err(Fault::bad_request(sentence))
            }
            Err(error @ ImagesError::Unfit { .. }) => Err(Fault::bad_request(error.to_string())),
            Err(error @ ImagesError::Service { .. }) => {
                tracing::warn!(error = &error as &dyn std::error::Error, %image, "looking up an image failed");
                Err(Fault::unavailable(error.to_string()))
            }
        }
    }

    /// Refuses an image that does not fit the flavor. A root disk of 0 GiB is as large as its image and claims no
    /// `DISK_GB`, so it needs a policy rule.
    pub(in crate::handlers) fn check_image_fits(
        &self,
        call: &ApiRequest,
        flavor: &FlavorBody,
        image: &FoundImage,
    ) -> Result<(), Fault> {
        if flavor.ram_mb < image.min_ram {
            let sentence = "Flavor's memory is too small for requested image.";
            return Err(Fault::bad_request(sentence));
        }
        if flavor.disk_gb == 0 && self.allow_rule(call, ZERO_DISK, None).is_err() {
            let sentence = "Only volume-backed servers are allowed for flavors with zero disk.";
            return Err(Fault::forbidden(sentence));
        }
        if flavor.disk_gb != 0 && flavor.disk_gb < image.min_disk {
            let sentence = "Flavor's disk is too small for requested image.";
            return Err(Fault::bad_request(sentence));
        }
        Ok(())
    }

    pub(in crate::handlers) async fn key_of(
        &self,
        call: &ApiRequest,
        name: Option<&str>,
    ) -> Result<Option<KeyPair>, Fault> {
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

    async fn group_of(
        &self,
        call: &ApiRequest,
        request: &ServerCreateRequest,
    ) -> Result<Option<Uuid>, Fault> {
        let Some(text) = request.hints.get("group").and_then(|group| group.first()) else {
            return Ok(None);
        };
        let unknown = || {
            let text = berth_http::fields::bounded(text);
            Fault::bad_request(format!("Instance group {text} could not be found."))
        };
        let uuid = Uuid::try_parse(text).map_err(|_| unknown())?;
        let group = match self.compute.inner.hosts.group(uuid).await {
            Err(ServerGroupError::NotFound { .. }) => return Err(unknown()),
            group => group.map_err(group_fault)?,
        };
        // Also for operators, because the members of a group are visible to its project.
        match call.caller.project_id() == Some(group.project_id.as_str()) {
            true => Ok(Some(uuid)),
            false => Err(unknown()),
        }
    }

    /// Parses the requested zone, host and node. Only operators may name the latter two.
    async fn destination_of(
        &self,
        call: &ApiRequest,
        request: &ServerCreateRequest,
    ) -> Result<ServerDestination, Fault> {
        let text = request.zone.as_deref().unwrap_or_default();
        let mut parts = text
            .splitn(3, ':')
            .map(|part| Some(part).filter(|it| !it.is_empty()));
        let mut part = || parts.next().flatten().map(str::to_owned);
        let (zone, mut host, mut node) = (part(), part(), part());
        let mut filters = FilterUse::Applied;
        if host.is_some() || node.is_some() {
            self.allow_rule(call, FORCED_HOST, None)?;
            filters = FilterUse::Skipped;
        }
        if request.host.is_some() || request.node.is_some() {
            self.allow_rule(call, REQUESTED_HOST, None)?;
            if host.is_some() || node.is_some() {
                let sentence = "host and hypervisor_hostname cannot be combined with an availability_zone that names a host";
                return Err(Fault::bad_request(sentence));
            }
            (host, node) = (request.host.clone(), request.node.clone());
        }
        self.check_zone(zone.as_deref()).await?;
        Ok(ServerDestination {
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

    /// The only node that matches host and node.
    async fn node_of(
        &self,
        host: Option<String>,
        node: Option<String>,
    ) -> Result<Option<String>, Fault> {
        if host.is_none() && node.is_none() {
            return Ok(None);
        }
        let hosts = self.compute.inner.hosts.hosts().await.map_err(host_fault)?;
        let matching = hosts
            .iter()
            .filter(|known| host.as_ref().is_none_or(|host| known.host == *host));
        let nodes = matching.flat_map(|known| &known.nodes);
        let nodes: Vec<&String> = nodes
            .map(|known| &known.hypervisor_hostname)
            .filter(|known| node.as_ref().is_none_or(|node| *known == node))
            .collect();
        match nodes.as_slice() {
            [one] => Ok(Some((*one).clone())),
            [] => {
                let named = berth_http::fields::bounded(&host.or(node).unwrap_or_default());
                Err(Fault::bad_request(format!(
                    "Compute host {named} could not be found."
                )))
            }
            _ => Err(Fault::bad_request(
                "The host has several nodes: name one of them as hypervisor_hostname, too.",
            )),
        }
    }
}

/// Refuses an image with a property that hosts do not support, such as that of an encrypted image.
fn check_properties(image: Uuid, found: FoundImage) -> Result<FoundImage, Fault> {
    let mut properties = found.body.properties.iter();
    match properties.find_map(|(name, value)| check_image_property(name, value).err()) {
        None => Ok(found),
        Some(refused) => {
            let reason = refused.to_string();
            Err(Fault::bad_request(
                ImagesError::Unfit { image, reason }.to_string(),
            ))
        }
    }
}

/// Converts a flavor to the form in which a server stores it.
fn server_flavor(flavor: &ComputeFlavor) -> Result<ServerFlavor, Fault> {
    let properties = &flavor.properties;
    let large = || Fault::bad_request("The flavor exceeds the maximum size of a guest.");
    let amount = |amount: i64| u64::try_from(amount).map_err(|_| large());
    Ok(ServerFlavor {
        flavorid: properties.flavorid.clone(),
        swap: properties.swap,
        body: FlavorBody {
            name: properties.name.clone(),
            vcpus: u32::try_from(properties.vcpus).map_err(|_| large())?,
            ram_mb: amount(properties.memory_mb)?,
            disk_gb: amount(properties.root_gb)?,
            ephemeral_gb: amount(properties.ephemeral_gb)?,
            swap_mb: amount(properties.swap)?,
            extra_specs: flavor.extra_specs.clone(),
        },
    })
}

/// The content of the config drive. Every guest has one, because there is no metadata service.
fn config_drive(request: &ServerCreateRequest, key: Option<&KeyPair>) -> ConfigDriveBody {
    let keys = key.map(|key| PublicKeyBody {
        name: key.name.clone(),
        public_key: key.public_key.clone(),
    });
    ConfigDriveBody {
        metadata: BTreeMap::clone(&request.metadata),
        user_data: request.user_data.clone(),
        ssh_keys: keys.into_iter().collect(),
        ..ConfigDriveBody::default()
    }
}
