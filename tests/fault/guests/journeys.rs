//! What a tenant, an operator or the host does with guests, each as a story with a beginning, a wish and an end.

use std::time::Duration;

use berth_conductor::ConductorError;
use berth_conductor::journal::Course;
use berth_tests::guest_cloud::{CARDS, GuestCloud, guest, request};
use berth_wire::guest::GuestAction;
use tokio::time::sleep;

/// How often a client asks again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it does before it gives up.
const TRIES: usize = 600;

/// A story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Journey {
    Boot,
    Delete,
    StopStart,
    Reboot,
    HostBoot,
    HotPlug,
    HotUnplug,
    HeldFreed,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Outcome {
    /// As if nothing had happened.
    Done,
    /// To a clean slate.
    Undone,
    /// Something stands still, and says why.
    Held,
    /// Nothing was changed, and the client was told why.
    Refused,
}

impl Journey {
    pub(super) const ALL: [Self; 8] = [
        Self::Boot,
        Self::Delete,
        Self::StopStart,
        Self::Reboot,
        Self::HostBoot,
        Self::HotPlug,
        Self::HotUnplug,
        Self::HeldFreed,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Delete => "delete",
            Self::StopStart => "stop_start",
            Self::Reboot => "reboot",
            Self::HostBoot => "host_boot",
            Self::HotPlug => "hot_plug",
            Self::HotUnplug => "hot_unplug",
            Self::HeldFreed => "held_freed",
        }
    }

    /// What was there before it.
    pub(super) async fn scene(self, cloud: &GuestCloud) {
        if !matches!(self, Self::Boot | Self::HotPlug | Self::HotUnplug) {
            assert_eq!(boot(cloud, 1, "two").await, Outcome::Done);
        }
        if self == Self::HeldFreed {
            let held = cloud.held_by(guest(1)).await;
            let gone = held.first().copied().expect("it has cards");
            cloud.plug((0..CARDS).filter(|n| *n != gone));
        }
        let wrong = cloud.rests(None).await;
        assert!(wrong.is_empty(), "before {}: {wrong:#?}", self.as_str());
    }

    /// The wish, asked for until it is answered, and its end waited for.
    pub(super) async fn run(self, cloud: &GuestCloud) -> Outcome {
        match self {
            Self::Boot => boot(cloud, 1, "two").await,
            Self::Delete | Self::HeldFreed => delete(cloud, 1).await,
            Self::StopStart => {
                let off = act(cloud, GuestAction::Stop { grace_seconds: 0 }).await;
                match off {
                    Outcome::Done => act(cloud, GuestAction::Start {}).await,
                    other => other,
                }
            }
            Self::Reboot => act(cloud, GuestAction::HardReboot {}).await,
            Self::HostBoot => {
                cloud.boot_host().await;
                runs(cloud).await
            }
            Self::HotPlug => {
                cloud.plug(0..=CARDS);
                offered(cloud, CARDS, true).await
            }
            Self::HotUnplug => {
                cloud.plug(0..CARDS - 1);
                offered(cloud, CARDS - 1, false).await
            }
        }
    }

    /// Everything back to where a fresh cloud is.
    pub(super) async fn clear(cloud: &GuestCloud) -> Vec<String> {
        if cloud.hardware.cards() != (0..CARDS).collect() {
            cloud.plug(0..CARDS);
        }
        delete(cloud, 1).await;
        cloud.rests(None).await
    }
}

/// Asks for a guest until that is answered, and waits until it is there or is not to be.
pub(super) async fn boot(cloud: &GuestCloud, n: u32, profile: &str) -> Outcome {
    for _ in 0..TRIES {
        let conductor = cloud.conductor().await;
        // A client that is not answered asks again; one that waits for ever asks another conductor.
        let asked = request(n, profile);
        let asked = tokio::time::timeout(AGAIN, conductor.create(&asked)).await;
        if let Ok(Err(ConductorError::Other { .. } | ConductorError::Ending { .. })) = asked {
            return Outcome::Refused;
        }
        match cloud.course(guest(n)).await {
            Some(Course::Active) => return Outcome::Done,
            Some(Course::Failed { .. }) => return Outcome::Undone,
            _ => sleep(AGAIN).await,
        }
    }
    Outcome::Held
}

/// Asks until the guest is gone.
pub(super) async fn delete(cloud: &GuestCloud, n: u32) -> Outcome {
    for _ in 0..TRIES {
        if cloud.course(guest(n)).await.is_none() {
            return Outcome::Done;
        }
        let conductor = cloud.conductor().await;
        tokio::time::timeout(AGAIN, conductor.delete(guest(n)))
            .await
            .ok();
        sleep(AGAIN).await;
    }
    Outcome::Held
}

/// Asks the agent until it says that it is done.
async fn act(cloud: &GuestCloud, action: GuestAction) -> Outcome {
    for _ in 0..TRIES {
        let asked = cloud.action(guest(1), &action);
        if let Ok(Ok(_)) = tokio::time::timeout(Duration::from_mins(2), asked).await {
            return Outcome::Done;
        }
        sleep(AGAIN).await;
    }
    Outcome::Held
}

/// Waits until the guest runs.
async fn runs(cloud: &GuestCloud) -> Outcome {
    for _ in 0..TRIES {
        if cloud.is_running(guest(1)).await {
            return Outcome::Done;
        }
        sleep(AGAIN).await;
    }
    Outcome::Held
}

/// Waits until a card is offered, or is not any more.
async fn offered(cloud: &GuestCloud, card: u8, wanted: bool) -> Outcome {
    for _ in 0..TRIES {
        if cloud.is_offered(card).await == wanted {
            return Outcome::Done;
        }
        sleep(AGAIN).await;
    }
    Outcome::Held
}
