//! The driver's events: libvirt's and the kernel's as one stream of "something changed".
//!
//! A reader observes everything anyway, so events are dropped if a reader's queue is full.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use berth_sysfs::{DeviceUevent, UeventError, UeventStream};
use berth_virt::HostEvent;
use futures_core::Stream;
use tokio::sync::mpsc::{self, Receiver, Sender};

/// The size of a reader's queue.
const UNREAD: usize = 16;

/// The subscribers of libvirt's events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subscribers(Arc<Mutex<Vec<Sender<HostEvent>>>>);

impl Subscribers {
    /// One more subscriber; dropping the receiver ends the subscription.
    pub(crate) fn subscribe(&self) -> Receiver<HostEvent> {
        let (sender, receiver) = mpsc::channel(UNREAD);
        self.lock().push(sender);
        receiver
    }

    /// Sends an event to all subscribers without waiting.
    pub(crate) fn publish(&self, event: HostEvent) {
        self.lock().retain(|subscriber| {
            let _ = subscriber.try_send(event);
            !subscriber.is_closed()
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Sender<HostEvent>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the kernel's uevents belong to the stream: a host of libvirt's test driver is not this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelEvents {
    Watched,
    Ignored,
}

/// The kernel's events: its socket, or a simulation in tests.
type KernelEventStream = Pin<Box<dyn Stream<Item = Result<DeviceUevent, UeventError>> + Send>>;

/// The kernel's event source.
enum Uevents {
    /// Opened at the first poll, inside the runtime.
    Unopened,
    Open(KernelEventStream),
    /// Not wanted, or the socket failed.
    Closed,
}

/// The stream behind [`berth_virt::HostEvents`].
pub(crate) struct Watch {
    libvirt: Receiver<HostEvent>,
    kernel: Uevents,
}

impl Watch {
    pub(crate) fn new(subscribers: &Subscribers, kernel: KernelEvents) -> Self {
        Self {
            libvirt: subscribers.subscribe(),
            kernel: match kernel {
                KernelEvents::Watched => Uevents::Unopened,
                KernelEvents::Ignored => Uevents::Closed,
            },
        }
    }

    /// The kernel's next event. A socket that fails is given up after one [`HostEvent::Unknown`]: libvirt's events and
    /// the periodic observation remain.
    fn poll_kernel(&mut self, context: &mut Context<'_>) -> Poll<HostEvent> {
        if let Uevents::Unopened = self.kernel {
            self.kernel = match UeventStream::open() {
                Ok(stream) => Uevents::Open(Box::pin(stream)),
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to receive kernel events"
                    );
                    Uevents::Closed
                }
            };
        }
        let Uevents::Open(stream) = &mut self.kernel else {
            return Poll::Pending;
        };
        match stream.as_mut().poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(DeviceUevent::Changed(_)))) => Poll::Ready(HostEvent::Devices),
            Poll::Ready(Some(Ok(DeviceUevent::Lost))) => Poll::Ready(HostEvent::Unknown),
            Poll::Ready(Some(Err(error))) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "kernel events ended"
                );
                self.kernel = Uevents::Closed;
                Poll::Ready(HostEvent::Unknown)
            }
            Poll::Ready(None) => {
                self.kernel = Uevents::Closed;
                Poll::Ready(HostEvent::Unknown)
            }
        }
    }
}

impl Stream for Watch {
    type Item = HostEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<HostEvent>> {
        match self.libvirt.poll_recv(context) {
            Poll::Ready(event) => Poll::Ready(event),
            Poll::Pending => self.poll_kernel(context).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::io;

    use berth_sysfs::Uevent;

    use super::*;

    /// A simulated kernel with these events.
    struct SimulatedKernel(VecDeque<Result<DeviceUevent, UeventError>>);

    impl Stream for SimulatedKernel {
        type Item = Result<DeviceUevent, UeventError>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.0
                .pop_front()
                .map_or(Poll::Pending, |event| Poll::Ready(Some(event)))
        }
    }

    #[tokio::test]
    async fn a_device_that_is_plugged_in_is_reported_and_a_socket_that_fails_is_reported_once() {
        let subscribers = Subscribers::default();
        let plugged = Uevent {
            action: "add".to_owned(),
            devpath: "/devices/pci0000:80/0000:81:00.0".to_owned(),
            subsystem: "pci".to_owned(),
        };
        let sent = [
            Ok(DeviceUevent::Changed(plugged)),
            Ok(DeviceUevent::Lost),
            Err(UeventError::Read(io::Error::other("gone"))),
        ];
        let mut watch = Watch::new(&subscribers, KernelEvents::Ignored);
        watch.kernel = Uevents::Open(Box::pin(SimulatedKernel(sent.into())));
        subscribers.publish(HostEvent::Guests);
        drop(subscribers);
        let mut events = Vec::new();
        while events.len() < 4 {
            let next = poll_fn(|context| Pin::new(&mut watch).poll_next(context)).await;
            match next {
                Some(event) => events.push(event),
                None => events.push(poll_fn(|context| watch.poll_kernel(context)).await),
            }
        }
        assert_eq!(
            events,
            [
                HostEvent::Guests,
                HostEvent::Devices,
                HostEvent::Unknown,
                HostEvent::Unknown
            ]
        );
        assert!(matches!(watch.kernel, Uevents::Closed));
    }

    #[tokio::test]
    async fn events_reach_every_stream_and_the_surplus_is_dropped() {
        let subscribers = Subscribers::default();
        let mut first = Watch::new(&subscribers, KernelEvents::Ignored);
        let second = Watch::new(&subscribers, KernelEvents::Ignored);
        drop(second);
        for _ in 0..UNREAD + 5 {
            subscribers.publish(HostEvent::Guests);
        }
        drop(subscribers);
        let mut read = 0;
        while let Some(event) = poll_fn(|context| Pin::new(&mut first).poll_next(context)).await {
            assert_eq!(event, HostEvent::Guests);
            read += 1;
        }
        assert_eq!(read, UNREAD);
    }
}
