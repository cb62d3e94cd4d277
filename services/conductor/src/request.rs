//! What is asked for: a guest, checked as far as that can be without asking anybody.

use std::collections::BTreeMap;

use berth_client::placement::Claimant;
use berth_model::{
    ConsumerUuid, DeviceProfileName, Flavor, FlavorError, NodeName, RequestGroups,
    RequestGroupsError,
};
use berth_wire::conductor::CreateGuest;
use berth_wire::encode;
use berth_wire::guest::{ConfigDriveBody, GuestBuild, ImageLocation};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The extra spec that names a flavor's device profile.
const PROFILE_SPEC: &str = "accel:device_profile";

/// Whose guests are, where nobody says it.
const DEFAULT_ACCOUNT: &str = "berth";

/// The most extra specs of a flavor.
const MOST_SPECS: usize = 256;

/// A request that cannot be one; each names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootRequestError {
    /// A text is empty, too long, or has characters that it may not have.
    #[error("{field}: {expected}")]
    Text {
        /// The field.
        field: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// A number is out of range.
    #[error("{field}: {value} is out of range, {expected} is allowed")]
    Number {
        /// The field.
        field: &'static str,
        /// The number.
        value: u64,
        /// What is allowed.
        expected: &'static str,
    },
    /// The device profile's name is none.
    #[error("device_profile: letters, digits, - and _ are allowed, 1 to 255 of them")]
    Profile,
    /// Two device profiles are named.
    #[error("device_profile: {named} is not {spec}, which the flavor's accel:device_profile names")]
    TwoProfiles {
        /// The one of the field.
        named: String,
        /// The one of the flavor.
        spec: String,
    },
    /// The node's name is none.
    #[error("node: {0}")]
    Node(String),
    /// An extra spec says nothing that can be asked for: the guest would be another one than was meant.
    #[error("flavor.extra_specs.{0}")]
    Spec(String),
    /// The flavor contradicts itself.
    #[error("flavor.extra_specs.{0}")]
    Flavor(#[from] FlavorError),
    /// Placement could not be asked for it.
    #[error("flavor: {0}")]
    Groups(#[from] RequestGroupsError),
}

/// A guest as it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct BootRequest {
    uuid: ConsumerUuid,
    /// Whole, but for the config drive.
    body: CreateGuest,
    config_drive: Option<ConfigDriveBody>,
    config_drive_digest: Option<Uuid>,
    profile: Option<DeviceProfileName>,
    node: Option<NodeName>,
    groups: RequestGroups,
}

/// A request in the journal. The config drive may hold secrets and stands apart, only for as long as it is needed; its digest
/// says whether another request is the same.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    body: CreateGuest,
    config_drive_digest: Option<Uuid>,
}

impl BootRequest {
    /// Checks a body. Where it has no UUID, the guest gets this one.
    ///
    /// # Errors
    /// The first field that is not as it should be.
    pub fn new(mut body: CreateGuest, fresh: Uuid) -> Result<Self, BootRequestError> {
        names(&body)?;
        let uuid = *body.uuid.get_or_insert(fresh);
        let config_drive = body.config_drive.take();
        let digest = config_drive
            .as_ref()
            .map(|drive| Uuid::new_v5(&uuid, &encode(drive)));
        Self::checked(body, uuid, config_drive, digest)
    }

    fn checked(
        mut body: CreateGuest,
        uuid: Uuid,
        config_drive: Option<ConfigDriveBody>,
        config_drive_digest: Option<Uuid>,
    ) -> Result<Self, BootRequestError> {
        texts(&mut body)?;
        numbers(&body)?;
        let profile = profile(&mut body)?;
        let node = body.node.as_deref().map(NodeName::new).transpose();
        let node = node.map_err(|error| BootRequestError::Node(error.to_string()))?;
        let groups = groups(&body)?;
        if profile.is_none() {
            groups.check()?;
        }
        Ok(Self {
            uuid: uuid.into(),
            body,
            config_drive,
            config_drive_digest,
            profile,
            node,
            groups,
        })
    }

    /// The guest's UUID.
    #[must_use]
    pub fn uuid(&self) -> ConsumerUuid {
        self.uuid
    }

    /// What was asked for, without the config drive.
    #[must_use]
    pub fn body(&self) -> &CreateGuest {
        &self.body
    }

    /// The device profile.
    #[must_use]
    pub fn profile(&self) -> Option<&DeviceProfileName> {
        self.profile.as_ref()
    }

    /// The node it must be on.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        self.node.as_ref()
    }

    /// What Placement is asked, but for the device profile's groups.
    #[must_use]
    pub fn groups(&self) -> &RequestGroups {
        &self.groups
    }

    pub(crate) fn claimant(&self) -> Claimant {
        Claimant {
            consumer: self.uuid,
            project_id: self.project_id().to_owned(),
            user_id: self.user_id().to_owned(),
        }
    }

    pub(crate) fn project_id(&self) -> &str {
        self.body.project_id.as_deref().unwrap_or(DEFAULT_ACCOUNT)
    }

    pub(crate) fn user_id(&self) -> &str {
        self.body.user_id.as_deref().unwrap_or(DEFAULT_ACCOUNT)
    }

    /// What the agent of a node is asked for; accelerator requests and allocations are the caller's to add.
    pub(crate) fn build_on(&self, node: &NodeName) -> GuestBuild {
        let body = self.body.clone();
        GuestBuild {
            uuid: *self.uuid.as_uuid(),
            project_id: self.project_id().to_owned(),
            user_id: Some(self.user_id().to_owned()),
            name: body.name,
            node: node.to_string(),
            flavor: body.flavor,
            image: body.image,
            kernel: body.kernel,
            networks: body.networks,
            accelerator_requests: Vec::new(),
            allocations: BTreeMap::new(),
            limits: berth_wire::guest::LimitsBody::default(),
            config_drive: self.config_drive.clone(),
            power: body.power,
        }
    }

    /// The request as the journal keeps it, and apart from it the config drive.
    pub(crate) fn to_journal(&self) -> (String, Option<String>) {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let record = Record {
            body: self.body.clone(),
            config_drive_digest: self.config_drive_digest,
        };
        let drive = self.config_drive.as_ref().map(|drive| text(encode(drive)));
        (text(encode(&record)), drive)
    }

    pub(crate) fn of_journal(request: &str, config_drive: Option<&str>) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| format!("request: {error}");
        let record: Record = berth_wire::decode(request.as_bytes()).map_err(|e| told(&e))?;
        let drive = config_drive.map(|text| berth_wire::decode(text.as_bytes()));
        let drive = drive.transpose().map_err(|e| told(&e))?;
        let uuid = record.body.uuid.ok_or("request: it has no UUID")?;
        Self::checked(record.body, uuid, drive, record.config_drive_digest).map_err(|e| told(&e))
    }
}

/// What a line shows, a hypervisor's document carries and an agent takes: printable characters, with no blanks at the ends. Code
/// points that Unicode never gives to a character are none.
fn is_line(text: &str, most: usize) -> bool {
    let is_none = |c: char| {
        let point = u32::from(c);
        matches!(c, '\u{2028}' | '\u{2029}' | '\u{fdd0}'..='\u{fdef}') || point & 0xfffe == 0xfffe
    };
    (1..=most).contains(&text.len())
        && text.trim() == text
        && !text.chars().any(|c| c.is_control() || is_none(c))
}

/// The texts of a new request. What is in the journal was taken before, by whatever rule was the rule then.
fn names(body: &CreateGuest) -> Result<(), BootRequestError> {
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

/// Whether a URL has a name or password before its host. Also one that is no URL by any rule: it is not written down either.
fn has_userinfo(url: &str) -> bool {
    let rest = url.split_once(':').map_or(url, |(_, rest)| rest);
    // Readers of URLs take any number of slashes there, of either kind.
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
}

fn texts(body: &mut CreateGuest) -> Result<(), BootRequestError> {
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
    if body.flavor.extra_specs.len() > MOST_SPECS {
        return wrong("flavor.extra_specs", "at most 256 are allowed");
    }
    Ok(())
}

fn numbers(body: &CreateGuest) -> Result<(), BootRequestError> {
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

/// The device profile, which field and flavor both may name; from here on both do.
fn profile(body: &mut CreateGuest) -> Result<Option<DeviceProfileName>, BootRequestError> {
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

fn groups(body: &CreateGuest) -> Result<RequestGroups, BootRequestError> {
    let flavor = Flavor {
        vcpus: body.flavor.vcpus,
        memory_mb: body.flavor.ram_mb,
        root_gb: body.flavor.disk_gb,
        ephemeral_gb: body.flavor.ephemeral_gb,
        swap_mb: 0,
        extra_specs: body.flavor.extra_specs.clone(),
    };
    let read = RequestGroups::of_flavor(&flavor, &BTreeMap::new())?;
    match read.skipped.first() {
        Some(skipped) => Err(BootRequestError::Spec(skipped.to_string())),
        None => Ok(read.groups),
    }
}

#[cfg(test)]
mod tests {
    use berth_wire::decode;

    use super::*;

    fn body(change: &[(&str, serde_json::Value)]) -> CreateGuest {
        let mut body =
            serde_json::json!({"name": "vm", "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}});
        for (pointer, value) in change {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            body.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        decode(body.to_string().as_bytes()).unwrap()
    }

    fn fresh() -> Uuid {
        Uuid::from_u128(7)
    }

    #[test]
    fn a_name_before_the_host_is_seen_however_the_url_is_written() {
        for url in [
            "http://u:p@h/x",
            "http:/u:p@h/x",
            "http:u:p@h",
            "https:///u@h",
            r"http:\\u:p@h\x",
            "u:p@h",
        ] {
            assert!(has_userinfo(url), "{url}");
        }
        for url in ["http://h/a@b", "https://[::1]:8080/x?y=a@b", "http://h#a@b"] {
            assert!(!has_userinfo(url), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_by_its_field() {
        use serde_json::json;
        for (pointer, value, sentence) in [
            ("/name", json!(""), "name: 1 to 240"),
            ("/name", json!("a/b"), "name: "),
            ("/name", json!("a\nb"), "name: "),
            ("/name", json!(" "), "name: "),
            ("/name", json!(" a"), "name: "),
            ("/name", json!("."), "name: 1 to 240"),
            ("/name", json!(".."), "name: "),
            ("/name", json!("a\u{fdd0}"), "name: "),
            ("/name", json!("a\u{1fffe}"), "name: "),
            ("/name", json!("a\u{2028}b"), "name: "),
            ("/flavor/name", json!(" "), "flavor.name: 1 to 255"),
            ("/user_id", json!("u\u{fdef}"), "user_id: "),
            ("/project_id", json!(""), "project_id: 1 to 255"),
            ("/flavor/vcpus", json!(0), "flavor.vcpus: 0 is out of range"),
            ("/flavor/ram_mb", json!(0), "flavor.ram_mb: 0"),
            ("/flavor/disk_gb", json!(1u64 << 40), "flavor.disk_gb: "),
            ("/device_profile", json!("a b"), "device_profile: letters"),
            (
                "/image",
                json!({"location": {"url": "http://u:pw@host/x?a=b"}, "format": "raw"}),
                "image.location.url: the URL has a name or password in it",
            ),
            (
                "/image",
                json!({"location": {"url": "http://u@host"}, "format": "raw"}),
                "image.location.url: ",
            ),
            ("/node", json!("two words"), "node: "),
            (
                "/flavor/extra_specs",
                json!({"trait:CUSTOM_A": "maybe"}),
                "flavor.extra_specs.trait:CUSTOM_A: ",
            ),
            (
                "/flavor/extra_specs",
                json!({"hw:cpu_policy": "mine"}),
                "flavor.extra_specs.hw:cpu_policy: ",
            ),
            (
                "/flavor/extra_specs",
                json!({"resources1:VGPU": "1", "resources2:VGPU": "1"}),
                "flavor: the flavor has 2 numbered request groups",
            ),
        ] {
            let refused = BootRequest::new(body(&[(pointer, value)]), fresh()).unwrap_err();
            let said = refused.to_string();
            assert!(said.starts_with(sentence), "{said}");
        }
    }

    #[test]
    fn what_a_journal_has_of_an_earlier_rule_is_read_as_it_was_taken() {
        let mut asked = body(&[]);
        asked.name = "..".to_owned();
        let request = BootRequest::checked(asked, fresh(), None, None).unwrap();
        // Its agent refuses it; what it asks for is known all the same.
        let (text, _) = BootRequest {
            body: CreateGuest {
                uuid: Some(fresh()),
                ..request.body.clone()
            },
            ..request
        }
        .to_journal();
        assert_eq!(
            BootRequest::of_journal(&text, None).unwrap().body().name,
            ".."
        );
    }

    #[test]
    fn a_profile_may_be_named_in_either_place_but_not_twice_differently() {
        let specs = serde_json::json!({"accel:device_profile": "gpu"});
        let named = ("/device_profile", serde_json::json!("gpu"));
        for change in [
            vec![named.clone()],
            vec![("/flavor/extra_specs", specs.clone())],
            vec![named, ("/flavor/extra_specs", specs.clone())],
        ] {
            let request = BootRequest::new(body(&change), fresh()).unwrap();
            assert_eq!(request.profile().unwrap().as_str(), "gpu");
            assert_eq!(request.body().device_profile.as_deref(), Some("gpu"));
            let query = request.groups().query();
            assert!(query.contains("COMPUTE_ACCELERATORS"), "{query}");
        }
        let other = ("/device_profile", serde_json::json!("fpga"));
        let two = BootRequest::new(body(&[other, ("/flavor/extra_specs", specs)]), fresh());
        assert!(two.unwrap_err().to_string().contains("fpga is not gpu"));
    }

    #[test]
    fn the_journal_gives_back_what_it_got_and_keeps_secrets_apart() {
        let drive = serde_json::json!({"user_data": "c2VjcmV0"});
        let request = BootRequest::new(body(&[("/config_drive", drive)]), fresh()).unwrap();
        let (text, drive) = request.to_journal();
        assert!(!text.contains("c2VjcmV0"), "{text}");
        let back = BootRequest::of_journal(&text, drive.as_deref()).unwrap();
        assert_eq!(back, request);
        // The same request again has the same text, also where the drive is not kept any more.
        let bare = BootRequest::of_journal(&text, None).unwrap();
        assert_eq!(bare.to_journal().0, text);
    }
}
