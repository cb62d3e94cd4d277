//! The case of a seed: which scenario is killed at which request, and what happens to the following start. Pure.

use std::collections::BTreeMap;
use std::fmt;

use berth_client::JitterRng;
use berth_tests::fault_proxy::{ErrorAnswer, ProxyFault, ProxyRule};

use crate::kill::stand::{KillRule, PreparedScenario};

/// On which side of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KillSide {
    /// Placement never sees it.
    Before,
    /// After Placement has executed and answered the request; the answer is lost.
    After,
}

/// A kill: at the so manyth request of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) request: usize,
    pub(crate) moment: KillSide,
}

impl Kill {
    fn fault(self, sword: KillRule) -> ProxyFault {
        match self.moment {
            KillSide::Before => ProxyFault::instead(move || sword.strike()),
            KillSide::After => ProxyFault::after(move || sword.strike()),
        }
    }

    /// At the so manyth request of any kind.
    fn rule(self, sword: KillRule) -> ProxyRule {
        ProxyRule::new(self.fault(sword)).nth(self.request)
    }

    /// At the request that this one is in an undisturbed start. Some are sent side by side and arrive in any order, so it
    /// counts among those of its route.
    pub(crate) fn rule_among(self, crossings: &[String], sword: KillRule) -> ProxyRule {
        let (method, template) = among(&crossings[self.request - 1]);
        let before = crossings[..self.request].iter();
        let nth = before
            .filter(|route| among(route) == (method, template))
            .count();
        ProxyRule::new(self.fault(sword))
            .on(method, template)
            .nth(nth)
    }
}

/// A route's method and path.
fn among(route: &str) -> (&str, &str) {
    let (method, path) = route.split_once(' ').unwrap_or((route, "/"));
    (method, path.split('?').next().unwrap_or(path))
}

/// What happens to the first start after the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    Undisturbed,
    /// It is killed too.
    Killed(Kill),
    /// Its so manyth request is answered 500.
    Error(usize),
    /// Its so manyth request is lost.
    Unheard(usize),
    /// The answer to its so manyth request is lost.
    Unanswered(usize),
}

impl Recovery {
    pub(crate) fn kill(self) -> Option<Kill> {
        match self {
            Recovery::Killed(kill) => Some(kill),
            _ => None,
        }
    }

    pub(crate) fn rules(self, sword: KillRule) -> Vec<ProxyRule> {
        match self {
            Recovery::Undisturbed => Vec::new(),
            Recovery::Killed(kill) => vec![kill.rule(sword)],
            Recovery::Error(n) => {
                vec![ProxyRule::new(ProxyFault::Answer(ErrorAnswer::INTERNAL)).nth(n)]
            }
            Recovery::Unheard(n) => vec![ProxyRule::new(ProxyFault::DropBefore).nth(n)],
            Recovery::Unanswered(n) => vec![ProxyRule::new(ProxyFault::DropAfter).nth(n)],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KillCase {
    /// The scenario, by its index in the list of prepared ones.
    pub(crate) scenario: usize,
    pub(crate) kill: Kill,
    pub(crate) recovery: Recovery,
}

/// All possible kills. Each kind of request of each scenario comes before any is repeated, and for requests that change
/// something both sides come first, and those before the others.
pub(crate) fn places(prepared: &[PreparedScenario]) -> Vec<(usize, Kill)> {
    let mut seen: BTreeMap<(&str, &str, KillSide), usize> = BTreeMap::new();
    let mut places = Vec::new();
    for (scenario, one) in prepared.iter().enumerate() {
        for (request, route) in (1..).zip(&one.crossings) {
            for moment in [KillSide::Before, KillSide::After] {
                let kind = (one.scenario.as_str(), route.as_str(), moment);
                let times = seen.entry(kind).or_insert(0);
                let is_read = route.starts_with("GET ");
                let rank = *times + 3 * usize::from(is_read && moment == KillSide::After);
                *times += 1;
                places.push(((rank, is_read), (scenario, Kill { request, moment })));
            }
        }
    }
    places.sort_by_key(|(order, _)| *order);
    places.into_iter().map(|(_, place)| place).collect()
}

/// The seed's case; seeds count from 1.
pub(crate) fn case(seed: u64, places: &[(usize, Kill)], prepared: &[PreparedScenario]) -> KillCase {
    let turn = usize::try_from(seed.saturating_sub(1)).unwrap_or(0) % places.len();
    let (scenario, kill) = places[turn];
    let rng = JitterRng::seeded(seed);
    let below = |limit: usize| (rng.next() % limit as u64) as usize;
    let request = 1 + below(prepared[scenario].crossings.len());
    let recovery = match below(8) {
        0 | 1 => {
            let moment = [KillSide::Before, KillSide::After][below(2)];
            Recovery::Killed(Kill { request, moment })
        }
        2 => Recovery::Error(request),
        3 => Recovery::Unheard(request),
        4 => Recovery::Unanswered(request),
        _ => Recovery::Undisturbed,
    };
    KillCase {
        scenario,
        kill,
        recovery,
    }
}

impl fmt::Display for KillSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KillSide::Before => "before",
            KillSide::After => "after",
        })
    }
}
