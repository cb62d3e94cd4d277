//! Client of the accelerator service (Cyborg v2, or Berth's own) in model types.
//!
//! No call needs a microversion above 2.0, except where noted, so any Cyborg works. Bind, unbind and the deletion of a
//! bound request need a service token (`X-Service-Token`), which is the account's own token: the account must have the
//! role `service`. The options are those of `[cyborg]`; the service type is `accelerator`.

mod error;
mod host_devices;
mod operators;
mod responses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{Arq, ArqUuid, Binding, ConsumerUuid, DeviceProfileGroups, DeviceProfileName};
use berth_wire::accelerator::{
    ArqBody, ArqList, BindField, CreateArqs, DeviceProfileList, PatchBody, PatchOp, PatchStep,
};
use berth_wire::{BodyError, encode};
use http::Method;

pub use error::AcceleratorError;
pub use operators::DeviceSwitch;

use crate::adapter::AdapterCall;
use crate::answer::AdapterAnswer;
use crate::call::Repeat;
use crate::placement::DeleteOutcome;
use crate::{
    Adapter, AdapterOptions, Auth, AuthOptions, ConnectError, HttpService, OptionsError,
    RequestObserver,
};

const SERVICE: &str = "accelerator";
const ARQS: &str = "/v2/accelerator_requests";
const ONE_ARQ: &str = "/v2/accelerator_requests/{uuid}";
const PROFILES: &str = "/v2/device_profiles";

/// An accelerator request as reported by the service. One invalid entry does not hide the others of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedArq {
    pub uuid: ArqUuid,
    /// The request, or why it cannot be parsed, for example an unknown state or handle type.
    pub arq: Result<Arq, BodyError>,
}

impl From<ArqBody> for ReportedArq {
    fn from(body: ArqBody) -> Self {
        Self {
            uuid: body.uuid.into(),
            arq: body.into_arq(),
        }
    }
}

/// A client of the accelerator service. Clones share connections and session.
#[derive(Clone)]
pub struct AcceleratorClient {
    adapter: Adapter,
}

impl AcceleratorClient {
    /// The service through `http`; the endpoint of `auth` is its root, without `/v2`.
    #[must_use]
    pub fn new(http: HttpService, auth: Auth, options: &AdapterOptions) -> Self {
        Self::over(Adapter::new(SERVICE, http, auth, options))
    }

    /// The service over the network, all by the options of `[cyborg]`. Nothing is sent yet.
    pub fn from_options(
        options: &AuthOptions,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, ConnectError> {
        Adapter::from_options(SERVICE, options, observer).map(Self::over)
    }

    /// Creates the client over a given HTTP service, such as a decorated one or a unix socket.
    pub fn from_options_over(
        http: HttpService,
        options: &AuthOptions,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, OptionsError> {
        Adapter::from_options_over(SERVICE, http, options, observer).map(Self::over)
    }

    fn over(adapter: Adapter) -> Self {
        Self {
            adapter: adapter.with_service_token(),
        }
    }

    /// Adds an observer of its requests.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn RequestObserver>) -> Self {
        Self {
            adapter: self.adapter.with_observer(observer),
        }
    }

    /// GET /v2/device_profiles?name=N: a profile's groups; none for an unknown name.
    pub async fn device_profile_groups(
        &self,
        name: &DeviceProfileName,
    ) -> Result<Option<DeviceProfileGroups>, AcceleratorError> {
        let path = format!("{PROFILES}?name={name}");
        let call = call(Method::GET, PROFILES, path, None, Repeat::Safe);
        let groups = |body: DeviceProfileList| {
            let named = body.device_profiles.into_iter();
            // Some versions take a name for the beginning of one.
            let Some(profile) = named.into_iter().find(|body| body.name == name.as_str()) else {
                return Ok(None);
            };
            let groups = profile.groups.into_iter().map(|group| group.into_group());
            let groups = groups.collect::<Result<Vec<_>, _>>();
            groups
                .and_then(DeviceProfileGroups::new)
                .map(Some)
                .map_err(|error| BodyError::field("device_profiles.groups", error))
        };
        self.parse(call, "a list of device profiles", groups).await
    }

    /// POST /v2/accelerator_requests: creates the requests of a device profile, one per unit of each group. If the
    /// answer is lost, unbound requests of unknown ids may be left behind.
    ///
    /// Errors: No answer, a refusal (unknown profile), or an answer without requests.
    pub async fn create_arqs(
        &self,
        profile: &DeviceProfileName,
    ) -> Result<Vec<Arq>, AcceleratorError> {
        let body = CreateArqs {
            device_profile_name: Some(profile.as_str().to_owned()),
        };
        let body = Some(encode(&body));
        let call = call(Method::POST, ARQS, ARQS.to_owned(), body, Repeat::Once);
        let arqs = |body: ArqList| body.arqs.into_iter().map(ArqBody::into_arq).collect();
        self.parse(call, "accelerator requests", arqs).await
    }

    /// PATCH: binds all of them. A successful answer does not mean that they are bound: poll, or wait for the event.
    pub async fn bind_arqs(
        &self,
        bindings: &BTreeMap<ArqUuid, Binding>,
    ) -> Result<(), AcceleratorError> {
        let steps = |binding: &Binding| {
            let add = |path, value: String| PatchStep {
                path,
                op: PatchOp::Add,
                value: Some(value),
            };
            vec![
                add(BindField::Hostname, binding.hostname.clone()),
                add(BindField::DeviceRpUuid, binding.device_rp.to_string()),
                add(BindField::InstanceUuid, binding.instance.to_string()),
            ]
        };
        let patch = bindings.iter();
        self.patch(patch.map(|(arq, binding)| (arq.to_string(), steps(binding))))
            .await
    }

    /// PATCH: gives the handles of all of them back. The requests stay.
    pub async fn unbind_arqs(&self, arqs: &BTreeSet<ArqUuid>) -> Result<(), AcceleratorError> {
        let remove = |path| PatchStep {
            path,
            op: PatchOp::Remove,
            value: None,
        };
        let steps = [
            BindField::Hostname,
            BindField::DeviceRpUuid,
            BindField::InstanceUuid,
        ]
        .map(remove);
        self.patch(arqs.iter().map(|arq| (arq.to_string(), steps.to_vec())))
            .await
    }

    async fn patch(
        &self,
        steps: impl Iterator<Item = (String, Vec<PatchStep>)>,
    ) -> Result<(), AcceleratorError> {
        let body = Some(encode(&PatchBody(steps.collect())));
        // A bind that is sent twice is refused the second time, and the caller could not interpret that refusal.
        let call = call(Method::PATCH, ARQS, ARQS.to_owned(), body, Repeat::Once);
        responses::require_success(self.ask(call).await?).map(drop)
    }

    /// GET ?instance=U: all requests that are bound, or being bound, for a guest, on whatever host; in no order.
    pub async fn arqs_of_instance(
        &self,
        instance: ConsumerUuid,
    ) -> Result<Vec<ReportedArq>, AcceleratorError> {
        let path = format!("{ARQS}?instance={instance}");
        let call = call(Method::GET, ARQS, path, None, Repeat::Safe);
        let into_arqs = |body: ArqList| Ok(body.arqs.into_iter().map(ReportedArq::from).collect());
        self.parse(call, "a list of accelerator requests", into_arqs)
            .await
    }

    /// GET /v2/accelerator_requests: all requests that the account may see, in no particular order.
    pub async fn arqs(&self) -> Result<Vec<ReportedArq>, AcceleratorError> {
        let call = call(Method::GET, ARQS, ARQS.to_owned(), None, Repeat::Safe);
        let into_arqs = |body: ArqList| Ok(body.arqs.into_iter().map(ReportedArq::from).collect());
        self.parse(call, "a list of accelerator requests", into_arqs)
            .await
    }

    /// GET /v2/accelerator_requests/{uuid}; `None` if it does not exist or belongs to another project.
    pub async fn arq(&self, uuid: ArqUuid) -> Result<Option<ReportedArq>, AcceleratorError> {
        let path = format!("{ARQS}/{uuid}");
        let call = call(Method::GET, ONE_ARQ, path, None, Repeat::Safe);
        match responses::unless_not_found(self.ask(call).await?)? {
            Some(answer) => {
                let into_arq = |body: ArqBody| Ok(Some(ReportedArq::from(body)));
                responses::parsed(answer, "an accelerator request", into_arq)
            }
            None => Ok(None),
        }
    }

    /// DELETE ?arqs=U for one request: with an unknown UUID in a list Cyborg deletes none.
    pub async fn delete_arq(&self, uuid: ArqUuid) -> Result<DeleteOutcome, AcceleratorError> {
        let path = format!("{ARQS}?arqs={uuid}");
        let call = call(Method::DELETE, ARQS, path, None, Repeat::Safe);
        let found = responses::unless_not_found(self.ask(call).await?)?;
        Ok(found.map_or(DeleteOutcome::AlreadyGone, |_| DeleteOutcome::Deleted))
    }

    /// DELETE ?instance=U: all requests of a guest, on whatever host; none is fine, too.
    pub async fn delete_arqs_of_instance(
        &self,
        instance: ConsumerUuid,
    ) -> Result<(), AcceleratorError> {
        let path = format!("{ARQS}?instance={instance}");
        let call = call(Method::DELETE, ARQS, path, None, Repeat::Safe);
        responses::require_success(self.ask(call).await?).map(drop)
    }

    async fn ask(&self, call: AdapterCall) -> Result<AdapterAnswer, AcceleratorError> {
        Ok(self.adapter.call(call).await?)
    }

    async fn parse<T: serde::de::DeserializeOwned, V>(
        &self,
        call: AdapterCall,
        expected: &'static str,
        into: impl FnOnce(T) -> Result<V, BodyError>,
    ) -> Result<V, AcceleratorError> {
        responses::parsed(self.ask(call).await?, expected, into)
    }
}

/// A call of microversion 2.0, the version of requests without the header.
fn call(
    method: Method,
    route: &'static str,
    path: String,
    body: Option<Vec<u8>>,
    repeat: Repeat,
) -> AdapterCall {
    AdapterCall {
        repeat,
        ..AdapterCall::new(method, route, path, body)
    }
}
