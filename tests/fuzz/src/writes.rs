//! Fuzz targets: the bodies of claims and reshapes.

use berth_http::Microversion;
use berth_placement::fuzzing::{self, BodyVerdict, FuzzUsage, FuzzWrite};

use crate::{refused, versioned};

pub(crate) fn allocations(data: &[u8]) {
    let Some((version, data)) = versioned(data) else {
        return;
    };
    let Some((method, body)) = data.split_first() else {
        return;
    };
    let write = match method % 2 {
        0 => FuzzWrite::Claim,
        _ => FuzzWrite::Claims,
    };
    check(write, body, version);
}

pub(crate) fn reshape(data: &[u8]) {
    if let Some((version, body)) = versioned(data) {
        check(FuzzWrite::Reshape, body, version);
    }
}

fn check(write: FuzzWrite, body: &[u8], version: Microversion) {
    assert!(
        fuzzing::shapes_agree(write, body, version),
        "two ways to check one shape"
    );
    match fuzzing::write(write, body, version) {
        Err(fault) => refused(&fault),
        Ok(BodyVerdict::Unknown | BodyVerdict::Refused) => {}
        Ok(BodyVerdict::Admitted(uses)) => {
            for one in &uses {
                assert!(may_be(write, one), "{one:?}");
            }
        }
    }
}

/// What is admitted fits; or is held as it is; or was over before and is not worse.
#[allow(
    clippy::cast_precision_loss,
    reason = "compared with a capacity, as the service does"
)]
fn may_be(write: FuzzWrite, one: &FuzzUsage) -> bool {
    let Some(capacity) = one.capacity else {
        // A class without an inventory has no usage.
        return one.after == 0;
    };
    let over = one.after as f64 - capacity;
    let no_worse = one.after <= one.before
        && (write != FuzzWrite::Reshape || one.is_held || (one.excess > 0.0 && over <= one.excess));
    one.after == 0 || over <= 0.0 || no_worse
}
