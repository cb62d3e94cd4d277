//! How far a host is from passing a filter.

use berth_scheduler_objects::numbers::as_float;
use berth_scheduler_objects::reason::Reason;

/// The missing share of the request: 0.5 if half of it is free, 1 if the reason has no numbers.
pub(super) fn distance(reason: &Reason) -> f64 {
    let (lacking, asked) = match reason {
        Reason::TotalTooSmall {
            requested, total, ..
        } => (
            as_float(*requested) - as_float(*total),
            as_float(*requested),
        ),
        Reason::NotEnoughFree {
            requested, free, ..
        } => (as_float(*requested) - free, as_float(*requested)),
        Reason::NotExactlyFree {
            requested, free, ..
        } => {
            let asked = as_float(*requested);
            ((asked - as_float(*free)).abs(), asked)
        }
        Reason::TooManyInstances {
            num_instances,
            max_instances_per_host,
        } => over(*num_instances, *max_instances_per_host),
        Reason::TooManyIoOps {
            num_io_ops,
            max_io_ops_per_host,
        } => over(*num_io_ops, *max_io_ops_per_host),
        Reason::ServiceDown {
            last_seen_age_s: Some(age),
            service_down_time,
        } => (age - service_down_time, *service_down_time),
        _ => return 1.0,
    };
    let share = lacking / asked;
    match share.is_finite() {
        true => share.clamp(0.0, 1.0),
        false => 1.0,
    }
}

/// A limit that is exceeded by `too_many`.
fn over(many: i64, too_many: i64) -> (f64, f64) {
    (
        as_float(many) - as_float(too_many) + 1.0,
        as_float(too_many),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_scheduler_objects::reason::Resource;

    #[test]
    fn what_lacks_less_is_nearer() {
        let free = |requested, free| Reason::NotEnoughFree {
            resource: Resource::MemoryMb,
            requested,
            free,
        };
        let seen = |last_seen_age_s| Reason::ServiceDown {
            last_seen_age_s,
            service_down_time: 60.0,
        };
        let full = |num_instances, max_instances_per_host| Reason::TooManyInstances {
            num_instances,
            max_instances_per_host,
        };
        for (reason, expected) in [
            (free(1024, 512.0), 0.5),
            (free(1024, -512.0), 1.0),
            (free(1024, f64::NAN), 1.0),
            (free(0, -1.0), 1.0),
            (seen(Some(90.0)), 0.5),
            (seen(None), 1.0),
            (full(50, 50), 0.02),
            (full(50, 0), 1.0),
            (Reason::ServiceForcedDown, 1.0),
        ] {
            assert_eq!(distance(&reason), expected, "{reason:?}");
        }
    }
}
