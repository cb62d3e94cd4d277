//! Accelerator requests: made of the profile, and bound to the providers that the claim's mappings name.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use berth_client::{AcceleratorError, ToldArq};
use berth_model::{ArqState, ArqUuid, Binding, Disposition, GroupSuffix};

use super::{BootError, Bound, Placed, Provided};
use crate::journal::{BootStep, StepDetail, StepState};
use crate::way::Way;

impl Placed {
    /// Makes the requests of the device profile, where there is one.
    pub(super) async fn provide(self, way: &Way) -> Result<Provided, BootError> {
        let Some(profile) = self.record.request.profile() else {
            let arqs = BTreeMap::new();
            return Ok(Provided { placed: self, arqs });
        };
        let begun = self.record.step(BootStep::Arqs);
        if let Some(StepDetail::Requests(arqs)) = begun.map(|record| &record.detail) {
            let arqs = arqs.clone();
            return Ok(Provided { placed: self, arqs });
        }
        if begun.is_some() {
            // They may have been made, and nobody knows their names.
            way.stray(profile).await?;
        }
        let (place, step) = (self.place(), BootStep::Arqs);
        way.note(place, step, StepState::Begun, StepDetail::Nothing)
            .await?;
        let made = match way.accelerators.create_arqs(profile).await {
            Ok(made) => made,
            Err(AcceleratorError::NotFound(_)) => {
                return Err(BootError::NoProfile(profile.to_string()));
            }
            Err(error) if error.disposition() == Disposition::Refresh => {
                return Err(BootError::RequestsUnknown(error));
            }
            Err(error) => return Err(error.into()),
        };
        let arqs: BTreeMap<_, _> = made.iter().map(|arq| (arq.uuid, arq.group_id)).collect();
        let detail = StepDetail::Requests(arqs.clone());
        way.note(place, step, StepState::Done, detail).await?;
        Ok(Provided { placed: self, arqs })
    }
}

/// What the accelerator service says of the guest's requests.
enum Seen {
    /// None is bound, nor being bound.
    None,
    /// All are bound as asked.
    Bound,
    /// All are bound as asked, or being bound.
    Binding,
    /// The bind failed and holds nothing, in whole.
    Failed,
    Wrong(String),
}

impl Provided {
    pub(super) async fn bind(self, way: &Way) -> Result<Bound, BootError> {
        let done = self.placed.record.step(BootStep::Bind);
        if self.arqs.is_empty() || done.is_some_and(|record| record.state == StepState::Done) {
            return Ok(Bound { provided: self });
        }
        let was_begun = done.is_some();
        let bindings = self.bindings()?;
        let (place, step) = (self.placed.place(), BootStep::Bind);
        way.note(place, step, StepState::Begun, StepDetail::Nothing)
            .await?;
        let seen = match was_begun {
            true => self.look(way, &bindings).await?,
            false => Seen::None,
        };
        match seen {
            Seen::Bound | Seen::Binding => {}
            Seen::Wrong(reason) => return Err(BootError::NotBound(reason)),
            Seen::None | Seen::Failed => self.ask(way, &bindings).await?,
        }
        way.note(place, step, StepState::Done, StepDetail::Nothing)
            .await?;
        Ok(Bound { provided: self })
    }

    async fn ask(&self, way: &Way, bindings: &BTreeMap<ArqUuid, Binding>) -> Result<(), BootError> {
        let refused = way.accelerators.bind_arqs(bindings).await.err();
        // Whatever the answer was: some may be bound, and a bind that failed is answered with success by some versions.
        match (self.look(way, bindings).await?, refused) {
            (Seen::Bound, _) | (Seen::Binding, None) => Ok(()),
            // Nothing is held, and the service itself says that it is for now.
            (Seen::Failed, Some(AcceleratorError::Unavailable(refusal)))
                if refusal.status == StatusCode::SERVICE_UNAVAILABLE =>
            {
                Err(BootError::NotReady(refusal.message.clone()))
            }
            // None of them is bound for the guest, nor failed to be, and the service knows none: it waited for long, and the
            // service deleted them. New ones can be made.
            (Seen::None, Some(AcceleratorError::NotFound(refusal))) => {
                Err(BootError::RequestsGone(refusal.message.clone()))
            }
            (_, Some(error)) if error.disposition() == Disposition::Retry => Err(error.into()),
            (_, Some(AcceleratorError::Call(error))) => {
                Err(BootError::Accelerator(AcceleratorError::Call(error)))
            }
            (
                _,
                Some(error @ (AcceleratorError::Forbidden(_) | AcceleratorError::Unauthorized(_))),
            ) => Err(error.into()),
            (_, Some(error)) => Err(BootError::NotBound(error.to_string())),
            (Seen::Wrong(reason), None) => Err(BootError::NotBound(reason)),
            (Seen::Failed, None) => {
                let reason = "their bind failed, and the service does not say why";
                Err(BootError::NotBound(reason.to_owned()))
            }
            (Seen::None, None) => {
                let reason = "the service accepted the bind and knows nothing of it";
                Err(BootError::NotBound(reason.to_owned()))
            }
        }
    }

    fn bindings(&self) -> Result<BTreeMap<ArqUuid, Binding>, BootError> {
        let chosen = &self.placed.chosen;
        let bindings = self.arqs.iter().map(|(arq, group)| {
            let suffix = GroupSuffix::of_device_profile(*group);
            let device_rp = chosen.candidate.serving(&suffix);
            let binding = Binding {
                hostname: chosen.node.to_string(),
                device_rp: device_rp.ok_or(BootError::NoMapping(*group))?,
                instance: self.placed.record.request.uuid(),
            };
            Ok((*arq, binding))
        });
        bindings.collect()
    }

    async fn look(
        &self,
        way: &Way,
        bindings: &BTreeMap<ArqUuid, Binding>,
    ) -> Result<Seen, BootError> {
        let instance = self.placed.record.request.uuid();
        let told = way.accelerators.arqs_of_instance(instance).await?;
        Ok(judge(&told, bindings))
    }
}

fn judge(told: &[ToldArq], bindings: &BTreeMap<ArqUuid, Binding>) -> Seen {
    if told.is_empty() {
        return Seen::None;
    }
    let failed = told.iter().filter(|told| {
        let state = told.arq.as_ref().map(|arq| &arq.state);
        matches!(state, Ok(ArqState::BindFailed(is)) if bindings.get(&told.uuid) == Some(is))
    });
    if failed.count() == bindings.len() && told.len() == bindings.len() {
        return Seen::Failed;
    }
    let mut binding = false;
    for ToldArq { uuid, arq } in told {
        let Some(wanted) = bindings.get(uuid) else {
            return Seen::Wrong(format!(
                "accelerator request {uuid}, which is not of this boot, is bound for the guest"
            ));
        };
        let state = match arq {
            Ok(arq) => &arq.state,
            Err(error) => return Seen::Wrong(format!("accelerator request {uuid}: {error}")),
        };
        match state {
            ArqState::Bound(is, _) if is == wanted => {}
            ArqState::BindStarted(is) if is == wanted => binding = true,
            ArqState::Bound(is, _) | ArqState::BindStarted(is) => {
                return Seen::Wrong(format!(
                    "accelerator request {uuid} is bound to provider {} on {}, not to {} on {}",
                    is.device_rp, is.hostname, wanted.device_rp, wanted.hostname
                ));
            }
            other => {
                return Seen::Wrong(format!("accelerator request {uuid} is {}", other.phase()));
            }
        }
    }
    if told.len() < bindings.len() {
        let (some, all) = (told.len(), bindings.len());
        return Seen::Wrong(format!("{some} of {all} accelerator requests are bound"));
    }
    if binding { Seen::Binding } else { Seen::Bound }
}
