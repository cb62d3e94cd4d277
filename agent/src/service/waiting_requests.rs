//! Requests of the admin API that wait for an observation.

use berth_agent_api::TickOutcome;
use berth_agent_tracker::disabled::DisabledError;
use tokio::sync::oneshot;

enum Reply {
    Tick(oneshot::Sender<TickOutcome>),
    SetDisabled(oneshot::Sender<Result<TickOutcome, DisabledError>>),
}

impl Reply {
    /// Whether the client has disconnected.
    fn is_closed(&self) -> bool {
        match self {
            Reply::Tick(reply) => reply.is_closed(),
            Reply::SetDisabled(reply) => reply.is_closed(),
        }
    }
}

/// Waiting requests, each with the number of its observation. Abandoned requests are removed whenever one is added: a
/// pass may take hours, and a client may retry many times meanwhile.
#[derive(Default)]
pub(super) struct WaitingRequests(Vec<(u64, Reply)>);

impl WaitingRequests {
    pub(super) fn for_tick(&mut self, sequence: u64, reply: oneshot::Sender<TickOutcome>) {
        self.push(sequence, Reply::Tick(reply));
    }

    pub(super) fn for_disabled(
        &mut self,
        sequence: u64,
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    ) {
        self.push(sequence, Reply::SetDisabled(reply));
    }

    fn push(&mut self, sequence: u64, reply: Reply) {
        self.0.retain(|(_, reply)| !reply.is_closed());
        self.0.push((sequence, reply));
    }

    /// Smallest number of an observation that a request waits for.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.iter().map(|(sequence, _)| *sequence).min()
    }

    /// Answers all requests that wait for this observation or an earlier one.
    pub(super) fn answer(&mut self, sequence: u64, outcome: &TickOutcome) {
        for (_, reply) in self.0.extract_if(.., |(wanted, _)| *wanted <= sequence) {
            // The client may have disconnected.
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
        let mut waiting = WaitingRequests::default();
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
        assert!(
            answer.try_recv().is_ok(),
            "the waiting client gets an answer"
        );
        assert_eq!(waiting.first(), None);
    }
}
