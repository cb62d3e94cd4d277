//! [`SchedulerNews`]: what a compute service tells all schedulers about its instances.

use std::fmt;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::objects::{NovaInstance, NovaObjectList};
use crate::release::{NovaRelease, UnsendableObject};
use crate::version::ObjectVersion;

/// A message to the fanout exchange of the topic `scheduler`. Schedulers keep the instances of each host for their filters.
#[derive(Clone, PartialEq)]
pub struct SchedulerNews {
    method: &'static str,
    args: Map<String, Value>,
}

impl SchedulerNews {
    /// These instances are new or have changed.
    pub fn updated(
        release: &NovaRelease,
        host: &str,
        instances: Vec<NovaInstance>,
    ) -> Result<Self, UnsendableObject> {
        let list = NovaObjectList::new(release, instances)?.into_json();
        release.check_sendable(&list)?;
        Ok(Self::of(
            "update_instance_info",
            host,
            "instance_info",
            list,
        ))
    }

    /// An instance is gone.
    #[must_use]
    pub fn deleted(host: &str, instance: Uuid) -> Self {
        let uuid = instance.to_string().into();
        Self::of("delete_instance_info", host, "instance_uuid", uuid)
    }

    /// These are all instances of the host.
    #[must_use]
    pub fn all(host: &str, instances: &[Uuid]) -> Self {
        let uuids = instances
            .iter()
            .map(|uuid| json!(uuid.to_string()))
            .collect();
        Self::of("sync_instance_info", host, "instance_uuids", uuids)
    }

    fn of(method: &'static str, host: &str, key: &str, value: Value) -> Self {
        let entries = [
            ("host_name".to_owned(), host.into()),
            (key.to_owned(), value),
        ];
        Self {
            method,
            args: Map::from_iter(entries),
        }
    }

    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    #[must_use]
    pub fn version(&self) -> ObjectVersion {
        ObjectVersion { major: 4, minor: 2 }
    }

    #[must_use]
    pub fn args(&self) -> &Map<String, Value> {
        &self.args
    }
}

/// Instances may hold passwords and users' data, so they are not shown.
impl fmt::Debug for SchedulerNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SchedulerNews({})", self.method)
    }
}
