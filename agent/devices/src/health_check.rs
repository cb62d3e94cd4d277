//! Asks the operator's program of each device whether it is well: what a vendor's tool knows and no bus tells.
//!
//! Whoever does not say yes in time says no: a tool that hangs is how many a sick card is first seen. The last word is written
//! down, so that a restart gives nobody a sick device, and holds until the program says another; without a program, nothing
//! holds. All of it runs beside the loop: a look takes the last word and waits for none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_agent_journal::{JournalError, names};
use berth_hook::{Hook, HookError};
use berth_virt::{OfferedDevice, UnfitReason, VirtDriver};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::devices::{Devices, Known, Seen};

/// How many devices are asked about at a time.
const AT_ONCE: usize = 4;

/// The pause before a device is asked about that was being reset or programmed, or whose verdict was not written.
const BREATH: Duration = Duration::from_secs(1);

/// The program, and how often each device is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    pub hook: Hook,
    /// From the end of one check of a device to the next.
    pub interval: Duration,
}

/// Checks under way and to come, by device.
#[derive(Default)]
struct Checks {
    tasks: JoinSet<(String, Instant)>,
    running: BTreeSet<String>,
    due: BTreeMap<String, Instant>,
}

impl Checks {
    async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok((address, due))) => {
                self.running.remove(&address);
                self.due.insert(address, due);
            }
            // One that broke off is due still.
            Some(Err(_)) | None => self.running.clear(),
        }
    }

    /// When the next is due that is not under way; none while as many are under way as may be.
    fn next(&self) -> Option<Instant> {
        if self.running.len() >= AT_ONCE {
            return None;
        }
        let waiting = self.due.iter();
        let waiting = waiting.filter(|(address, _)| !self.running.contains(*address));
        waiting.map(|(_, due)| *due).min()
    }
}

/// What the program is told of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    address: String,
    about: [(&'static str, String); 5],
    handles: Vec<String>,
}

impl Asked {
    fn of(device: &OfferedDevice, seen: &Seen, known: &Known) -> Self {
        let address = device.address.to_string();
        let handles = names(device);
        let guests: BTreeSet<String> = handles
            .iter()
            .filter_map(|name| known.register.held.get(name).or(seen.used.get(name)))
            .map(ToString::to_string)
            .collect();
        let guests: Vec<String> = guests.into_iter().collect();
        let about = [
            ("BERTH_DEVICE_ADDRESS", address.clone()),
            ("BERTH_DEVICE_VENDOR", format!("{:04x}", device.vendor_id)),
            ("BERTH_DEVICE_PRODUCT", format!("{:04x}", device.product_id)),
            ("BERTH_DEVICE_TYPE", device.device_type.to_string()),
            ("BERTH_DEVICE_GUESTS", guests.join(" ")),
        ];
        Self {
            address,
            about,
            handles,
        }
    }
}

impl<D: VirtDriver> Devices<D> {
    /// Checks until `shutdown`; returns at once where there is no program for it.
    pub(super) async fn check(&self, shutdown: CancellationToken) {
        let Some(check) = self.inner.health_check.get() else {
            return self.nobody_says_so().await;
        };
        let mut checks = Checks::default();
        loop {
            self.begin_checks(check, &mut checks);
            let next = checks.next();
            tokio::select! {
                // What is under way is dropped with its set, and its programs end.
                () = shutdown.cancelled() => return,
                () = self.inner.looked.notified() => {}
                () = checks.ended(), if !checks.running.is_empty() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    /// Words of a program that is none any more do not hold.
    async fn nobody_says_so(&self) {
        if self.known().register.sick.is_empty() {
            return;
        }
        let forgotten = async {
            self.inner.register.clear_health_checks().await?;
            self.refresh().await
        };
        match forgotten.await {
            Ok(()) => {
                tracing::info!(
                    "no program checks devices any more: what one said of them is forgotten"
                );
                self.inner.stir.notify_one();
            }
            Err(error) => {
                tracing::warn!(%error, "what an earlier program said of devices cannot be forgotten; it holds until a restart");
            }
        }
    }

    /// Begins what is due and fits in; what is gone is forgotten, and due at once when it is there again.
    fn begin_checks(&self, check: &HealthCheck, checks: &mut Checks) {
        let now = Instant::now();
        let asked = self.to_ask();
        checks.due.retain(|address, _| asked.contains_key(address));
        for (address, asked) in asked {
            let due = *checks.due.entry(address.clone()).or_insert(now);
            if checks.running.len() >= AT_ONCE {
                // It is noted as due, and begun when another has ended.
                continue;
            }
            if due > now || !checks.running.insert(address) {
                continue;
            }
            let (devices, check) = (self.clone(), check.clone());
            checks.tasks.spawn(async move {
                let pause = devices.check_one(&check, &asked).await;
                (asked.address, Instant::now() + pause)
            });
        }
    }

    fn to_ask(&self) -> BTreeMap<String, Asked> {
        let known = self.known();
        let mut all = BTreeMap::new();
        for seen in known.seen.values() {
            let there = seen.devices.iter().filter(|device| {
                device.condition.reason() != Some(UnfitReason::Vanished)
                    && !device.handles.is_empty()
            });
            let asked = there.map(|device| Asked::of(device, seen, &known));
            all.extend(asked.map(|asked| (asked.address.clone(), asked)));
        }
        all
    }

    /// Asks about one device and writes down the answer; how long until it is asked about again.
    async fn check_one(&self, check: &HealthCheck, asked: &Asked) -> Duration {
        let breath = BREATH.min(check.interval);
        if self.is_being_cleaned(asked) {
            return breath;
        }
        let said = check.hook.ask(asked.about.clone()).await;
        if said.is_err() && self.is_being_cleaned(asked) {
            // A card in the middle of its reset answers nobody.
            return breath;
        }
        let subject = format!("check {}", asked.address);
        match self.note(&asked.address, said).await {
            Ok(()) => {
                self.no_news(&subject);
                check.interval
            }
            Err(error) => {
                let text = error.to_string();
                if self.is_news(&subject, &text) {
                    tracing::warn!(device = %asked.address, error = %text, "what the device's check said cannot be written down");
                }
                breath
            }
        }
    }

    fn is_being_cleaned(&self, asked: &Asked) -> bool {
        let known = self.known();
        let mut handles = asked.handles.iter();
        handles.any(|name| known.register.cleaning.contains(name))
    }

    async fn note(&self, address: &str, said: Result<(), HookError>) -> Result<(), JournalError> {
        let before = self.known().register.sick.get(address).cloned();
        match (said, before) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(_)) => {
                self.inner.register.record_healthy(address).await?;
                tracing::info!(device = %address, "the device's check says that it is well again");
            }
            (Err(error), before) => {
                let reason = error.reason();
                if before.as_ref() == Some(&reason) {
                    return Ok(());
                }
                self.inner.register.record_sick(address, &reason).await?;
                if before.is_none() {
                    tracing::warn!(device = %address, %error, "the device's check says that it is not well: it goes to nobody until it says otherwise");
                }
            }
        }
        self.refresh().await?;
        self.inner.stir.notify_one();
        Ok(())
    }
}
