//! Chooses the threads of cores that virtual CPUs are pinned to.

use berth_model::ThreadPolicy;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Core {
    pub(super) threads: Vec<u32>,
    /// The threads that an instance can be pinned to now.
    pub(super) free: Vec<u32>,
}

impl Core {
    fn is_whole(&self) -> bool {
        self.free.len() == self.threads.len()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CpuPick {
    /// The CPUs for the virtual CPUs, in order.
    pub(super) pins: Vec<u32>,
    /// The CPUs for the emulator threads.
    pub(super) emulator: Vec<u32>,
    /// All CPUs that become unavailable to others.
    pub(super) reserved: Vec<u32>,
}

/// Why no CPUs could be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuShortage {
    /// The number of free CPUs.
    Cpus(usize),
    /// The number of free whole cores.
    WholeCores(usize),
    /// The maximum number of free threads that share cores.
    Siblings(usize),
}

/// Chooses `count` CPUs for virtual CPUs, and `emulator` CPUs for emulator threads.
pub(super) fn pick(
    cores: &[Core],
    count: usize,
    emulator: usize,
    policy: ThreadPolicy,
) -> Result<CpuPick, CpuShortage> {
    let free: usize = cores.iter().map(|core| core.free.len()).sum();
    if policy == ThreadPolicy::Isolate {
        return pick_whole_cores(cores, count, emulator);
    }
    if free < count + emulator {
        return Err(CpuShortage::Cpus(free));
    }
    let pins = match (pick_packed(cores, count), policy) {
        (Ok(pins), _) => pins,
        (Err(best), ThreadPolicy::Require) => return Err(CpuShortage::Siblings(best)),
        (Err(_), _) => free_threads(cores).take(count).collect(),
    };
    let emulator: Vec<u32> = free_threads(cores)
        .filter(|cpu| !pins.contains(cpu))
        .take(emulator)
        .collect();
    let reserved = pins.iter().chain(&emulator).copied().collect();
    Ok(CpuPick {
        pins,
        emulator,
        reserved,
    })
}

/// Chooses one thread per core, and reserves the core's other threads.
fn pick_whole_cores(cores: &[Core], count: usize, emulator: usize) -> Result<CpuPick, CpuShortage> {
    let whole: Vec<&Core> = cores.iter().filter(|core| core.is_whole()).collect();
    if whole.len() < count + emulator {
        return Err(CpuShortage::WholeCores(whole.len()));
    }
    let taken = &whole[..count + emulator];
    let mut first = taken.iter().filter_map(|core| core.free.first().copied());
    Ok(CpuPick {
        pins: first.by_ref().take(count).collect(),
        emulator: first.collect(),
        reserved: taken
            .iter()
            .flat_map(|core| &core.threads)
            .copied()
            .collect(),
    })
}

/// Chooses the same number of threads on each core: as many as possible, at least two. Fails with the maximum number
/// available.
fn pick_packed(cores: &[Core], count: usize) -> Result<Vec<u32>, usize> {
    let most = cores.iter().map(|core| core.free.len()).max().unwrap_or(0);
    let mut best = 0;
    if count == 0 {
        return Ok(Vec::new());
    }
    for threads in (2..=most).rev() {
        let mut fit: Vec<&Core> = cores
            .iter()
            .filter(|core| core.free.len() >= threads)
            .collect();
        best = best.max(fit.len() * threads);
        if fit.len() * threads >= count {
            // Prefer partly used cores.
            fit.sort_by_key(|core| core.free.len());
            let pins = fit
                .into_iter()
                .flat_map(|core| core.free.iter().take(threads));
            return Ok(pins.take(count).copied().collect());
        }
    }
    Err(best)
}

/// All free threads, core by core.
fn free_threads(cores: &[Core]) -> impl Iterator<Item = u32> {
    cores.iter().flat_map(|core| &core.free).copied()
}
