//! Event callbacks of one connection: guests, node devices and the end of the connection, published to the subscribers.
//!
//! The `virt` crate has no events, so libvirt's C functions are called here. A callback for guests or devices owns a clone
//! of the subscribers behind a pointer that libvirt passes to [`release`] once it no longer calls back. The callback for the
//! end of the connection has the number of a [`CloseSubscription`] instead of a pointer.
#![allow(
    unsafe_code,
    reason = "registers callbacks with a C library that the binding does not cover"
)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_virt::HostEvent;
use virt::connect::Connect;
use virt::error::{Error, ErrorNumber};
use virt_sys as sys;

use crate::watch::Subscribers;

type DomainLifecycle =
    unsafe extern "C" fn(sys::virConnectPtr, sys::virDomainPtr, c_int, c_int, *mut c_void) -> c_int;
type DomainGeneric = unsafe extern "C" fn(sys::virConnectPtr, sys::virDomainPtr, *mut c_void);
type DeviceLifecycle =
    unsafe extern "C" fn(sys::virConnectPtr, sys::virNodeDevicePtr, c_int, c_int, *mut c_void);
type DeviceGeneric = unsafe extern "C" fn(sys::virConnectPtr, sys::virNodeDevicePtr, *mut c_void);

/// The callbacks of one connection; dropping it unregisters them.
#[derive(Debug)]
pub(super) struct Registrations {
    connect: Connect,
    guests: Option<c_int>,
    devices: Vec<c_int>,
    end: Option<CloseSubscription>,
}

/// The subscribers of all close callbacks, by the number that libvirt passes to [`closed`].
static CLOSE_SUBSCRIBERS: Mutex<CloseSubscribers> = Mutex::new(CloseSubscribers {
    last: 0,
    by_number: BTreeMap::new(),
});

#[derive(Debug)]
struct CloseSubscribers {
    last: usize,
    by_number: BTreeMap<usize, Subscribers>,
}

/// The data of one close callback; dropping it ends the notifications.
///
/// It is a number and not a pointer, because libvirt may call back later: if the connection is broken, the end of the
/// registration cannot be reported to libvirtd, and libvirt then keeps the callback. Drivers without close events accept the
/// registration and never free its data.
#[derive(Debug)]
struct CloseSubscription {
    number: usize,
}

impl CloseSubscription {
    fn new(subscribers: &Subscribers) -> Self {
        let mut all = close_subscribers();
        all.last += 1;
        let number = all.last;
        all.by_number.insert(number, subscribers.clone());
        Self { number }
    }

    fn as_data(&self) -> *mut c_void {
        ptr::without_provenance_mut(self.number)
    }
}

impl Drop for CloseSubscription {
    fn drop(&mut self) {
        close_subscribers().by_number.remove(&self.number);
    }
}

fn close_subscribers() -> MutexGuard<'static, CloseSubscribers> {
    CLOSE_SUBSCRIBERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

impl Registrations {
    /// Registers for all events the connection's driver has; libvirt's test driver has none of node devices.
    pub(super) fn new(connect: &Connect, subscribers: &Subscribers) -> Result<Self, Error> {
        let mut registrations = Self {
            connect: connect.clone(),
            guests: None,
            devices: Vec::new(),
            end: None,
        };
        registrations.guests = unless_unsupported(guests(connect, subscribers))?;
        registrations.devices.extend(unless_unsupported(devices(
            connect,
            subscribers,
            lifecycle_of_device(),
            sys::VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE,
        ))?);
        registrations.devices.extend(unless_unsupported(devices(
            connect,
            subscribers,
            device_updated,
            sys::VIR_NODE_DEVICE_EVENT_ID_UPDATE,
        ))?);
        registrations.end = unless_unsupported(end(connect, subscribers))?;
        Ok(registrations)
    }
}

impl Drop for Registrations {
    fn drop(&mut self) {
        // The result does not matter: on a broken connection libvirt removes the callback and then fails to notify the
        // other side.
        // SAFETY: `self` holds the connection, so it is alive; the ids came from its own registrations and are
        // unregistered once, here.
        unsafe {
            let connect = self.connect.as_ptr();
            if let Some(number) = self.guests {
                sys::virConnectDomainEventDeregisterAny(connect, number);
            }
            for number in self.devices.drain(..) {
                sys::virConnectNodeDeviceEventDeregisterAny(connect, number);
            }
            if self.end.is_some() {
                sys::virConnectUnregisterCloseCallback(connect, Some(closed));
            }
        }
    }
}

fn unless_unsupported<T>(registered: Result<T, Error>) -> Result<Option<T>, Error> {
    match registered {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if error
                .code()
                .is_known_and(|code| code == ErrorNumber::NoSupport) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The subscribers as a raw pointer for libvirt. Freed by `release`, or by `registered` if libvirt refused it.
fn carried(subscribers: &Subscribers) -> *mut c_void {
    Box::into_raw(Box::new(subscribers.clone())).cast()
}

/// The result of a registration. libvirt owns the pointer only if the result is not -1.
fn registered(answer: c_int, carried: *mut c_void) -> Result<c_int, Error> {
    if answer == -1 {
        let error = Error::last_error();
        // SAFETY: the pointer came from `carried`, and libvirt refused it, so it neither keeps nor frees it.
        unsafe { release(carried) };
        return Err(error);
    }
    Ok(answer)
}

fn guests(connect: &Connect, subscribers: &Subscribers) -> Result<c_int, Error> {
    let opaque = carried(subscribers);
    // SAFETY: the connection is alive for the call. libvirt's interface takes callbacks as the generic type and calls
    // them as the type of the event, which for LIFECYCLE is `DomainLifecycle`. We own `opaque`.
    let answer = unsafe {
        let callback = transmute::<DomainLifecycle, DomainGeneric>(guest_changed);
        sys::virConnectDomainEventRegisterAny(
            connect.as_ptr(),
            ptr::null_mut(),
            sys::VIR_DOMAIN_EVENT_ID_LIFECYCLE as c_int,
            Some(callback),
            opaque,
            Some(release),
        )
    };
    registered(answer, opaque)
}

fn lifecycle_of_device() -> DeviceGeneric {
    // SAFETY: libvirt calls back with the type of the event that it was registered for, which is LIFECYCLE.
    unsafe { transmute::<DeviceLifecycle, DeviceGeneric>(device_changed) }
}

fn devices(
    connect: &Connect,
    subscribers: &Subscribers,
    callback: DeviceGeneric,
    event: sys::virNodeDeviceEventID,
) -> Result<c_int, Error> {
    let opaque = carried(subscribers);
    // SAFETY: the connection is alive for the call; the callback's real type is the event's; `opaque` is ours to hand over.
    let answer = unsafe {
        sys::virConnectNodeDeviceEventRegisterAny(
            connect.as_ptr(),
            ptr::null_mut(),
            event as c_int,
            Some(callback),
            opaque,
            Some(release),
        )
    };
    registered(answer, opaque)
}

fn end(connect: &Connect, subscribers: &Subscribers) -> Result<CloseSubscription, Error> {
    let subscription = CloseSubscription::new(subscribers);
    let data = subscription.as_data();
    // SAFETY: the connection is alive for the call. `closed` does not dereference its data.
    let answer =
        unsafe { sys::virConnectRegisterCloseCallback(connect.as_ptr(), Some(closed), data, None) };
    if answer == -1 {
        return Err(Error::last_error());
    }
    Ok(subscription)
}

/// # Safety
/// `opaque` points to a live `Subscribers`: it came from `carried` and was not released.
unsafe fn dispatch(opaque: *mut c_void, event: HostEvent) {
    // SAFETY: by this function's contract the pointer is a live `Subscribers`; it is only borrowed.
    let subscribers = unsafe { &*opaque.cast::<Subscribers>() };
    subscribers.publish(event);
}

unsafe extern "C" fn guest_changed(
    _: sys::virConnectPtr,
    _: sys::virDomainPtr,
    _: c_int,
    _: c_int,
    opaque: *mut c_void,
) -> c_int {
    // SAFETY: libvirt passes the registered pointer, and releases it only after the last call.
    unsafe { dispatch(opaque, HostEvent::Guests) };
    0
}

unsafe extern "C" fn device_changed(
    _: sys::virConnectPtr,
    _: sys::virNodeDevicePtr,
    _: c_int,
    _: c_int,
    opaque: *mut c_void,
) {
    // SAFETY: as in `guest_changed`.
    unsafe { dispatch(opaque, HostEvent::Devices) };
}

unsafe extern "C" fn device_updated(
    _: sys::virConnectPtr,
    _: sys::virNodeDevicePtr,
    opaque: *mut c_void,
) {
    // SAFETY: as in `guest_changed`.
    unsafe { dispatch(opaque, HostEvent::Devices) };
}

unsafe extern "C" fn closed(_: sys::virConnectPtr, _: c_int, data: *mut c_void) {
    let subscribers = close_subscribers().by_number.get(&data.addr()).cloned();
    if let Some(subscribers) = subscribers {
        subscribers.publish(HostEvent::Unknown);
    }
}

/// # Safety
/// `opaque` came from `carried` and is released once.
unsafe extern "C" fn release(opaque: *mut c_void) {
    // SAFETY: by this function's contract the box is valid and not shared.
    drop(unsafe { Box::from_raw(opaque.cast::<Subscribers>()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The callback as libvirt's event loop makes it.
    fn close_connection(data: *mut c_void) {
        // SAFETY: `closed` uses neither the connection nor the memory at `data`.
        unsafe { closed(ptr::null_mut(), 0, data) };
    }

    #[test]
    fn a_connection_that_ends_after_its_registrations_are_gone_notifies_nobody() {
        let subscribers = Subscribers::default();
        let mut events = subscribers.subscribe();
        let subscription = CloseSubscription::new(&subscribers);
        let other = CloseSubscription::new(&Subscribers::default());
        let data = subscription.as_data();
        close_connection(data);
        assert!(matches!(events.try_recv(), Ok(HostEvent::Unknown)));
        drop(subscription);
        close_connection(data);
        close_connection(other.as_data());
        close_connection(ptr::null_mut());
        assert!(events.try_recv().is_err());
    }
}
