//! [`NovaRelease`]: which versions one release of Nova speaks, as data.
//!
//! A table is derived from the installed Nova by `packaging/scripts/nova_release.py`. Its objects and methods are facts of that release.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::object::{NotAnObject, NovaObject, shortened};
use crate::objects::NovaObjectType;
use crate::version::ObjectVersion;

/// The tables, the oldest release first.
const TABLES: [&str; 1] = [include_str!("../releases/nova-34.json")];

static RELEASES: LazyLock<Vec<NovaRelease>> = LazyLock::new(|| {
    TABLES
        .iter()
        .map(|text| serde_json::from_str(text).expect("a test reads every table"))
        .collect()
});

/// The versions of one release of Nova.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NovaRelease {
    release: String,
    service_version: i64,
    oldest_service_version: i64,
    rpc: RpcVersions,
    objects: BTreeMap<String, ObjectEntry>,
    compute_methods: BTreeMap<String, MethodEntry>,
}

/// The versions of Nova's RPC interfaces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RpcVersions {
    pub baseapi: ObjectVersion,
    pub compute: ObjectVersion,
    pub compute_task: ObjectVersion,
    pub conductor: ObjectVersion,
    pub scheduler: ObjectVersion,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectEntry {
    version: ObjectVersion,
    #[serde(default)]
    children: Vec<String>,
}

/// A method of the compute RPC interface.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodEntry {
    /// The version with which this release sends it.
    pub version: ObjectVersion,
    /// `call`, `cast` or both.
    pub kinds: Vec<String>,
    pub arguments: Vec<String>,
}

impl<'de> Deserialize<'de> for ObjectVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// No table fits the cell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFittingRelease {
    #[error(
        "the oldest nova-compute of this cell has the service version {minimum}, and this release of Berth has none newer than {newest} \
         (Nova {release}); install a newer release of Berth"
    )]
    Newer {
        minimum: i64,
        newest: i64,
        release: String,
    },
    #[error(
        "a nova-compute of this cell has the service version {minimum}, and Nova {release} needs at least {oldest}; upgrade that \
         nova-compute first"
    )]
    Older {
        minimum: i64,
        oldest: i64,
        release: String,
    },
}

/// Why a message may not be sent to this release. A conductor that receives a newer object than its own may stop to answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsendableObject {
    #[error("the object {name} has the version {version}, and Nova {release} has {supported}")]
    Newer {
        name: String,
        version: ObjectVersion,
        supported: ObjectVersion,
        release: String,
    },
    #[error("Nova {release} has no object {name}")]
    Unknown { name: String, release: String },
    #[error(transparent)]
    NotAnObject(#[from] NotAnObject),
}

/// The names of an object and of all objects that it may contain, each with its version (`object_versions`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectManifest<'r>(BTreeMap<&'r str, ObjectVersion>);

impl<'r> ObjectManifest<'r> {
    pub fn iter(&self) -> impl Iterator<Item = (&'r str, ObjectVersion)> {
        self.0.iter().map(|(name, version)| (*name, *version))
    }

    #[must_use]
    pub fn to_json(&self) -> Value {
        let entries = self.iter();
        Value::Object(
            entries
                .map(|(name, version)| (name.to_owned(), version.to_string().into()))
                .collect(),
        )
    }
}

impl NovaRelease {
    /// All tables, the oldest release first.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &RELEASES
    }

    /// The newest release that has a table.
    #[must_use]
    pub fn newest() -> &'static Self {
        RELEASES.last().expect("there is a table")
    }

    /// The release to speak in a cell whose oldest nova-compute has this service version; 0 stands for a cell without any.
    ///
    /// It is the oldest release that may join. Newer peers understand its objects, but an older peer must never receive newer ones.
    pub fn for_minimum(minimum_service_version: i64) -> Result<&'static Self, NoFittingRelease> {
        let minimum = minimum_service_version;
        let newest = Self::newest();
        if minimum == 0 {
            return Ok(newest);
        }
        let joins = Self::all()
            .iter()
            .find(|release| release.service_version >= minimum)
            .ok_or_else(|| NoFittingRelease::Newer {
                minimum,
                newest: newest.service_version,
                release: newest.release.clone(),
            })?;
        if minimum < joins.oldest_service_version {
            return Err(NoFittingRelease::Older {
                minimum,
                oldest: joins.oldest_service_version,
                release: joins.release.clone(),
            });
        }
        Ok(joins)
    }

    /// The version of the package, such as `34.0.0`.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The version that a compute service of this release writes into its record.
    #[must_use]
    pub fn service_version(&self) -> i64 {
        self.service_version
    }

    #[must_use]
    pub fn rpc(&self) -> &RpcVersions {
        &self.rpc
    }

    /// The methods of the compute RPC interface, by name.
    #[must_use]
    pub fn compute_methods(&self) -> &BTreeMap<String, MethodEntry> {
        &self.compute_methods
    }

    /// The version of an object.
    pub fn version_of(&self, name: &str) -> Result<ObjectVersion, UnsendableObject> {
        self.entry(name).map(|entry| entry.version)
    }

    fn entry(&self, name: &str) -> Result<&ObjectEntry, UnsendableObject> {
        self.objects
            .get(name)
            .ok_or_else(|| UnsendableObject::Unknown {
                name: shortened(name),
                release: self.release.clone(),
            })
    }

    /// What a peer needs to know to answer with objects that this release understands.
    pub fn manifest(&self, name: &str) -> Result<ObjectManifest<'_>, UnsendableObject> {
        self.entry(name)?;
        let mut found = BTreeMap::new();
        let mut waiting = vec![name];
        while let Some(name) = waiting.pop() {
            let Some((name, entry)) = self.objects.get_key_value(name) else {
                continue;
            };
            if found.insert(name.as_str(), entry.version).is_none() {
                waiting.extend(entry.children.iter().map(String::as_str));
            }
        }
        Ok(ObjectManifest(found))
    }

    /// A new object without fields, in this release's version.
    pub fn new_object<T: NovaObjectType>(&self) -> Result<T, UnsendableObject> {
        let version = self.version_of(T::NAME)?;
        Ok(T::from_own(NovaObject::new(T::NAME, version)))
    }

    /// Refuses JSON that contains an object which this release does not have, or has in an older version only.
    ///
    /// The depth of JSON from a message is bounded by its parser.
    pub fn check_sendable(&self, json: &Value) -> Result<(), UnsendableObject> {
        match json {
            Value::Array(items) => items.iter().try_for_each(|item| self.check_sendable(item)),
            Value::Object(map) => self.check_map(map),
            _ => Ok(()),
        }
    }

    fn check_map(&self, map: &Map<String, Value>) -> Result<(), UnsendableObject> {
        if NovaObject::is_marked(map) {
            let (name, version) = NovaObject::identity(map)?;
            let supported = self.version_of(name)?;
            if !supported.understands(version) {
                return Err(UnsendableObject::Newer {
                    name: name.to_owned(),
                    version,
                    supported,
                    release: self.release.clone(),
                });
            }
        }
        map.values()
            .try_for_each(|value| self.check_sendable(value))
    }
}

impl fmt::Display for NovaRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nova {}", self.release)
    }
}
