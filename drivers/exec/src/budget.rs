//! A token bucket that limits what the driver process may send. Pure.

use std::time::Instant;

#[derive(Debug, Clone)]
pub(crate) struct Budget {
    most: f64,
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Budget {
    pub(crate) fn new(most: u32, per_second: u32, now: Instant) -> Self {
        let most = f64::from(most);
        Self {
            most,
            per_second: f64::from(per_second),
            left: most,
            at: now,
        }
    }

    /// Takes one unit; false if the budget is used up.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + passed * self.per_second).min(self.most);
        let has = self.left >= 1.0;
        if has {
            self.left -= 1.0;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn so_many_at_once_and_then_so_many_each_second() {
        let now = Instant::now();
        let mut budget = Budget::new(3, 2, now);
        let taken = |budget: &mut Budget, now| (0..10).filter(|_| budget.take(now)).count();
        assert_eq!(taken(&mut budget, now), 3);
        assert_eq!(taken(&mut budget, now + Duration::from_secs(1)), 2);
        assert_eq!(taken(&mut budget, now + Duration::from_mins(1)), 3);
    }
}
