//! The exec driver: implements the driver contract by calls to the child process.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use berth_model::{ConsumerUuid, NodeName};
use berth_virt::guest_spec::GuestSpec;
use berth_virt::{
    DeviceError, DeviceReset, GuestDestroyOutcome, GuestError, GuestOnHost, GuestPowerOutcome,
    GuestRedefineOutcome, GuestSpawnOutcome, HostEvent, HostEvents, HostView, ObserveError,
    PowerAction, PreparedDevice, VirtDriver, WantedDevice,
};
use futures_util::stream::unfold;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;

use crate::call_error::{CallError, FailedCall, NAME};
use crate::options::ExecOptions;
use crate::protocol::{
    AsText, Empty, EmptyResult, GuestQuestion, GuestsResult, Method, MigrateParams, OutcomeResult,
    PowerParams, PrepareHostResult, PreparedDevicesResult, ResetResult, SpecParams, UuidParams,
    ViewResult, WantedParams, decode, params,
};
use crate::supervisor::Supervisor;

/// An out-of-tree driver as a child process. The child is started by the first call, and ends when this is dropped.
#[derive(Debug)]
pub struct ExecDriver {
    supervisor: Arc<Supervisor>,
    program: String,
}

impl ExecDriver {
    /// Creates the driver. The program is started at the first call.
    #[must_use]
    pub fn new(options: ExecOptions) -> Self {
        Self {
            program: options.program.display().to_string(),
            supervisor: Supervisor::new(options),
        }
    }

    /// Makes a call and decodes the answer. It runs in its own task, so a cancelled caller does not interrupt it, and
    /// its deadline still applies.
    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        params: Value,
        extra: Duration,
    ) -> Result<T, FailedCall<'_>> {
        let supervisor = Arc::clone(&self.supervisor);
        let limit = supervisor
            .options()
            .deadlines
            .of(method)
            .saturating_add(extra);
        let asked = tokio::spawn(async move {
            let connection = supervisor.connection().await?;
            if !connection.hello().knows(method) {
                return Err(CallError::Unknown(method));
            }
            connection.call(method, &params, limit).await
        });
        let answer = match asked.await {
            Ok(answer) => answer,
            Err(ended) => Err(CallError::WrongAnswer {
                reason: format!("the call was abandoned: {ended}"),
            }),
        };
        let read = |value| {
            decode(value).map_err(|wrong| CallError::WrongAnswer {
                reason: wrong.to_string(),
            })
        };
        answer.and_then(read).map_err(|error| FailedCall {
            program: &self.program,
            method,
            has_run: self.supervisor.has_run(),
            error,
        })
    }

    async fn guest<T: DeserializeOwned>(
        &self,
        question: GuestQuestion,
        params: Value,
    ) -> Result<T, GuestError> {
        let extra = match question.action {
            Some(PowerAction::Stop { grace }) => grace,
            _ => Duration::ZERO,
        };
        self.call(question.method, params, extra)
            .await
            .map_err(|failed| failed.of_guest(&question))
    }

    fn spec<'a, T: DeserializeOwned + 'a>(
        &'a self,
        method: Method,
        spec: &GuestSpec,
    ) -> impl Future<Output = Result<T, GuestError>> + Send + 'a {
        let params = params(&SpecParams { spec });
        self.guest(GuestQuestion::of(method, spec.uuid), params)
    }

    async fn device<T: DeserializeOwned>(
        &self,
        method: Method,
        wanted: &WantedDevice,
    ) -> Result<T, DeviceError> {
        let asked = params(&WantedParams { wanted });
        self.call(method, asked, Duration::ZERO)
            .await
            .map_err(|failed| failed.of_device(wanted.host_device()))
    }
}

fn nothing() -> Value {
    params(&Empty {})
}

impl VirtDriver for ExecDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        let method = Method::Observe;
        let seen: ViewResult = self
            .call(method, nothing(), Duration::ZERO)
            .await
            .map_err(FailedCall::of_observe)?;
        seen.view(self.supervisor.options()).map_err(|reason| {
            let (program, error) = (&*self.program, CallError::WrongAnswer { reason });
            let has_run = true;
            FailedCall {
                program,
                method,
                has_run,
                error,
            }
            .of_observe()
        })
    }

    fn watch(&self) -> HostEvents {
        let keeper = Arc::downgrade(&self.supervisor);
        let events = self.supervisor.events();
        Box::pin(unfold(
            (Some(keeper), events),
            |(keeper, mut events)| async {
                // Watchers get events even before the first observation. An error that prevents the start is reported
                // by `observe`.
                if let Some(supervisor) = keeper.and_then(|keeper| keeper.upgrade()) {
                    tokio::spawn(async move { supervisor.connection().await.map(drop) });
                }
                let event = match events.recv().await {
                    Ok(event) => event,
                    Err(RecvError::Lagged(_)) => HostEvent::Unknown,
                    Err(RecvError::Closed) => return None,
                };
                Some((event, (None, events)))
            },
        ))
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        let result: OutcomeResult<GuestSpawnOutcome> = self.spec(Method::Spawn, spec).await?;
        Ok(result.outcome)
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
        let question = GuestQuestion::of(Method::Destroy, uuid);
        let result: OutcomeResult<GuestDestroyOutcome> =
            self.guest(question, params(&UuidParams::of(uuid))).await?;
        Ok(result.outcome)
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        let question = GuestQuestion::of_all(Method::Guests);
        let result: GuestsResult = self.guest(question, nothing()).await?;
        result.guests().map_err(|reason| {
            let (program, error) = (&*self.program, CallError::WrongAnswer { reason });
            let (method, has_run) = (question.method, true);
            FailedCall {
                program,
                method,
                has_run,
                error,
            }
            .of_guest(&question)
        })
    }

    async fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> Result<GuestPowerOutcome, GuestError> {
        let question = GuestQuestion {
            action: Some(action),
            ..GuestQuestion::of(Method::Power, uuid)
        };
        let asked = params(&PowerParams {
            uuid: AsText(uuid),
            action,
        });
        let result: OutcomeResult<GuestPowerOutcome> = self.guest(question, asked).await?;
        Ok(result.outcome)
    }

    async fn redefine(&self, spec: &GuestSpec) -> Result<GuestRedefineOutcome, GuestError> {
        let result: OutcomeResult<GuestRedefineOutcome> = self.spec(Method::Redefine, spec).await?;
        Ok(result.outcome)
    }

    async fn suspend(&self, uuid: ConsumerUuid) -> Result<GuestPowerOutcome, GuestError> {
        let question = GuestQuestion::of(Method::Suspend, uuid);
        let result: OutcomeResult<GuestPowerOutcome> =
            self.guest(question, params(&UuidParams::of(uuid))).await?;
        Ok(result.outcome)
    }

    async fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        destination: &NodeName,
    ) -> Result<(), GuestError> {
        let question = GuestQuestion::of(Method::LiveMigrate, uuid);
        let asked = params(&MigrateParams::of(uuid, destination));
        let EmptyResult {} = self.guest(question, asked).await?;
        Ok(())
    }

    async fn prepare_host(&self) -> Vec<DeviceError> {
        let done: Result<PrepareHostResult, _> = self
            .call(Method::PrepareHost, nothing(), Duration::ZERO)
            .await;
        match done {
            Ok(result) => result.errors(),
            // Nothing to do for a driver that does not support it.
            Err(FailedCall {
                error: CallError::Unknown(_),
                ..
            }) => Vec::new(),
            Err(failed) => vec![failed.of_host()],
        }
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        let answer: Result<PreparedDevicesResult, _> = self
            .call(Method::PreparedDevices, nothing(), Duration::ZERO)
            .await;
        match answer {
            Ok(result) => Ok(result.into()),
            // The driver does not support `prepared_devices`.
            Err(FailedCall {
                error: CallError::Unknown(_),
                ..
            }) => Ok(Vec::new()),
            Err(failed) => Err(failed.of_host()),
        }
    }

    async fn check_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        let EmptyResult {} = self.device(Method::CheckDevice, wanted).await?;
        Ok(())
    }

    async fn prepare_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        let EmptyResult {} = self.device(Method::PrepareDevice, wanted).await?;
        Ok(())
    }

    async fn reset_device(&self, wanted: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        let result: ResetResult = self.device(Method::ResetDevice, wanted).await?;
        Ok(result.into())
    }
}
