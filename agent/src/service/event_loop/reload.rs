//! SIGHUP: reads and validates the configuration, and applies it if it is valid.

use std::sync::Arc;

use berth_agent_api::Phase;
use berth_agent_api::health::CONFIG_RELOAD_FAILED;
use berth_virt::VirtDriver;
use tokio::time::Instant;

use crate::service::LiveOptions;
use crate::service::event_loop::{EventLoop, ReloadState, TaskCompletion};
use crate::triggers::Trigger;

impl<D: VirtDriver> EventLoop<D> {
    pub(super) fn hangup(&mut self) {
        match self.reloading {
            ReloadState::Idle => self.begin_reload(),
            ReloadState::Running | ReloadState::RunAgain => self.reloading = ReloadState::RunAgain,
        }
    }

    pub(super) fn begin_reload(&mut self) {
        self.reloading = ReloadState::Running;
        // Before the first READY=1, the service manager waits for the start, not for a reload.
        if self.phase == Phase::Running {
            self.notifier.reloading();
        }
        let Some(reload) = self.reload.clone() else {
            self.reloaded(Ok(self.live.clone()));
            return;
        };
        self.work.spawn_local(async move {
            let read = tokio::task::spawn_blocking(move || reload()).await;
            TaskCompletion::ConfigReloaded(read.unwrap_or_else(|error| {
                Err(format!("reading the configuration panicked: {error}"))
            }))
        });
    }

    pub(super) fn reloaded(&mut self, options: Result<LiveOptions, String>) {
        let now = Instant::now();
        match options {
            Ok(options) => self.take_options(options, now),
            Err(error) => {
                tracing::error!(%error, "the new configuration is invalid; the previous one stays in effect");
                self.health
                    .set(CONFIG_RELOAD_FAILED.finding().with("error", error), now);
            }
        }
        if self.reloading == ReloadState::RunAgain {
            self.begin_reload();
            return;
        }
        self.reloading = ReloadState::Idle;
        if self.phase == Phase::Running {
            self.notifier.ready();
        }
    }

    pub(super) fn take_options(&mut self, options: LiveOptions, now: Instant) {
        self.health.clear(&CONFIG_RELOAD_FAILED, "");
        if options.interval != self.live.interval && self.once.is_none() {
            let fuzzy = options.periodic_fuzzy_delay.mul_f64(self.rng.fraction());
            self.triggers.set_interval(options.interval, fuzzy, now);
        }
        self.settings.options = Arc::new(options.tracker.clone());
        self.config = Arc::new(options.config.clone());
        self.live = options;
        self.triggers.add(Trigger::Reload, now);
        tracing::info!("the configuration was reloaded");
    }
}
