//! The input: a document with `flavors`, `aggregates`, `device_profiles`, `images`, `server_groups`, `options`,
//! `plugins` and `hosts`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use berth_model::nearest_name;
use berth_scheduler::options::SchedulerOptions;
use berth_scheduler_objects::plugin::PluginManifest;
use berth_scheduler_objects::text::shortened;

/// Flavors and what they are checked against. Missing lists are not checked against.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    pub flavors: Vec<FlavorEntry>,
    pub aggregates: Vec<AggregateEntry>,
    /// Whether the file has a list of aggregates.
    pub knows_aggregates: bool,
    /// Device profiles of the accelerator service.
    pub device_profiles: Vec<DeviceProfileEntry>,
    /// Whether the file has a list of device profiles.
    pub knows_device_profiles: bool,
    pub images: Vec<ImageEntry>,
    pub server_groups: Vec<ServerGroupEntry>,
    /// The scheduler's options; they decide which names are read.
    pub options: SchedulerOptions,
    /// The manifests of the scheduler's plugins.
    pub plugins: Vec<PluginManifest>,
    /// The number of hosts, if given.
    pub hosts: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FlavorEntry {
    #[serde(alias = "Name")]
    pub name: String,
    #[serde(alias = "VCPUs")]
    pub vcpus: Option<i64>,
    /// Memory in MiB, if given.
    #[serde(alias = "ram", alias = "RAM")]
    pub memory_mb: Option<i64>,
    /// Swap in MiB. Nova shows none as an empty text in old versions of its API.
    #[serde(default, alias = "Swap", deserialize_with = "swap")]
    pub swap: i64,
    /// Extra specs; `properties` as `openstack flavor show` prints them.
    #[serde(
        default,
        alias = "properties",
        alias = "Properties",
        deserialize_with = "texts"
    )]
    pub extra_specs: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AggregateEntry {
    #[serde(alias = "Name")]
    pub name: String,
    /// Metadata; `properties` as `openstack aggregate show` prints them.
    #[serde(
        default,
        alias = "properties",
        alias = "Properties",
        deserialize_with = "texts"
    )]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DeviceProfileEntry {
    pub name: String,
    #[serde(default)]
    pub groups: Vec<Group>,
}

/// One group of a profile.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Group {
    /// Its keys and values.
    #[serde(deserialize_with = "texts")]
    pub entries: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ImageEntry {
    #[serde(alias = "Name")]
    pub name: String,
    #[serde(default, deserialize_with = "texts")]
    pub properties: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerGroupEntry {
    #[serde(alias = "Name")]
    pub name: String,
    /// The policy, as printed by `openstack server group show`.
    #[serde(alias = "Policy")]
    pub policy: String,
}

/// The document is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// It is not an object.
    #[error("it should be an object with {}, and is {is}", LISTS.join(", "))]
    NoObject { is: String },
    #[error("there is no list {}; there are {}{}", shortened(name), LISTS.join(", "), meant(*near))]
    UnknownList {
        name: String,
        near: Option<&'static str>,
    },
    #[error("{}: {}", shortened(path), shortened(wrong))]
    Field {
        /// The place of the entry, for example `flavors[2]`.
        path: String,
        wrong: String,
    },
}

fn meant(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; is {near} meant?"))
}

const LISTS: [&str; 8] = [
    "flavors",
    "aggregates",
    "device_profiles",
    "images",
    "server_groups",
    "options",
    "plugins",
    "hosts",
];

impl Catalogue {
    pub fn read(document: &Value) -> Result<Self, CatalogueError> {
        let Value::Object(lists) = document else {
            return Err(CatalogueError::NoObject { is: kind(document) });
        };
        let mut all = Self::default();
        for (name, list) in lists {
            match name.as_str() {
                "flavors" => all.flavors = entries(name, list)?,
                "aggregates" => {
                    all.aggregates = entries(name, list)?;
                    all.knows_aggregates = true;
                }
                "device_profiles" => {
                    all.device_profiles = entries(name, list)?;
                    all.knows_device_profiles = true;
                }
                "images" => all.images = entries(name, list)?,
                "server_groups" => all.server_groups = entries(name, list)?,
                "hosts" => all.hosts = Some(hosts(list)?),
                "options" => all.options = options(list)?,
                "plugins" => all.plugins = plugins(list)?,
                other => {
                    return Err(CatalogueError::UnknownList {
                        near: nearest_name(other, LISTS),
                        name: other.to_owned(),
                    });
                }
            }
        }
        Ok(all)
    }
}

fn entries<T: DeserializeOwned>(name: &str, list: &Value) -> Result<Vec<T>, CatalogueError> {
    let wrong = |path: String, wrong: String| CatalogueError::Field { path, wrong };
    let Value::Array(list) = list else {
        let should_be = format!("should be a list, and is {}", kind(list));
        return Err(wrong(name.to_owned(), should_be));
    };
    let entries = list.iter().enumerate().map(|(place, entry)| {
        if !entry.is_object() {
            let should_be = format!("should be an object, and is {}", kind(entry));
            return Err(wrong(format!("{name}[{place}]"), should_be));
        }
        let read = T::deserialize(entry);
        read.map_err(|error| wrong(format!("{name}[{place}]"), error.to_string()))
    });
    entries.collect()
}

/// Describes a value; scalars are shown as they are.
fn kind(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        scalar => shortened(&scalar.to_string()).into_owned(),
    }
}

/// The number of hosts.
fn hosts(many: &Value) -> Result<usize, CatalogueError> {
    let many = many.as_u64().and_then(|many| usize::try_from(many).ok());
    many.ok_or_else(|| CatalogueError::Field {
        path: "hosts".to_owned(),
        wrong: "should be how many hosts there are, a whole number".to_owned(),
    })
}

/// Manifests, as `PROGRAM --manifest` prints them.
fn plugins(list: &Value) -> Result<Vec<PluginManifest>, CatalogueError> {
    let manifests = entries::<Value>("plugins", list)?.into_iter().enumerate();
    let manifests = manifests.map(|(place, manifest)| {
        let read = PluginManifest::read(manifest.to_string().as_bytes());
        read.map_err(|error| CatalogueError::Field {
            path: format!("plugins[{place}]"),
            wrong: error.to_string(),
        })
    });
    manifests.collect()
}

/// `{group: {name: value}}` or `{"group.name": value}`. Options that the scheduler does not read are ignored:
/// `berth config check` reports them.
fn options(groups: &Value) -> Result<SchedulerOptions, CatalogueError> {
    let wrong = |path: &str, wrong: &str| CatalogueError::Field {
        path: shortened(path).into_owned(),
        wrong: shortened(wrong).into_owned(),
    };
    let Value::Object(groups) = groups else {
        return Err(wrong("options", "should be an object of groups"));
    };
    let mut all = Map::new();
    for (group, options) in groups {
        let (group, options) = match (options, group.split_once('.')) {
            (Value::Object(options), _) => (group.as_str(), options.clone()),
            (value, Some((group, name))) => {
                (group, Map::from_iter([(name.to_owned(), value.clone())]))
            }
            _ => {
                let path = format!("options.{group}");
                let text = "should be a group of options, or `group.option`";
                return Err(wrong(&path, text));
            }
        };
        for (name, value) in &options {
            if let Err(error) = SchedulerOptions::deserialize(json!({group: {name: value}})) {
                let path = format!("options.{group}.{name}");
                return Err(wrong(&path, &error.to_string()));
            }
        }
        let known = all.entry(group).or_insert_with(|| json!({}));
        if let Value::Object(known) = known {
            known.extend(options);
        }
    }
    SchedulerOptions::deserialize(Value::Object(all))
        .map_err(|error| wrong("options", &error.to_string()))
}

fn swap<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let value = Value::deserialize(from)?;
    let number = match &value {
        Value::Null => Some(0),
        Value::String(text) if text.is_empty() => Some(0),
        Value::String(text) => text.parse().ok(),
        value => value.as_i64(),
    };
    number.ok_or_else(|| serde::de::Error::custom("swap: should be a number of MiB"))
}

/// Texts by name; numbers and truth values as texts.
fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let values = Map::<String, Value>::deserialize(from)?;
    let text = |(name, value): (String, Value)| {
        let text = match value {
            Value::String(text) => text,
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                let wrong = format!("{name}: should be a text");
                return Err(serde::de::Error::custom(wrong));
            }
        };
        Ok((name, text))
    };
    values.into_iter().map(text).collect()
}
