//! Maps libvirt and sysfs errors to [`ObserveError`].

use berth_sysfs::SysfsError;
use berth_virt::ObserveError;

use crate::connection::ConnectionError;
use crate::xml::XmlError;

pub(super) fn malformed(error: XmlError) -> ObserveError {
    let reason = match &error {
        XmlError::Syntax { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    ObserveError::Malformed {
        origin: "libvirt".to_owned(),
        reason,
    }
}

pub(crate) fn unreadable(error: SysfsError) -> ObserveError {
    match error {
        SysfsError::Unreadable { path, source } => ObserveError::Unreadable {
            path: path.display().to_string(),
            source,
        },
        SysfsError::Addresses { source } => ObserveError::Unreadable {
            path: "the addresses of network interfaces".to_owned(),
            source,
        },
        SysfsError::Malformed { .. } => ObserveError::Malformed {
            origin: "the kernel's device tree".to_owned(),
            reason: error.to_string(),
        },
    }
}

impl From<ConnectionError> for ObserveError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Load(error) => ObserveError::LibraryMissing {
                library: "libvirt.so.0".to_owned(),
                hint: error.to_string(),
            },
            ConnectionError::TimedOut { uri, call, limit } => ObserveError::TimedOut {
                target: uri,
                call,
                limit,
            },
            ConnectionError::Open { uri, source } => ObserveError::Unreachable {
                target: uri,
                reason: source.message().to_owned(),
            },
            ConnectionError::EventLoop(_) | ConnectionError::Thread(_) => {
                ObserveError::Unreachable {
                    target: "libvirt".to_owned(),
                    reason: with_source(&error),
                }
            }
            ConnectionError::Hanging { ref uri, .. } | ConnectionError::CutOff { ref uri, .. } => {
                ObserveError::Unreachable {
                    target: uri.clone(),
                    reason: error.to_string(),
                }
            }
        }
    }
}

fn with_source(error: &ConnectionError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
