//! What the admin API asks of the loop, and who waits for which observation.

use berth_agent_api::TickOutcome;
use berth_agent_tracker::disabled::DisabledError;
use tokio::sync::oneshot;

enum Reply {
    Tick(oneshot::Sender<TickOutcome>),
    SetDisabled(oneshot::Sender<Result<TickOutcome, DisabledError>>),
}

impl Reply {
    /// Whether who asked has gone away.
    fn is_closed(&self) -> bool {
        match self {
            Reply::Tick(reply) => reply.is_closed(),
            Reply::SetDisabled(reply) => reply.is_closed(),
        }
    }
}

/// Those who wait, each for an observation. Only those who still do: a pass may take hours, and whoever asks again and again
/// meanwhile is kept once for each request that is open, however many were given up.
#[derive(Default)]
pub(super) struct Waiting(Vec<(u64, Reply)>);

impl Waiting {
    pub(super) fn for_tick(&mut self, sequence: u64, reply: oneshot::Sender<TickOutcome>) {
        self.keep(sequence, Reply::Tick(reply));
    }

    pub(super) fn for_disabled(
        &mut self,
        sequence: u64,
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    ) {
        self.keep(sequence, Reply::SetDisabled(reply));
    }

    fn keep(&mut self, sequence: u64, reply: Reply) {
        self.0.retain(|(_, reply)| !reply.is_closed());
        self.0.push((sequence, reply));
    }

    /// The observation that the most patient one waits for.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.iter().map(|(sequence, _)| *sequence).min()
    }

    /// Answers all who wait for this observation or an earlier one.
    pub(super) fn answer(&mut self, sequence: u64, outcome: &TickOutcome) {
        for (_, reply) in self.0.extract_if(.., |(wanted, _)| *wanted <= sequence) {
            // Who asked may have gone away.
            match reply {
                Reply::Tick(reply) => drop(reply.send(outcome.clone())),
                Reply::SetDisabled(reply) => drop(reply.send(Ok(outcome.clone()))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn who_has_gone_away_is_not_kept_waiting() {
        let mut waiting = Waiting::default();
        let (patient, mut answer) = oneshot::channel();
        waiting.for_tick(1, patient);
        for _ in 0..10_000 {
            let (given_up, _) = oneshot::channel();
            waiting.for_tick(1, given_up);
            let (given_up, _) = oneshot::channel();
            waiting.for_disabled(1, given_up);
        }
        assert!(waiting.0.len() <= 2, "{} wait", waiting.0.len());
        let outcome = TickOutcome {
            at: SystemTime::now(),
            unobserved: None,
            nodes: Vec::new(),
        };
        waiting.answer(1, &outcome);
        assert!(answer.try_recv().is_ok(), "the one who waits is answered");
        assert_eq!(waiting.first(), None);
    }
}
