//! Which threads of which cores virtual CPUs are pinned to.

use crate::fit::flavor::ThreadPolicy;

/// A core, as far as pinning is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Core {
    /// Its threads that are online.
    pub(super) threads: Vec<u32>,
    /// Those of them that a guest can be pinned to now.
    pub(super) free: Vec<u32>,
}

impl Core {
    fn is_whole(&self) -> bool {
        self.free.len() == self.threads.len()
    }
}

/// The CPUs that were picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picked {
    /// The virtual CPUs', in their order.
    pub(super) pins: Vec<u32>,
    pub(super) spare: Vec<u32>,
    /// All that are kept from others by it.
    pub(super) reserved: Vec<u32>,
}

/// Why none were picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Short {
    /// So many CPUs are free.
    Cpus(usize),
    /// So many whole cores are.
    WholeCores(usize),
    /// So many threads that share cores are, at best.
    Siblings(usize),
}

/// Picks `count` CPUs and `spare` more.
pub(super) fn pick(
    cores: &[Core],
    count: usize,
    spare: usize,
    policy: ThreadPolicy,
) -> Result<Picked, Short> {
    let free: usize = cores.iter().map(|core| core.free.len()).sum();
    if policy == ThreadPolicy::Isolate {
        return alone(cores, count, spare);
    }
    if free < count + spare {
        return Err(Short::Cpus(free));
    }
    let pins = match (packed(cores, count), policy) {
        (Ok(pins), _) => pins,
        (Err(best), ThreadPolicy::Require) => return Err(Short::Siblings(best)),
        (Err(_), _) => along(cores).take(count).collect(),
    };
    let spare: Vec<u32> = along(cores)
        .filter(|cpu| !pins.contains(cpu))
        .take(spare)
        .collect();
    let reserved = pins.iter().chain(&spare).copied().collect();
    Ok(Picked {
        pins,
        spare,
        reserved,
    })
}

/// One thread of each core, its other threads nobody's.
fn alone(cores: &[Core], count: usize, spare: usize) -> Result<Picked, Short> {
    let whole: Vec<&Core> = cores.iter().filter(|core| core.is_whole()).collect();
    if whole.len() < count + spare {
        return Err(Short::WholeCores(whole.len()));
    }
    let taken = &whole[..count + spare];
    let mut first = taken.iter().filter_map(|core| core.free.first().copied());
    Ok(Picked {
        pins: first.by_ref().take(count).collect(),
        spare: first.collect(),
        reserved: taken
            .iter()
            .flat_map(|core| &core.threads)
            .copied()
            .collect(),
    })
}

/// As many threads of each core as possible, at least two, the same number of each; else how many can be had so at best.
fn packed(cores: &[Core], count: usize) -> Result<Vec<u32>, usize> {
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
            // Cores that are broken already first.
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
fn along(cores: &[Core]) -> impl Iterator<Item = u32> {
    cores.iter().flat_map(|core| &core.free).copied()
}
