//! What one seed does: which journey is killed where, and what happens to the start after it. Pure.

use std::collections::BTreeMap;
use std::fmt;

use berth_client::JitterRng;
use berth_tests::fault_proxy::{Fault, Rule, Spoilt};

use crate::kill::stand::{Prepared, Sword};

/// On which side of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    /// Placement never sees it.
    Before,
    /// Placement has done and answered it, and nobody hears.
    After,
}

/// A kill: at the so manyth request of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) request: usize,
    pub(crate) moment: Moment,
}

impl Kill {
    fn fault(self, sword: Sword) -> Fault {
        match self.moment {
            Moment::Before => Fault::instead(move || sword.strike()),
            Moment::After => Fault::after(move || sword.strike()),
        }
    }

    /// At the so manyth request of any kind.
    fn rule(self, sword: Sword) -> Rule {
        Rule::new(self.fault(sword)).nth(self.request)
    }

    /// At the request that this one is in an undisturbed start. Some are sent side by side and arrive in any order, so it
    /// counts among those of its route.
    pub(crate) fn rule_among(self, crossings: &[String], sword: Sword) -> Rule {
        let (method, template) = among(&crossings[self.request - 1]);
        let before = crossings[..self.request].iter();
        let nth = before
            .filter(|route| among(route) == (method, template))
            .count();
        Rule::new(self.fault(sword)).on(method, template).nth(nth)
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

    pub(crate) fn rules(self, sword: Sword) -> Vec<Rule> {
        match self {
            Recovery::Undisturbed => Vec::new(),
            Recovery::Killed(kill) => vec![kill.rule(sword)],
            Recovery::Error(n) => vec![Rule::new(Fault::Answer(Spoilt::INTERNAL)).nth(n)],
            Recovery::Unheard(n) => vec![Rule::new(Fault::DropBefore).nth(n)],
            Recovery::Unanswered(n) => vec![Rule::new(Fault::DropAfter).nth(n)],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    /// The journey, by its place in the list of those prepared.
    pub(crate) journey: usize,
    pub(crate) kill: Kill,
    pub(crate) recovery: Recovery,
}

/// Every place where a kill may strike, in an order such that each kind of request of each journey comes before any comes
/// again, and requests that change something are struck on both sides first.
pub(crate) fn places(prepared: &[Prepared]) -> Vec<(usize, Kill)> {
    let mut seen: BTreeMap<(&str, &str, Moment), usize> = BTreeMap::new();
    let mut places = Vec::new();
    for (journey, one) in prepared.iter().enumerate() {
        for (request, route) in (1..).zip(&one.crossings) {
            for moment in [Moment::Before, Moment::After] {
                let kind = (one.journey.as_str(), route.as_str(), moment);
                let times = seen.entry(kind).or_insert(0);
                let is_read = route.starts_with("GET ");
                let rank = *times + 3 * usize::from(is_read && moment == Moment::After);
                *times += 1;
                places.push((rank, (journey, Kill { request, moment })));
            }
        }
    }
    places.sort_by_key(|(rank, _)| *rank);
    places.into_iter().map(|(_, place)| place).collect()
}

/// The seed's case; seeds count from 1.
pub(crate) fn case(seed: u64, places: &[(usize, Kill)], prepared: &[Prepared]) -> Case {
    let turn = usize::try_from(seed.saturating_sub(1)).unwrap_or(0) % places.len();
    let (journey, kill) = places[turn];
    let dice = JitterRng::seeded(seed);
    let below = |limit: usize| (dice.next() % limit as u64) as usize;
    let request = 1 + below(prepared[journey].crossings.len());
    let recovery = match below(8) {
        0 | 1 => {
            let moment = [Moment::Before, Moment::After][below(2)];
            Recovery::Killed(Kill { request, moment })
        }
        2 => Recovery::Error(request),
        3 => Recovery::Unheard(request),
        4 => Recovery::Unanswered(request),
        _ => Recovery::Undisturbed,
    };
    Case {
        journey,
        kill,
        recovery,
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Moment::Before => "before",
            Moment::After => "after",
        })
    }
}
