//! Converts a driver's error to an error of the driver contract.
//!
//! A code that does not belong to the method's family, or data that do not fit the code, are a mistake of the driver.
//! They are reported as a malformed answer, which may be retried.

use std::io;
use std::time::Duration;

use berth_model::ConsumerUuid;
use berth_virt::{
    DeviceError, GuestError, HeldDevice, HostDeviceId, ObserveError, PowerAction, PowerState,
    UnfitReason,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::codes::{DeviceCode, GuestCode, ObserveCode};
use super::device::unfit_reason;
use super::message::ErrorObject;
use super::method::Method;
use super::value::{AsText, Text, decode, list};
use crate::call_error::NAME;
use crate::lines::shown;

/// The method and guest of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuestQuestion {
    pub(crate) method: Method,
    pub(crate) uuid: Option<ConsumerUuid>,
    /// With `power`.
    pub(crate) action: Option<PowerAction>,
}

impl GuestQuestion {
    pub(crate) fn of(method: Method, uuid: ConsumerUuid) -> Self {
        Self {
            method,
            uuid: Some(uuid),
            action: None,
        }
    }

    pub(crate) fn of_all(method: Method) -> Self {
        Self {
            method,
            uuid: None,
            action: None,
        }
    }
}

/// Data of errors, by their fields.
mod data {
    use super::{
        AsText, ConsumerUuid, Deserialize, HeldDevice, HostDeviceId, PowerState, Text, UnfitReason,
        list, unfit_reason,
    };

    macro_rules! data {
        ($($name:ident { $($(#[$how:meta])* $field:ident: $type:ty,)* })+) => {
            $(#[derive(Deserialize)]
            #[serde(deny_unknown_fields)]
            pub(super) struct $name {
                $($(#[$how])* pub(super) $field: $type,)*
            })+
        };
    }

    data! {
        Target { target: Text<1024>, }
        Waited { target: Text<1024>, seconds: u32, }
        Seconds { seconds: u32, }
        Origin { origin: Text<1024>, }
        Path { path: Text<4096>, }
        Setting { option: Text<255>, }
        Library { library: Text<255>, }
        State { state: PowerState, }
        Device { device: HostDeviceId, }
        Name { name: Text<255>, holder: AsText<ConsumerUuid>, }
        Devices {
            #[serde(deserialize_with = "list::<_, _, 1024>")]
            devices: Vec<HeldDevice>,
        }
        Cause {
            #[serde(with = "unfit_reason")]
            cause: UnfitReason,
        }
    }
}

/// An error that is no error of the family: why not.
struct Misfit(String);

/// The data of an error.
fn read<T: DeserializeOwned>(data: &Value) -> Result<T, Misfit> {
    decode(data.clone()).map_err(|wrong| Misfit(format!("error.data: {wrong}")))
}

/// An error without data has none.
fn none(data: &Value) -> Result<(), Misfit> {
    match data {
        Value::Null => Ok(()),
        Value::Object(fields) if fields.is_empty() => Ok(()),
        other => Err(Misfit(format!(
            "error.data: this code has none, not {}",
            shown(&other.to_string(), 80)
        ))),
    }
}

fn unknown(code: i64) -> Misfit {
    Misfit(format!("error.code: {code} is none of this method's"))
}

/// The error text for an invalid error of the driver, including its message.
fn with_drivers_error(misfit: Misfit, error: &ErrorObject) -> String {
    format!(
        "{}; its error was: {} (code {})",
        misfit.0, error.message, error.code
    )
}

fn file(reason: String) -> io::Error {
    io::Error::other(reason)
}

fn seconds(waited: u32) -> Duration {
    Duration::from_secs(waited.into())
}

pub(crate) fn observe_error(error: ErrorObject, target: String) -> ObserveError {
    let call = Method::Observe.as_str();
    fitting_observe(&error, call).unwrap_or_else(|misfit| ObserveError::Malformed {
        origin: format!("the answer of {target} to {call}"),
        reason: with_drivers_error(misfit, &error),
    })
}

fn fitting_observe(error: &ErrorObject, call: &'static str) -> Result<ObserveError, Misfit> {
    let (reason, data) = (error.message.clone(), &error.data);
    let code = ObserveCode::of(error.code).ok_or_else(|| unknown(error.code))?;
    Ok(match code {
        ObserveCode::Unreachable => {
            let data::Target { target } = read(data)?;
            let target = target.into();
            ObserveError::Unreachable { target, reason }
        }
        ObserveCode::TimedOut => {
            let waited: data::Waited = read(data)?;
            ObserveError::TimedOut {
                target: waited.target.into(),
                call,
                limit: seconds(waited.seconds),
            }
        }
        ObserveCode::Refused => {
            none(data)?;
            ObserveError::Refused { call, reason }
        }
        ObserveCode::Malformed => {
            let data::Origin { origin } = read(data)?;
            let origin = origin.into();
            ObserveError::Malformed { origin, reason }
        }
        ObserveCode::Unreadable => {
            let data::Path { path } = read(data)?;
            let (path, source) = (path.into(), file(reason));
            ObserveError::Unreadable { path, source }
        }
        ObserveCode::Configuration => {
            let data::Setting { option } = read(data)?;
            let option = option.into();
            ObserveError::Configuration { option, reason }
        }
        ObserveCode::LibraryMissing => {
            let data::Library { library } = read(data)?;
            let (library, hint) = (library.into(), reason);
            ObserveError::LibraryMissing { library, hint }
        }
    })
}

pub(crate) fn guest_error(
    error: ErrorObject,
    target: String,
    question: &GuestQuestion,
) -> GuestError {
    fitting_guest(&error, question).unwrap_or_else(|misfit| GuestError::Malformed {
        origin: format!("the answer of {target} to {}", question.method),
        reason: with_drivers_error(misfit, &error),
    })
}

fn fitting_guest(error: &ErrorObject, question: &GuestQuestion) -> Result<GuestError, Misfit> {
    let (reason, data, call) = (error.message.clone(), &error.data, question.method.as_str());
    let code = GuestCode::of(error.code).ok_or_else(|| unknown(error.code))?;
    let uuid = question.uuid.ok_or_else(|| unknown(error.code));
    Ok(match code {
        GuestCode::HoldsDevices => {
            let data::Devices { devices } = read(data)?;
            let (action, because) =
                held_back(question.method).ok_or_else(|| unknown(error.code))?;
            GuestError::HoldsDevices {
                uuid: uuid?,
                action,
                devices: devices.into_iter().collect(),
                reason: because,
            }
        }
        GuestCode::NotOff => {
            let data::State { state } = read(data)?;
            let uuid = uuid?;
            GuestError::NotOff { uuid, state }
        }
        GuestCode::NotRunning => {
            let data::State { state } = read(data)?;
            let uuid = uuid?;
            GuestError::NotRunning { uuid, state }
        }
        GuestCode::Unsupported => {
            none(data)?;
            match question.method.unsupported() {
                Some(action) => GuestError::Unsupported {
                    driver: NAME,
                    action,
                },
                None => GuestError::NotSupported { driver: NAME },
            }
        }
        GuestCode::Unreachable => {
            let data::Target { target } = read(data)?;
            let target = target.into();
            GuestError::Unreachable { target, reason }
        }
        GuestCode::TimedOut => {
            let waited: data::Waited = read(data)?;
            GuestError::TimedOut {
                target: waited.target.into(),
                call,
                limit: seconds(waited.seconds),
            }
        }
        GuestCode::DeviceBusy => {
            none(data)?;
            let uuid = uuid?;
            GuestError::DeviceBusy { uuid, reason }
        }
        GuestCode::DeviceMissing => {
            let data::Device { device } = read(data)?;
            let (uuid, device) = (uuid?, device);
            GuestError::DeviceMissing { uuid, device }
        }
        GuestCode::Changed => {
            none(data)?;
            let uuid = uuid?;
            GuestError::Changed { uuid, call, reason }
        }
        GuestCode::Another => {
            none(data)?;
            let (uuid, difference) = (uuid?, reason);
            GuestError::Another { uuid, difference }
        }
        GuestCode::NameTaken => {
            let data::Name { name, holder } = read(data)?;
            let (name, holder) = (name.into(), holder.0);
            GuestError::NameTaken { name, holder }
        }
        GuestCode::WrongState => {
            let data::State { state } = read(data)?;
            let action = question.action.ok_or_else(|| unknown(error.code))?;
            GuestError::WrongState {
                uuid: uuid?,
                state,
                action,
            }
        }
        GuestCode::Refused => {
            none(data)?;
            let uuid = uuid?;
            GuestError::Refused { uuid, call, reason }
        }
        GuestCode::Malformed => {
            let data::Origin { origin } = read(data)?;
            let origin = origin.into();
            GuestError::Malformed { origin, reason }
        }
        GuestCode::Stuck => {
            none(data)?;
            let uuid = uuid?;
            GuestError::Stuck { uuid, reason }
        }
        GuestCode::State => {
            let data::Path { path } = read(data)?;
            let (path, source) = (path.into(), file(reason));
            GuestError::State { path, source }
        }
    })
}

/// The operation that a guest's devices prevent, and the reason, in the texts of the contract.
fn held_back(method: Method) -> Option<(&'static str, &'static str)> {
    match method {
        Method::Suspend => Some((
            "be suspended",
            "the state of a device cannot be written to disk",
        )),
        Method::LiveMigrate => Some((
            "be moved while it runs",
            "a device of this host cannot be moved",
        )),
        _ => None,
    }
}

pub(crate) fn device_error(
    error: ErrorObject,
    device: HostDeviceId,
    call: &'static str,
) -> DeviceError {
    fitting_device(&error, device, call).unwrap_or_else(|misfit| DeviceError::Unfinished {
        device,
        call,
        reason: with_drivers_error(misfit, &error),
    })
}

fn fitting_device(
    error: &ErrorObject,
    device: HostDeviceId,
    call: &'static str,
) -> Result<DeviceError, Misfit> {
    let (reason, data) = (error.message.clone(), &error.data);
    let code = DeviceCode::of(error.code).ok_or_else(|| unknown(error.code))?;
    Ok(match code {
        DeviceCode::TimedOut => {
            let waited: data::Seconds = read(data)?;
            DeviceError::TimedOut {
                device,
                call,
                limit: seconds(waited.seconds),
            }
        }
        DeviceCode::Quarantined => {
            let data::Cause { cause } = read(data)?;
            DeviceError::Quarantined {
                device,
                cause,
                reason,
            }
        }
        plain => {
            none(data)?;
            match plain {
                DeviceCode::NotAllowed => DeviceError::NotAllowed { device, reason },
                DeviceCode::HostsOwn => DeviceError::InUseByHost { device, reason },
                DeviceCode::NotWhole => DeviceError::GroupNotViable { device, reason },
                DeviceCode::Missing => DeviceError::Missing { device, reason },
                DeviceCode::InUse => DeviceError::InUse { device, reason },
                DeviceCode::Unfinished => DeviceError::Unfinished {
                    device,
                    call,
                    reason,
                },
                DeviceCode::Unseen | DeviceCode::TimedOut | DeviceCode::Quarantined => {
                    DeviceError::Unobservable { reason }
                }
            }
        }
    })
}

/// The result of `prepare_host`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareHostResult {
    /// What could not be prepared, at most 1024 entries, one per device. Empty if all succeeded.
    #[serde(deserialize_with = "list::<_, _, 1024>")]
    pub errors: Vec<PrepareHostFailure>,
}

/// A device that could not be prepared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareHostFailure {
    pub device: HostDeviceId,
    /// One of the codes of devices ([`DeviceCode`]).
    pub code: i64,
    pub message: Text<2048>,
    /// The data that the code requires. Optional.
    #[serde(default)]
    pub data: Value,
}

impl PrepareHostResult {
    #[must_use]
    pub fn errors(self) -> Vec<DeviceError> {
        let errors = self.errors.into_iter().map(|failure| {
            let error = ErrorObject {
                code: failure.code,
                message: failure.message.into(),
                data: failure.data,
            };
            device_error(error, failure.device, Method::PrepareHost.as_str())
        });
        errors.collect()
    }
}
