//! Cyborg's microversions by feature. Handlers compare the request's version with these constants only.

use berth_http::{Microversion, MicroversionRange};

const fn v(minor: u16) -> Microversion {
    Microversion::new(2, minor)
}

/// `/project_id` in a bind.
pub(crate) const BIND_PROJECT: Microversion = v(1);
/// A device profile by its name in the path.
pub(crate) const PROFILE_BY_NAME: Microversion = v(2);
/// Devices have a `status`.
pub(crate) const DEVICE_STATUS: Microversion = v(3);

/// The supported range. Errors have no codes in any version.
pub(crate) const RANGE: MicroversionRange = MicroversionRange {
    service: "accelerator",
    min: v(0),
    max: v(3),
    error_codes_since: v(u16::MAX),
};
