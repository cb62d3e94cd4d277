//! L1: every task has ended, and has a reason if it is not done.

use crate::{InvariantId, SystemSnapshot, TaskOutcome, Violation};

pub(crate) fn l1(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let unfinished = snapshot.histories.tasks.iter().filter_map(|task| {
        let name = &task.name;
        match &task.end {
            TaskOutcome::Open => Some(format!("{name} has not ended")),
            TaskOutcome::Held(reason) | TaskOutcome::Refused(reason)
                if reason.trim().is_empty() =>
            {
                Some(format!("{name} ended without a reason"))
            }
            TaskOutcome::Done
            | TaskOutcome::Undone
            | TaskOutcome::Held(_)
            | TaskOutcome::Refused(_) => None,
        }
    });
    let journals = snapshot.journals.iter().flat_map(|journal| {
        let open = journal.open.iter();
        open.map(|intent| format!("{} still has an open intent: {intent}", journal.name))
    });
    unfinished
        .chain(journals)
        .map(|finding| Violation::of(InvariantId::L1, finding))
        .collect()
}
