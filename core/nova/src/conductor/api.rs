//! [`ConductorApi`]: makes the calls that a compute service sends.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answer;
use super::call::{ConductorCall, ConductorMethod, ConductorRequest};
use super::{ConductorAnswerError, ObjectUpdates};
use crate::object::NovaObject;
use crate::objects::{NovaComputeNode, NovaInstance, NovaObjectType, NovaService};
use crate::release::{NovaRelease, UnsendableObject};

/// The result of each constructor.
pub(super) type ConductorResult<A> = Result<ConductorRequest<A>, UnsendableObject>;

/// Makes calls to nova-conductor in the versions of one release.
///
/// Each function fails if a message would contain an object that the release does not have, or only has in an older version.
#[derive(Debug, Clone, Copy)]
pub struct ConductorApi<'r> {
    pub(super) release: &'r NovaRelease,
}

impl<'r> ConductorApi<'r> {
    #[must_use]
    pub fn new(release: &'r NovaRelease) -> Self {
        Self { release }
    }

    #[must_use]
    pub fn release(&self) -> &'r NovaRelease {
        self.release
    }

    /// A function of an object's class. The manifest of that class tells the conductor which versions to answer with.
    pub(super) fn class_action<A>(
        &self,
        class: &str,
        method: &str,
        args: Value,
        kwargs: Value,
        read: fn(Value) -> Result<A, ConductorAnswerError>,
    ) -> ConductorResult<A> {
        let mut message = Map::new();
        message.insert("objname".to_owned(), class.into());
        message.insert("objmethod".to_owned(), method.into());
        message.insert(
            "object_versions".to_owned(),
            self.release.manifest(class)?.to_json(),
        );
        message.insert("args".to_owned(), args);
        message.insert("kwargs".to_owned(), kwargs);
        self.request(ConductorMethod::ObjectClassActionVersions, message, read)
    }

    /// A method of an object.
    pub(super) fn object_action(
        &self,
        object: &impl NovaObjectType,
        method: &str,
        args: Value,
        kwargs: Value,
    ) -> ConductorResult<ObjectUpdates> {
        let mut message = Map::new();
        message.insert("objinst".to_owned(), object.object().clone().into_json());
        message.insert("objmethod".to_owned(), method.into());
        message.insert("args".to_owned(), args);
        message.insert("kwargs".to_owned(), kwargs);
        self.request(ConductorMethod::ObjectAction, message, answer::updates)
    }

    pub(super) fn request<A>(
        &self,
        method: ConductorMethod,
        args: Map<String, Value>,
        read: fn(Value) -> Result<A, ConductorAnswerError>,
    ) -> ConductorResult<A> {
        let call = ConductorCall::new(self.release, method, args)?;
        Ok(ConductorRequest::new(call, read))
    }

    /// Whether a conductor answers.
    pub fn ping(&self, arg: &str) -> ConductorResult<()> {
        let args = Map::from_iter([("arg".to_owned(), arg.into())]);
        self.request(ConductorMethod::Ping, args, answer::ignored)
    }

    /// An older version of an object that was received. The object goes back as it came, and is not checked: the conductor knows it.
    pub fn backport(&self, object: NovaObject) -> ConductorResult<NovaObject> {
        let manifest = self.release.manifest(object.name())?;
        let mut args = Map::new();
        args.insert("object_versions".to_owned(), manifest.to_json());
        args.insert("objinst".to_owned(), object.into_json());
        let call = ConductorCall::returned(ConductorMethod::ObjectBackportVersions, args);
        Ok(ConductorRequest::new(call, answer::any_object))
    }

    /// The lowest service version of a kind of services, 0 if there is none: which release the cell speaks.
    pub fn minimum_service_version(&self, binary: &str) -> ConductorResult<i64> {
        self.class_action(
            NovaService::NAME,
            "get_minimum_version",
            json!([binary]),
            json!({}),
            answer::integer,
        )
    }

    /// The record of a service, if there is one.
    pub fn service(&self, host: &str, binary: &str) -> ConductorResult<Option<NovaService>> {
        self.class_action(
            NovaService::NAME,
            "get_by_host_and_binary",
            json!([host, binary]),
            json!({}),
            answer::object_or_none,
        )
    }

    /// The record of a host's nova-compute. Without one the answer is the failure `ComputeHostNotFound`.
    pub fn compute_service(&self, host: &str) -> ConductorResult<NovaService> {
        self.class_action(
            NovaService::NAME,
            "get_by_compute_host",
            json!([host]),
            json!({}),
            answer::object,
        )
    }

    /// A hypervisor's record. Without one the answer is the failure `ComputeHostNotFound`.
    pub fn compute_node(&self, uuid: Uuid) -> ConductorResult<NovaComputeNode> {
        self.class_action(
            NovaComputeNode::NAME,
            "get_by_uuid",
            json!([uuid.to_string()]),
            json!({}),
            answer::object,
        )
    }

    /// An instance with fields of other tables, such as `flavor` or `info_cache`.
    pub fn instance(&self, uuid: Uuid, fields: &[&str]) -> ConductorResult<NovaInstance> {
        self.class_action(
            NovaInstance::NAME,
            "get_by_uuid",
            json!([]),
            json!({"uuid": uuid.to_string(), "expected_attrs": fields}),
            answer::object,
        )
    }
}
