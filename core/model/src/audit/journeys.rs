//! L1: every journey has ended, with a reason where it is not done.

use super::{InvariantId, JourneyEnd, Violation, Worlds};

pub(super) fn l1(worlds: &Worlds) -> Vec<Violation> {
    let journeys = worlds.histories.journeys.iter().filter_map(|journey| {
        let name = &journey.name;
        match &journey.end {
            JourneyEnd::Open => Some(format!("{name} has not ended")),
            JourneyEnd::Held(reason) | JourneyEnd::Refused(reason) if reason.trim().is_empty() => {
                Some(format!("{name} ended without a reason"))
            }
            JourneyEnd::Done
            | JourneyEnd::Undone
            | JourneyEnd::Held(_)
            | JourneyEnd::Refused(_) => None,
        }
    });
    let journals = worlds.journals.iter().flat_map(|journal| {
        let open = journal.open.iter();
        open.map(|intent| format!("{} still has an open intent: {intent}", journal.name))
    });
    journeys
        .chain(journals)
        .map(|finding| Violation::of(InvariantId::L1, finding))
        .collect()
}
