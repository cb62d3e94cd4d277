//! One round: which guests are requested together, which of them are not awaited, and when berth is killed.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use berth_client::JitterRng;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cycles::host::{CARDS, Host, PARTS};

/// How often a round polls its guests.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// No round takes this long, not even on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(240);

/// A device profile: its name, how many cards and how many parts of the third card it asks for.
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
    /// It is deleted after this part of a round, whether it runs or not; none: once it runs.
    early: Option<f64>,
}

/// What one round does. Its numbers are parts of the time that an undisturbed round takes on this machine.
#[derive(Clone)]
pub(crate) struct Round {
    pub(crate) guests: Vec<RoundGuest>,
    /// When berth is killed; again: counted from the moment it is back.
    kills: Vec<f64>,
}

/// The names of the profiles and the times, which say all of it.
impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for guest in &self.guests {
            write!(f, "{} {}", PROFILES[guest.profile].0, guest.uuid)?;
            match guest.early {
                Some(at) => write!(f, " deleted at {at:.2}, ")?,
                None => write!(f, ", ")?,
            }
        }
        write!(f, "kills at {:.2?}", self.kills)
    }
}

/// What became of it.
#[derive(Debug, Default)]
pub(crate) struct RoundResult {
    pub(crate) took: Duration,
    pub(crate) kills: usize,
    /// How many of its guests ran and had their devices.
    pub(crate) ran: usize,
    pub(crate) violations: Vec<String>,
}

fn below(rng: &JitterRng, end: usize) -> usize {
    let end = u64::try_from(end).unwrap_or(u64::MAX);
    usize::try_from(rng.next() % end).unwrap_or(0)
}

impl Round {
    /// The next one, of so many guests at most.
    pub(crate) fn draw(rng: &JitterRng, most: u64, kills: bool) -> Self {
        let (mut cards, mut parts) = (CARDS.len(), PARTS);
        let mut guests = Vec::new();
        let wanted = 4 + below(rng, 5);
        for _ in 0..wanted.min(usize::try_from(most).unwrap_or(usize::MAX)) {
            let profile = below(rng, PROFILES.len());
            let (high, low) = (rng.next(), rng.next());
            let early = (below(rng, 4) == 0).then(|| rng.fraction());
            let (_, of_cards, of_parts) = PROFILES[profile];
            if of_cards > cards || of_parts > parts {
                continue;
            }
            (cards, parts) = (cards - of_cards, parts - of_parts);
            let bytes = *Uuid::from_u64_pair(high, low).as_bytes();
            guests.push(RoundGuest {
                uuid: uuid::Builder::from_random_bytes(bytes).into_uuid(),
                profile,
                early,
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

    /// Asks for its guests, kills, and asks again until they are gone.
    pub(crate) fn run(&self, host: &mut Host) -> RoundResult {
        let mut ran = RoundResult::default();
        let pace = host.pace();
        let began = Instant::now();
        let mut since = began;
        let mut kills = self.kills.iter().map(|part| pace.mul_f64(*part)).peekable();
        let mut asked = vec![false; self.guests.len()];
        let mut deleted = vec![false; self.guests.len()];
        let mut gone = vec![false; self.guests.len()];
        while gone.contains(&false) {
            if began.elapsed() > PATIENCE {
                let shown = host.guests().unwrap_or_default();
                ran.violations
                    .push(format!("the guests are not gone: {shown}"));
                break;
            }
            if kills.next_if(|at| since.elapsed() >= *at).is_some() {
                host.kill();
                ran.kills += 1;
                since = Instant::now();
            }
            // What is not answered is asked again.
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
                let early = guest
                    .early
                    .is_some_and(|at| began.elapsed() >= pace.mul_f64(at));
                match status {
                    None => {
                        if !deleted[n] {
                            ran.violations.push(format!("{uuid} is forgotten"));
                        }
                        gone[n] = true;
                    }
                    Some("deleting") => {}
                    Some("active") => {
                        if !deleted[n] {
                            ran.ran += 1;
                            let wrong = host.wrong_devices(&uuid, PROFILES[guest.profile]);
                            ran.violations.extend(wrong);
                        }
                        deleted[n] = true;
                        host.delete(&uuid);
                    }
                    Some("error") => {
                        let fault = shown.map_or(Value::Null, |shown| shown["fault"].clone());
                        let what = format!("{uuid} did not come up: {fault}");
                        if !ran.violations.contains(&what) {
                            ran.violations.push(what);
                        }
                        deleted[n] = true;
                        host.delete(&uuid);
                    }
                    Some(_) if early => {
                        deleted[n] = true;
                        host.delete(&uuid);
                    }
                    Some(_) => {}
                }
            }
            sleep(POLL_INTERVAL);
        }
        ran.took = began.elapsed();
        if ran.kills == 0 {
            host.took(ran.took);
        }
        ran
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
