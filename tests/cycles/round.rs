//! One round: which guests are requested together, which of them are not awaited, and when berth is killed.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use berth_client::JitterRng;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cycles::host::{CARDS, Host, MDEVS};

/// How often a round polls its guests.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// No round takes this long, not even on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(240);

/// A device profile: its name, how many cards and how many mediated devices of the third card it asks for.
pub(crate) const PROFILES: [(&str, usize, usize); 5] = [
    ("card", 1, 0),
    ("part", 0, 1),
    ("both", 1, 1),
    ("cards", 2, 0),
    ("parts", 0, 2),
];

/// One guest of a round.
#[derive(Debug, Clone)]
pub(crate) struct RoundGuest {
    uuid: Uuid,
    profile: usize,
    /// If set, the guest is deleted after this fraction of the expected duration even if it is not active yet. Every guest is
    /// deleted as soon as it is active.
    delete_at: Option<f64>,
}

/// What one round does. Its times are fractions of the expected duration: that of an undisturbed round on this machine.
#[derive(Clone)]
pub(crate) struct Round {
    pub(crate) guests: Vec<RoundGuest>,
    /// When berth is killed. The second time counts from the restart.
    kills: Vec<f64>,
}

/// Prints the profiles, UUIDs and times, which describe a round completely.
impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for guest in &self.guests {
            write!(f, "{} {}", PROFILES[guest.profile].0, guest.uuid)?;
            match guest.delete_at {
                Some(at) => write!(f, " deleted at {at:.2}, ")?,
                None => write!(f, ", ")?,
            }
        }
        write!(f, "kills at {:.2?}", self.kills)
    }
}

/// The result of a round.
#[derive(Debug, Default)]
pub(crate) struct RoundResult {
    pub(crate) took: Duration,
    pub(crate) kills: usize,
    /// The number of guests that became active.
    pub(crate) active_guests: usize,
    pub(crate) violations: Vec<String>,
}

fn below(rng: &JitterRng, end: usize) -> usize {
    let end = u64::try_from(end).unwrap_or(u64::MAX);
    usize::try_from(rng.next() % end).unwrap_or(0)
}

impl Round {
    /// Draws a round of at most `max_guests` guests.
    pub(crate) fn draw(rng: &JitterRng, max_guests: u64, kills: bool) -> Self {
        let (mut cards, mut mdevs) = (CARDS.len(), MDEVS);
        let mut guests = Vec::new();
        let wanted = 4 + below(rng, 5);
        for _ in 0..wanted.min(usize::try_from(max_guests).unwrap_or(usize::MAX)) {
            let profile = below(rng, PROFILES.len());
            let (high, low) = (rng.next(), rng.next());
            let delete_at = (below(rng, 4) == 0).then(|| rng.fraction());
            let (_, of_cards, of_mdevs) = PROFILES[profile];
            if of_cards > cards || of_mdevs > mdevs {
                continue;
            }
            (cards, mdevs) = (cards - of_cards, mdevs - of_mdevs);
            let bytes = *Uuid::from_u64_pair(high, low).as_bytes();
            guests.push(RoundGuest {
                uuid: uuid::Builder::from_random_bytes(bytes).into_uuid(),
                profile,
                delete_at,
            });
        }
        let kills = match below(rng, 4) {
            _ if !kills => Vec::new(),
            0 => vec![rng.fraction(), rng.fraction()],
            1 | 2 => vec![rng.fraction()],
            _ => Vec::new(),
        };
        Self { guests, kills }
    }

    /// Requests its guests, kills berth, and polls until all guests are deleted.
    pub(crate) fn run(&self, host: &mut Host) -> RoundResult {
        let mut result = RoundResult::default();
        let expected = host.expected_duration();
        let began = Instant::now();
        let mut since = began;
        let mut kills = self
            .kills
            .iter()
            .map(|fraction| expected.mul_f64(*fraction))
            .peekable();
        let mut asked = vec![false; self.guests.len()];
        let mut deleted = vec![false; self.guests.len()];
        let mut gone = vec![false; self.guests.len()];
        while gone.contains(&false) {
            if began.elapsed() > PATIENCE {
                let shown = host.guests().unwrap_or_default();
                result
                    .violations
                    .push(format!("the guests are not gone: {shown}"));
                break;
            }
            if kills.next_if(|at| since.elapsed() >= *at).is_some() {
                host.kill();
                result.kills += 1;
                since = Instant::now();
            }
            // A request without an answer is sent again.
            let Some(shown) = host.guests() else {
                sleep(POLL_INTERVAL);
                continue;
            };
            for (n, guest) in self.guests.iter().enumerate() {
                let uuid = guest.uuid.to_string();
                let shown = shown["guests"].as_array().into_iter().flatten();
                let shown = shown
                    .into_iter()
                    .find(|shown| shown["uuid"] == uuid.as_str());
                let status = shown.map(|shown| shown["status"].as_str().unwrap_or_default());
                if !asked[n] {
                    asked[n] = host.create(&guest.body(host));
                    continue;
                }
                let delete_now = guest
                    .delete_at
                    .is_some_and(|at| began.elapsed() >= expected.mul_f64(at));
                match status {
                    None => {
                        if !deleted[n] {
                            result.violations.push(format!("{uuid} is forgotten"));
                        }
                        gone[n] = true;
                    }
                    Some("deleting") => {}
                    Some("active") => {
                        if !deleted[n] {
                            result.active_guests += 1;
                            let wrong = host.wrong_devices(&uuid, PROFILES[guest.profile]);
                            result.violations.extend(wrong);
                        }
                        deleted[n] = true;
                        host.delete(&uuid);
                    }
                    Some("error") => {
                        let fault = shown.map_or(Value::Null, |shown| shown["fault"].clone());
                        let what = format!("{uuid} did not come up: {fault}");
                        if !result.violations.contains(&what) {
                            result.violations.push(what);
                        }
                        deleted[n] = true;
                        host.delete(&uuid);
                    }
                    Some(_) if delete_now => {
                        deleted[n] = true;
                        host.delete(&uuid);
                    }
                    Some(_) => {}
                }
            }
            sleep(POLL_INTERVAL);
        }
        result.took = began.elapsed();
        if result.kills == 0 {
            host.add_duration(result.took);
        }
        result
    }
}

impl RoundGuest {
    fn body(&self, host: &Host) -> Value {
        json!({
            "uuid": self.uuid.to_string(),
            "name": format!("job-{}", self.uuid),
            "flavor": {"name": "small", "vcpus": 1, "ram_mb": 32},
            "kernel": {"kernel": host.kernel()},
            "device_profile": PROFILES[self.profile].0,
        })
    }
}
