//! Validation of a request body: texts, numbers, device profile, hints and request groups. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_model::{DeviceProfileName, Flavor, RequestGroups};
use berth_wire::conductor::{CreateGuest, FunctionVnicType};
use berth_wire::guest::{ImageLocation, NetworkBody, NetworkSource};
use uuid::Uuid;

use super::error::BootRequestError;
use crate::port_resources::check_port_resources;

/// Default project and user.
pub(super) const DEFAULT_ACCOUNT: &str = "berth";

/// Extra spec with the flavor's device profile.
const PROFILE_SPEC: &str = "accel:device_profile";

/// Maximum number of hints, and of values of one hint.
const MAX_HINTS: usize = 64;

/// Maximum length of a hint's value in bytes.
const MAX_HINT_LENGTH: usize = 4096;

/// Maximum size of all hints in bytes, including names.
const MAX_HINT_BYTES: usize = 16 << 10;

/// Maximum length of the name and of the value of an extra spec in characters, as in Nova's API.
const MAX_SPEC_LENGTH: usize = 255;

/// Maximum number of extra specs.
const MAX_SPECS: usize = 256;

/// Whether a text is one line of printable characters without leading or trailing blanks, so that logs, hypervisor
/// documents and agents accept it. Unicode noncharacters are not allowed.
pub(super) fn is_line(text: &str, most: usize) -> bool {
    let is_none = |c: char| {
        let point = u32::from(c);
        matches!(c, '\u{2028}' | '\u{2029}' | '\u{fdd0}'..='\u{fdef}') || point & 0xfffe == 0xfffe
    };
    (1..=most).contains(&text.len())
        && text.trim() == text
        && !text.chars().any(|c| c.is_control() || is_none(c))
}

/// Checks the texts of a new request. Requests in the journal may follow the rules of older releases.
pub(super) fn check_names(body: &CreateGuest) -> Result<(), BootRequestError> {
    let wrong = |field, expected| Err(BootRequestError::Text { field, expected });
    let name = body.name.as_str();
    if !is_line(name, 240) || name.contains('/') || matches!(name, "." | "..") {
        return wrong(
            "name",
            "1 to 240 bytes of printable characters without / are allowed, with no blanks at the ends, and not . or ..",
        );
    }
    for (field, text) in [
        ("flavor.name", Some(&body.flavor.name)),
        ("project_id", body.project_id.as_ref()),
        ("user_id", body.user_id.as_ref()),
    ] {
        if text.is_some_and(|text| !is_line(text, 255)) {
            return wrong(
                field,
                "1 to 255 bytes of printable characters are allowed, with no blanks at the ends",
            );
        }
    }
    match body.image.as_ref().map(|image| &image.location) {
        Some(ImageLocation::Url(url)) if has_userinfo(url) => wrong(
            "image.location.url",
            "the URL has a name or password in it, which would be written down with the guest; name an image that can be fetched \
             without, or one of the image service",
        ),
        _ => Ok(()),
    }
}

/// Checks the paths and network names of a new request, which every host would refuse.
pub(super) fn check_places(body: &CreateGuest) -> Result<(), BootRequestError> {
    let wrong = |field, expected| Err(BootRequestError::Text { field, expected });
    let image = body.image.as_ref().and_then(|image| match &image.location {
        ImageLocation::Path(path) => Some(path),
        ImageLocation::Url(_) | ImageLocation::Glance(_) => None,
    });
    let kernel = body.kernel.as_ref();
    for (field, path) in [
        ("image.location.path", image),
        ("kernel.kernel", kernel.map(|boot| &boot.kernel)),
        (
            "kernel.ramdisk",
            kernel.and_then(|boot| boot.ramdisk.as_ref()),
        ),
    ] {
        if path.is_some_and(|path| !is_host_path(path)) {
            return wrong(
                field,
                "the absolute path of a file on the host is expected, without . and .. parts, such as /srv/guests/vmlinuz",
            );
        }
    }
    let is_name = |name: &str, most: usize| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
        (1..=most).contains(&name.len())
            && !matches!(name, "." | "..")
            && name.bytes().all(is_letter)
    };
    let fits = |network: &NetworkBody| match &network.source {
        NetworkSource::Network(name) => is_name(name, 64),
        NetworkSource::Bridge(name) => is_name(name, 15),
        // The agent checks it.
        NetworkSource::Port(_) => true,
    };
    if !body.networks.iter().all(fits) {
        return wrong(
            "networks",
            "the name of a network has 1 to 64 letters, digits, _, -, . and :, and that of a bridge at most 15",
        );
    }
    Ok(())
}

fn is_host_path(path: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    is_line(path, 4095)
        && path
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(is_part))
}

/// Checks the sizes of extra specs and hints of a new request.
pub(super) fn check_sizes(body: &CreateGuest) -> Result<(), BootRequestError> {
    let wrong = |field, expected| Err(BootRequestError::Text { field, expected });
    let fits = |text: &String| {
        text.chars().count() <= MAX_SPEC_LENGTH && !text.chars().any(char::is_control)
    };
    let mut specs = body.flavor.extra_specs.iter();
    if specs.any(|(key, value)| key.is_empty() || !fits(key) || !fits(value)) {
        return wrong(
            "flavor.extra_specs",
            "a name has 1 to 255 printable characters, and a value 255 at most",
        );
    }
    let hints = body.scheduler_hints.iter();
    let bytes = hints.flat_map(|(name, texts)| texts.iter().chain([name]).map(String::len));
    if bytes.sum::<usize>() > MAX_HINT_BYTES {
        return wrong(
            "scheduler_hints",
            "16384 bytes are allowed in all, names and texts together",
        );
    }
    Ok(())
}

/// Normalises the UUIDs in hints of a new request: filters compare them as texts.
pub(super) fn normalize_guest_hints(body: &mut CreateGuest) -> Result<(), BootRequestError> {
    for (name, field) in [
        ("different_host", "scheduler_hints.different_host"),
        ("same_host", "scheduler_hints.same_host"),
    ] {
        for text in body.scheduler_hints.get_mut(name).into_iter().flatten() {
            let uuid: Uuid = text.parse().map_err(|_| BootRequestError::Text {
                field,
                expected: "the UUIDs of guests are expected, and not their names; berth guest show NAME tells the UUID",
            })?;
            *text = uuid.to_string();
        }
    }
    Ok(())
}

/// Checks the scheduler hints. Returns the server group of the hint `group`.
pub(super) fn read_hints(body: &CreateGuest) -> Result<Option<Uuid>, BootRequestError> {
    let wrong = |field, expected| Err(BootRequestError::Text { field, expected });
    let hints = &body.scheduler_hints;
    if hints.len() > MAX_HINTS || hints.values().any(|texts| texts.len() > MAX_HINTS) {
        return wrong(
            "scheduler_hints",
            "at most 64 are allowed, each with at most 64 texts",
        );
    }
    // This prefix is reserved for the conductor's own hints.
    if hints
        .keys()
        .any(|key| !is_line(key, 255) || key.starts_with("_nova_"))
    {
        return wrong(
            "scheduler_hints",
            "a name has 1 to 255 bytes of printable characters, and does not begin with _nova_",
        );
    }
    if hints
        .values()
        .flatten()
        .any(|text| text.len() > MAX_HINT_LENGTH)
    {
        return wrong("scheduler_hints", "a text has at most 4096 bytes");
    }
    let Some(group) = hints.get("group") else {
        return Ok(None);
    };
    match group.as_slice() {
        [uuid] if let Ok(uuid) = uuid.parse() => Ok(Some(uuid)),
        _ => wrong(
            "scheduler_hints.group",
            "the UUID of one server group is expected",
        ),
    }
}

/// Whether a URL has a user name or password before its host. Also detects them in malformed URLs, because
/// those are stored, too.
pub(super) fn has_userinfo(url: &str) -> bool {
    let rest = url.split_once(':').map_or(url, |(_, rest)| rest);
    // URL parsers accept any number of slashes here, of either kind.
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
}

pub(super) fn check_texts(body: &mut CreateGuest) -> Result<(), BootRequestError> {
    let printable = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && !text.chars().any(char::is_control)
    };
    let wrong = |field, expected| Err(BootRequestError::Text { field, expected });
    if !printable(&body.name, 240) || body.name.contains('/') {
        return wrong(
            "name",
            "1 to 240 bytes of printable characters without / are allowed",
        );
    }
    let expected = "1 to 255 bytes of printable characters are allowed";
    if !printable(&body.flavor.name, 255) {
        return wrong("flavor.name", expected);
    }
    for (field, account) in [
        ("project_id", &mut body.project_id),
        ("user_id", &mut body.user_id),
    ] {
        let account = account.get_or_insert_with(|| DEFAULT_ACCOUNT.to_owned());
        if !printable(account, 255) {
            return wrong(field, expected);
        }
    }
    if body.flavor.extra_specs.len() > MAX_SPECS {
        return wrong("flavor.extra_specs", "at most 256 are allowed");
    }
    Ok(())
}

/// Maximum number of interfaces.
const MAX_NETWORKS: usize = 64;

/// Checks the networks of a request: each names a network or a port, no port twice, and only new ports have addresses.
pub(super) fn check_networks(body: &CreateGuest) -> Result<(), BootRequestError> {
    let wrong = |expected| {
        let field = "requested_networks";
        Err(BootRequestError::Text { field, expected })
    };
    let requested = &body.requested_networks;
    if requested.len() + body.networks.len() > MAX_NETWORKS {
        return wrong("at most 64 interfaces are allowed, with those of networks");
    }
    let mut ports = BTreeSet::new();
    for wanted in requested {
        match (wanted.uuid, wanted.port, &wanted.fixed_ip) {
            (None, None, _) => return wrong("each names a network (uuid) or a port"),
            (_, Some(_), Some(_)) => {
                return wrong("a port has its addresses; fixed_ip is for new ports");
            }
            (_, _, Some(address)) if address.parse::<IpAddr>().is_err() => {
                return wrong("fixed_ip is an IPv4 or IPv6 address");
            }
            (_, Some(port), None) if !ports.insert(port) => return wrong("a port is named once"),
            _ => {}
        }
        match (&wanted.physical_network, wanted.port) {
            (Some(_), None) => return wrong("physical_network is for an existing port"),
            (Some(name), Some(_)) if !is_line(name, 64) => {
                return wrong("physical_network has 1 to 64 printable characters");
            }
            (None, _) if wanted.trusted || wanted.vnic_type != FunctionVnicType::Direct => {
                return wrong("vnic_type and trusted are for a port with a physical_network");
            }
            _ => {}
        }
    }
    match check_port_resources(requested) {
        Ok(()) => Ok(()),
        Err(expected) => wrong(expected),
    }
}

pub(super) fn check_numbers(body: &CreateGuest) -> Result<(), BootRequestError> {
    let flavor = &body.flavor;
    for (field, value, least, most, expected) in [
        (
            "flavor.vcpus",
            u64::from(flavor.vcpus),
            1,
            4096,
            "1 to 4096",
        ),
        (
            "flavor.ram_mb",
            flavor.ram_mb,
            1,
            1 << 30,
            "1 to 1073741824",
        ),
        (
            "flavor.disk_gb",
            flavor.disk_gb,
            0,
            1 << 30,
            "0 to 1073741824",
        ),
        (
            "flavor.ephemeral_gb",
            flavor.ephemeral_gb,
            0,
            1 << 30,
            "0 to 1073741824",
        ),
        ("flavor.swap_mb", flavor.swap_mb, 0, 1 << 20, "0 to 1048576"),
    ] {
        if !(least..=most).contains(&value) {
            return Err(BootRequestError::Number {
                field,
                value,
                expected,
            });
        }
    }
    Ok(())
}

/// Reads the device profile from the field or the flavor, and writes it to both.
pub(super) fn read_profile(
    body: &mut CreateGuest,
) -> Result<Option<DeviceProfileName>, BootRequestError> {
    let spec = body.flavor.extra_specs.get(PROFILE_SPEC).cloned();
    let name = match (body.device_profile.take(), spec) {
        (Some(named), Some(spec)) if named != spec => {
            return Err(BootRequestError::TwoProfiles { named, spec });
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => return Ok(None),
    };
    let checked = DeviceProfileName::new(&name).map_err(|_| BootRequestError::Profile)?;
    let specs = &mut body.flavor.extra_specs;
    specs.insert(PROFILE_SPEC.to_owned(), name.clone());
    body.device_profile = Some(name);
    Ok(Some(checked))
}

pub(super) fn read_groups(body: &CreateGuest) -> Result<RequestGroups, BootRequestError> {
    let flavor = Flavor {
        vcpus: body.flavor.vcpus,
        memory_mb: body.flavor.ram_mb,
        root_gb: body.flavor.disk_gb,
        ephemeral_gb: body.flavor.ephemeral_gb,
        swap_mb: body.flavor.swap_mb,
        extra_specs: body.flavor.extra_specs.clone(),
    };
    let read = RequestGroups::of_flavor(&flavor, &BTreeMap::new())?;
    match read.skipped.first() {
        Some(skipped) => Err(BootRequestError::Spec(skipped.to_string())),
        None => Ok(read.groups),
    }
}
