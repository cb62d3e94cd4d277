//! Why an instance's NUMA topology cannot be derived.

/// What is wrong with the flavor, or between the flavor and the image: nothing a host could be right for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NumaRequestError {
    #[error("{name}: should be {}, and is {value:?}", words.join(" or "))]
    Unknown {
        /// The extra spec or the image property.
        name: String,
        value: String,
        /// What would be right.
        words: Vec<&'static str>,
    },
    /// No number, no list of CPUs, no size.
    #[error("{name}: should be {wanted}, and is {value:?}")]
    Malformed {
        /// The extra spec or the image property.
        name: String,
        value: String,
        /// What would be right.
        wanted: &'static str,
    },
    /// The image sets what only the flavor may set, or contradicts the flavor.
    #[error(
        "{property}: the image says {image:?}, and may not where the flavor's {spec} is {}",
        value_text(flavor)
    )]
    Conflict {
        spec: String,
        /// Its value; empty where the flavor has none.
        flavor: String,
        property: String,
        image: String,
    },
    /// CPUs and memory cannot be parted evenly.
    #[error(
        "hw:numa_nodes: {vcpus} CPUs and {memory_mb} MiB cannot be parted evenly into {nodes} cells; say hw:numa_cpus.N and \
         hw:numa_mem.N"
    )]
    Asymmetric {
        nodes: i64,
        vcpus: i64,
        memory_mb: i64,
    },
    /// `hw:numa_cpus.N` and `hw:numa_mem.N` are not set for each cell.
    #[error(
        "hw:numa_cpus.N and hw:numa_mem.N: should both be said for each of {nodes} cells, and are for {cpus} and {mem} of them"
    )]
    Incomplete {
        nodes: i64,
        /// Cells that have CPUs.
        cpus: usize,
        /// Cells that have memory.
        mem: usize,
    },
    /// A cell has a CPU that the flavor has not.
    #[error("{name}: has CPU {cpu}, and the flavor has {vcpus} CPUs, from 0 on")]
    CpuOutOfRange {
        /// The extra spec or the image property.
        name: String,
        cpu: u16,
        vcpus: u16,
    },
    /// Two cells have one CPU.
    #[error("{name}: has CPU {cpu}, which another cell has already")]
    CpuTwice {
        /// The extra spec or the image property.
        name: String,
        cpu: u16,
    },
    /// CPUs are in no cell.
    #[error("hw:numa_cpus.N: CPUs {cpus} are in no cell")]
    CpusUnassigned {
        /// The CPUs as a list, for example `2-3,5`.
        cpus: String,
    },
    /// The cells have not the flavor's memory.
    #[error("hw:numa_mem.N: are {sum} MiB together, and should be the flavor's {memory_mb} MiB")]
    MemorySum { sum: i64, memory_mb: i64 },
    /// Said without dedicated CPUs.
    #[error("{name}: needs hw:cpu_policy to be dedicated or mixed")]
    NeedsDedicatedCpus {
        /// The extra spec or the image property.
        name: &'static str,
    },
    #[error("hw:cpu_dedicated_mask: needs hw:cpu_policy to be mixed")]
    MaskNeedsMixed,
    /// `mixed` without a mask, or with two.
    #[error(
        "hw:cpu_policy: mixed needs either hw:cpu_dedicated_mask or hw:cpu_realtime with hw:cpu_realtime_mask"
    )]
    MixedNeedsMask,
    /// A mask has CPUs that the flavor has not, or leaves none.
    #[error(
        "{name}: should leave some of the flavor's {vcpus} CPUs in and some out, and none beyond; it is {value:?}"
    )]
    Mask {
        /// The extra spec or the image property.
        name: &'static str,
        value: String,
        vcpus: u16,
    },
    /// `resources:VCPU` or `resources:PCPU` together with a CPU policy.
    #[error("hw:cpu_policy: cannot be said together with resources:VCPU or resources:PCPU")]
    PolicyAndResources,
    /// Both kinds of CPUs by resource class.
    #[error("resources:VCPU: cannot be said together with resources:PCPU")]
    VcpuAndPcpu,
    /// `resources:PCPU` are not as many as the flavor's CPUs.
    #[error(
        "resources:PCPU: should be {wanted} (the flavor's CPUs, and one more for isolated emulator threads), and is {pcpus}"
    )]
    PcpuCount {
        /// What would be right.
        wanted: i64,
        /// The requested number of dedicated CPUs.
        pcpus: i64,
    },
    /// A trait and a policy for the same.
    #[error("trait:HW_CPU_HYPERTHREADING: cannot be said together with hw:cpu_thread_policy")]
    TraitAndThreadPolicy,
    #[error("hw:locked_memory: needs hw:mem_page_size")]
    LockedMemoryNeedsPageSize,
    /// The number of CPUs is out of range.
    #[error(
        "vcpus: should be from 1 to {} where NUMA cells are asked for, and is {vcpus}",
        u16::MAX
    )]
    Vcpus { vcpus: i64 },
    #[error("memory_mb: should be from 1 on where NUMA cells are asked for, and is {memory_mb}")]
    Memory { memory_mb: i64 },
}

/// The flavor's value, which may be missing.
fn value_text(value: &str) -> String {
    match value.is_empty() {
        true => "not set".to_owned(),
        false => format!("{value:?}"),
    }
}
