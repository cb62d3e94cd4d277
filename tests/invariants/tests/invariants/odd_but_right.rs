//! Snapshots that look wrong at first sight but are valid.

use std::collections::BTreeSet;

use berth_invariants::*;
use berth_model::{ProviderUuid, ResourceClass, Trait};

use super::healthy::*;

fn is_right(change: impl FnOnce(&mut SystemSnapshot)) {
    let mut snapshot = snapshot();
    change(&mut snapshot);
    let shown: Vec<_> = audit_at_rest(&snapshot)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(shown.is_empty(), "{shown:#?}");
}

#[test]
fn usage_over_capacity_that_has_not_grown_is_no_violation() {
    is_right(|snapshot| {
        for world in [
            Some(&mut snapshot.placement),
            snapshot.histories.began.as_mut(),
        ] {
            let row = world
                .unwrap()
                .consumers
                .get_mut(&foreign_consumer())
                .unwrap();
            row.allocated
                .insert((other_host(), ResourceClass::VCPU), 40);
        }
    });
}

#[test]
fn a_write_whose_answer_was_lost_may_have_happened_or_not() {
    let lost = |fact| PlacementWrite {
        answer: Answer::Unknown,
        ..request(vec![fact], &[])
    };
    let disk =
        |total| Fact::Inventories(shared(), inventories([(ResourceClass::DISK_GB, of(total))]));
    is_right(|snapshot| snapshot.histories.requests.push(lost(disk(200))));
    is_right(|snapshot| {
        snapshot.histories.requests.push(lost(disk(200)));
        let row = snapshot.placement.providers.get_mut(&shared()).unwrap();
        row.inventories = inventories([(ResourceClass::DISK_GB, of(200))]);
    });
}

#[test]
fn a_later_acknowledged_write_replaces_an_earlier_one() {
    is_right(|snapshot| {
        for total in [200, 100] {
            let all = inventories([(ResourceClass::DISK_GB, of(total))]);
            let request = request(vec![Fact::Inventories(shared(), all)], &[]);
            snapshot.histories.requests.push(request);
        }
    });
}

#[test]
fn objects_of_a_removed_provider_are_removed_with_it() {
    is_right(|snapshot| {
        let all = inventories([(ResourceClass::DISK_GB, of(300))]);
        snapshot
            .histories
            .requests
            .push(request(vec![Fact::Inventories(uuid(0x44), all)], &[]));
        snapshot
            .histories
            .requests
            .push(request(vec![Fact::NoProvider(uuid(0x44))], &[]));
    });
}

#[test]
fn a_recreated_provider_counts_its_generations_from_zero() {
    is_right(|snapshot| {
        let make = Fact::Provider {
            uuid: gpu(),
            name: "gpu-01_pci_0000_84_00_0".into(),
            parent: Some(root()),
        };
        let gone = PlacementWrite {
            facts: vec![Fact::NoProvider(gpu())],
            ..request(Vec::new(), &[])
        };
        let all = snapshot.placement.providers[&gpu()].inventories.clone();
        let report = request(vec![Fact::Inventories(gpu(), all)], &[(gpu(), 0)]);
        snapshot
            .histories
            .requests
            .extend([gone, request(vec![make], &[]), report]);
    });
}

#[test]
fn a_migration_that_stands_for_a_guest_is_no_orphan() {
    is_right(|snapshot| {
        snapshot.reported.held.clear();
        snapshot.guests.get_mut(&guest()).unwrap().migrations = BTreeSet::from([orphan()]);
    });
}

#[test]
fn an_orphan_may_be_reported_by_name() {
    is_right(|snapshot| {
        snapshot.reported = AgentReport {
            held: BTreeSet::new(),
            orphans: BTreeSet::from([orphan()]),
            ..AgentReport::default()
        };
    });
}

#[test]
fn a_child_of_cyborgs_is_not_left_over() {
    is_right(|snapshot| {
        let mut row = provider("gpu-01_fpga", Some(root()), root(), 0, inventories([]));
        row.traits.insert(Trait::OWNER_CYBORG);
        for world in [
            Some(&mut snapshot.placement),
            snapshot.histories.began.as_mut(),
        ] {
            world.unwrap().providers.insert(uuid(0x33), row.clone());
        }
    });
}

#[test]
fn our_child_stays_while_it_holds_units_or_has_a_foreign_child() {
    let old: ProviderUuid = root().child(&name("gpu-01_old"));
    let set = |snapshot: &mut SystemSnapshot, parent: Option<ProviderUuid>| {
        let held = match parent {
            None => inventories([(ResourceClass::VGPU, holding(1))]),
            Some(_) => inventories([]),
        };
        for world in [
            Some(&mut snapshot.placement),
            snapshot.histories.began.as_mut(),
        ] {
            let world = world.unwrap();
            let row = provider("gpu-01_old", Some(root()), root(), 3, held.clone());
            world.providers.insert(old, row);
            match parent {
                None => {
                    let row = world.consumers.get_mut(&guest()).unwrap();
                    row.allocated.insert((old, ResourceClass::VGPU), 1);
                }
                Some(parent) => {
                    let foreign = provider("foreign", Some(parent), root(), 0, inventories([]));
                    world.providers.insert(uuid(0x34), foreign);
                }
            }
        }
    };
    is_right(|snapshot| set(snapshot, Some(old)));
    is_right(|snapshot| {
        set(snapshot, None);
        let allocated = snapshot.placement.consumers[&guest()].allocated.clone();
        let claim = request(vec![Fact::Allocations(guest(), allocated)], &[]);
        snapshot.histories.requests.push(claim);
        snapshot.reported.held.insert((old, ResourceClass::VGPU));
    });
}

#[test]
fn renamed_classes_and_parts_count_as_one() {
    is_right(|snapshot| {
        let reshape = &mut snapshot.histories.reshapes[0];
        for world in [&mut reshape.before, &mut reshape.after] {
            let row = world.consumers.get_mut(&guest()).unwrap();
            row.allocated.remove(&(root(), ResourceClass::VCPU));
        }
        let held = |class, amount| ((root(), class), amount);
        let before = reshape.before.consumers.get_mut(&guest()).unwrap();
        before.allocated.extend([held(ResourceClass::VCPU, 4)]);
        let after = reshape.after.consumers.get_mut(&guest()).unwrap();
        after
            .allocated
            .extend([held(ResourceClass::VCPU, 1), held(ResourceClass::PCPU, 3)]);
        reshape.one_class = vec![BTreeSet::from([ResourceClass::VCPU, ResourceClass::PCPU])];
    });
}

#[test]
fn one_probe_for_each_held_provider_is_quiet() {
    is_right(|snapshot| {
        snapshot.reported.held.insert((gpu(), ResourceClass::VGPU));
        let probe = step(71, StepKind::Read, "GET /resource_providers/{uuid}/usages");
        snapshot.quiet_ticks.as_mut().unwrap()[0].push(probe);
    });
}

#[test]
fn a_request_outside_the_minute_is_not_counted() {
    is_right(|snapshot| {
        let spread = (0..12).map(|n| step(100 + n * 12, StepKind::Read, "GET /x"));
        snapshot.trace.extend(spread);
    });
}

#[test]
fn guests_of_a_group_may_be_on_one_node_where_any_number_may() {
    is_right(|snapshot| {
        another_guest_joins(snapshot);
        snapshot.groups.get_mut("apart").unwrap().most_on_a_node = None;
    });
}

#[test]
fn a_refused_guest_is_no_member_of_the_requested_group() {
    is_right(|snapshot| {
        let group = snapshot.groups.get_mut("apart").unwrap();
        group.requested.insert(orphan());
    });
}
