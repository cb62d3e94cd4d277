//! The scenarios of the guest sweep: what a user, an operator or the host does with guests, each with a start, a
//! request and an expected end.

use std::time::Duration;

use berth_client::GuestApiError;
use berth_conductor::ConductorError;
use berth_conductor::journal::BootGoal;
use berth_tests::guest_cloud::{CARDS, GuestCloud, GuestMishap, guest, request_in};
use berth_wire::guest::GuestAction;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::servers;

/// How often a client asks again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long it does before it gives up.
const PATIENCE: Duration = Duration::from_mins(20);
/// The longest pause between two questions.
const LONGEST: Duration = Duration::from_secs(16);

/// The name of a server that is alone.
pub(super) const SERVER: &str = "vm1";
/// The name of the n-th server among others.
pub(super) fn server(n: u32) -> String {
    format!("vm{n}")
}

/// How long a card is out of the host, at least.
const AWAY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum GuestScenario {
    Boot,
    /// Of a server group.
    BootApart,
    /// Of a server group, too.
    Delete,
    StopStart,
    Reboot,
    SoftReboot,
    HostBoot,
    HotPlug,
    HotUnplug,
    HeldFreed,
    /// Asked of the compute API, before two hosts; so are those below.
    ServerBoot,
    /// The first host takes no guests.
    ServerBootOnNext,
    ServerDelete,
    ServerStopStart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum GuestOutcome {
    /// As if nothing had happened.
    Done,
    /// To a clean slate.
    Undone,
    /// The scenario is blocked, with a reason.
    Held,
    /// Nothing was changed, and the client got the reason.
    Refused,
}

/// The pauses of a client that asks again: each twice as long as the one before, until it gives up.
pub(super) struct RetryPauses {
    since: Instant,
    next: Duration,
}

impl RetryPauses {
    pub(super) fn begin() -> Self {
        Self {
            since: Instant::now(),
            next: AGAIN,
        }
    }

    /// Whether there is another try after a pause.
    pub(super) async fn again(&mut self) -> bool {
        sleep(self.next).await;
        self.next = (self.next * 2).min(LONGEST);
        self.since.elapsed() < PATIENCE
    }
}

impl GuestScenario {
    pub(super) const ALL: [Self; 14] = [
        Self::Boot,
        Self::BootApart,
        Self::Delete,
        Self::StopStart,
        Self::Reboot,
        Self::SoftReboot,
        Self::HostBoot,
        Self::HotPlug,
        Self::HotUnplug,
        Self::HeldFreed,
        Self::ServerBoot,
        Self::ServerBootOnNext,
        Self::ServerDelete,
        Self::ServerStopStart,
    ];

    /// Whether it is asked of the compute API.
    pub(super) const fn is_of_servers(self) -> bool {
        matches!(
            self,
            Self::ServerBoot | Self::ServerBootOnNext | Self::ServerDelete | Self::ServerStopStart
        )
    }

    /// A fresh cloud for it.
    pub(super) async fn cloud(self) -> GuestCloud {
        match self.is_of_servers() {
            true => GuestCloud::with_api().await,
            false => GuestCloud::new().await,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::BootApart => "boot_apart",
            Self::Delete => "delete",
            Self::StopStart => "stop_start",
            Self::Reboot => "reboot",
            Self::SoftReboot => "soft_reboot",
            Self::HostBoot => "host_boot",
            Self::HotPlug => "hot_plug",
            Self::HotUnplug => "hot_unplug",
            Self::HeldFreed => "held_freed",
            Self::ServerBoot => "server_boot",
            Self::ServerBootOnNext => "server_boot_on_next",
            Self::ServerDelete => "server_delete",
            Self::ServerStopStart => "server_stop_start",
        }
    }

    /// What was there before it.
    pub(super) async fn scene(self, cloud: &GuestCloud) {
        let group = (self == Self::Delete).then_some(cloud.apart);
        match self {
            Self::ServerBootOnNext => cloud.hardware.meets(Some(GuestMishap::NotDefined)),
            Self::ServerDelete | Self::ServerStopStart => {
                assert_eq!(servers::boot(cloud, SERVER).await, GuestOutcome::Done);
            }
            _ => {}
        }
        let begins_with_none = matches!(
            self,
            Self::Boot | Self::BootApart | Self::HotPlug | Self::HotUnplug
        );
        if !begins_with_none && !self.is_of_servers() {
            let booted = boot_in(group, cloud, 1, "two").await;
            let boot_goal = cloud.boot_goal(guest(1)).await;
            assert_eq!(booted, GuestOutcome::Done, "{boot_goal:?}");
        }
        if self == Self::HeldFreed {
            let held = cloud.held_by(guest(1)).await;
            cloud.pull_out(*held.first().expect("it has cards"));
        }
        let wrong = cloud.rests(None).await;
        assert!(wrong.is_empty(), "before {}: {wrong:#?}", self.as_str());
    }

    /// The wish, asked for until it is answered, and its end waited for.
    pub(super) async fn run(self, cloud: &GuestCloud) -> GuestOutcome {
        match self {
            Self::Boot => boot(cloud, 1, "two").await,
            Self::BootApart => boot_in(Some(cloud.apart), cloud, 1, "two").await,
            Self::Delete | Self::HeldFreed => delete(cloud, 1).await,
            Self::StopStart => stop_and_start(cloud, 1).await,
            Self::Reboot => act(cloud, 1, GuestAction::HardReboot {}).await,
            Self::SoftReboot => act(cloud, 1, GuestAction::SoftReboot {}).await,
            Self::HostBoot => {
                cloud.boot_host().await;
                runs(cloud, 1).await
            }
            Self::HotPlug => {
                cloud.plug_in(CARDS);
                offered(cloud, CARDS, true).await
            }
            Self::HotUnplug => {
                cloud.pull_out(CARDS - 1);
                offered(cloud, CARDS - 1, false).await
            }
            Self::ServerBoot | Self::ServerBootOnNext => servers::boot(cloud, SERVER).await,
            Self::ServerDelete => servers::delete(cloud, SERVER).await,
            Self::ServerStopStart => servers::stop_and_start(cloud, SERVER).await,
        }
    }

    /// The same among others before two hosts, from the beginning of its scene on: the n-th guest, with the devices of a profile, of
    /// a server group perhaps, or the n-th server; and a card.
    pub(super) async fn concurrently_with(
        self,
        cloud: &GuestCloud,
        n: u32,
        profile: &str,
        group: Option<Uuid>,
        card: u8,
    ) -> GuestOutcome {
        match self {
            Self::HotPlug => {
                let new = CARDS + u8::try_from(n).expect("few guests");
                cloud.plug_in(new);
                return offered(cloud, new, true).await;
            }
            Self::HotUnplug => {
                cloud.pull_out(card);
                let end = offered(cloud, card, false).await;
                sleep(AWAY).await;
                cloud.plug_in(card);
                return end;
            }
            _ if self.is_of_servers() => {
                let server = server(n);
                if self == Self::ServerBootOnNext {
                    cloud.hardware.meets(Some(GuestMishap::NotDefined));
                }
                let booted = servers::boot(cloud, &server).await;
                cloud.hardware.meets(None);
                return match self {
                    Self::ServerDelete => servers::delete(cloud, &server).await,
                    Self::ServerStopStart if booted == GuestOutcome::Done => {
                        servers::stop_and_start(cloud, &server).await
                    }
                    _ => booted,
                };
            }
            _ => {}
        }
        let group = match self {
            Self::BootApart => Some(cloud.apart),
            _ => group,
        };
        let booted = boot_in(group, cloud, n, profile).await;
        if booted != GuestOutcome::Done {
            return booted;
        }
        match self {
            Self::Delete => delete(cloud, n).await,
            Self::StopStart => stop_and_start(cloud, n).await,
            Self::Reboot => act(cloud, n, GuestAction::HardReboot {}).await,
            Self::SoftReboot => act(cloud, n, GuestAction::SoftReboot {}).await,
            Self::HostBoot => {
                cloud.boot_host().await;
                runs(cloud, n).await
            }
            Self::HeldFreed => {
                let held = cloud.held_by(guest(n)).await.first().copied();
                held.into_iter().for_each(|card| cloud.pull_out(card));
                let end = delete(cloud, n).await;
                held.into_iter().for_each(|card| cloud.plug_in(card));
                end
            }
            _ => booted,
        }
    }

    /// Everything back to where a fresh cloud is: no guest, request, allocation or row is left in any place.
    pub(super) async fn clear(self, cloud: &GuestCloud) -> Vec<String> {
        cloud.as_at_first();
        let end = match self.is_of_servers() {
            true => {
                cloud.hardware.meets(None);
                servers::delete(cloud, SERVER).await
            }
            false => delete(cloud, 1).await,
        };
        assert_eq!(end, GuestOutcome::Done, "what was asked for is deleted");
        let mut wrong = cloud.rests(None).await;
        wrong.extend(cloud.left_over().await);
        wrong
    }
}

/// Asks for a guest until that is answered, and waits until it is there or is not to be.
pub(super) async fn boot(cloud: &GuestCloud, n: u32, profile: &str) -> GuestOutcome {
    boot_in(None, cloud, n, profile).await
}

/// The same of a server group, where one is named.
pub(super) async fn boot_in(
    group: Option<Uuid>,
    cloud: &GuestCloud,
    n: u32,
    profile: &str,
) -> GuestOutcome {
    let mut pauses = RetryPauses::begin();
    loop {
        let conductor = cloud.conductor().await;
        // A client without an answer repeats its request; one that waits too long asks another conductor.
        let asked = request_in(group, n, profile);
        let asked = timeout(AGAIN, conductor.create(&asked)).await;
        if let Ok(Err(ConductorError::Conflict { .. } | ConductorError::Deleting { .. })) = asked {
            return GuestOutcome::Refused;
        }
        match cloud.boot_goal(guest(n)).await {
            Some(BootGoal::Active) => return GuestOutcome::Done,
            Some(BootGoal::Failed { .. }) => return GuestOutcome::Undone,
            _ if !pauses.again().await => return GuestOutcome::Held,
            _ => {}
        }
    }
}

/// Asks until the guest is gone.
pub(super) async fn delete(cloud: &GuestCloud, n: u32) -> GuestOutcome {
    let mut pauses = RetryPauses::begin();
    loop {
        if cloud.boot_goal(guest(n)).await.is_none() {
            return GuestOutcome::Done;
        }
        let conductor = cloud.conductor().await;
        timeout(AGAIN, conductor.delete(guest(n))).await.ok();
        if !pauses.again().await {
            return GuestOutcome::Held;
        }
    }
}

async fn stop_and_start(cloud: &GuestCloud, n: u32) -> GuestOutcome {
    match act(cloud, n, GuestAction::Stop { grace_seconds: 0 }).await {
        GuestOutcome::Done => act(cloud, n, GuestAction::Start {}).await,
        other => other,
    }
}

/// Repeats the action until the agent reports that it is done, or that the guest does not exist.
async fn act(cloud: &GuestCloud, n: u32, action: GuestAction) -> GuestOutcome {
    let mut pauses = RetryPauses::begin();
    loop {
        let asked = cloud.action(guest(n), &action);
        match timeout(Duration::from_mins(2), asked).await {
            Ok(Ok(_)) => return GuestOutcome::Done,
            Ok(Err(GuestApiError::NotFound(_))) => return GuestOutcome::Refused,
            _ if !pauses.again().await => return GuestOutcome::Held,
            _ => {}
        }
    }
}

/// Waits until the guest runs.
async fn runs(cloud: &GuestCloud, n: u32) -> GuestOutcome {
    let mut pauses = RetryPauses::begin();
    loop {
        if cloud.is_running(guest(n)).await {
            return GuestOutcome::Done;
        }
        if !pauses.again().await {
            return GuestOutcome::Held;
        }
    }
}

/// Waits until a card is offered (or already assigned to a guest), or no longer offered.
async fn offered(cloud: &GuestCloud, card: u8, wanted: bool) -> GuestOutcome {
    let mut pauses = RetryPauses::begin();
    loop {
        if cloud.is_offered(card).await == wanted || (wanted && cloud.has_a_guest(card).await) {
            return GuestOutcome::Done;
        }
        if !pauses.again().await {
            return GuestOutcome::Held;
        }
    }
}
