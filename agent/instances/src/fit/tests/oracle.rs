//! An exhaustive second implementation of the fit: it tries every order of host cells and every set of CPUs. Both
//! implementations must agree on what fits.

use proptest::prelude::*;

use super::*;

/// A guest with small cells: for each, its pinned and shared virtual CPUs and its memory.
#[derive(Debug, Clone)]
struct Guest {
    cells: Vec<(usize, usize, u64)>,
    threads: ThreadPolicy,
    isolates: bool,
    pages: &'static str,
}

impl Guest {
    fn flavor(&self) -> FlavorPlacement {
        let (mut next, mut pinned, mut text) = (0, Vec::new(), String::new());
        for (number, (dedicated, shared, memory)) in self.cells.iter().enumerate() {
            let all: Vec<_> = (next..next + dedicated + shared)
                .map(|n| n.to_string())
                .collect();
            pinned.extend_from_slice(&all[..*dedicated]);
            next += all.len();
            text += &format!(
                " hw:numa_cpus.{number}={} hw:numa_mem.{number}={memory}",
                all.join(",")
            );
        }
        let policy = match pinned.len() {
            0 => "shared".to_owned(),
            n if n == next => "dedicated".to_owned(),
            _ => format!("mixed hw:cpu_dedicated_mask={}", pinned.join(",")),
        };
        if !pinned.is_empty() {
            text += match self.threads {
                ThreadPolicy::Prefer => " hw:cpu_thread_policy=prefer",
                ThreadPolicy::Isolate => " hw:cpu_thread_policy=isolate",
                ThreadPolicy::Require => " hw:cpu_thread_policy=require",
            };
            if self.isolates {
                text += " hw:emulator_threads_policy=isolate";
            }
        }
        if !self.pages.is_empty() {
            text += &format!(" hw:mem_page_size={}", self.pages);
        }
        let memory = self.cells.iter().map(|cell| cell.2).sum();
        let text = format!(
            "hw:numa_nodes={} hw:cpu_policy={policy}{text}",
            self.cells.len()
        );
        flavor(u32::try_from(next).unwrap(), memory, &text)
    }

    fn is_pinned(&self) -> bool {
        self.cells.iter().any(|cell| cell.0 > 0)
    }
}

/// A host cell with cores. Each thread is shared (`s`), dedicated and free (`f`), or in use (`h`).
#[derive(Debug, Clone)]
struct Cell {
    cores: Vec<Vec<char>>,
    small: u64,
    small_used: u64,
    huge: u64,
    huge_used: u64,
}

fn view(cells: &[Cell]) -> (NodeView, HostUsage) {
    let (mut next, mut shared, mut dedicated) = (0, Vec::new(), Vec::new());
    let (mut seen, mut held) = (Vec::new(), HostUsage::default());
    for (id, cell) in (0..).zip(cells) {
        let mut siblings = Vec::new();
        let first = next;
        for core in &cell.cores {
            let threads: Vec<u32> = (next..).take(core.len()).collect();
            for (cpu, kind) in threads.iter().zip(core) {
                match kind {
                    's' => shared.push(*cpu),
                    _ => dedicated.push(*cpu),
                }
                if *kind == 'h' {
                    let one = GuestTopology::plain(1, 1).unwrap();
                    held.add(&one, &CpuSet::from_iter([*cpu]));
                }
            }
            next += u32::try_from(core.len()).unwrap();
            siblings.push(CpuSet::from_iter(threads));
        }
        seen.push(HostNumaCell {
            siblings,
            huge_pages: if cell.huge > 0 {
                [(2048, cell.huge)].into()
            } else {
                BTreeMap::new()
            },
            ..HostNumaCell::new(id, (first..next).collect(), cell.small + 2 * cell.huge)
        });
        for (memory, pages) in [
            (cell.small_used, MemoryPages::Small),
            (2 * cell.huge_used, MemoryPages::Huge { size_kib: 2048 }),
        ] {
            if memory > 0 {
                let of_cell = GuestNumaCell {
                    vcpus: CpuSet::first(1),
                    memory_mib: memory,
                    host_cell: id,
                };
                let other = GuestTopology::plain(1, memory).unwrap();
                let other = other
                    .on_cells(vec![of_cell])
                    .unwrap()
                    .with_pages(pages)
                    .unwrap();
                held.add(&other, &CpuSet::default());
            }
        }
    }
    let mut node = host(seen, "", "");
    node.cpus.shared = Some(shared.into_iter().collect());
    node.cpus.dedicated = Some(dedicated.into_iter().collect());
    (node, held)
}

/// Whether any set of free CPUs fits.
fn cpus_serve(cell: &Cell, count: usize, spare: usize, threads: ThreadPolicy) -> bool {
    let free: Vec<(usize, usize)> = cell
        .cores
        .iter()
        .enumerate()
        .flat_map(|(core, threads)| (0..threads.len()).map(move |thread| (core, thread)))
        .filter(|(core, thread)| cell.cores[*core][*thread] == 'f')
        .collect();
    let of_core = |mask: u32, core: usize| {
        let bits = free
            .iter()
            .enumerate()
            .filter(|(bit, _)| mask & (1 << bit) != 0);
        bits.filter(|(_, cpu)| cpu.0 == core).count()
    };
    let free_of = |core: usize| free.iter().filter(|cpu| cpu.0 == core).count();
    let ones = |mask: u32| mask.count_ones() as usize;
    let all = 0..1_u32 << free.len();
    all.clone().filter(|mask| ones(*mask) == count).any(|pins| {
        let cores = || (0..cell.cores.len()).map(|core| (core, of_core(pins, core)));
        let rest_serves = all.clone().any(|extra| {
            extra & pins == 0
                && ones(extra) == spare
                && (threads != ThreadPolicy::Isolate
                    || (0..cell.cores.len()).all(|core| match of_core(pins | extra, core) {
                        0 => true,
                        1 => free_of(core) == cell.cores[core].len(),
                        _ => false,
                    }))
        });
        let is_packed = (2..=4).any(|of_each| {
            let used = cores().filter(|(_, used)| *used > 0);
            let mut broken = 0;
            let fits = used.clone().all(|(core, used)| {
                broken += usize::from(used < of_each);
                used <= of_each && free_of(core) >= of_each
            });
            fits && broken <= 1
        });
        rest_serves && (threads != ThreadPolicy::Require || count == 0 || is_packed)
    })
}

fn cell_serves(guest: &Guest, number: usize, cell: &Cell, huge: bool) -> bool {
    let (dedicated, shared, memory) = guest.cells[number];
    let memory_serves = match huge {
        true => memory % 2 == 0 && memory / 2 + cell.huge_used <= cell.huge,
        false if guest.is_pinned() || !guest.pages.is_empty() => {
            memory + cell.small_used <= cell.small
        }
        false => memory <= cell.small,
    };
    let spare = usize::from(guest.isolates && number == 0 && guest.is_pinned());
    let all = cell.cores.iter().flatten();
    memory_serves
        && all.filter(|kind| **kind == 's').count() >= shared
        && cpus_serve(cell, dedicated, spare, guest.threads)
}

/// Whether any assignment of guest cells to host cells fits.
fn serves(guest: &Guest, cells: &[Cell], required: &[usize], huge: bool) -> bool {
    fn go(
        guest: &Guest,
        cells: &[Cell],
        required: &[usize],
        huge: bool,
        taken: &mut Vec<usize>,
    ) -> bool {
        if taken.len() == guest.cells.len() {
            return required.iter().all(|cell| taken.contains(cell));
        }
        (0..cells.len()).any(|place| {
            if taken.contains(&place) || !cell_serves(guest, taken.len(), &cells[place], huge) {
                return false;
            }
            taken.push(place);
            let done = go(guest, cells, required, huge, taken);
            taken.pop();
            done
        })
    }
    go(guest, cells, required, huge, &mut Vec::new())
}

fn cells_of_a_host() -> impl Strategy<Value = Vec<Cell>> {
    let thread = prop_oneof![1 => Just('s'), 4 => Just('f'), 1 => Just('h')];
    let core = proptest::collection::vec(thread, 1..=2);
    let cell = (
        proptest::collection::vec(core, 0..=3),
        0..8_u64,
        0..4_u64,
        0..4_u64,
        0..3_u64,
    );
    let cell = cell.prop_map(|(cores, small, small_used, huge, huge_used)| Cell {
        cores,
        small,
        small_used,
        huge,
        huge_used: huge_used.min(huge),
    });
    proptest::collection::vec(cell, 1..=3)
}

fn guest() -> impl Strategy<Value = Guest> {
    let cell = (0..=3_usize, 0..=1_usize, 1..6_u64);
    let cell = cell.prop_filter("a cell has a virtual CPU", |cell| cell.0 + cell.1 > 0);
    let threads = prop_oneof![
        Just(ThreadPolicy::Prefer),
        Just(ThreadPolicy::Isolate),
        Just(ThreadPolicy::Require)
    ];
    let pages = prop_oneof![
        Just(""),
        Just("small"),
        Just("large"),
        Just("any"),
        Just("2048")
    ];
    (
        proptest::collection::vec(cell, 1..=3),
        threads,
        any::<bool>(),
        pages,
    )
        .prop_map(|(cells, threads, isolates, pages)| Guest {
            cells,
            threads,
            isolates,
            pages,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn what_fits_is_what_fits_by_trying_everything(
        cells in cells_of_a_host(),
        guest in guest(),
        near in proptest::collection::btree_set(0..3_usize, 0..=2),
    ) {
        let required: Vec<usize> = near.into_iter().filter(|cell| *cell < cells.len()).collect();
        let (node, held) = view(&cells);
        let devices: Vec<NearDevice> = required
            .iter()
            .map(|cell| NearDevice {
                what: "a device".to_owned(),
                cell: Some(u32::try_from(*cell).unwrap()),
                affinity: Affinity::Required,
            })
            .collect();
        let wanted = guest.flavor();
        let found = fit(&wanted, &node, &held, &devices, &Limits::default());
        let sizes: &[bool] = match guest.pages {
            "" | "small" => &[false],
            "any" => &[true, false],
            _ => &[true],
        };
        let expected = sizes.iter().any(|huge| serves(&guest, &cells, &required, *huge));
        prop_assert_eq!(found.is_ok(), expected, "{:?}", found);
        if let Ok(placed) = found {
            prop_assert!(placed.reserved.intersection(&held.reserved()).is_empty());
            let pinned = placed.topology.pinning().unwrap().dedicated();
            prop_assert!(pinned.difference(&node.cpus.dedicated_online()).is_empty());
            prop_assert!(pinned.difference(&placed.reserved).is_empty());
            for cell in placed.topology.cells() {
                let of_host = &node.cells[usize::try_from(cell.host_cell).unwrap()].cpus;
                for vcpu in cell.vcpus.iter() {
                    let pin = &placed.topology.pinning().unwrap().pins()[usize::try_from(vcpu).unwrap()];
                    let on_cell = match pin {
                        VcpuPin::Dedicated(cpu) => of_host.contains(*cpu),
                        VcpuPin::Shared(cpus) => cpus.difference(of_host).is_empty(),
                    };
                    prop_assert!(on_cell);
                }
            }
        }
    }

    #[test]
    fn no_extra_spec_makes_the_reader_panic(
        key in "hw:(cpu_policy|cpu_dedicated_mask|numa_nodes|numa_cpus\\.[0-9]{1,3}|numa_mem\\.[0-3]|mem_page_size)",
        value in "[0-9^,A-Za-z -]{0,12}|\\PC{0,6}",
        vcpus in 1..9_u32,
    ) {
        let mut specs: BTreeMap<String, String> = [(key, value)].into();
        let _ = FlavorPlacement::of(vcpus, 64, &specs);
        specs.insert("hw:cpu_policy".to_owned(), "mixed".to_owned());
        specs.insert("hw:numa_nodes".to_owned(), "1".to_owned());
        let _ = FlavorPlacement::of(vcpus, 64, &specs);
    }
}
