//! Distributes hosts over threads.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder, ScopedJoinHandle};

use crate::host_state::ConsideredHost;

/// Fewer hosts than this are not worth a thread.
pub(super) const HOSTS_PER_THREAD: usize = 2_048;

/// Calls a function for each host and returns what it finds, with host indices. Each thread has a function of its own,
/// which may keep state.
pub fn in_shares<T: Send, L: FnMut(&mut ConsideredHost) -> Option<T>>(
    threads: NonZero<usize>,
    hosts: &mut [ConsideredHost],
    begin: impl Fn() -> L + Sync,
) -> Vec<(usize, T)> {
    let one_by_one = |from: usize, hosts: &mut [ConsideredHost]| -> Vec<(usize, T)> {
        let mut check = begin();
        let numbered = (from..).zip(hosts);
        numbered
            .filter_map(|(place, host)| Some((place, check(host)?)))
            .collect()
    };
    let share = hosts.len().div_ceil(threads.get()).max(HOSTS_PER_THREAD);
    if share >= hosts.len() {
        return one_by_one(0, hosts);
    }
    let firsts = (0..).step_by(share);
    let shares: Vec<_> = firsts
        .zip(hosts.chunks_mut(share))
        .map(Mutex::new)
        .collect();
    in_threads(&shares, Builder::new, |share| {
        let mut share = share.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, hosts) = &mut *share;
        one_by_one(*from, hosts)
    })
}

/// The results of all shares, in order. Shares for which no thread can be started run on this one.
fn in_threads<S: Sync, T: Send>(
    shares: &[S],
    thread: impl Fn() -> Builder,
    work: impl Fn(&S) -> Vec<T> + Sync,
) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let start = |share| (share, thread().spawn_scoped(scope, move || work(share)));
        let started: Vec<_> = shares.iter().map(start).collect();
        let ended = started.into_iter().flat_map(|(share, started)| {
            match started.map(ScopedJoinHandle::join) {
                Ok(Ok(found)) => found,
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => work(share),
            }
        });
        ended.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_without_a_thread_is_done_by_this_one() {
        let here = thread::current().id();
        let done = |thread: fn() -> Builder| {
            in_threads(&[1, 2, 3], thread, |share| {
                vec![(*share, thread::current().id() == here)]
            })
        };
        let with_threads = [(1, false), (2, false), (3, false)];
        assert_eq!(done(Builder::new), with_threads);
        let too_large = || Builder::new().stack_size(1 << 60);
        assert_eq!(done(too_large), [(1, true), (2, true), (3, true)]);
    }
}
