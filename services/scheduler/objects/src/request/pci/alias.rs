//! `[pci] alias`: the names by which flavors ask for devices (`pci_passthrough:alias`).

use std::collections::{BTreeMap, BTreeSet};

use berth_options::{ListItem, OptionKind, TablesKind, WrongElement};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{NumaAffinityPolicy, PciRequest, PciRequestOrigin};
use crate::request::{NumaRequestError, RequestFlavor, RequestImage, pci_numa_affinity_policy};
use crate::text::shortened;

pub const PCI_ALIAS_SPEC: &str = "pci_passthrough:alias";
/// Aliases of the flavor whose devices must be in one link group, with commas between them. Not in Nova.
pub const SAME_LINK_GROUP_SPEC: &str = "berth:same_link_group";

/// Devices of all aliases that one flavor may ask for: more are in no host.
const MOST_DEVICES: i64 = 1000;

/// One alias, by Nova's names. Several of one name are alternatives.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciAlias {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_type: Option<String>,
    /// The devices' vendor: four hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<String>,
    /// The devices' product: four hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<String>,
    /// `type-PCI`, `type-PF` or `type-VF`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_type: Option<String>,
    /// `required`, `legacy`, `preferred` or `socket`; a flavor's or an image's policy takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_policy: Option<String>,
    /// The devices' resource class in Placement; derived from their ids if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_class: Option<String>,
    /// Traits that their providers have, with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traits: Option<String>,
    /// Whether a guest with the device can be live-migrated: a text for yes or no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_migratable: Option<String>,
}

/// An invalid alias, or a flavor with an invalid alias request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PciAliasError {
    /// The value is not a table of an alias.
    #[error("it is no alias: {0}")]
    NoAlias(String),
    /// A field has an invalid value.
    #[error("{field}: should be {wanted}, and is {}", shortened(value))]
    Field {
        field: &'static str,
        value: String,
        /// What would be right.
        wanted: &'static str,
    },
    /// The alias does not select devices.
    #[error("the alias {0} says neither vendor_id and product_id nor resource_class")]
    NoDevices(String),
    /// The extra spec is no list of aliases with counts.
    #[error(
        "flavor.extra_specs.{PCI_ALIAS_SPEC}: should be NAME:COUNT (several with commas between them; 1 to {MOST_DEVICES} devices in all), \
         and is {}",
        shortened(.0)
    )]
    NoList(String),
    /// The alias is not configured.
    #[error(
        "flavor.extra_specs.{PCI_ALIAS_SPEC}: there is no alias {}; [pci] alias of the conductor's host {known}",
        shortened(alias)
    )]
    NoSuchAlias {
        alias: String,
        /// The configured aliases, as text.
        known: String,
    },
    /// A link group is demanded for an alias that the flavor does not request.
    #[error(
        "flavor.extra_specs.{SAME_LINK_GROUP_SPEC}: should name aliases of {PCI_ALIAS_SPEC}, with commas between them, and names {}",
        shortened(.0)
    )]
    NotRequested(String),
    /// The alias requires allocations in Placement, and the request has none.
    #[error(
        "flavor.extra_specs.{PCI_ALIAS_SPEC}: devices are asked for by their providers in Placement alone: set [filter_scheduler] \
         pci_in_placement = true where the conductor is, and [pci] report_in_placement = true on all hosts, or write a device profile \
         (accel:device_profile)"
    )]
    NotInPlacement,
    /// The NUMA affinity policy is invalid.
    #[error(transparent)]
    Numa(#[from] NumaRequestError),
}

impl ListItem for PciAlias {
    const LIST: OptionKind = OptionKind::Tables(&TablesKind {
        write: "write tables such as [{ name = \"a100\", vendor_id = \"10de\", product_id = \"20b7\", device_type = \"type-PF\" }]",
        check: |aliases| {
            aliases.iter().enumerate().try_for_each(|(element, alias)| {
                let read = Self::read(alias).map(drop);
                read.map_err(|error| WrongElement {
                    element: Some(element),
                    wrong: error.to_string(),
                })
            })
        },
    });

    fn read_item(value: &Value) -> Option<Self> {
        Self::read(value).ok()
    }

    fn write_item(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl PciAlias {
    /// An alias as it is configured: a table, or Nova's JSON text.
    pub fn read(value: &Value) -> Result<Self, PciAliasError> {
        let invalid = |error: serde_json::Error| PciAliasError::NoAlias(error.to_string());
        let alias: Self = match value {
            Value::String(text) => serde_json::from_str(text).map_err(invalid)?,
            table => Self::deserialize(table).map_err(invalid)?,
        };
        alias.check()?;
        Ok(alias)
    }

    /// Checks the value of each field.
    pub fn check(&self) -> Result<(), PciAliasError> {
        let is_name = |text: &str| {
            (1..=256).contains(&text.len()) && !text.contains([',', ':']) && text.trim() == text
        };
        let is_id = |text: &str| text.len() == 4 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let is_type = |text: &str| ["type-PCI", "type-PF", "type-VF"].contains(&text);
        let is_policy = |text: &str| policy(text).is_some();
        let is_word = |text: &str| live_migratable(text).is_some();
        let name = Some(&self.name);
        check("name", name, is_name, "1 to 256 letters without : and ,")?;
        let wanted = "pci";
        check(
            "capability_type",
            self.capability_type.as_ref(),
            |it| it == wanted,
            wanted,
        )?;
        let wanted = "four hexadecimal digits";
        check("vendor_id", self.vendor_id.as_ref(), is_id, wanted)?;
        check("product_id", self.product_id.as_ref(), is_id, wanted)?;
        let wanted = "type-PCI, type-PF or type-VF";
        check("device_type", self.device_type.as_ref(), is_type, wanted)?;
        let wanted = "required, legacy, preferred or socket";
        check("numa_policy", self.numa_policy.as_ref(), is_policy, wanted)?;
        let live = self.live_migratable.as_ref();
        check("live_migratable", live, is_word, "yes or no")?;
        let has_ids = self.vendor_id.is_some() && self.product_id.is_some();
        match has_ids || self.resource_class.is_some() {
            true => Ok(()),
            false => Err(PciAliasError::NoDevices(self.name.clone())),
        }
    }

    /// The properties of its devices, as in requests.
    fn spec(&self) -> BTreeMap<String, String> {
        let live = self.live_migratable.as_deref().and_then(live_migratable);
        let live = live.map(|is_live| is_live.to_string());
        let fields = [
            ("vendor_id", &self.vendor_id),
            ("product_id", &self.product_id),
            ("dev_type", &self.device_type),
            ("resource_class", &self.resource_class),
            ("traits", &self.traits),
            ("live_migratable", &live),
        ];
        let set = fields.into_iter();
        let set = set.filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        set.collect()
    }
}

impl PciRequest {
    /// The devices that a flavor requests by aliases; `id` creates the id of the n-th request.
    pub fn of_flavor(
        flavor: &RequestFlavor,
        image: Option<&RequestImage>,
        aliases: &[PciAlias],
        id: impl Fn(usize) -> String,
    ) -> Result<Vec<Self>, PciAliasError> {
        aliases_of_one_link_group(flavor)?;
        let Some(text) = flavor.extra_specs.get(PCI_ALIAS_SPEC) else {
            return Ok(Vec::new());
        };
        let asked = pci_numa_affinity_policy(flavor, image)?;
        let parts = counts(text)?.into_iter().enumerate();
        let requests = parts.map(|(at, (name, count))| {
            let mut these = aliases.iter().filter(|it| it.name == name).peekable();
            let Some(first) = these.peek() else {
                return Err(no_such(name, aliases));
            };
            let of_alias = first.numa_policy.as_deref().and_then(policy);
            Ok(Self {
                count,
                numa_policy: asked.or(of_alias).unwrap_or_default(),
                spec: these.map(PciAlias::spec).collect(),
                request_id: Some(id(at)),
                origin: PciRequestOrigin::Flavor(name.to_owned()),
            })
        });
        requests.collect()
    }
}

/// The aliases whose devices must be in one link group; none by default.
///
/// Errors: the flavor does not request one of them.
pub fn aliases_of_one_link_group(flavor: &RequestFlavor) -> Result<BTreeSet<&str>, PciAliasError> {
    let Some(names) = flavor.extra_specs.get(SAME_LINK_GROUP_SPEC) else {
        return Ok(BTreeSet::new());
    };
    let requested = flavor.extra_specs.get(PCI_ALIAS_SPEC);
    let requested = requested.map_or_else(|| Ok(Vec::new()), |text| counts(text))?;
    let names = names.split(',').map(str::trim);
    let is_requested = |name: &str| requested.iter().any(|(alias, _)| *alias == name);
    names
        .map(|name| match is_requested(name) {
            true => Ok(name),
            false => Err(PciAliasError::NotRequested(name.to_owned())),
        })
        .collect()
}

/// Parses `NAME:COUNT,NAME:COUNT`.
fn counts(text: &str) -> Result<Vec<(&str, i64)>, PciAliasError> {
    let wrong = || PciAliasError::NoList(text.to_owned());
    let part = |part: &'_ str| -> Option<i64> {
        let count: i64 = part.parse().ok()?;
        (1..=MOST_DEVICES).contains(&count).then_some(count)
    };
    let mut all = 0;
    let mut counts = Vec::new();
    for one in text.split(',') {
        let (name, count) = one.trim().rsplit_once(':').ok_or_else(wrong)?;
        let count = part(count).ok_or_else(wrong)?;
        all += count;
        if name.is_empty() || all > MOST_DEVICES {
            return Err(wrong());
        }
        counts.push((name, count));
    }
    Ok(counts)
}

fn no_such(alias: &str, aliases: &[PciAlias]) -> PciAliasError {
    let mut names: Vec<&str> = aliases.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let known = match names.as_slice() {
        [] => "names none".to_owned(),
        names => format!("names {}", shortened(&names.join(", "))),
    };
    PciAliasError::NoSuchAlias {
        alias: alias.to_owned(),
        known,
    }
}

fn policy(word: &str) -> Option<NumaAffinityPolicy> {
    let all = NumaAffinityPolicy::ALL;
    all.iter()
        .find(|(name, _)| *name == word)
        .map(|(_, it)| *it)
}

fn live_migratable(word: &str) -> Option<bool> {
    match word.to_lowercase().as_str() {
        "yes" | "true" | "on" | "1" => Some(true),
        "no" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn check(
    field: &'static str,
    value: Option<&String>,
    is_right: impl Fn(&str) -> bool,
    wanted: &'static str,
) -> Result<(), PciAliasError> {
    match value.filter(|value| !is_right(value)) {
        None => Ok(()),
        Some(value) => Err(PciAliasError::Field {
            field,
            value: value.clone(),
            wanted,
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn aliases() -> Vec<PciAlias> {
        let all = [
            json!({"name": "gpu", "vendor_id": "10de", "product_id": "20b7", "device_type": "type-PF", "numa_policy": "required"}),
            json!(
                "{\"name\": \"nic\", \"resource_class\": \"CUSTOM_NIC\", \"traits\": \"fast\", \"live_migratable\": \"Yes\"}"
            ),
            json!({"name": "any", "vendor_id": "10de", "product_id": "20b7"}),
            json!({"name": "any", "vendor_id": "10de", "product_id": "20b8"}),
        ];
        let all = all.iter().map(PciAlias::read);
        all.collect::<Result<_, _>>().expect("aliases")
    }

    fn asked(specs: &[(&str, &str)]) -> Result<Vec<PciRequest>, String> {
        let own = specs.iter();
        let flavor = RequestFlavor {
            extra_specs: own
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..RequestFlavor::default()
        };
        let requests = PciRequest::of_flavor(&flavor, None, &aliases(), |at| format!("r{at}"));
        requests.map_err(|error| error.to_string())
    }

    #[test]
    fn a_flavor_asks_by_alias_and_count() {
        let requests = asked(&[(PCI_ALIAS_SPEC, "gpu:2, nic:1")]).expect("two");
        let read: Vec<_> = requests
            .iter()
            .map(|it| (it.count, it.numa_policy, it.request_id.as_deref()))
            .collect();
        let (required, legacy) = (NumaAffinityPolicy::Required, NumaAffinityPolicy::Legacy);
        assert_eq!(read, [(2, required, Some("r0")), (1, legacy, Some("r1"))]);
        assert_eq!(
            json!(requests[0].spec),
            json!([{"vendor_id": "10de", "product_id": "20b7", "dev_type": "type-PF"}])
        );
        assert_eq!(
            json!(requests[1].spec),
            json!([{"resource_class": "CUSTOM_NIC", "traits": "fast", "live_migratable": "true"}])
        );
        // Two kinds have one name.
        assert_eq!(
            asked(&[(PCI_ALIAS_SPEC, "any:1")]).expect("one")[0]
                .spec
                .len(),
            2
        );
        // The flavor's policy takes precedence over the alias's.
        let specs = [
            (PCI_ALIAS_SPEC, "gpu:1"),
            ("hw:pci_numa_affinity_policy", "preferred"),
        ];
        let policy = asked(&specs).expect("one")[0].numa_policy;
        assert_eq!(policy, NumaAffinityPolicy::Preferred);
        assert_eq!(asked(&[]), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_list_of_aliases_is_refused_with_the_remedy() {
        for text in [
            "",
            "gpu",
            "gpu:",
            "gpu:0",
            "gpu:-1",
            ":1",
            "gpu:1,",
            "gpu:1001",
            "gpu:999,nic:2",
            "gpu:x",
        ] {
            let wrong = asked(&[(PCI_ALIAS_SPEC, text)]).expect_err(text);
            assert!(wrong.contains("should be NAME:COUNT"), "{text}: {wrong}");
        }
        let wrong = asked(&[(PCI_ALIAS_SPEC, "fpga:1")]).expect_err("no alias");
        assert!(wrong.contains("there is no alias fpga"), "{wrong}");
        assert!(wrong.ends_with("names any, gpu, nic"), "{wrong}");
    }

    #[test]
    fn a_link_group_is_demanded_for_aliases_that_the_flavor_requests() {
        let gpus = (PCI_ALIAS_SPEC, "gpu:2, nic:1");
        for names in ["gpu", "gpu,nic", " nic , gpu"] {
            assert!(asked(&[gpus, (SAME_LINK_GROUP_SPEC, names)]).is_ok());
        }
        for (specs, name) in [
            (vec![gpus, (SAME_LINK_GROUP_SPEC, "any")], "and names any"),
            (vec![gpus, (SAME_LINK_GROUP_SPEC, "gpu:2")], "gpu:2"),
            (vec![gpus, (SAME_LINK_GROUP_SPEC, "gpu,")], "and names "),
            (vec![(SAME_LINK_GROUP_SPEC, "gpu")], "and names gpu"),
        ] {
            let wrong = asked(&specs).expect_err(name);
            assert!(
                wrong.contains(SAME_LINK_GROUP_SPEC) && wrong.contains(name),
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_alias_says_which_devices_it_means() {
        for (value, wrong) in [
            (
                json!({"vendor_id": "10de", "product_id": "20b7"}),
                "missing field `name`",
            ),
            (
                json!({"name": "a", "vendor": "10de"}),
                "unknown field `vendor`",
            ),
            (
                json!({"name": "a:b", "resource_class": "X"}),
                "name: should be 1 to 256",
            ),
            (
                json!({"name": "a", "vendor_id": "10d", "product_id": "20b7"}),
                "vendor_id: should be four",
            ),
            (
                json!({"name": "a", "vendor_id": "10de"}),
                "neither vendor_id and product_id nor resource_class",
            ),
            (
                json!({"name": "a", "resource_class": "X", "device_type": "vdpa"}),
                "device_type: should be type-PCI",
            ),
            (
                json!({"name": "a", "resource_class": "X", "numa_policy": "near"}),
                "numa_policy: should be required",
            ),
            (
                json!({"name": "a", "resource_class": "X", "live_migratable": "maybe"}),
                "live_migratable: should be",
            ),
            (
                json!({"name": "a", "resource_class": "X", "capability_type": "usb"}),
                "capability_type: should be pci",
            ),
            (json!("{"), "it is no alias: EOF"),
            (json!(7), "it is no alias: invalid type"),
        ] {
            let got = PciAlias::read(&value).expect_err("no alias").to_string();
            assert!(got.contains(wrong), "{value}: {got}");
        }
    }
}
