//! Accelerator requests, and the PATCH that binds and unbinds them.

use std::collections::BTreeMap;

use berth_model::{
    Arq, ArqPhase, ArqState, ArqUuid, AttachHandle, AttachHandleType, Binding, ConsumerUuid,
    DeviceProfileName, ProviderUuid,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::{AttachHandleInfoBody, DocumentLink};
use crate::BodyError;
use crate::body::pairs;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateArqs {
    #[serde(default)]
    pub device_profile_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArqBody {
    pub uuid: Uuid,
    /// The state, as Cyborg names it.
    pub state: String,
    /// The device profile it was created from.
    pub device_profile_name: String,
    /// The place of its group in the profile.
    pub device_profile_group_id: u32,
    /// The host it is bound on.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The resource provider it is bound to.
    #[serde(default)]
    pub device_rp_uuid: Option<Uuid>,
    /// The instance it is bound for.
    #[serde(default)]
    pub instance_uuid: Option<Uuid>,
    #[serde(default)]
    pub project_id: Option<String>,
    /// `PCI`, `MDEV`, `TEST_PCI`; empty unless bound.
    #[serde(default)]
    pub attach_handle_type: String,
    /// The handle's UUID, null unless bound.
    #[serde(default)]
    pub attach_handle_uuid: Option<Uuid>,
    /// The address of the device; `{}` unless bound.
    #[serde(default)]
    pub attach_handle_info: AttachHandleInfoBody,
    /// Links to the document.
    #[serde(default)]
    pub links: Vec<DocumentLink>,
    /// When it was created.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When it was last changed.
    #[serde(default)]
    pub updated_at: Option<String>,
}

impl From<&Arq> for ArqBody {
    fn from(arq: &Arq) -> Self {
        let binding = arq.state.binding();
        let handle = arq.state.attach_handle();
        Self {
            uuid: *arq.uuid.as_uuid(),
            state: arq.state.phase().as_str().to_owned(),
            device_profile_name: arq.device_profile.as_str().to_owned(),
            device_profile_group_id: arq.group_id,
            hostname: binding.map(|binding| binding.hostname.clone()),
            device_rp_uuid: binding.map(|binding| *binding.device_rp.as_uuid()),
            instance_uuid: binding.map(|binding| *binding.instance.as_uuid()),
            project_id: Some(arq.project_id.clone()),
            attach_handle_type: handle
                .map(|handle| handle.info.kind().as_str().to_owned())
                .unwrap_or_default(),
            attach_handle_uuid: handle.map(|handle| *handle.uuid.as_uuid()),
            attach_handle_info: handle
                .map(|handle| AttachHandleInfoBody::from(&handle.info))
                .unwrap_or_default(),
            links: Vec::new(),
            created_at: None,
            updated_at: None,
        }
    }
}

impl ArqBody {
    /// Converts it to the model.
    ///
    /// Errors: An unknown state or handle type, or a missing field that the state requires.
    pub fn into_arq(self) -> Result<Arq, BodyError> {
        let missing = |name: &'static str| move || BodyError::field(name, "is missing");
        let phase = ArqPhase::from_name(&self.state).ok_or_else(|| {
            BodyError::field("state", format_args!("{:?} is unknown", self.state))
        })?;
        let binding = || {
            Ok::<_, BodyError>(Binding {
                hostname: self.hostname.clone().ok_or_else(missing("hostname"))?,
                device_rp: self
                    .device_rp_uuid
                    .ok_or_else(missing("device_rp_uuid"))?
                    .into(),
                instance: self
                    .instance_uuid
                    .ok_or_else(missing("instance_uuid"))?
                    .into(),
            })
        };
        let state = match phase {
            ArqPhase::Initial => ArqState::Initial,
            ArqPhase::Unbound => ArqState::Unbound,
            ArqPhase::Deleting => ArqState::Deleting,
            ArqPhase::BindStarted => ArqState::BindStarted(binding()?),
            ArqPhase::BindFailed => ArqState::BindFailed(binding()?),
            ArqPhase::UnbindFailed => ArqState::UnbindFailed(binding()?),
            ArqPhase::Bound => {
                let kind =
                    AttachHandleType::from_name(&self.attach_handle_type).ok_or_else(|| {
                        let kind = &self.attach_handle_type;
                        BodyError::field("attach_handle_type", format_args!("{kind:?} is unknown"))
                    })?;
                let info = self.attach_handle_info.clone().into_info(kind);
                let handle = AttachHandle {
                    uuid: self
                        .attach_handle_uuid
                        .ok_or_else(missing("attach_handle_uuid"))?
                        .into(),
                    info: info.map_err(|error| error.under("attach_handle_info"))?,
                };
                ArqState::Bound(binding()?, handle)
            }
        };
        Ok(Arq {
            uuid: self.uuid.into(),
            state,
            device_profile: DeviceProfileName::new(&self.device_profile_name)
                .map_err(|error| BodyError::field("device_profile_name", error))?,
            group_id: self.device_profile_group_id,
            project_id: self.project_id.unwrap_or_default(),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArqList {
    pub arqs: Vec<ArqBody>,
}

/// The outcome of an adoption.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedArqs {
    /// All requests that are in the service now.
    pub adopted: Vec<Uuid>,
    pub not_taken: Vec<NotAdopted>,
}

/// A request that was not adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotAdopted {
    pub uuid: Uuid,
    /// Why, as a sentence.
    pub reason: String,
}

/// The JSON Patch operation: `add` or `remove`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchOp {
    Add,
    Remove,
}

/// The field that a step changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindField {
    #[serde(rename = "/hostname")]
    Hostname,
    #[serde(rename = "/device_rp_uuid")]
    DeviceRpUuid,
    #[serde(rename = "/instance_uuid")]
    InstanceUuid,
    /// The project, from 2.1.
    #[serde(rename = "/project_id")]
    ProjectId,
}

/// One step of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchStep {
    pub path: BindField,
    pub op: PatchOp,
    /// The value of an `add`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// The change that the steps of a request add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindPatch {
    Bind {
        /// The host, provider and instance.
        binding: Binding,
        /// The project to assign, if given.
        project_id: Option<String>,
    },
    /// Give its handle back.
    Unbind,
}

/// PATCH /v2/accelerator_requests: the steps per request, in document order. Duplicate keys are kept, so that
/// they can be refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchBody(pub Vec<(String, Vec<PatchStep>)>);

impl Serialize for PatchBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(uuid, steps)| (uuid, steps)))
    }
}

impl<'de> Deserialize<'de> for PatchBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pairs(deserializer, "an object of lists of steps").map(Self)
    }
}

/// The change of each request.
///
/// Errors: An invalid or duplicate UUID, a missing, duplicate or invalid field, or mixed operations.
pub fn read_patch(body: &PatchBody) -> Result<BTreeMap<ArqUuid, BindPatch>, BodyError> {
    let mut patches = BTreeMap::new();
    let mut operation = None;
    for (uuid, steps) in &body.0 {
        let arq: ArqUuid = uuid
            .parse()
            .map_err(|error| BodyError::field(uuid.as_str(), error))?;
        for step in steps {
            if *operation.get_or_insert(step.op) != step.op {
                return Err(BodyError::field(
                    uuid.as_str(),
                    "all operations must be the same, add or remove",
                ));
            }
        }
        let patch = one_patch(steps).map_err(|error| error.under(uuid))?;
        if patches.insert(arq, patch).is_some() {
            return Err(BodyError::field(uuid.as_str(), "is there twice"));
        }
    }
    Ok(patches)
}

fn one_patch(steps: &[PatchStep]) -> Result<BindPatch, BodyError> {
    let find = |field: BindField, name: &str| {
        let mut found = steps.iter().filter(|step| step.path == field);
        match (found.next(), found.next()) {
            (step, None) => Ok(step),
            _ => Err(BodyError::field(name, "is there twice")),
        }
    };
    let hostname = find(BindField::Hostname, "hostname")?;
    let device_rp = find(BindField::DeviceRpUuid, "device_rp_uuid")?;
    let instance = find(BindField::InstanceUuid, "instance_uuid")?;
    let project = find(BindField::ProjectId, "project_id")?;
    if steps.iter().all(|step| step.op == PatchOp::Remove) && !steps.is_empty() {
        return Ok(BindPatch::Unbind);
    }
    let value = |step: Option<&PatchStep>, name: &str| {
        step.and_then(|step| step.value.clone())
            .filter(|value| !value.is_empty() && value.len() <= 255)
            .ok_or_else(|| BodyError::field(name, "a value of 1 to 255 characters is needed"))
    };
    let uuid = |step, name: &str| {
        value(step, name)?
            .parse::<Uuid>()
            .map_err(|_| BodyError::field(name, "is not a UUID"))
    };
    Ok(BindPatch::Bind {
        binding: Binding {
            hostname: value(hostname, "hostname")?,
            device_rp: ProviderUuid::from(uuid(device_rp, "device_rp_uuid")?),
            instance: ConsumerUuid::from(uuid(instance, "instance_uuid")?),
        },
        project_id: project
            .map(|step| value(Some(step), "project_id"))
            .transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    const ARQ: &str = "c0a58289-b739-4a22-bd81-a7e022eba6ea";
    const RP: &str = "f9d7848a-7688-361f-8e4b-3e58185de5fe";
    const GUEST: &str = "5c965fc9-a7cd-4d38-8ccb-d8821db50d03";

    /// A document of the real service.
    const BOUND: &str = r#"{"uuid": "c0a58289-b739-4a22-bd81-a7e022eba6ea", "state": "Bound",
        "device_profile_name": "dp", "device_profile_group_id": 0, "hostname": "compute1",
        "device_rp_uuid": "f9d7848a-7688-361f-8e4b-3e58185de5fe",
        "instance_uuid": "5c965fc9-a7cd-4d38-8ccb-d8821db50d03", "project_id": "p", "attach_handle_type": "PCI",
        "attach_handle_uuid": "b55549d6-6606-423a-aebe-1c4e162b0346",
        "attach_handle_info": {"domain": "0000", "bus": "0c", "device": "00", "function": "1"}, "links": [],
        "created_at": "2026-11-20T15:22:11+00:00", "updated_at": null}"#;

    #[test]
    fn a_bound_request_is_read_and_written_back() {
        let body: ArqBody = decode(BOUND.as_bytes()).unwrap();
        let arq = body.clone().into_arq().unwrap();
        let handle = arq.state.attach_handle().unwrap();
        assert_eq!(handle.info.to_string(), "PCI 0000:0c:00.1");
        let back = ArqBody {
            created_at: body.created_at.clone(),
            ..ArqBody::from(&arq)
        };
        assert_eq!(back, body);
    }

    #[test]
    fn a_handle_with_any_other_state_is_not_believed() {
        let failed = BOUND.replace("\"Bound\"", "\"BindFailed\"");
        let arq = decode::<ArqBody>(failed.as_bytes())
            .unwrap()
            .into_arq()
            .unwrap();
        assert_eq!(arq.state.attach_handle(), None);
        for (from, to) in [
            ("\"Bound\"", "\"Bounded\""),
            ("\"PCI\"", "\"USB\""),
            ("\"hostname\": \"compute1\"", "\"hostname\": null"),
            ("\"bus\": \"0c\", ", ""),
        ] {
            let odd = BOUND.replace(from, to);
            assert!(
                decode::<ArqBody>(odd.as_bytes())
                    .unwrap()
                    .into_arq()
                    .is_err(),
                "{to}"
            );
        }
    }

    fn patch(steps: &str) -> Result<BindPatch, String> {
        let body = format!("{{\"{ARQ}\": [{steps}]}}");
        let body: PatchBody = decode(body.as_bytes()).map_err(|error| error.to_string())?;
        let patches = read_patch(&body).map_err(|error| error.to_string())?;
        Ok(patches.into_values().next().unwrap())
    }

    fn add(path: &str, value: &str) -> String {
        format!(r#"{{"path": "/{path}", "op": "add", "value": "{value}"}}"#)
    }

    #[test]
    fn a_whole_bind_and_an_unbind_are_read() {
        let steps = [
            add("hostname", "n"),
            add("device_rp_uuid", RP),
            add("instance_uuid", GUEST),
        ];
        let BindPatch::Bind {
            binding,
            project_id,
        } = patch(&steps.join(",")).unwrap()
        else {
            panic!("a bind");
        };
        assert_eq!((binding.hostname.as_str(), project_id), ("n", None));
        let unbind = r#"{"path": "/hostname", "op": "remove"}"#;
        assert_eq!(patch(unbind), Ok(BindPatch::Unbind));
        let step = PatchStep {
            path: BindField::Hostname,
            op: PatchOp::Remove,
            value: None,
        };
        assert_eq!(encode(&step), br#"{"path":"/hostname","op":"remove"}"#);
    }

    #[test]
    fn a_request_that_is_there_twice_is_refused_by_its_name() {
        let unbind = r#"[{"path": "/hostname", "op": "remove"}]"#;
        for again in [ARQ.to_owned(), ARQ.to_uppercase()] {
            let body = format!("{{\"{ARQ}\": {unbind}, \"{again}\": {unbind}}}");
            let body: PatchBody = decode(body.as_bytes()).unwrap();
            let refused = read_patch(&body).unwrap_err().to_string();
            assert_eq!(refused, format!("{again}: is there twice"));
        }
        let other = "c0a58289-b739-4a22-bd81-a7e022eba600";
        let text = format!(r#"{{"{ARQ}":[],"{other}":[]}}"#);
        let body: PatchBody = decode(text.as_bytes()).unwrap();
        assert_eq!(encode(&body), text.as_bytes());
    }

    #[test]
    fn half_a_bind_and_anything_else_is_refused_with_the_field() {
        let whole = [
            add("hostname", "n"),
            add("device_rp_uuid", RP),
            add("instance_uuid", GUEST),
        ];
        for (steps, field) in [
            (whole[..2].join(","), "instance_uuid"),
            (String::new(), "hostname"),
            (
                format!("{},{}", whole.join(","), add("color", "red")),
                "path",
            ),
            (whole.join(",").replace("\"add\"", "\"replace\""), "op"),
            (
                whole.join(",").replacen("\"add\"", "\"remove\"", 1),
                "must be the same",
            ),
            (whole.join(",").replace(RP, "x"), "device_rp_uuid"),
            (format!("{},{}", whole.join(","), whole[0]), "twice"),
        ] {
            let refused = patch(&steps).unwrap_err();
            assert!(refused.contains(field), "{steps}: {refused}");
        }
    }
}
