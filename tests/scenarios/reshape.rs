//! The four reshapes and their reversal: every unit is on the right provider, one by one.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{PciAddress, ProviderUuid, ResourceClass};
use berth_tests::claims::{Claim, claim};
use berth_tests::cloud::Cloud;
use berth_tests::host::{Host, consumer, on_cell};
use berth_tests::node::Node;
use berth_virt::{GuestCpuPolicy, NumaModel, PcpuModel, VirtualFunctions};

use crate::scenarios::upgrading::{flat, places};

/// What a consumer holds, by `PROVIDER CLASS`: before and after.
type Units<'a> = (u32, &'a [(&'a str, u64)], &'a [(&'a str, u64)]);

/// A machine modelled one way and another, and what its consumers hold in each.
struct Upgrade<'a> {
    old: Host,
    new: Host,
    units: &'a [Units<'a>],
    /// The consumers that are migrations.
    migrations: &'a [u32],
}

impl Upgrade<'_> {
    fn held(&self, side: impl Fn(&Units<'_>) -> BTreeMap<String, u64>) -> HeldAllocations {
        let units = self.units.iter();
        units.map(|units| (units.0, side(units))).collect()
    }

    fn claims(&self, root: ProviderUuid) -> Vec<Claim> {
        let claim = |(n, before, _): &Units<'_>| {
            let claim = Claim::of(consumer(*n));
            let claim = before.iter().fold(claim, |claim, (place, amount)| {
                let (provider, class) = place.rsplit_once(' ').unwrap();
                assert_eq!(provider, self.old.name().as_str());
                claim.and(root, &class.parse().unwrap(), *amount)
            });
            match self.migrations.contains(n) {
                true => claim.migrating(),
                false => claim,
            }
        };
        self.units.iter().map(claim).collect()
    }

    /// There by one reshape, and back by one; nothing is held, and the ticks after each are quiet.
    async fn there_and_back(&self) {
        let cloud = Cloud::in_process().await;
        let node = Node::new(&self.old);
        node.start(&cloud).await.unwrap();
        claim(&cloud.placement(), self.claims(node.root().await)).await;
        let before = cloud.rows().await;
        let there = self.held(|units| places(units.2));
        let back = self.held(|units| places(units.1));
        assert_eq!(held(&before, self.units), back);
        for (host, expected) in [(&self.new, there), (&self.old, back)] {
            node.driver.show(host);
            let mut life = node.start(&cloud).await.unwrap();
            assert_eq!(life.started.reshapes.len(), 1);
            assert_eq!(life.started.held, []);
            assert_eq!(held(&cloud.rows().await, self.units), expected);
            let _ = cloud.take_requests();
            for _ in 0..2 {
                let ticked = life.tick(&node).await.unwrap();
                assert!(ticked.changed.is_empty(), "{}", ticked.changed);
            }
            assert_eq!(cloud.take_requests(), Vec::<String>::new());
        }
        let after = cloud.rows().await;
        assert_eq!(after.essence().difference(&before.essence()), "");
    }
}

type HeldAllocations = BTreeMap<u32, BTreeMap<String, u64>>;

fn held(rows: &berth_tests::worlds::PlacementRows, units: &[Units<'_>]) -> HeldAllocations {
    let of = |(n, ..): &Units<'_>| (*n, rows.held_by(consumer(*n)));
    units.iter().map(of).collect()
}

#[tokio::test]
async fn virtual_gpus_move_to_the_gpus_of_their_guests_and_back() {
    let migration = consumer(90);
    let new = Host::new("gpu-01")
        .gpu(4)
        .gpu(4)
        .gpu(4)
        .guest(0, &[0])
        .guest(1, &[1])
        // Two units of one guest on two GPUs, and on one.
        .guest(2, &[0, 2])
        .guest(3, &[1, 1])
        // Its resources are held by a migration that the hypervisor knows.
        .guest(4, &[2])
        .with(|node| {
            let guest = node.guests.get_mut(&consumer(4)).unwrap();
            guest.also.insert(migration);
        });
    let [first, second, third] =
        ["40", "41", "42"].map(|bus| format!("gpu-01_pci_0000_{bus}_00_0 VGPU"));
    let upgrade = Upgrade {
        old: flat(&new),
        new,
        units: &[
            (
                0,
                &[("gpu-01 VGPU", 1), ("gpu-01 VCPU", 1)],
                &[(&first, 1), ("gpu-01 VCPU", 1)],
            ),
            (1, &[("gpu-01 VGPU", 1)], &[(&second, 1)]),
            (2, &[("gpu-01 VGPU", 2)], &[(&first, 1), (&third, 1)]),
            (3, &[("gpu-01 VGPU", 2)], &[(&second, 2)]),
            (90, &[("gpu-01 VGPU", 1)], &[(&third, 1)]),
            // Nothing of it moves.
            (5, &[("gpu-01 VCPU", 4)], &[("gpu-01 VCPU", 4)]),
        ],
        migrations: &[90],
    };
    upgrade.there_and_back().await;
}

/// Two cards, one on each cell, with two functions each.
fn card(cell: u32) -> VirtualFunctions {
    let function = |n: u8| -> PciAddress { format!("0000:a{cell}:00.{n}").parse().unwrap() };
    VirtualFunctions {
        physical: function(0),
        addresses: BTreeSet::from([function(1), function(2)]),
        numa_node: Some(cell),
        class: "SRIOV_NET_VF".parse().unwrap(),
    }
}

#[tokio::test]
async fn cpus_memory_and_functions_go_to_the_guests_cells_and_back() {
    let function = card(1).addresses.first().copied().unwrap();
    let new = Host::new("numa-01")
        .cells(2)
        .with(|node| node.functions = vec![card(0), card(1)])
        .modelled(|model| model.numa = NumaModel::Cells)
        .guest_as(0, |guest| {
            (guest.vcpus, guest.memory_mib) = (4, 1024);
            guest.cells = vec![on_cell(1, 4, 1024)];
            guest.functions.insert(function);
        })
        // On both cells, the second first.
        .guest_as(1, |guest| {
            (guest.vcpus, guest.memory_mib) = (6, 1536);
            guest.cells = vec![on_cell(1, 2, 512), on_cell(0, 4, 1024)];
        })
        // On none: it goes whole to the first cell with room.
        .guest_as(2, |guest| (guest.vcpus, guest.memory_mib) = (8, 2048))
        // More than the first cell has left next to the others.
        .guest_as(3, |guest| (guest.vcpus, guest.memory_mib) = (1, 129_000));
    let old = new.clone().modelled(|model| model.numa = NumaModel::Flat);
    let upgrade = Upgrade {
        old,
        new,
        units: &[
            (
                0,
                &[
                    ("numa-01 VCPU", 4),
                    ("numa-01 MEMORY_MB", 1024),
                    ("numa-01 SRIOV_NET_VF", 1),
                ],
                &[
                    ("numa-01_numa1 VCPU", 4),
                    ("numa-01_numa1 MEMORY_MB", 1024),
                    ("numa-01_numa1 SRIOV_NET_VF", 1),
                ],
            ),
            (
                1,
                &[("numa-01 VCPU", 6), ("numa-01 MEMORY_MB", 1536)],
                &[
                    ("numa-01_numa1 VCPU", 2),
                    ("numa-01_numa1 MEMORY_MB", 512),
                    ("numa-01_numa0 VCPU", 4),
                    ("numa-01_numa0 MEMORY_MB", 1024),
                ],
            ),
            (
                2,
                &[
                    ("numa-01 VCPU", 8),
                    ("numa-01 MEMORY_MB", 2048),
                    ("numa-01 DISK_GB", 10),
                ],
                &[
                    ("numa-01_numa0 VCPU", 8),
                    ("numa-01_numa0 MEMORY_MB", 2048),
                    ("numa-01 DISK_GB", 10),
                ],
            ),
            (
                3,
                &[("numa-01 VCPU", 1), ("numa-01 MEMORY_MB", 129_000)],
                &[
                    ("numa-01_numa1 VCPU", 1),
                    ("numa-01_numa1 MEMORY_MB", 129_000),
                ],
            ),
        ],
        migrations: &[],
    };
    upgrade.there_and_back().await;
}

#[tokio::test]
async fn a_class_s_units_take_its_new_name_and_the_old_one_back() {
    let host = |class, formerly: &str| {
        Host::new("fpga-01")
            .custom(class, &[formerly], 8)
            .guest(0, &[])
    };
    let upgrade = Upgrade {
        old: host("CUSTOM_FPGA_CARD", "FPGA"),
        new: host("FPGA", "CUSTOM_FPGA_CARD"),
        units: &[
            (
                0,
                &[("fpga-01 CUSTOM_FPGA_CARD", 3), ("fpga-01 VCPU", 1)],
                &[("fpga-01 FPGA", 3), ("fpga-01 VCPU", 1)],
            ),
            // The owner does not matter.
            (
                1,
                &[("fpga-01 CUSTOM_FPGA_CARD", 5)],
                &[("fpga-01 FPGA", 5)],
            ),
        ],
        migrations: &[1],
    };
    upgrade.there_and_back().await;
}

#[tokio::test]
async fn pinned_cpus_become_pcpu_and_vcpu_again() {
    let guest = |policy, vcpus| {
        move |guest: &mut berth_virt::GuestView| {
            (guest.cpu_policy, guest.vcpus) = (policy, vcpus);
        }
    };
    let new = Host::new("cpu-01")
        .cpus("0-31", "32-63")
        .guest_as(0, guest(GuestCpuPolicy::Dedicated, 4))
        .guest_as(1, guest(GuestCpuPolicy::Shared, 2))
        .guest_as(2, guest(GuestCpuPolicy::Mixed { dedicated: 2 }, 6));
    let old = new.clone().modelled(|model| model.pcpu = PcpuModel::Vcpu);
    let memory = ("cpu-01 MEMORY_MB", 256);
    let upgrade = Upgrade {
        old,
        new,
        units: &[
            (
                0,
                &[("cpu-01 VCPU", 4), memory],
                &[("cpu-01 PCPU", 4), memory],
            ),
            (
                1,
                &[("cpu-01 VCPU", 2), memory],
                &[("cpu-01 VCPU", 2), memory],
            ),
            (
                2,
                &[("cpu-01 VCPU", 6), memory],
                &[("cpu-01 PCPU", 2), ("cpu-01 VCPU", 4), memory],
            ),
        ],
        migrations: &[],
    };
    upgrade.there_and_back().await;
}

#[tokio::test]
async fn the_driver_s_own_account_of_a_guest_is_where_its_units_go() {
    let cloud = Cloud::in_process().await;
    let mut host = (0..8).fold(Host::new("gpu-01"), |host, _| host.gpu(4));
    host = (0..20).fold(host, |host, n| host.guest(n, &[(n % 8) as u8]));
    let node = Node::new(&flat(&host));
    node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let claims = (0..20).map(|n| {
        let claim = Claim::of(consumer(n)).and_a_guest(root);
        claim.and(root, &ResourceClass::VGPU, 1)
    });
    claim(&cloud.placement(), claims.collect()).await;
    node.driver.show(&host);
    let life = node.start(&cloud).await.unwrap();

    let tree = life.tracker.report().known_tree().unwrap();
    let seen = &node.driver.view().nodes[&node.name];
    let account = berth_virt::guest_allocations(seen, &node.name, tree);
    let rows = cloud.rows().await;
    for (uuid, claimed) in account {
        let place = |((provider, class), amount): ((ProviderUuid, ResourceClass), u64)| {
            (
                format!("{} {class}", tree.get(provider).unwrap().name),
                amount,
            )
        };
        let mut claimed: BTreeMap<String, u64> = claimed.into_iter().map(place).collect();
        claimed.retain(|_, amount| *amount > 0);
        assert_eq!(rows.held_by(uuid), claimed);
    }
}

#[tokio::test]
async fn the_executed_plan_equals_the_shown_one() {
    let cloud = Cloud::in_process().await;
    let host = Host::new("gpu-01").gpu(4).guest(0, &[0]);
    let node = Node::new(&flat(&host));
    node.start(&cloud).await.unwrap();
    let vgpu = Claim::of(consumer(0)).and(node.root().await, &ResourceClass::VGPU, 1);
    claim(&cloud.placement(), vec![vgpu]).await;
    node.driver.show(&host);
    let before = cloud.rows().await;
    let _ = cloud.take_requests();
    let (preview, reviewed) = node.preview(&cloud).await.unwrap();
    let requests = cloud.take_requests();
    assert!(
        requests.iter().all(|request| request.starts_with("GET ")),
        "{requests:?}"
    );
    assert_eq!(cloud.rows().await.difference(&before), "");
    let life = node.start(&cloud).await.unwrap();
    assert_eq!(life.started.reshapes.len(), 1);
    assert_eq!(life.started.reshapes[0].to_string(), reviewed.text);
    let berth_agent_tracker::startup::Preview::Reshape(shown) = preview else {
        panic!("{preview:?}");
    };
    assert_eq!(shown.moved(), life.started.reshapes[0].moved());
}

#[tokio::test]
async fn all_models_may_change_at_one_start() {
    let new = Host::new("all-01")
        .cells(2)
        .cpus("0-15,32-47", "16-31,48-63")
        .gpu(4)
        .gpu(4)
        .custom("FPGA", &["CUSTOM_FPGA_CARD"], 8)
        .modelled(|model| model.numa = NumaModel::Cells)
        .guest_as(0, |guest| {
            (guest.vcpus, guest.memory_mib) = (4, 1024);
            guest.cpu_policy = GuestCpuPolicy::Dedicated;
            guest.cells = vec![on_cell(0, 2, 512), on_cell(1, 2, 512)];
            guest.mdevs = berth_tests::host::guest(0, &[0, 1]).mdevs;
        })
        .guest_as(1, |guest| guest.cells = vec![on_cell(1, 1, 256)]);
    let old = flat(&new)
        .with(|node| node.customs.clear())
        .custom("CUSTOM_FPGA_CARD", &["FPGA"], 8)
        .modelled(|model| {
            model.numa = NumaModel::Flat;
            model.pcpu = PcpuModel::Vcpu;
        });
    let units: &[Units<'_>] = &[
        (
            0,
            &[
                ("all-01 CUSTOM_FPGA_CARD", 2),
                ("all-01 MEMORY_MB", 1024),
                ("all-01 VCPU", 4),
                ("all-01 VGPU", 2),
            ],
            &[
                ("all-01 FPGA", 2),
                ("all-01_numa0 MEMORY_MB", 512),
                ("all-01_numa0 PCPU", 2),
                ("all-01_numa1 MEMORY_MB", 512),
                ("all-01_numa1 PCPU", 2),
                ("all-01_pci_0000_40_00_0 VGPU", 1),
                ("all-01_pci_0000_41_00_0 VGPU", 1),
            ],
        ),
        (
            1,
            &[("all-01 MEMORY_MB", 256), ("all-01 VCPU", 1)],
            &[("all-01_numa1 MEMORY_MB", 256), ("all-01_numa1 VCPU", 1)],
        ),
    ];
    let migrations = &[];
    Upgrade {
        old,
        new,
        units,
        migrations,
    }
    .there_and_back()
    .await;
}
