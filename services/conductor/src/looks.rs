//! How often something is looked at of which it must be known for how long it has been so.

use std::time::Duration;

use tokio::time::Instant;

/// So many looks in the time for which it is left alone.
const LOOKS: u32 = 10;

/// The last look. A restart begins anew.
#[derive(Default)]
pub(crate) struct Looks {
    last: Option<Instant>,
}

impl Looks {
    /// Whether it is time for a look, of something that is left alone for `grace`; if so, it is taken.
    pub(crate) fn is_due(&mut self, grace: Duration, now: Instant) -> bool {
        let is_due = self
            .last
            .is_none_or(|last| now.duration_since(last) >= grace / LOOKS);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_ten_looks_while_something_is_left_alone() {
        let (mut looks, begun) = (Looks::default(), Instant::now());
        let grace = Duration::from_secs(600);
        let due = (0..600).filter(|second| {
            let now = begun + Duration::from_secs(*second);
            looks.is_due(grace, now)
        });
        assert_eq!(due.count(), 10);
    }
}
