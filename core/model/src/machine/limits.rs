//! The limits of a guest on CPU time, disk and network traffic, from Nova's extra specs `quota:*`: [`GuestLimits`].

use serde::{Deserialize, Serialize};

use super::extra_specs::{ExtraSpecs, FlavorExtraSpecError};

/// The limits of a guest on CPU time, disk and network traffic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuestLimits {
    /// The CPU time of the guest.
    #[serde(skip_serializing_if = "is_default")]
    pub cpu: CpuLimits,
    /// The traffic of each disk.
    #[serde(skip_serializing_if = "is_default")]
    pub disk: DiskLimits,
    /// What each interface sends to the guest (`quota:vif_inbound_*`); `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbound: Option<TrafficLimit>,
    /// What each interface takes from the guest (`quota:vif_outbound_*`); `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outbound: Option<TrafficLimit>,
}

/// The CPU time of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CpuLimits {
    /// Its weight among the guests of a host (`quota:cpu_shares`), 1 to 10000; by default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
    /// The period of `quota_us` (`quota:cpu_period`) in microseconds, 1000 to 1000000; by default 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_us: Option<u32>,
    /// The CPU time of each virtual CPU in a period (`quota:cpu_quota`) in microseconds, 1000 or more; by default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_us: Option<u64>,
}

/// The traffic of each disk of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskLimits {
    /// Bytes in a second (`quota:disk_*_bytes_sec`).
    pub bytes: DiskRates,
    /// Requests in a second (`quota:disk_*_iops_sec`).
    pub requests: DiskRates,
}

/// Rates of a disk. A disk with a total has no limit on either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskRates {
    /// What is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<DiskRate>,
    /// What is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<DiskRate>,
    /// Both together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<DiskRate>,
}

/// A rate of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskRate {
    /// The most in a second, over time.
    pub per_second: u64,
    /// The most in a second of a burst (`*_sec_max`), more than `per_second`; `None`: no bursts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
}

/// The network traffic of an interface in one direction. A kilobyte has 1000 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficLimit {
    /// Kilobytes in a second, over time.
    pub average: u32,
    /// Kilobytes in a second of a burst; `None`: as fast as the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<u32>,
    /// KiB of a burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// The largest rate of a disk that QEMU takes.
const LARGEST_RATE: u64 = 1_000_000_000_000_000;

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl GuestLimits {
    pub(super) fn of(specs: ExtraSpecs<'_>) -> Result<Self, FlavorExtraSpecError> {
        Ok(Self {
            cpu: cpu(specs)?,
            disk: DiskLimits {
                bytes: rates(specs, "bytes")?,
                requests: rates(specs, "iops")?,
            },
            inbound: traffic(specs, "inbound")?,
            outbound: traffic(specs, "outbound")?,
        })
    }
}

fn cpu(specs: ExtraSpecs<'_>) -> Result<CpuLimits, FlavorExtraSpecError> {
    const QUOTA: &str = "quota:cpu_quota";
    const PERIOD: &str = "quota:cpu_period";
    let range = |key: &str, least: u64, most: u64| match specs.get(key) {
        None => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(u32::try_from(number).ok()),
            _ => Err(specs.wrong(key, format!("expected {least} to {most}"))),
        },
    };
    let quota_us = match specs.get(QUOTA).map(str::parse::<i64>) {
        None => None,
        // As in Nova and libvirt, a negative number is no limit.
        Some(Ok(..0)) => None,
        Some(Ok(quota)) if (1000..=17_592_186_044_415).contains(&quota) => {
            u64::try_from(quota).ok()
        }
        Some(_) => {
            let reason = "expected 1000 to 17592186044415 microseconds, or -1 for no limit";
            return Err(specs.wrong(QUOTA, reason));
        }
    };
    Ok(CpuLimits {
        // What the kernel's control groups (version 2) take.
        shares: range("quota:cpu_shares", 1, 10_000)?,
        period_us: match specs.get(PERIOD) {
            // As in Nova, 0 is no value.
            Some("0") => None,
            _ => range(PERIOD, 1000, 1_000_000)?,
        },
        quota_us,
    })
}

/// As in libvirt, 0 is no limit.
fn number<T: std::str::FromStr + PartialEq + Default>(
    specs: ExtraSpecs<'_>,
    key: &str,
) -> Result<Option<T>, FlavorExtraSpecError> {
    match specs.get(key).map(str::parse::<T>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number).filter(|number| *number != T::default())),
        Some(Err(_)) => Err(specs.wrong(key, "expected a whole number from 0 on")),
    }
}

fn rates(specs: ExtraSpecs<'_>, unit: &str) -> Result<DiskRates, FlavorExtraSpecError> {
    let rate = |direction: &str| {
        let key = format!("quota:disk_{direction}_{unit}_sec");
        let of_burst = format!("{key}_max");
        let per_second = number::<u64>(specs, &key)?;
        let burst = number::<u64>(specs, &of_burst)?;
        for (key, rate) in [(&key, per_second), (&of_burst, burst)] {
            if rate > Some(LARGEST_RATE) {
                return Err(specs.wrong(key, format!("expected at most {LARGEST_RATE}")));
            }
        }
        match (per_second, burst) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(specs.wrong(&of_burst, format!("{key} is missing"))),
            (Some(per_second), Some(burst)) if burst < per_second => {
                Err(specs.wrong(&of_burst, format!("expected at least {key}, {per_second}")))
            }
            (Some(per_second), burst) => Ok(Some(DiskRate {
                per_second,
                burst: burst.filter(|burst| *burst > per_second),
            })),
        }
    };
    let rates = DiskRates {
        read: rate("read")?,
        write: rate("write")?,
        total: rate("total")?,
    };
    if rates.total.is_some() && (rates.read.is_some() || rates.write.is_some()) {
        let reason =
            format!("a total excludes quota:disk_read_{unit}_sec and quota:disk_write_{unit}_sec");
        return Err(specs.wrong(&format!("quota:disk_total_{unit}_sec"), reason));
    }
    Ok(rates)
}

fn traffic(
    specs: ExtraSpecs<'_>,
    direction: &str,
) -> Result<Option<TrafficLimit>, FlavorExtraSpecError> {
    let key = |part: &str| format!("quota:vif_{direction}_{part}");
    let part = |part: &str| number::<u32>(specs, &key(part));
    let (average, peak, burst) = (part("average")?, part("peak")?, part("burst")?);
    let Some(average) = average else {
        let without = [("peak", peak), ("burst", burst)];
        return match without.iter().find(|(_, value)| value.is_some()) {
            Some((part, _)) => {
                Err(specs.wrong(&key(part), format!("{} is missing", key("average"))))
            }
            None => Ok(None),
        };
    };
    Ok(Some(TrafficLimit {
        average,
        peak,
        burst,
    }))
}
