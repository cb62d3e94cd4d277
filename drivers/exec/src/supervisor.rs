//! Supervises the driver process: starts it when needed, and restarts it with backoff after it exited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use berth_virt::HostEvent;
use tokio::sync::{Mutex, broadcast};
use tokio::time::sleep;

use crate::backoff::Ends;
use crate::call_error::CallError;
use crate::connection::Connection;
use crate::options::ExecOptions;

/// The capacity for events; a slower subscriber is notified of an unknown change.
const EVENTS: usize = 64;
/// A start that is so near is waited for.
const SOON: Duration = Duration::from_secs(1);

/// The keeper of the child.
#[derive(Debug)]
pub(crate) struct Supervisor {
    options: ExecOptions,
    events: broadcast::Sender<HostEvent>,
    kept: Mutex<SupervisorState>,
    has_run: AtomicBool,
}

#[derive(Debug, Default)]
struct SupervisorState {
    current: Option<Current>,
    ends: Ends,
    /// Why the last one ended, or did not start.
    last: Option<String>,
}

#[derive(Debug)]
struct Current {
    connection: Arc<Connection>,
    started: Instant,
}

impl SupervisorState {
    fn ended(&mut self, options: &ExecOptions, started: Instant, why: &str) {
        let now = Instant::now();
        self.ends.count(&options.backoff, started, now);
        tracing::warn!(
            program = %options.program.display(),
            again_in = ?self.ends.left(now),
            "the driver: {why}"
        );
        self.last = Some(why.to_owned());
    }
}

impl Supervisor {
    pub(crate) fn new(options: ExecOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            events: broadcast::Sender::new(EVENTS),
            kept: Mutex::default(),
            has_run: AtomicBool::new(false),
        })
    }

    pub(crate) fn options(&self) -> &ExecOptions {
        &self.options
    }

    /// Subscribes to events from now on.
    pub(crate) fn events(&self) -> broadcast::Receiver<HostEvent> {
        self.events.subscribe()
    }

    /// Whether a child ever answered `hello`.
    pub(crate) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }

    /// Returns the connection; starts the child if necessary.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, CallError> {
        let mut kept = self.kept.lock().await;
        if let Some(current) = &kept.current {
            if current.connection.conversation().ended().is_none() {
                return Ok(Arc::clone(&current.connection));
            }
            self.settle(&mut kept).await;
        }
        let left = kept.ends.left(Instant::now());
        if left > SOON {
            let last = kept.last.clone().unwrap_or_default();
            return Err(CallError::Waits { last, left });
        }
        sleep(left).await;
        self.start(&mut kept).await
    }

    async fn start(
        self: &Arc<Self>,
        kept: &mut SupervisorState,
    ) -> Result<Arc<Connection>, CallError> {
        let started = Instant::now();
        match Connection::open(&self.options, self.events.clone()).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                self.has_run.store(true, Ordering::Relaxed);
                tracing::info!(
                    program = %self.options.program.display(),
                    driver = connection.hello().driver_name(),
                    version = connection.hello().driver_version(),
                    "the driver started"
                );
                self.mourn(&connection);
                kept.current = Some(Current {
                    connection: Arc::clone(&connection),
                    started,
                });
                Ok(connection)
            }
            Err(error) => {
                kept.ended(&self.options, started, &error.to_string());
                self.news_after(kept.ends.left(Instant::now()));
                Err(error)
            }
        }
    }

    /// Waits until the ended child has exited, and counts its exit. Does nothing while the child is running.
    async fn settle(&self, kept: &mut SupervisorState) {
        let Some(current) = &kept.current else {
            return;
        };
        let conversation = current.connection.conversation();
        let Some(why) = conversation.ended() else {
            return;
        };
        conversation.gone().await;
        let started = current.started;
        kept.current = None;
        kept.ended(&self.options, started, &why.to_string());
    }

    /// Waits for the child's exit. After the backoff it sends an event, because events were lost with the child.
    fn mourn(self: &Arc<Self>, connection: &Connection) {
        let conversation = Arc::clone(connection.conversation());
        let keeper = Arc::downgrade(self);
        tokio::spawn(async move {
            conversation.over().await;
            conversation.gone().await;
            let Some(keeper) = keeper.upgrade() else {
                return;
            };
            let mut kept = keeper.kept.lock().await;
            keeper.settle(&mut kept).await;
            keeper.news_after(kept.ends.left(Instant::now()));
        });
    }

    fn news_after(self: &Arc<Self>, wait: Duration) {
        let keeper: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            sleep(wait).await;
            if let Some(keeper) = keeper.upgrade() {
                let _ = keeper.events.send(HostEvent::Unknown);
            }
        });
    }
}
