//! The steps `arqs` and `bind`: create the accelerator requests (ARQs) of the device profile, and bind them to the
//! claimed providers.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use berth_client::{AcceleratorError, ReportedArq};
use berth_model::{ArqState, ArqUuid, Binding, Disposition, GroupSuffix};

use super::{BootError, BoundBoot, PlacedBoot, ProvidedBoot};
use crate::boot_context::BootContext;
use crate::journal::{BootStep, BootStepDetail, StepState};

impl PlacedBoot {
    /// Creates the ARQs of the device profile, if there is one.
    pub(super) async fn provide(self, context: &BootContext) -> Result<ProvidedBoot, BootError> {
        let Some(profile) = self.record.request.profile() else {
            let arqs = BTreeMap::new();
            return Ok(ProvidedBoot { placed: self, arqs });
        };
        let begun = self.record.step(BootStep::Arqs);
        if let Some(BootStepDetail::Requests(arqs)) = begun.map(|record| &record.detail) {
            let arqs = arqs.clone();
            return Ok(ProvidedBoot { placed: self, arqs });
        }
        if begun.is_some() {
            // ARQs with unknown UUIDs may exist.
            context.record_lost_arqs(profile).await?;
        }
        let (place, step) = (self.place(), BootStep::Arqs);
        context
            .record_step(place, step, StepState::Begun, BootStepDetail::Nothing)
            .await?;
        let made = match context.accelerators.create_arqs(profile).await {
            Ok(made) => made,
            Err(AcceleratorError::NotFound(_)) => {
                return Err(BootError::NoProfile(profile.to_string()));
            }
            Err(error) if error.disposition() == Disposition::Refresh => {
                return Err(BootError::ArqsUnknown(error));
            }
            Err(error) => return Err(error.into()),
        };
        let arqs: BTreeMap<_, _> = made.iter().map(|arq| (arq.uuid, arq.group_id)).collect();
        let detail = BootStepDetail::Requests(arqs.clone());
        context
            .record_step(place, step, StepState::Done, detail)
            .await?;
        Ok(ProvidedBoot { placed: self, arqs })
    }
}

/// State of the guest's ARQs in the accelerator service.
enum BindObservation {
    /// No ARQ is bound or being bound.
    None,
    /// All ARQs are bound as requested.
    Bound,
    /// All ARQs are bound, or being bound, as requested.
    Binding,
    /// The bind of all ARQs failed, and no device is held.
    Failed,
    Mismatch(String),
}

impl ProvidedBoot {
    pub(super) async fn bind(self, context: &BootContext) -> Result<BoundBoot, BootError> {
        let done = self.placed.record.step(BootStep::Bind);
        if self.arqs.is_empty() || done.is_some_and(|record| record.state == StepState::Done) {
            return Ok(BoundBoot { provided: self });
        }
        let was_begun = done.is_some();
        let bindings = self.bindings()?;
        let (place, step) = (self.placed.place(), BootStep::Bind);
        context
            .record_step(place, step, StepState::Begun, BootStepDetail::Nothing)
            .await?;
        let observed = match was_begun {
            true => self.observe_bind(context, &bindings).await?,
            false => BindObservation::None,
        };
        match observed {
            BindObservation::Bound | BindObservation::Binding => {}
            BindObservation::Mismatch(reason) => return Err(BootError::NotBound(reason)),
            BindObservation::None | BindObservation::Failed => {
                self.request_bind(context, &bindings).await?
            }
        }
        context
            .record_step(place, step, StepState::Done, BootStepDetail::Nothing)
            .await?;
        Ok(BoundBoot { provided: self })
    }

    async fn request_bind(
        &self,
        context: &BootContext,
        bindings: &BTreeMap<ArqUuid, Binding>,
    ) -> Result<(), BootError> {
        let error = context.accelerators.bind_arqs(bindings).await.err();
        // Check the result whatever the answer was: some ARQs may be bound, and some versions report success
        // for a failed bind.
        match (self.observe_bind(context, bindings).await?, error) {
            (BindObservation::Bound, _) | (BindObservation::Binding, None) => Ok(()),
            // Nothing is held, and the service reports a temporary failure.
            (BindObservation::Failed, Some(AcceleratorError::Unavailable(refusal)))
                if refusal.status == StatusCode::SERVICE_UNAVAILABLE =>
            {
                Err(BootError::NotReady(refusal.message.clone()))
            }
            // No ARQ is bound or failed, and the service does not know them: it deleted them because they
            // waited for too long. New ones can be created.
            (BindObservation::None, Some(AcceleratorError::NotFound(refusal))) => {
                Err(BootError::ArqsGone(refusal.message.clone()))
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
            (BindObservation::Mismatch(reason), None) => Err(BootError::NotBound(reason)),
            (BindObservation::Failed, None) => {
                let reason = "the bind failed without a reason";
                Err(BootError::NotBound(reason.to_owned()))
            }
            (BindObservation::None, None) => {
                let reason = "the service accepted the bind, but no request is bound";
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

    async fn observe_bind(
        &self,
        context: &BootContext,
        bindings: &BTreeMap<ArqUuid, Binding>,
    ) -> Result<BindObservation, BootError> {
        let instance = self.placed.record.request.uuid();
        let arqs = context.accelerators.arqs_of_instance(instance).await?;
        Ok(bind_observation(&arqs, bindings))
    }
}

fn bind_observation(
    reported: &[ReportedArq],
    bindings: &BTreeMap<ArqUuid, Binding>,
) -> BindObservation {
    if reported.is_empty() {
        return BindObservation::None;
    }
    let failed = reported.iter().filter(|reported| {
        let state = reported.arq.as_ref().map(|arq| &arq.state);
        matches!(state, Ok(ArqState::BindFailed(is)) if bindings.get(&reported.uuid) == Some(is))
    });
    if failed.count() == bindings.len() && reported.len() == bindings.len() {
        return BindObservation::Failed;
    }
    let mut binding = false;
    for ReportedArq { uuid, arq } in reported {
        let Some(expected) = bindings.get(uuid) else {
            return BindObservation::Mismatch(format!(
                "accelerator request {uuid} of another boot is bound to the guest"
            ));
        };
        let state = match arq {
            Ok(arq) => &arq.state,
            Err(error) => {
                return BindObservation::Mismatch(format!("accelerator request {uuid}: {error}"));
            }
        };
        match state {
            ArqState::Bound(is, _) if is == expected => {}
            ArqState::BindStarted(is) if is == expected => binding = true,
            ArqState::Bound(is, _) | ArqState::BindStarted(is) => {
                return BindObservation::Mismatch(format!(
                    "accelerator request {uuid} is bound to provider {} on {}, not to {} on {}",
                    is.device_rp, is.hostname, expected.device_rp, expected.hostname
                ));
            }
            other => {
                return BindObservation::Mismatch(format!(
                    "accelerator request {uuid} is {}",
                    other.phase()
                ));
            }
        }
    }
    if reported.len() < bindings.len() {
        let (some, all) = (reported.len(), bindings.len());
        return BindObservation::Mismatch(format!(
            "{some} of {all} accelerator requests are bound"
        ));
    }
    if binding {
        BindObservation::Binding
    } else {
        BindObservation::Bound
    }
}
