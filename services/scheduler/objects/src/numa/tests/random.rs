//! Random small hosts and instances, each determined by its number.

use std::collections::{BTreeMap, BTreeSet};

use crate::host_state::{
    CpuBitSet, NumaCell, NumaLimits, NumaPages, NumaTopology, PciPool, PciPools,
};
use crate::numa::CellStrategy;
use crate::pci::Mappings;
use crate::request::{
    CpuAllocationPolicy, CpuThreadPolicy, EmulatorThreadsPolicy, InstanceNumaCell,
    InstanceNumaTopology, NetworkMetadata, NumaAffinityPolicy, PageSize, PciRequest,
    PciRequestOrigin, RequestSpec,
};

/// A random number generator (SplitMix64) with a fixed seed.
pub(super) struct TestRng(u64);

impl TestRng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random number below `end`.
    fn below(&mut self, end: u16) -> u16 {
        u16::try_from(self.next() % u64::from(end)).expect("it is below")
    }

    /// True in one of this many cases.
    fn once_in(&mut self, cases: u16) -> bool {
        self.below(cases) == 0
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        let end = u16::try_from(all.len()).expect("few");
        all[usize::from(self.below(end))].clone()
    }
}

pub(super) struct Case {
    pub(super) numa: NumaTopology,
    pub(super) pci: Option<PciPools>,
    pub(super) request: RequestSpec,
    pub(super) mappings: Mappings,
    pub(super) limits: Option<NumaLimits>,
    pub(super) packing: CellStrategy,
}

pub(super) fn case(number: u64) -> Case {
    let rng = &mut TestRng::new(number);
    let host_cells = rng.one_of(&[1, 2, 2, 3, 4, 4, 5]);
    let shape = shape(rng);
    let cells = (0..host_cells).map(|id| cell(rng, id, &shape)).collect();
    let topology = instance(rng, host_cells);
    let ratio = |rng: &mut TestRng| rng.one_of(&[0.5, 1.0, 1.5, 4.0, 16.0]);
    Case {
        numa: NumaTopology { cells },
        pci: (!rng.once_in(8)).then(|| pools(rng, host_cells)),
        request: RequestSpec {
            numa_topology: Some(topology),
            pci_requests: pci_requests(rng),
            network_metadata: rng.once_in(2).then(|| networks(rng)),
            ..RequestSpec::default()
        },
        mappings: match rng.below(2) {
            0 => Mappings::new(),
            _ => mappings(rng),
        },
        limits: (!rng.once_in(6)).then(|| NumaLimits {
            cpu_allocation_ratio: ratio(rng),
            ram_allocation_ratio: ratio(rng),
        }),
        packing: rng.one_of(&[
            CellStrategy::Spread,
            CellStrategy::Spread,
            CellStrategy::Pack,
        ]),
    }
}

/// The common properties of a host's cells.
struct Shape {
    cores: u16,
    threads: u16,
    are_sets_equal: bool,
    has_sockets: bool,
}

fn shape(rng: &mut TestRng) -> Shape {
    Shape {
        cores: 2 + rng.below(4),
        threads: rng.one_of(&[1, 2, 2, 4]),
        are_sets_equal: rng.once_in(2),
        has_sockets: !rng.once_in(6),
    }
}

fn cell(rng: &mut TestRng, id: u16, shape: &Shape) -> NumaCell {
    let Shape { cores, threads, .. } = *shape;
    let first = id * cores * threads;
    let all: CpuBitSet = (first..first + cores * threads).collect();
    let siblings = (0..cores).map(|core| {
        let of_core = (0..threads).map(|thread| first + core + thread * cores);
        of_core.collect()
    });
    let is_dedicated: Vec<bool> = all.iter().map(|_| rng.once_in(2)).collect();
    let part = |wanted: bool| -> CpuBitSet {
        let cpus = all.iter().zip(&is_dedicated);
        let cpus = cpus.filter(|(_, it)| shape.are_sets_equal || **it == wanted);
        cpus.map(|(cpu, _)| cpu).collect()
    };
    let (cpuset, pcpuset) = (part(false), part(true));
    let use_in = 2 + rng.below(10);
    let memory = 512 * (1 + i64::from(rng.below(8)));
    NumaCell {
        id: id.into(),
        pinned_cpus: pcpuset.iter().filter(|_| rng.once_in(use_in)).collect(),
        cpu_usage: rng.below(4).into(),
        cpuset,
        pcpuset,
        memory_usage: 256 * i64::from(rng.one_of(&[0, 0, 1, 2, 4])),
        mempages: pages(rng, memory),
        memory,
        siblings: siblings.collect(),
        socket: shape.has_sockets.then(|| rng.below(2).into()),
        physnets: ["net1", "net2"]
            .into_iter()
            .filter(|_| rng.once_in(3))
            .map(str::to_owned)
            .collect(),
        tunneled: rng.once_in(3),
    }
}

fn pages(rng: &mut TestRng, memory: i64) -> Vec<NumaPages> {
    let mut sizes = vec![4, 2048, 262_144, 1_048_576];
    if rng.once_in(3) {
        sizes.clear();
    }
    sizes.retain(|size| *size == 4 || rng.once_in(2));
    if rng.once_in(4) {
        sizes.reverse();
    }
    let pages = sizes.into_iter().map(|size_kb| {
        let total = memory * 1024 / size_kb;
        let eighth = |rng: &mut TestRng| total * i64::from(rng.one_of(&[0, 0, 1, 2, 6])) / 8;
        NumaPages {
            size_kb,
            total,
            used: eighth(rng),
            reserved: if rng.once_in(4) { eighth(rng) } else { 0 },
        }
    });
    pages.collect()
}

fn instance(rng: &mut TestRng, host_cells: u16) -> InstanceNumaTopology {
    let cells = 1 + rng.below(host_cells.min(4));
    let cells = if rng.once_in(20) { cells + 1 } else { cells };
    let cpu_policy = rng.one_of(&[
        None,
        Some(CpuAllocationPolicy::Shared),
        Some(CpuAllocationPolicy::Dedicated),
        Some(CpuAllocationPolicy::Dedicated),
        Some(CpuAllocationPolicy::Mixed),
    ]);
    let is_pinned = matches!(
        cpu_policy,
        Some(CpuAllocationPolicy::Dedicated | CpuAllocationPolicy::Mixed)
    );
    let thread_policies = [
        None,
        Some(CpuThreadPolicy::Prefer),
        Some(CpuThreadPolicy::Isolate),
        Some(CpuThreadPolicy::Require),
    ];
    let emulator_policies = [
        None,
        Some(EmulatorThreadsPolicy::Share),
        Some(EmulatorThreadsPolicy::Isolate),
    ];
    let are_alike = rng.once_in(2);
    let (mut next, mut last) = (0, None);
    let cells = (0..cells).map(|_| {
        let like = last.filter(|_| are_alike);
        let (cpus, memory) = like.unwrap_or_else(|| {
            let memory = 128 * i64::from(rng.one_of(&[1, 2, 2, 4, 8]));
            (1 + rng.below(4), memory)
        });
        last = Some((cpus, memory));
        let all: CpuBitSet = (next..next + cpus).collect();
        next += cpus;
        let pcpuset: CpuBitSet = match cpu_policy {
            Some(CpuAllocationPolicy::Dedicated) => all.clone(),
            Some(CpuAllocationPolicy::Mixed) => all.iter().filter(|_| rng.once_in(2)).collect(),
            _ => CpuBitSet::default(),
        };
        InstanceNumaCell {
            cpuset: all.without(&pcpuset),
            pcpuset,
            memory,
        }
    });
    InstanceNumaTopology {
        cells: cells.collect(),
        cpu_policy,
        cpu_thread_policy: rng.one_of(&thread_policies).filter(|_| is_pinned),
        emulator_threads_policy: rng.one_of(&emulator_policies).filter(|_| is_pinned),
        pagesize: rng.one_of(&[
            None,
            None,
            None,
            None,
            None,
            Some(PageSize::Small),
            Some(PageSize::Large),
            Some(PageSize::Any),
            Some(PageSize::Kib(4)),
            Some(PageSize::Kib(2048)),
            Some(PageSize::Kib(262_144)),
        ]),
    }
}

fn networks(rng: &mut TestRng) -> NetworkMetadata {
    let nets = ["net1", "net2", "net3"].into_iter();
    let physnets: BTreeSet<String> = nets.filter(|_| rng.once_in(2)).map(str::to_owned).collect();
    NetworkMetadata {
        physnets,
        tunneled: rng.once_in(3),
    }
}

fn pools(rng: &mut TestRng, host_cells: u16) -> PciPools {
    // Policies differ when all devices are at one cell that others are far from.
    let one = rng.once_in(2).then(|| rng.below(host_cells).into());
    let pools = (0..1 + rng.below(6)).map(|provider| {
        let mut tags = BTreeMap::new();
        let mut tag = |key: &str, value: &str| tags.insert(key.to_owned(), value.to_owned());
        let types = ["type-VF", "type-VF", "type-PCI", "type-PF", "vdpa"];
        tag("dev_type", rng.one_of(&types));
        if !rng.once_in(3) {
            let provider = if rng.once_in(10) { 0 } else { provider };
            tag("rp_uuid", &format!("p{provider}"));
        }
        if rng.once_in(6) {
            tag("remote_managed", "true");
        }
        if rng.once_in(2) {
            tag("live_migratable", rng.one_of(&["true", "false"]));
        }
        if rng.once_in(3) {
            tag("physical_network", rng.one_of(&["NET1", "net2"]));
        }
        PciPool {
            vendor_id: "8086".to_owned(),
            product_id: rng.one_of(&["1520", "1520", "1520", "1521"]).to_owned(),
            numa_node: one.or_else(|| (!rng.once_in(5)).then(|| rng.below(host_cells).into())),
            count: rng.below(6).into(),
            tags,
        }
    });
    PciPools::new(pools.collect())
}

fn pci_requests(rng: &mut TestRng) -> Vec<PciRequest> {
    let count = rng.one_of(&[0, 0, 1, 1, 2]);
    let requests = (0..count).map(|id| {
        let mut spec = BTreeMap::new();
        let mut set = |key: &str, value: &str| spec.insert(key.to_owned(), value.to_owned());
        set("vendor_id", "8086");
        for (key, values, cases) in [
            ("product_id", ["1520", "1520"], 2),
            ("dev_type", ["type-PF", "vdpa"], 8),
            ("remote_managed", ["true", "true"], 20),
            ("live_migratable", ["true", "true"], 12),
            ("physical_network", ["net1", "NET2"], 12),
        ] {
            if rng.once_in(cases) {
                set(key, rng.one_of(&values));
            }
        }
        let alias = PciRequestOrigin::Flavor("a".to_owned());
        PciRequest {
            count: 1 + i64::from(rng.below(3)),
            spec: vec![spec],
            request_id: Some(format!("r{id}")),
            origin: rng.one_of(&[alias, PciRequestOrigin::Port]),
            numa_policy: match rng.once_in(3) {
                true => NumaAffinityPolicy::Socket,
                false => rng.one_of(&NumaAffinityPolicy::ALL.map(|(_, policy)| policy)),
            },
        }
    });
    requests.collect()
}

/// Devices of the first request, and at times of the second.
fn mappings(rng: &mut TestRng) -> Mappings {
    let mut mappings = Mappings::from([(String::new(), vec!["host".to_owned()])]);
    for id in 0..1 + rng.below(2) {
        for device in 0..1 + rng.below(3) {
            let provider = format!("p{}", rng.below(5));
            mappings.insert(format!("r{id}-{device}"), vec![provider]);
        }
    }
    mappings
}
