//! The two requests with many arguments: a boot and a rebuild.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::arguments::{Arguments, RequestError};
use crate::field::FieldValue;
use crate::objects::{
    NovaBlockDeviceMapping, NovaImageMeta, NovaInstance, NovaMigration, NovaNetworkRequest,
    NovaObjectList, NovaObjectType, NovaRequestSpec, NovaSchedulerLimits, NovaSelection,
};

/// The password of a guest's administrator. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct GuestPassword(String);

impl GuestPassword {
    /// The text itself, for the one place that sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for GuestPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl FieldValue<'_> for GuestPassword {
    const EXPECTED: &'static str = "a string";

    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(|text| Self(text.to_owned()))
    }

    fn write(self) -> Value {
        self.0.into()
    }
}

/// A file for the guest. The contents are Base64, and `Debug` does not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct InjectedFile {
    pub path: String,
    pub contents: String,
}

impl fmt::Debug for InjectedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InjectedFile").field(&self.path).finish()
    }
}

impl FieldValue<'_> for InjectedFile {
    const EXPECTED: &'static str = "a path and contents";

    fn read(value: &Value) -> Option<Self> {
        match value.as_array()?.as_slice() {
            [Value::String(path), Value::String(contents)] => Some(Self {
                path: path.clone(),
                contents: contents.clone(),
            }),
            _ => None,
        }
    }

    fn write(self) -> Value {
        json!([self.path, self.contents])
    }
}

/// A boot.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildAndRunInstance {
    pub instance: NovaInstance,
    pub image: NovaImageMeta,
    pub request_spec: Option<NovaRequestSpec>,
    /// `retry` in it counts the hosts that were tried.
    pub filter_properties: Map<String, Value>,
    pub admin_password: Option<GuestPassword>,
    pub injected_files: Vec<InjectedFile>,
    pub requested_networks: Option<NovaObjectList<NovaNetworkRequest>>,
    /// Names or IDs.
    pub security_groups: Vec<String>,
    pub block_device_mapping: Option<NovaObjectList<NovaBlockDeviceMapping>>,
    pub node: Option<String>,
    pub limits: Option<NovaSchedulerLimits>,
    /// The hosts that the scheduler selected in addition.
    pub host_list: Option<Vec<NovaSelection>>,
    pub accel_uuids: Vec<Uuid>,
}

impl BuildAndRunInstance {
    pub(super) fn parse(args: &mut Arguments) -> Result<Self, RequestError> {
        let host_list = match args.objects("host_list")? {
            hosts if hosts.is_empty() => None,
            hosts => Some(hosts),
        };
        Ok(Self {
            instance: args.object("instance")?,
            image: NovaImageMeta::new(args.map("image")?),
            request_spec: args.object_if_given("request_spec")?,
            filter_properties: args.map("filter_properties")?,
            admin_password: args.value_if_given("admin_password")?,
            injected_files: args.value_if_given("injected_files")?.unwrap_or_default(),
            requested_networks: args.list_if_given("requested_networks")?,
            security_groups: args.value_if_given("security_groups")?.unwrap_or_default(),
            block_device_mapping: args.list_if_given("block_device_mapping")?,
            node: args.value_if_given("node")?,
            limits: limits(args)?,
            host_list,
            accel_uuids: args.value_if_given("accel_uuids")?.unwrap_or_default(),
        })
    }

    /// The arguments of `build_instances` that are the same as those of this boot.
    pub(crate) fn for_another_host(&self) -> Map<String, Value> {
        let mut args = Map::new();
        let mut insert = |key: &str, value: Value| args.insert(key.to_owned(), value);
        insert("image", self.image.clone().into_json());
        insert("admin_password", self.admin_password.clone().write());
        insert("injected_files", self.injected_files.clone().write());
        insert(
            "requested_networks",
            self.requested_networks.clone().write(),
        );
        insert("security_groups", self.security_groups.clone().write());
        insert("request_spec", self.request_spec.clone().write());
        let hosts = self.host_list.clone().unwrap_or_default();
        let hosts: Vec<Value> = hosts.into_iter().map(NovaSelection::into_json).collect();
        insert("host_lists", json!([hosts]));
        args
    }
}

/// A rebuild, or the second half of an evacuation.
#[derive(Debug, Clone, PartialEq)]
pub struct RebuildInstance {
    pub instance: NovaInstance,
    pub new_pass: Option<GuestPassword>,
    pub injected_files: Vec<InjectedFile>,
    pub image_ref: Option<String>,
    pub orig_image_ref: Option<String>,
    pub orig_sys_metadata: Option<BTreeMap<String, Option<String>>>,
    pub bdms: Option<NovaObjectList<NovaBlockDeviceMapping>>,
    /// Whether it is an evacuation.
    pub recreate: bool,
    pub on_shared_storage: Option<bool>,
    pub preserve_ephemeral: bool,
    pub migration: Option<NovaMigration>,
    pub scheduled_node: Option<String>,
    pub limits: Option<NovaSchedulerLimits>,
    pub request_spec: Option<NovaRequestSpec>,
    pub accel_uuids: Vec<Uuid>,
    pub reimage_boot_volume: bool,
    /// The vm_state to reach, if it is not that from before.
    pub target_state: Option<String>,
}

impl RebuildInstance {
    pub(super) fn parse(args: &mut Arguments) -> Result<Self, RequestError> {
        Ok(Self {
            instance: args.object("instance")?,
            new_pass: args.value_if_given("new_pass")?,
            injected_files: args.value_if_given("injected_files")?.unwrap_or_default(),
            image_ref: args.value_if_given("image_ref")?,
            orig_image_ref: args.value_if_given("orig_image_ref")?,
            orig_sys_metadata: args.value_if_given("orig_sys_metadata")?,
            bdms: args.list_if_given("bdms")?,
            recreate: args.value("recreate")?,
            on_shared_storage: args.value_if_given("on_shared_storage")?,
            preserve_ephemeral: args
                .value_if_given("preserve_ephemeral")?
                .unwrap_or_default(),
            migration: args.object_if_given("migration")?,
            scheduled_node: args.value_if_given("scheduled_node")?,
            limits: limits(args)?,
            request_spec: args.object_if_given("request_spec")?,
            accel_uuids: args.value_if_given("accel_uuids")?.unwrap_or_default(),
            reimage_boot_volume: args
                .value_if_given("reimage_boot_volume")?
                .unwrap_or_default(),
            target_state: args.value_if_given("target_state")?,
        })
    }
}

/// Without limits the argument is null or an empty object.
fn limits(args: &mut Arguments) -> Result<Option<NovaSchedulerLimits>, RequestError> {
    const NAME: &str = "limits";
    match args.json_if_given(NAME) {
        None => Ok(None),
        Some(Value::Object(map)) if map.is_empty() => Ok(None),
        Some(value) => args.converted(NAME, value).map(Some),
    }
}
