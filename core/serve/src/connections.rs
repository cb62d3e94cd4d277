//! The open connections of a listener: how many each client address may have, and which one is closed for a new one.
//!
//! [`Connections::admit`] decides for a new connection. An address may have half of the slots that other addresses
//! leave, so that there is always a slot for one more address. Where a slot must be freed, the connection is closed
//! whose peer is furthest behind [`RATE`], whatever the peer is to do: send a request, send a body, or read a response.
//! A connection whose handler works is not closed, nor one whose peer keeps the rate.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client_address::ClientAddress;
use crate::memory::ReservedMemory;
use crate::pace::Pace;

/// The rate in bytes per second by which slow connections are compared. It is far above the least rate of
/// [`crate::ServeLimits`], which holds without other connections, too.
const RATE: u32 = 16 << 10;

/// An address may always have this part of the slots, however many addresses there are.
const LEAST_SHARE: usize = 32;

/// The open connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    slots: usize,
    /// How far behind a peer is before its connection may be closed for a new one.
    idle: Duration,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// In the order of their opening.
    connections: BTreeMap<u64, Arc<ServedConnection>>,
}

/// The decision about a new connection.
pub(crate) enum Admission {
    /// It has a slot.
    Admitted(Slot),
    /// It waits for a connection that was just closed.
    AfterClose(ClosedConnection),
    /// It waits for a connection that was closed earlier.
    AfterEarlierClose,
    /// It waits: no connection may be closed before this time.
    Later(Instant),
}

/// A connection that was closed for a new one.
#[derive(Debug)]
pub(crate) struct ClosedConnection {
    pub(crate) client: ClientAddress,
    pub(crate) behind: Duration,
}

impl Connections {
    pub(crate) fn new(slots: usize, idle: Duration) -> Arc<Self> {
        Arc::new(Self {
            slots,
            idle,
            open: Mutex::default(),
        })
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a new connection from this address.
    pub(crate) fn admit(self: &Arc<Self>, client: ClientAddress, now: Instant) -> Admission {
        let mut open = self.open();
        let has_slot = open.connections.len() < self.slots;
        let is_within_share = open.held(client) < open.share(client, self.slots);
        if has_slot && is_within_share {
            return Admission::Admitted(self.opened(&mut open, client, now));
        }
        // A client that has its share makes room itself.
        let candidates = open.connections.values();
        let candidates = candidates.filter(|it| is_within_share || it.client == client);
        let mut first = now + self.idle;
        let mut slowest: Option<(Duration, &Arc<ServedConnection>)> = None;
        for connection in candidates {
            match connection.peer().closable(self.idle, now) {
                Closable::Closed => return Admission::AfterEarlierClose,
                Closable::Never => {}
                Closable::At(due) => first = first.min(due),
                Closable::Now(behind) if slowest.is_none_or(|(most, _)| behind > most) => {
                    slowest = Some((behind, connection));
                }
                Closable::Now(_) => {}
            }
        }
        match slowest {
            Some((behind, connection)) if connection.close(self.idle, now) => {
                Admission::AfterClose(ClosedConnection {
                    client: connection.client,
                    behind,
                })
            }
            _ => Admission::Later(first),
        }
    }

    fn opened(
        self: &Arc<Self>,
        open: &mut OpenConnections,
        client: ClientAddress,
        now: Instant,
    ) -> Slot {
        let connection = Arc::new(ServedConnection::new(client, now));
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, Arc::clone(&connection));
        Slot {
            of: Arc::clone(self),
            id,
            connection,
        }
    }
}

impl OpenConnections {
    fn held(&self, client: ClientAddress) -> usize {
        let connections = self.connections.values();
        connections.filter(|it| it.client == client).count()
    }

    /// How many of the slots a client may have: half of what others leave. Addresses that many clients share have no
    /// limit, and do not count.
    fn share(&self, client: ClientAddress, slots: usize) -> usize {
        if client.is_shared() {
            return usize::MAX;
        }
        let connections = self.connections.values();
        let others = connections.filter(|it| it.client != client && !it.client.is_shared());
        let left = slots.saturating_sub(others.count());
        (left / 2).max(slots / LEAST_SHARE).max(1)
    }
}

/// A slot for a connection, free again on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    of: Arc<Connections>,
    id: u64,
    pub(crate) connection: Arc<ServedConnection>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.of.open().connections.remove(&self.id);
    }
}

/// A connection, and what its peer is to do.
#[derive(Debug)]
pub(crate) struct ServedConnection {
    client: ClientAddress,
    peer: Mutex<PeerProgress>,
    /// Cancelled when the connection is closed for another one.
    end: CancellationToken,
    unread_body: AtomicBool,
}

#[derive(Debug)]
struct PeerProgress {
    state: ConnectionState,
    pace: Pace,
}

/// What happens on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// The peer is to send a request. It may still be reading the last response.
    NextRequest,
    /// A handler works, or the peer is to send the body.
    Request,
    /// The response is sent.
    Response,
    /// The connection is closed for another one.
    Closed,
}

/// Whether a connection may be closed for another one.
enum Closable {
    /// It is closed.
    Closed,
    /// Its handler works.
    Never,
    At(Instant),
    /// Now; its peer is behind by this time.
    Now(Duration),
}

impl PeerProgress {
    fn begin(&mut self, state: ConnectionState, now: Instant) {
        *self = Self {
            state,
            pace: Pace::default(),
        };
        if state == ConnectionState::NextRequest {
            self.pace.waits(now);
        }
    }

    fn closable(&self, idle: Duration, now: Instant) -> Closable {
        let behind = self.pace.behind(now);
        match self.state {
            ConnectionState::Closed => Closable::Closed,
            _ if !self.pace.is_waiting() => Closable::Never,
            _ if behind < idle => Closable::At(now + (idle - behind)),
            _ => Closable::Now(behind),
        }
    }
}

impl ServedConnection {
    /// A new connection, which waits for a request.
    fn new(client: ClientAddress, now: Instant) -> Self {
        let mut pace = Pace::default();
        pace.waits(now);
        let state = ConnectionState::NextRequest;
        Self {
            client,
            peer: Mutex::new(PeerProgress { state, pace }),
            end: CancellationToken::new(),
            unread_body: AtomicBool::new(false),
        }
    }

    pub(crate) fn client(&self) -> ClientAddress {
        self.client
    }

    fn peer(&self) -> MutexGuard<'_, PeerProgress> {
        self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes it for another one, if that is still possible.
    fn close(&self, idle: Duration, now: Instant) -> bool {
        let mut peer = self.peer();
        let closable = matches!(peer.closable(idle, now), Closable::Now(_));
        if closable {
            peer.begin(ConnectionState::Closed, now);
            self.end.cancel();
        }
        closable
    }

    /// Serves the connection until it ends or is closed for another one.
    pub(crate) async fn unless_closed(&self, serving: impl Future<Output = ()>) {
        // No handler runs: see `begin_request` and `received`.
        let _ = self.end.run_until_cancelled(serving).await;
    }

    /// A request arrived. `None`: the connection is closed, and nothing may be done for it.
    pub(crate) fn begin_request(
        self: &Arc<Self>,
        memory: Arc<ReservedMemory>,
        now: Instant,
    ) -> Option<ActiveRequest> {
        let mut peer = self.peer();
        if peer.state == ConnectionState::Closed {
            return None;
        }
        peer.begin(ConnectionState::Request, now);
        drop(peer);
        Some(ActiveRequest {
            connection: Arc::clone(self),
            memory: Some(memory),
        })
    }

    /// A handler waits for the body.
    pub(crate) fn waits_for_body(&self, now: Instant) {
        let mut peer = self.peer();
        if peer.state == ConnectionState::Request {
            peer.pace.waits(now);
        }
    }

    /// A part of the body arrived. `false`: the connection is closed, and the handler may not continue.
    pub(crate) fn received(&self, bytes: usize, now: Instant) -> bool {
        let mut peer = self.peer();
        peer.pace.moved(bytes, RATE, now);
        peer.state != ConnectionState::Closed
    }

    /// The peer is to read a response.
    pub(crate) fn waits_for_reader(&self, now: Instant) {
        let mut peer = self.peer();
        if matches!(
            peer.state,
            ConnectionState::Response | ConnectionState::NextRequest
        ) {
            peer.pace.waits(now);
        }
    }

    /// The peer read a part of a response.
    pub(crate) fn sent(&self, bytes: usize, now: Instant) {
        let mut peer = self.peer();
        match peer.state {
            ConnectionState::Response => peer.pace.moved(bytes, RATE, now),
            // This was the end of the last response.
            ConnectionState::NextRequest => {
                peer.pace.moved(bytes, RATE, now);
                peer.pace.waits(now);
            }
            ConnectionState::Request | ConnectionState::Closed => {}
        }
    }

    /// The last response was sent before the body of its request had arrived.
    pub(crate) fn leave_body_unread(&self) {
        self.unread_body.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_unread_body(&self) -> bool {
        self.unread_body.load(Ordering::Relaxed)
    }

    fn begin(&self, state: ConnectionState, now: Instant) {
        let mut peer = self.peer();
        if peer.state != ConnectionState::Closed {
            peer.begin(state, now);
        }
    }
}

/// A request in progress, until its response is sent.
pub(crate) struct ActiveRequest {
    connection: Arc<ServedConnection>,
    /// The memory of its body, until the handler has answered.
    memory: Option<Arc<ReservedMemory>>,
}

impl ActiveRequest {
    /// The response, with a body that ends this request when it is sent.
    pub(crate) fn answered(mut self, response: Response) -> Response {
        self.memory = None;
        self.connection
            .begin(ConnectionState::Response, Instant::now());
        response.map(|body| {
            Body::new(AnswerBody {
                body,
                _request: self,
            })
        })
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.connection
            .begin(ConnectionState::NextRequest, Instant::now());
    }
}

struct AnswerBody {
    body: Body,
    _request: ActiveRequest,
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::memory::BodyMemory;

    const SECOND: Duration = Duration::from_secs(1);

    /// A listener with 512 slots whose connections are open as long as the test.
    struct Listener {
        connections: Arc<Connections>,
        slots: Vec<Slot>,
        now: Instant,
    }

    fn listener() -> Listener {
        Listener {
            connections: Connections::new(512, SECOND),
            slots: Vec::new(),
            now: Instant::now(),
        }
    }

    fn client(last: u8) -> ClientAddress {
        Some([192, 0, 2, last].into()).into()
    }

    impl Listener {
        /// Opens as many connections as the address gets, without closing others.
        fn fill(&mut self, client: ClientAddress) -> usize {
            let mut count = 0;
            while let Admission::Admitted(slot) = self.connections.admit(client, self.now) {
                self.slots.push(slot);
                count += 1;
            }
            count
        }

        /// Opens one more connection, which sends a request.
        fn opened_request(&mut self) -> ActiveRequest {
            match self.connections.admit(ClientAddress::default(), self.now) {
                Admission::Admitted(slot) => self.slots.push(slot),
                _ => panic!("no slot"),
            }
            self.request(self.slots.len() - 1)
        }

        /// The address of the connection that is closed for one of this address.
        fn closed_for(&self, client: ClientAddress) -> Option<ClientAddress> {
            match self.connections.admit(client, self.now) {
                Admission::AfterClose(closed) => Some(closed.client),
                _ => None,
            }
        }

        fn request(&self, slot: usize) -> ActiveRequest {
            let memory = BodyMemory::new(0).reserved(ClientAddress::default());
            let connection = &self.slots[slot].connection;
            connection
                .begin_request(Arc::new(memory), self.now)
                .unwrap()
        }
    }

    #[test]
    fn an_address_has_half_of_the_slots_that_others_leave_and_always_some() {
        let mut listener = listener();
        assert_eq!(listener.fill(client(1)), 256);
        assert_eq!(listener.fill(client(2)), 128);
        for other in 3..40 {
            listener.fill(client(other));
        }
        assert_eq!(listener.slots.len(), 512);
        // All slots are taken, and nobody is slow yet.
        assert_eq!(listener.closed_for(client(200)), None);
        listener.now += SECOND;
        assert_eq!(listener.closed_for(client(200)), Some(client(1)));
    }

    #[test]
    fn clients_behind_the_address_of_this_host_may_take_every_slot_and_do_not_count_for_others() {
        let mut listener = listener();
        let shared = ClientAddress::default();
        assert_eq!(listener.fill(shared), 512);
        listener.now += SECOND;
        assert_eq!(listener.closed_for(client(1)), Some(shared));
    }

    #[test]
    fn an_address_with_its_share_closes_its_own_slowest_connection() {
        let mut listener = listener();
        listener.fill(client(1));
        listener.now += SECOND;
        listener.fill(client(2));
        listener.now += SECOND;
        assert_eq!(listener.closed_for(client(2)), Some(client(2)));
        // One is closed for one.
        assert!(matches!(
            listener.connections.admit(client(2), listener.now),
            Admission::AfterEarlierClose
        ));
    }

    #[test]
    fn the_connection_that_has_progressed_least_gives_way_whatever_it_is_doing() {
        let mut listener = listener();
        listener.connections = Connections::new(4, SECOND);
        let shared = ClientAddress::default();
        listener.fill(shared);
        let [_body, response, _works] = [0, 1, 2].map(|slot| listener.request(slot));
        let _response = response.answered(Response::new(Body::empty()));
        let slots = [0, 1, 2, 3].map(|slot| Arc::clone(&listener.slots[slot].connection));
        listener.now += SECOND;
        slots[0].waits_for_body(listener.now);
        slots[1].waits_for_reader(listener.now);
        // The fourth waits for a request since its opening.
        assert!(listener.closed_for(shared).is_some());
        assert!(slots[3].end.is_cancelled());
        listener.slots.pop();
        let _works = listener.opened_request();
        // Of the body and the response, the body has progressed less.
        listener.now += 10 * SECOND;
        assert!(slots[0].received(1, listener.now));
        slots[0].waits_for_body(listener.now);
        slots[1].sent(64 << 10, listener.now);
        slots[1].waits_for_reader(listener.now);
        assert!(listener.closed_for(shared).is_some());
        assert!(slots[0].end.is_cancelled());
        assert!(
            !slots[0].received(1, listener.now),
            "its handler does not continue"
        );
        listener.slots.remove(0);
        let _works_too = listener.opened_request();
        assert!(listener.closed_for(shared).is_some());
        assert!(slots[1].end.is_cancelled());
        listener.slots.remove(0);
        let _works_as_well = listener.opened_request();
        // Handlers that work are not slow.
        listener.now += 10 * SECOND;
        assert_eq!(listener.closed_for(shared), None);
    }

    #[test]
    fn a_closed_connection_begins_no_request() {
        let mut listener = listener();
        listener.connections = Connections::new(1, SECOND);
        listener.fill(client(1));
        listener.now += SECOND;
        assert_eq!(listener.closed_for(client(2)), Some(client(1)));
        let memory = Arc::new(BodyMemory::new(0).reserved(client(1)));
        let connection = &listener.slots[0].connection;
        assert!(connection.begin_request(memory, listener.now).is_none());
    }
}
