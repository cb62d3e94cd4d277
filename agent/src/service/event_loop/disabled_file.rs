//! Stores whether this host is disabled: read before the first observation, written for requests. Both run as tasks, so
//! that a disk that does not answer is detected like any other task without progress.

use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use berth_agent_api::TickOutcome;
use berth_agent_api::health::STATE_FILES;
use berth_agent_tracker::disabled::{
    self, DisabledByOperator, DisabledError, DisabledInCloud, DisabledState,
};
use berth_model::error_chain;
use berth_virt::VirtDriver;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::service::error::ServiceError;
use crate::service::event_loop::{DisabledFileIo, EventLoop, MonitoredTask, TaskCompletion};
use crate::service::progress_watchdog::MARGIN;
use crate::triggers::Trigger;

impl<D: VirtDriver> EventLoop<D> {
    fn spawn_file_io(&mut self, work: impl Future<Output = TaskCompletion<D>> + 'static) {
        self.disabled_file_io = Some(DisabledFileIo {
            since: Instant::now(),
        });
        self.work.spawn_local(work);
    }

    /// The running file access, for progress monitoring.
    pub(super) fn disabled_file_io(&self, now: Instant) -> Option<MonitoredTask> {
        self.disabled_file_io
            .as_ref()
            .map(|disabled_file_io| MonitoredTask {
                subject: self.context.files.path(disabled::FILE),
                silence: now.duration_since(disabled_file_io.since),
                may_be_silent: MARGIN,
            })
    }

    pub(super) fn begin_load_disabled(&mut self) {
        let files = Arc::clone(&self.context.files);
        let reports_to_scheduler = self.reports_to_scheduler;
        self.spawn_file_io(async move {
            let read = disabled::load(files.as_ref()).await;
            // Without reports to the scheduler, nothing would ever remove the setting.
            let is_forgotten =
                |words: &DisabledState| !reports_to_scheduler && words.in_cloud.is_some();
            let read = match read {
                Ok(words) if is_forgotten(&words) => {
                    let removed = disabled::store_in_cloud(files.as_ref(), None).await;
                    let here = words.by_operator;
                    removed.map(|()| DisabledState {
                        by_operator: here,
                        in_cloud: None,
                    })
                }
                read => read,
            };
            TaskCompletion::DisabledLoaded(read)
        });
    }

    /// The setting was read: the first observation can start.
    pub(super) fn disabled_loaded(
        &mut self,
        read: Result<DisabledState, DisabledError>,
    ) -> Result<(), ServiceError> {
        self.disabled_file_io = None;
        self.disabled = read?;
        self.settings.service = self.disabled.service();
        self.triggers.add(Trigger::Start, Instant::now());
        Ok(())
    }

    pub(super) fn begin_store_disabled(
        &mut self,
        disabled: Option<DisabledByOperator>,
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    ) {
        let files = Arc::clone(&self.context.files);
        self.spawn_file_io(async move {
            let kept = disabled::store(files.as_ref(), disabled.as_ref()).await;
            TaskCompletion::DisabledStored {
                disabled,
                kept,
                reply,
            }
        });
    }

    /// The setting of an operator of this host was written, or could not be written.
    pub(super) fn disabled_stored(
        &mut self,
        disabled: Option<DisabledByOperator>,
        kept: Result<(), DisabledError>,
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    ) {
        let now = Instant::now();
        self.disabled_file_io = None;
        if let Err(error) = kept {
            self.health.set(
                STATE_FILES.finding().with("error", error_chain(&error)),
                now,
            );
            // The client may have disconnected.
            drop(reply.send(Err(error)));
            return;
        }
        self.health.clear(&STATE_FILES, "");
        tracing::info!(
            disabled = disabled.is_some(),
            "an operator changed whether this host is disabled"
        );
        self.disabled.by_operator = disabled;
        self.settings.service = self.disabled.service();
        // A running observation may have started before.
        self.waiting
            .for_disabled(self.observation.sequence + 1, reply);
        self.triggers.add(Trigger::Request, now);
    }

    pub(super) fn begin_store_in_cloud(&mut self, reason: Option<&str>) {
        let is_so = match (&self.disabled.in_cloud, reason) {
            (None, None) => true,
            (Some(known), Some(reason)) => known.has_reason(reason),
            (None, Some(_)) | (Some(_), None) => false,
        };
        // The scheduler may repeat it before the first one is stored.
        if is_so {
            return;
        }
        let disabled = reason.map(|reason| DisabledInCloud::new(reason, SystemTime::now()));
        let files = Arc::clone(&self.context.files);
        self.spawn_file_io(async move {
            let kept = disabled::store_in_cloud(files.as_ref(), disabled.as_ref()).await;
            TaskCompletion::DisabledInCloudStored { disabled, kept }
        });
    }

    /// The setting of an operator of the cloud was written. If not, the scheduler repeats it.
    pub(super) fn in_cloud_stored(
        &mut self,
        disabled: Option<DisabledInCloud>,
        kept: Result<(), DisabledError>,
    ) {
        let now = Instant::now();
        self.disabled_file_io = None;
        if let Err(error) = kept {
            let error = error_chain(&error);
            self.health
                .set(STATE_FILES.finding().with("error", error), now);
            return;
        }
        self.health.clear(&STATE_FILES, "");
        let reason = disabled.as_ref().map(|it| it.reason.as_str());
        tracing::info!(
            disabled = reason.is_some(),
            reason = reason.unwrap_or_default(),
            "an operator of the cloud changed whether this host is disabled"
        );
        self.disabled.in_cloud = disabled;
        self.settings.service = self.disabled.service();
        self.triggers.add(Trigger::Request, now);
    }
}
