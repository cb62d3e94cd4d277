//! Which microversion brought what. A handler compares its request's version with these and with nothing else.

use berth_http::{Microversion, MicroversionRange};

/// What this service speaks.
pub(crate) const RANGE: MicroversionRange = MicroversionRange {
    service: "compute",
    min: Microversion::new(2, 1),
    max: Microversion::new(2, 82),
    error_codes_since: Microversion::new(u16::MAX, 0),
};

/// A key pair has a type, and its statuses say what was done.
pub(crate) const KEY_PAIR_TYPE: Microversion = Microversion::new(2, 2);
/// An operator may name the user whose key pairs are meant.
pub(crate) const KEY_PAIR_USER: Microversion = Microversion::new(2, 10);
/// Key pairs come in pages.
pub(crate) const KEY_PAIR_PAGES: Microversion = Microversion::new(2, 35);
/// A flavor has a description, which can be changed.
pub(crate) const FLAVOR_DESCRIPTION: Microversion = Microversion::new(2, 55);
/// A flavor is shown with its extra specs.
pub(crate) const FLAVOR_EXTRA_SPECS: Microversion = Microversion::new(2, 61);
/// No swap is 0, not an empty text, and query parameters that nobody knows are refused.
pub(crate) const STRICT: Microversion = Microversion::new(2, 75);
