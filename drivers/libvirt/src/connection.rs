//! The connection to libvirt, which runs blocking calls on a thread of its own.
//!
//! libvirt's calls block without a time limit, its errors are thread-local, and its objects must not outlive their
//! connection. Therefore one thread owns the connection. Callers send it a chain of calls as a closure and wait for the
//! result, with a timeout that starts when the closure starts. A thread that does not return is abandoned with its
//! connection and replaced, at most [`MOST_THREADS`] times. Its queue moves to the new thread, except calls that have
//! no waiting caller. When libvirtd disconnects, the thread reconnects by itself and publishes an event. A reconnection
//! attempt that hangs is detected by the callers queued behind it.
//!
//! Callers: `observe` and `guests`, for everything that the driver reads and changes.

mod event_loop;
mod events;
mod worker;

pub(crate) use worker::Session;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::symbols::LoadError;
use crate::watch::Subscribers;
use worker::Worker;

/// The maximum number of threads of one connection, including threads that hang in a call.
const MOST_THREADS: usize = 4;

/// Why a call returned no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// libvirt's library cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// libvirt's event loop did not start.
    #[error("libvirt's event loop did not start")]
    EventLoop(#[source] virt::error::Error),
    /// No thread could be started.
    #[error("the thread for libvirt's calls cannot be started")]
    Thread(#[source] io::Error),
    /// libvirtd is away or refuses.
    #[error("cannot open {uri}")]
    Open {
        uri: String,
        source: virt::error::Error,
    },
    /// The call timed out; its thread is abandoned.
    #[error("{call} at {uri} timed out after {limit:?}")]
    TimedOut {
        uri: String,
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// Too many threads hang in earlier calls.
    #[error("{threads} threads hang in calls to {uri}; no further one is started")]
    Hanging { uri: String, threads: usize },
    /// The thread ended while the call ran.
    #[error("{call} at {uri} was aborted")]
    CutOff { uri: String, call: &'static str },
}

/// A unit of work for the thread.
type Call = Box<dyn FnOnce(&mut Worker) + Send>;

/// A handle to a thread.
#[derive(Debug)]
struct Thread {
    number: u64,
    calls: Sender<Call>,
    /// Closed when the thread is abandoned, to notify callers that are still queued.
    kept: watch::Sender<()>,
    reconnects: ReconnectCounter,
}

/// A place in a thread's queue.
#[derive(Debug)]
struct ThreadQueueSlot {
    thread: u64,
    kept: watch::Receiver<()>,
    reconnects: ReconnectCounter,
}

/// Counts the reconnection attempts of a thread, started and finished.
#[derive(Debug, Clone, Default)]
struct ReconnectCounter(Arc<AtomicU64>);

impl ReconnectCounter {
    /// One of them, begun and ended.
    fn count<T>(&self, attempt: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::SeqCst);
        let found = attempt();
        self.0.fetch_add(1, Ordering::SeqCst);
        found
    }

    /// Resolves if one reconnection attempt exceeds the limit.
    async fn hang(&self, limit: Duration) {
        let counted = || self.0.load(Ordering::SeqCst);
        loop {
            let before = counted();
            tokio::time::sleep(limit).await;
            if before % 2 == 1 && counted() == before {
                return;
            }
        }
    }
}

/// The connection. Nothing is loaded or opened before the first call.
#[derive(Debug)]
pub(crate) struct LibvirtConnection {
    uri: String,
    limit: Duration,
    subscribers: Subscribers,
    current: Mutex<Option<Thread>>,
    started: AtomicU64,
    /// Every thread holds a clone, so that the count of clones is the count of threads.
    living: Arc<()>,
}

impl LibvirtConnection {
    /// A connection to `uri`; each of its calls may take `limit`.
    pub(crate) fn new(uri: &str, limit: Duration, subscribers: Subscribers) -> Self {
        Self {
            uri: uri.to_owned(),
            limit,
            subscribers,
            current: Mutex::new(None),
            started: AtomicU64::new(0),
            living: Arc::new(()),
        }
    }

    /// Runs `work` on the connection's thread, which connects first if necessary. `call` names the work in errors.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Session) -> T + Send + 'static,
    ) -> Result<T, ConnectionError> {
        // The thread that runs the work takes it.
        let work = Arc::new(Mutex::new(Some(work)));
        // Dropped at the end of this call: answered, timed out or cancelled.
        let waits = Arc::new(());
        loop {
            let (begin, begun) = oneshot::channel();
            let (answer, waiting) = oneshot::channel();
            let at_its_turn = Arc::clone(&work);
            let waits = Arc::downgrade(&waits);
            let mut place = self.submit(Box::new(move |worker: &mut Worker| {
                if answer.is_closed() {
                    return;
                }
                if let Some(work) = take(&at_its_turn) {
                    let _ = begin.send(());
                    let session = worker.session();
                    let done = session.map(|session| work(session.check_slot(waits)));
                    let _ = answer.send(done);
                }
            }))?;
            let has_begun = tokio::select! {
                begun = begun => begun.is_ok(),
                _ = place.kept.changed() => false,
                () = place.reconnects.hang(self.limit) => false,
            };
            if has_begun || lock(&work).is_none() {
                return self.answered(call, place.thread, waiting).await;
            }
            self.abandon(place.thread);
        }
    }

    /// Waits for the result of running work.
    async fn answered<T>(
        &self,
        call: &'static str,
        thread: u64,
        waiting: oneshot::Receiver<Result<T, ConnectionError>>,
    ) -> Result<T, ConnectionError> {
        let error = match tokio::time::timeout(self.limit, waiting).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(_)) => ConnectionError::CutOff {
                uri: self.uri.clone(),
                call,
            },
            Err(_) => ConnectionError::TimedOut {
                uri: self.uri.clone(),
                call,
                limit: self.limit,
            },
        };
        self.abandon(thread);
        Err(error)
    }

    /// Queues the call, starting a thread if there is none.
    fn submit(&self, call: Call) -> Result<ThreadQueueSlot, ConnectionError> {
        let mut current = lock(&self.current);
        let mut call = call;
        if let Some(thread) = &*current {
            match thread.calls.send(call) {
                Ok(()) => return Ok(thread.place()),
                Err(refused) => call = refused.0,
            }
        }
        let thread = self.start()?;
        let place = thread.place();
        if thread.calls.send(call).is_err() {
            return Err(ConnectionError::Thread(io::Error::other(
                "the thread ended at once",
            )));
        }
        *current = Some(thread);
        Ok(place)
    }

    fn start(&self) -> Result<Thread, ConnectionError> {
        let threads = Arc::strong_count(&self.living) - 1;
        if threads >= MOST_THREADS {
            return Err(ConnectionError::Hanging {
                uri: self.uri.clone(),
                threads,
            });
        }
        let (calls, queue) = mpsc::channel();
        let reconnects = ReconnectCounter::default();
        let worker = Worker::new(&self.uri, self.subscribers.clone(), reconnects.clone());
        let living = Arc::clone(&self.living);
        std::thread::Builder::new()
            .name("libvirt".to_owned())
            .spawn(move || {
                worker.run(&queue);
                drop(living);
            })
            .map_err(ConnectionError::Thread)?;
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        Ok(Thread {
            number,
            calls,
            kept: watch::Sender::new(()),
            reconnects,
        })
    }

    /// Abandons a thread that does not return; the next call starts another. A thread is abandoned only once.
    fn abandon(&self, number: u64) {
        let mut current = lock(&self.current);
        if current
            .as_ref()
            .is_some_and(|thread| thread.number == number)
        {
            *current = None;
        }
    }
}

impl Thread {
    fn place(&self) -> ThreadQueueSlot {
        ThreadQueueSlot {
            thread: self.number,
            kept: self.kept.subscribe(),
            reconnects: self.reconnects.clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the value, if no thread took it before.
fn take<T>(there: &Mutex<Option<T>>) -> Option<T> {
    lock(there).take()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const PATIENT: Duration = Duration::from_secs(30);

    fn connection(uri: &str, limit: Duration) -> LibvirtConnection {
        LibvirtConnection::new(uri, limit, Subscribers::default())
    }

    #[tokio::test]
    async fn a_chain_of_calls_is_answered() {
        let connection = connection("test:///default", PATIENT);
        let names = connection
            .call("listing guests", |session| {
                let guests = session.connect().list_all_domains(0)?;
                guests.iter().map(|guest| guest.name()).collect()
            })
            .await
            .unwrap();
        let names: Result<Vec<String>, virt::error::Error> = names;
        assert_eq!(names.unwrap(), ["test"]);
    }

    #[tokio::test]
    async fn a_uri_that_cannot_be_opened_is_an_error() {
        let connection = connection("test:///no/such/file.xml", PATIENT);
        let error = connection.call("asking", |_| ()).await.unwrap_err();
        assert!(matches!(error, ConnectionError::Open { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_call_that_hangs_is_left_behind_and_the_next_one_is_answered() {
        let quick = connection("test:///default", Duration::from_millis(20));
        let (release, hold) = mpsc::channel::<()>();
        let hung = quick.call("hanging", move |_| hold.recv()).await;
        assert!(
            matches!(hung, Err(ConnectionError::TimedOut { .. })),
            "{hung:?}"
        );
        // The limit is so short that it may be missed, so retry until the new thread has connected.
        while let Err(error) = quick.call("asking", |_| ()).await {
            assert!(
                matches!(
                    error,
                    ConnectionError::TimedOut { .. } | ConnectionError::Hanging { .. }
                ),
                "{error:?}"
            );
        }
        drop(release);
    }

    #[tokio::test]
    async fn what_is_being_done_knows_whether_anybody_waits_for_it() {
        let quick = connection("test:///default", Duration::from_secs(1));
        let (release, hold) = mpsc::channel::<()>();
        let (report, reported) = mpsc::channel();
        let hung = quick.call("hanging", move |session| {
            let before = session.is_waited_for();
            let _ = hold.recv();
            let _ = report.send((before, session.is_waited_for()));
        });
        let hung = hung.await;
        assert!(
            matches!(hung, Err(ConnectionError::TimedOut { .. })),
            "{hung:?}"
        );
        drop(release);
        assert_eq!(reported.recv().unwrap(), (true, false));
        let answered = connection("test:///default", PATIENT);
        let waited_for = answered.call("asking", Session::is_waited_for).await;
        assert!(waited_for.unwrap());
    }

    #[tokio::test]
    async fn threads_that_hang_are_bounded() {
        let quick = connection("test:///default", Duration::from_millis(1));
        let (release, hold) = mpsc::channel::<()>();
        let hold = Arc::new(Mutex::new(hold));
        let error = loop {
            let hold = Arc::clone(&hold);
            let hung = quick.call("hanging", move |_| {
                let hold = hold.lock().unwrap();
                let _ = hold.recv();
            });
            match hung.await {
                Err(ConnectionError::TimedOut { .. }) => {}
                other => break other,
            }
        };
        assert!(
            matches!(
                error,
                Err(ConnectionError::Hanging {
                    threads: MOST_THREADS,
                    ..
                })
            ),
            "{error:?}"
        );
        drop(release);
    }

    #[tokio::test]
    async fn what_waits_behind_a_call_that_hangs_is_done_by_the_next_thread() {
        let connection = connection("test:///default", Duration::from_secs(3));
        let (release, hold) = mpsc::channel::<()>();
        let hung = connection.call("hanging", move |_| hold.recv());
        let behind = connection.call("asking", |_| ());
        let (hung, behind) = tokio::join!(hung, behind);
        assert!(
            matches!(hung, Err(ConnectionError::TimedOut { .. })),
            "{hung:?}"
        );
        behind.unwrap();
        drop(release);
    }

    #[tokio::test]
    async fn a_call_without_a_waiter_is_not_done() {
        let connection = Arc::new(connection("test:///default", PATIENT));
        let (release, hold) = mpsc::channel::<()>();
        let held = tokio::spawn({
            let connection = Arc::clone(&connection);
            async move { connection.call("holding", move |_| hold.recv()).await }
        });
        while connection.current.lock().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        let done = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&done);
        let given_up = connection.call("marking", move |_| mark.store(true, Ordering::SeqCst));
        // Polled once, so that it is queued, and then cancelled.
        let _ = tokio::time::timeout(Duration::ZERO, given_up).await;
        drop(release);
        let _ = held.await;
        connection.call("asking", |_| ()).await.unwrap();
        assert!(!done.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_thread_that_ends_is_replaced() {
        let connection = connection("test:///default", PATIENT);
        let cut_off = connection
            .call("panicking", |_| panic!("a planted panic"))
            .await;
        assert!(
            matches!(cut_off, Err::<(), _>(ConnectionError::CutOff { .. })),
            "{cut_off:?}"
        );
        connection.call("asking", |_| ()).await.unwrap();
    }
}
