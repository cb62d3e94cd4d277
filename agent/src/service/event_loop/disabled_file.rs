//! Whether this host is disabled: read before the first look, written for the admin API. Both are tasks, so that a disk that
//! does not answer is told of like anything else that makes no progress.

use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use berth_agent_api::TickOutcome;
use berth_agent_api::health::STATE_FILES;
use berth_agent_tracker::disabled::{self, Disabled, DisabledError, DisabledInCloud, Words};
use berth_agent_tracker::error_chain::sentence;
use berth_virt::VirtDriver;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::service::error::ServiceError;
use crate::service::event_loop::{DisabledFileIo, EventLoop, TaskCompletion, UnderWay};
use crate::service::progress_watchdog::MARGIN;
use crate::triggers::Trigger;

impl<D: VirtDriver> EventLoop<D> {
    fn keep(&mut self, work: impl Future<Output = TaskCompletion<D>> + 'static) {
        self.keeping = Some(DisabledFileIo {
            since: Instant::now(),
        });
        self.work.spawn_local(work);
    }

    /// The file, while it is being read or written.
    pub(super) fn keeping(&self, now: Instant) -> Option<UnderWay> {
        self.keeping.as_ref().map(|keeping| UnderWay {
            subject: self.surroundings.files.path(disabled::FILE),
            silence: now.duration_since(keeping.since),
            may_be_silent: MARGIN,
        })
    }

    pub(super) fn begin_recall(&mut self) {
        let files = Arc::clone(&self.surroundings.files);
        let tells = self.tells;
        self.keep(async move {
            let read = disabled::read(files.as_ref()).await;
            // Nobody would ever say anything else.
            let is_forgotten = |words: &Words| !tells && words.in_cloud.is_some();
            let read = match read {
                Ok(words) if is_forgotten(&words) => {
                    let removed = disabled::write_of_cloud(files.as_ref(), None).await;
                    let here = words.here;
                    removed.map(|()| Words {
                        here,
                        in_cloud: None,
                    })
                }
                read => read,
            };
            TaskCompletion::Recalled(read)
        });
    }

    /// It is known whether this host is disabled: the first look may begin.
    pub(super) fn recalled(
        &mut self,
        read: Result<Words, DisabledError>,
    ) -> Result<(), ServiceError> {
        self.keeping = None;
        self.disabled = read?;
        self.terms.service = self.disabled.service();
        self.triggers.note(Trigger::Start, Instant::now());
        Ok(())
    }

    pub(super) fn begin_keep(
        &mut self,
        disabled: Option<Disabled>,
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    ) {
        let files = Arc::clone(&self.surroundings.files);
        self.keep(async move {
            let kept = disabled::write(files.as_ref(), disabled.as_ref()).await;
            TaskCompletion::Kept {
                disabled,
                kept,
                reply,
            }
        });
    }

    /// An operator's word is on the disk, or could not be written.
    pub(super) fn kept(
        &mut self,
        disabled: Option<Disabled>,
        kept: Result<(), DisabledError>,
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    ) {
        let now = Instant::now();
        self.keeping = None;
        if let Err(error) = kept {
            self.health
                .set(STATE_FILES.found().with("error", sentence(&error)), now);
            // Who asked may have gone away.
            drop(reply.send(Err(error)));
            return;
        }
        self.health.clear(&STATE_FILES, "");
        tracing::info!(
            disabled = disabled.is_some(),
            "an operator changed whether this host takes guests"
        );
        self.disabled.here = disabled;
        self.terms.service = self.disabled.service();
        // A look under way may have begun before.
        self.waiting
            .for_disabled(self.observation.sequence + 1, reply);
        self.triggers.note(Trigger::Request, now);
    }

    pub(super) fn begin_keep_of_cloud(&mut self, reason: Option<&str>) {
        let is_so = match (&self.disabled.in_cloud, reason) {
            (None, None) => true,
            (Some(known), Some(reason)) => known.is_of(reason),
            (None, Some(_)) | (Some(_), None) => false,
        };
        // It may be said again before the first time is through.
        if is_so {
            return;
        }
        let disabled = reason.map(|reason| DisabledInCloud::new(reason, SystemTime::now()));
        let files = Arc::clone(&self.surroundings.files);
        self.keep(async move {
            let kept = disabled::write_of_cloud(files.as_ref(), disabled.as_ref()).await;
            TaskCompletion::KeptOfCloud { disabled, kept }
        });
    }

    /// The cloud's word is on the disk, or could not be written: then it is said again.
    pub(super) fn kept_of_cloud(
        &mut self,
        disabled: Option<DisabledInCloud>,
        kept: Result<(), DisabledError>,
    ) {
        let now = Instant::now();
        self.keeping = None;
        if let Err(error) = kept {
            let error = sentence(&error);
            self.health
                .set(STATE_FILES.found().with("error", error), now);
            return;
        }
        self.health.clear(&STATE_FILES, "");
        let reason = disabled.as_ref().map(|it| it.reason.as_str());
        tracing::info!(
            disabled = reason.is_some(),
            reason = reason.unwrap_or_default(),
            "an operator of the cloud changed whether this host takes guests"
        );
        self.disabled.in_cloud = disabled;
        self.terms.service = self.disabled.service();
        self.triggers.note(Trigger::Request, now);
    }
}
