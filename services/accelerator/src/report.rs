//! Validates an agent's device report; pure.

use std::collections::BTreeSet;

use berth_model::{AttachHandleInfo, AttachHandleType, Trait};
use berth_wire::BodyError;
use berth_wire::accelerator::{
    Health, HostAttachHandle, HostDeployable, HostDevicesReport, ReportedHostDevice,
};
use uuid::Uuid;

/// The maximum length of a text with a column of its own.
const LONGEST: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceReport {
    pub(crate) host: String,
    pub(crate) devices: Vec<ReportedDevice>,
    pub(crate) guests: Option<BTreeSet<Uuid>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedDevice {
    pub(crate) name: String,
    pub(crate) device_type: String,
    pub(crate) vendor: String,
    pub(crate) model: Option<String>,
    pub(crate) std_board_info: Option<String>,
    pub(crate) vendor_board_info: Option<String>,
    pub(crate) deployables: Vec<ReportedDeployable>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedDeployable {
    pub(crate) name: String,
    pub(crate) rp_uuid: Uuid,
    pub(crate) resource_class: String,
    pub(crate) driver_name: Option<String>,
    pub(crate) numa_node: Option<u32>,
    pub(crate) health: Health,
    pub(crate) health_reason: Option<String>,
    pub(crate) programmable: bool,
    /// Traits and the class, under Cyborg's keys, then the rest.
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) handles: Vec<ReportedHandle>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedHandle {
    pub(crate) uuid: Uuid,
    pub(crate) info: AttachHandleInfo,
    pub(crate) unavailable: Option<String>,
    pub(crate) scrub: HandleCleaning,
}

/// Whether the host cleans a handle after each guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandleCleaning {
    Never,
    /// The handle is cleaned after each use; `releases` counts the uses that were cleaned.
    Always {
        cleaned: Option<i64>,
    },
}

impl DeviceReport {
    /// Validates the body of a report.
    ///
    /// Errors: A name, a class, a trait or an address is none, or something is there twice.
    pub(crate) fn new(host: &str, body: HostDevicesReport) -> Result<Self, BodyError> {
        text("host", host)?;
        let mut once = UniqueValues::default();
        let mut devices = Vec::new();
        for (index, each) in body.devices.into_iter().enumerate() {
            let place = format!("devices[{index}]");
            devices.push(device(each, &mut once).map_err(|error| error.under(place))?);
        }
        Ok(Self {
            host: host.to_owned(),
            devices,
            guests: body.guests.map(|guests| guests.into_iter().collect()),
        })
    }
}

/// Checks for values that must be unique in a report.
#[derive(Default)]
struct UniqueValues {
    names: BTreeSet<String>,
    providers: BTreeSet<Uuid>,
    handles: BTreeSet<Uuid>,
}

fn once<T: Ord>(seen: &mut BTreeSet<T>, field: &str, value: T) -> Result<(), BodyError> {
    if seen.insert(value) {
        Ok(())
    } else {
        Err(BodyError::field(field, "is there twice"))
    }
}

fn text(field: &str, text: &str) -> Result<(), BodyError> {
    if text.is_empty() || text.chars().count() > LONGEST || text.chars().any(char::is_control) {
        let reason = format!("1 to {LONGEST} characters without control characters are allowed");
        return Err(BodyError::field(field, reason));
    }
    Ok(())
}

fn device(body: ReportedHostDevice, seen: &mut UniqueValues) -> Result<ReportedDevice, BodyError> {
    text("name", &body.name)?;
    once(&mut seen.names, "name", body.name.clone())?;
    text("type", &body.device_type)?;
    text("vendor", &body.vendor)?;
    if let Some(model) = &body.model {
        text("model", model)?;
    }
    let mut deployables = Vec::new();
    for (index, each) in body.deployables.into_iter().enumerate() {
        let place = format!("deployables[{index}]");
        deployables.push(deployable(each, seen).map_err(|error| error.under(place))?);
    }
    Ok(ReportedDevice {
        name: body.name,
        device_type: body.device_type,
        vendor: body.vendor,
        model: body.model,
        std_board_info: body.std_board_info,
        vendor_board_info: body.vendor_board_info,
        deployables,
    })
}

fn deployable(
    body: HostDeployable,
    seen: &mut UniqueValues,
) -> Result<ReportedDeployable, BodyError> {
    text("name", &body.name)?;
    once(&mut seen.providers, "rp_uuid", body.rp_uuid)?;
    // Cyborg's class GPU is none of Placement's, and has the form of a trait as all classes have.
    Trait::new(&body.resource_class)
        .map_err(|_| BodyError::field("resource_class", "is no resource class"))?;
    let mut attributes = Vec::new();
    for (index, name) in body.traits.iter().enumerate() {
        Trait::new(name).map_err(|error| BodyError::field(format!("traits[{index}]"), error))?;
        attributes.push((format!("traits{}", index + 1), name.clone()));
    }
    attributes.push(("rc".to_owned(), body.resource_class.clone()));
    for (key, value) in body.attributes.0 {
        text("attributes", &key)?;
        text("attributes", &value)?;
        attributes.push((key, value));
    }
    let mut handles = Vec::new();
    let mut places = Vec::new();
    for (index, each) in body.attach_handles.into_iter().enumerate() {
        let place = format!("attach_handles[{index}]");
        let handle =
            handle(each, body.rp_uuid, &mut places).map_err(|error| error.under(&place))?;
        once(&mut seen.handles, &place, handle.uuid)?;
        handles.push(handle);
    }
    Ok(ReportedDeployable {
        name: body.name,
        rp_uuid: body.rp_uuid,
        resource_class: body.resource_class,
        driver_name: body.driver_name,
        numa_node: body.numa_node,
        health: body.health,
        health_reason: body.health_reason,
        programmable: body.programmable,
        attributes,
        handles,
    })
}

/// Validates a handle. `places` are the addresses of the deployable's previous handles; mediated devices may share one.
fn handle(
    body: HostAttachHandle,
    provider: Uuid,
    places: &mut Vec<String>,
) -> Result<ReportedHandle, BodyError> {
    let kind = AttachHandleType::from_name(&body.attach_type).ok_or_else(|| {
        let known = AttachHandleType::ALL
            .map(AttachHandleType::as_str)
            .join(", ");
        BodyError::field("attach_type", format_args!("is none of {known}"))
    })?;
    let info = body.attach_info.into_info(kind)?;
    let place = info.to_string();
    let ordinal = places.iter().filter(|other| **other == place).count();
    let named = || Uuid::new_v5(&provider, format!("{place} {ordinal}").as_bytes());
    let uuid = body.uuid.unwrap_or_else(named);
    if ordinal > 0 && kind != AttachHandleType::Mdev {
        return Err(BodyError::field("attach_info", "is there twice"));
    }
    places.push(place);
    Ok(ReportedHandle {
        uuid,
        info,
        unavailable: body.unavailable,
        scrub: match body.scrubbed {
            true => HandleCleaning::Always {
                cleaned: body.cleaned,
            },
            false => HandleCleaning::Never,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(handles: &str) -> Result<DeviceReport, String> {
        let text = format!(
            r#"{{"devices": [{{"name": "0000:84:00.0", "type": "GPU", "vendor": "10de", "deployables": [
                {{"name": "n_0000:84:00.0", "rp_uuid": "f9d7848a-7688-361f-8e4b-3e58185de5fe",
                  "resource_class": "PGPU", "traits": ["CUSTOM_A", "OWNER_CYBORG"], "attributes": {{"x": "y"}},
                  "attach_handles": [{handles}]}}]}}]}}"#
        );
        let body = berth_wire::decode(text.as_bytes()).map_err(|error| error.to_string())?;
        DeviceReport::new("n", body).map_err(|error| error.to_string())
    }

    const PCI: &str = r#"{"attach_type": "PCI", "attach_info": {"domain": "0000", "bus": "84", "device": "00", "function": "0"}}"#;
    const MDEV: &str = r#"{"attach_type": "MDEV", "attach_info": {"domain": "0000", "bus": "84", "device": "00", "function": "0", "asked_type": "nvidia-35"}}"#;

    #[test]
    fn traits_and_class_become_attributes_under_cyborgs_keys() {
        let report = report(PCI).unwrap();
        let keys: Vec<_> = report.devices[0].deployables[0]
            .attributes
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(
            keys,
            ["traits1=CUSTOM_A", "traits2=OWNER_CYBORG", "rc=PGPU", "x=y"]
        );
    }

    #[test]
    fn handles_are_known_again_by_their_place_and_mediated_ones_by_their_count() {
        let uuids = |text: &str| -> Vec<Uuid> {
            let report = report(text).unwrap();
            let handles = &report.devices[0].deployables[0].handles;
            handles.iter().map(|handle| handle.uuid).collect()
        };
        let two = uuids(&format!("{MDEV},{MDEV}"));
        assert_ne!(two[0], two[1]);
        assert_eq!(two[..1], uuids(MDEV));
        assert_eq!(uuids(PCI), uuids(PCI));
        assert!(
            report(&format!("{PCI},{PCI}"))
                .unwrap_err()
                .contains("twice")
        );
    }

    #[test]
    fn what_is_no_report_is_refused_with_its_place() {
        for (from, to, place) in [
            ("\"PCI\"", "\"USB\"", "attach_handles[0].attach_type"),
            ("\"84\"", "\"../..\"", "attach_handles[0].attach_info"),
            ("\"bus\": \"84\", ", "", "attach_handles[0].bus"),
        ] {
            let refused = report(&PCI.replace(from, to)).unwrap_err();
            assert!(refused.contains(place), "{refused}");
        }
        let body = HostDevicesReport::default();
        assert!(DeviceReport::new("a\nb", body).is_err());
    }
}
