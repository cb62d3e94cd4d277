//! Which CPUs are dedicated, and how: policies and masks.

use super::source::{number, one_of};
use super::{CpuAllocationPolicy, CpuThreadPolicy, EmulatorThreadsPolicy, NumaRequestError};
use crate::host_state::CpuBitSet;
use crate::numbers;
use crate::request::source::FlavorAndImage;
use crate::request::{NumaAffinityPolicy, RequestFlavor, RequestImage};

type CpuResult<T> = Result<T, NumaRequestError>;

/// `hw:cpu_policy`: an image may not request more than a flavor with a weaker policy allows.
pub(super) fn policy(source: FlavorAndImage<'_>) -> CpuResult<Option<CpuAllocationPolicy>> {
    use CpuAllocationPolicy::{Dedicated, Mixed, Shared};
    match source.both_of("cpu_policy", &CpuAllocationPolicy::ALL)? {
        (Some(Mixed), Some(Dedicated)) | (Some(Shared), Some(Mixed | Dedicated)) => {
            Err(source.conflict("cpu_policy"))
        }
        (flavor, image) => Ok(flavor.or(image)),
    }
}

/// `hw:cpu_thread_policy`: the image's value counts if the flavor has none, and is ignored if the flavor's is `prefer`.
pub(super) fn thread_policy(source: FlavorAndImage<'_>) -> CpuResult<Option<CpuThreadPolicy>> {
    match source.both_of("cpu_thread_policy", &CpuThreadPolicy::ALL)? {
        (Some(CpuThreadPolicy::Prefer), _) => Ok(Some(CpuThreadPolicy::Prefer)),
        (Some(flavor), Some(image)) if flavor != image => Err(source.conflict("cpu_thread_policy")),
        (flavor, image) => Ok(flavor.or(image)),
    }
}

/// Reads `hw:emulator_threads_policy`.
pub(super) fn emulator_threads(
    source: FlavorAndImage<'_>,
) -> CpuResult<Option<EmulatorThreadsPolicy>> {
    let name = "hw:emulator_threads_policy";
    one_of(
        name.to_owned(),
        source.spec(name),
        &EmulatorThreadsPolicy::ALL,
    )
}

/// Reads the CPUs of `hw:cpu_dedicated_mask`.
pub(super) fn dedicated(source: FlavorAndImage<'_>, vcpus: u16) -> CpuResult<Option<CpuBitSet>> {
    let name = "hw:cpu_dedicated_mask";
    let Some(mask) = source.spec(name) else {
        return Ok(None);
    };
    let (cpus, all) = (masked(name, mask, vcpus)?, CpuBitSet::first(vcpus));
    let has_some = !cpus.is_empty() && cpus.is_within(&all) && cpus != all;
    match has_some {
        true => Ok(Some(cpus)),
        false => Err(mask_error(name, mask, vcpus)),
    }
}

/// Reads `hw:cpu_realtime` and `hw:cpu_realtime_mask`; the image's mask has priority.
pub(super) fn realtime(
    source: FlavorAndImage<'_>,
    vcpus: u16,
    emulator_threads: Option<EmulatorThreadsPolicy>,
) -> CpuResult<Option<CpuBitSet>> {
    if !source.spec("hw:cpu_realtime").is_some_and(numbers::is_true) {
        return Ok(None);
    }
    let (spec, property) = source.both("cpu_realtime_mask");
    let all = CpuBitSet::first(vcpus);
    let (name, mask) = match property {
        Some(mask) => ("hw_cpu_realtime_mask", mask),
        None => ("hw:cpu_realtime_mask", spec.unwrap_or_default()),
    };
    let cpus = match mask.is_empty() {
        true => all.clone(),
        false => masked(name, mask, vcpus)?,
    };
    // Emulator threads need a CPU without real-time scheduling, unless they have a policy of their own.
    let is_all = cpus == all && emulator_threads.is_none();
    match cpus.is_empty() || is_all || !cpus.is_within(&all) {
        true => Err(mask_error(name, mask, vcpus)),
        false => Ok(Some(cpus)),
    }
}

fn mask_error(name: &'static str, mask: &str, vcpus: u16) -> NumaRequestError {
    NumaRequestError::Mask {
        name,
        value: mask.to_owned(),
        vcpus,
    }
}

/// A list of CPUs; a list that begins with an exclusion contains all other CPUs.
fn masked(name: &str, mask: &str, vcpus: u16) -> CpuResult<CpuBitSet> {
    match mask.trim().starts_with('^') {
        true => cpus(name, &format!("0-{},{mask}", i32::from(vcpus) - 1)),
        false => cpus(name, mask),
    }
}

/// A list of CPUs by Nova's grammar: `0-3,^2,8`.
pub(super) fn cpus(name: &str, text: &str) -> CpuResult<CpuBitSet> {
    let (mut within, mut without) = (CpuBitSet::default(), CpuBitSet::default());
    for rule in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (set, range) = match rule.strip_prefix('^') {
            Some(range) => (&mut without, range),
            None => (&mut within, rule),
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (cpu(name, text, first)?, cpu(name, text, last)?);
        if first > last {
            return Err(no_list(name, text));
        }
        set.extend(first..=last);
    }
    Ok(within.without(&without))
}

fn cpu(name: &str, text: &str, one: &str) -> CpuResult<u16> {
    let number = number(name, one, CPU_LIST).map_err(|_| no_list(name, text))?;
    u16::try_from(number).map_err(|_| no_list(name, text))
}

const CPU_LIST: &str = "a list of CPUs such as 0-3,^2,8, each below 65536";

fn no_list(name: &str, text: &str) -> NumaRequestError {
    NumaRequestError::Malformed {
        name: name.to_owned(),
        value: text.to_owned(),
        wanted: CPU_LIST,
    }
}

/// `hw:pci_numa_affinity_policy` or the image property: overrides the policies of aliases for all devices. `None` if
/// neither is set.
pub fn pci_numa_affinity_policy(
    flavor: &RequestFlavor,
    image: Option<&RequestImage>,
) -> Result<Option<NumaAffinityPolicy>, NumaRequestError> {
    let source = FlavorAndImage { flavor, image };
    match source.both_of("pci_numa_affinity_policy", &NumaAffinityPolicy::ALL)? {
        (Some(flavor), Some(image)) if flavor != image => {
            Err(source.conflict("pci_numa_affinity_policy"))
        }
        (flavor, image) => Ok(flavor.or(image)),
    }
}
