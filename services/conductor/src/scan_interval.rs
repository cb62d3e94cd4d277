//! Rate limit for the garbage collectors.
//!
//! A collector deletes an object only after it looked orphaned for a grace period. It scans [`SCANS_PER_GRACE`] times
//! within this period.

use std::time::Duration;

use tokio::time::Instant;

/// Scans per grace period.
const SCANS_PER_GRACE: u32 = 10;

/// Time of the last scan. Not persistent: the first scan after a restart is always due.
#[derive(Default)]
pub(crate) struct ScanInterval {
    last: Option<Instant>,
}

impl ScanInterval {
    /// Whether a scan is due for a collector with this grace period. If so, records `now` as the time of the scan.
    pub(crate) fn is_due(&mut self, grace: Duration, now: Instant) -> bool {
        let is_due = self
            .last
            .is_none_or(|last| now.duration_since(last) >= grace / SCANS_PER_GRACE);
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
    fn there_are_ten_scans_in_a_grace_period() {
        let (mut scans, begun) = (ScanInterval::default(), Instant::now());
        let grace = Duration::from_secs(600);
        let due = (0..600).filter(|second| {
            let now = begun + Duration::from_secs(*second);
            scans.is_due(grace, now)
        });
        assert_eq!(due.count(), 10);
    }
}
