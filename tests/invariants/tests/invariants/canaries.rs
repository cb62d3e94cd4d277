//! One or more planted bugs for each invariant. Each must be caught by its own invariant only.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_invariants::*;
use berth_model::{AggregateUuid, Generation, Provider, ProviderUuid, ResourceClass, Trait};

use super::healthy::*;

/// Plants a bug in a good run; the invariants that catch it.
fn caught(plant: impl FnOnce(&mut SystemSnapshot)) -> BTreeSet<InvariantId> {
    let mut snapshot = snapshot();
    plant(&mut snapshot);
    let at_rest = audit_at_rest(&snapshot);
    let always = audit(&snapshot);
    assert!(always.iter().all(|violation| at_rest.contains(violation)));
    for violation in &at_rest {
        let is_always = always.contains(violation);
        assert_eq!(is_always, !violation.invariant.is_at_rest(), "{violation}");
        assert!(
            violation
                .to_string()
                .starts_with(&violation.invariant.to_string())
        );
    }
    at_rest
        .into_iter()
        .map(|violation| violation.invariant)
        .collect()
}

type Plant = fn(&mut SystemSnapshot);

/// The planted bugs of one invariant. A new invariant does not compile without one.
fn canaries(invariant: InvariantId) -> Vec<Plant> {
    match invariant {
        InvariantId::S1 => vec![too_many_claims, usage_without_inventory],
        InvariantId::S2 => vec![
            |snapshot| reshaped(snapshot, lose_a_unit),
            |snapshot| reshaped(snapshot, double_a_unit),
            |snapshot| reshaped(snapshot, drop_the_shared_disk),
            |snapshot| reshaped(snapshot, change_another_host),
            |snapshot| reshaped(snapshot, change_the_project),
            |snapshot| reshaped(snapshot, lose_the_consumer),
        ],
        InvariantId::S3 => vec![
            two_guests_of_one_device,
            a_device_that_another_guest_opened,
            a_device_that_is_bound_twice,
        ],
        InvariantId::S4 => vec![fewer_devices_than_bound, another_device_than_bound],
        InvariantId::S5 => vec![no_reset_between_two, offered_before_its_reset],
        InvariantId::S8 => vec![
            lost_allocation,
            lost_inventory,
            lost_provider,
            lost_traits,
            lost_aggregates,
            removed_provider_that_came_back,
        ],
        InvariantId::S9 => vec![uncalled_provider, uncalled_inventory, uncalled_allocation],
        InvariantId::S10 => vec![two_winners, fallen_generation, fallen_row],
        InvariantId::S11 => vec![
            ring,
            wrong_root,
            doubled_name,
            half_made_child,
            refused_but_changed,
        ],
        InvariantId::S12 => vec![too_many_requests, no_pause, too_long_a_pause],
        InvariantId::S13 => vec![
            unknown_exit_code,
            a_bugs_exit_code,
            crash,
            panic_in_a_log,
            secret,
        ],
        InvariantId::S14 => vec![two_owners],
        InvariantId::S15 => vec![two_guests_that_are_to_be_apart_on_one_node],
        InvariantId::L1 => vec![open_task, no_reason, open_intent],
        InvariantId::L2 => vec![unreported_orphan, guest_without_allocation],
        InvariantId::L3 => vec![request_left_over, bound_for_an_unknown_guest],
        InvariantId::L4 => vec![left_unclean],
        InvariantId::L5 => vec![
            missing_trait,
            other_inventory,
            other_aggregate,
            left_over_child,
            hold_that_is_too_big,
            provider_not_there,
        ],
        InvariantId::L7 => vec![noisy_write, too_many_reads, too_few_ticks],
        InvariantId::L8 => vec![listed_and_missing, present_and_unlisted],
        InvariantId::L9 => vec![
            member_that_is_gone,
            guest_that_is_no_member,
            member_on_another_node_than_its_guest,
            member_on_another_node_than_its_units,
        ],
    }
}

/// Each canary of the invariant is caught by it and by no other.
fn has_teeth(invariant: InvariantId) {
    for (n, plant) in (1..).zip(canaries(invariant)) {
        let found = caught(plant);
        assert_eq!(
            found,
            BTreeSet::from([invariant]),
            "canary {n} of {invariant}"
        );
    }
}

macro_rules! canaries_are_caught {
    ($($test:ident: $invariant:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                has_teeth(InvariantId::$invariant);
            }
        )+

        /// The invariants that have a test above.
        const TESTED: &[InvariantId] = &[$(InvariantId::$invariant),+];
    };
}

canaries_are_caught! {
    claims_beyond_capacity_are_caught: S1,
    reshapes_that_lose_double_or_touch_others_are_caught: S2,
    devices_of_two_guests_are_caught: S3,
    guests_without_what_is_bound_for_them_are_caught: S4,
    devices_that_go_on_without_a_reset_are_caught: S5,
    acknowledged_writes_that_are_gone_are_caught: S8,
    rows_without_a_request_are_caught: S9,
    generations_that_fall_or_are_won_twice_are_caught: S10,
    invalid_trees_and_left_over_children_are_caught: S11,
    loops_without_bound_or_pause_are_caught: S12,
    panics_unknown_exits_and_secrets_are_caught: S13,
    two_agents_of_one_host_are_caught: S14,
    guests_together_that_are_to_be_apart_are_caught: S15,
    tasks_without_an_end_are_caught: L1,
    allocations_and_guests_without_each_other_are_caught: L2,
    requests_without_their_guest_are_caught: L3,
    unallocated_devices_without_a_reset_are_caught: L4,
    trees_that_the_driver_does_not_desire_are_caught: L5,
    nodes_that_do_not_settle_are_caught: L7,
    guests_that_an_api_lists_wrongly_are_caught: L8,
    members_of_server_groups_that_are_not_there_or_elsewhere_are_caught: L9,
}

#[test]
fn every_invariant_has_a_canary_a_name_and_a_promise() {
    let mut names = BTreeSet::new();
    for invariant in InvariantId::ALL {
        assert!(
            !canaries(invariant).is_empty() && TESTED.contains(&invariant),
            "{invariant}"
        );
        assert!(!invariant.promise().is_empty());
        names.insert(invariant.to_string());
    }
    assert_eq!(names.len(), InvariantId::ALL.len());
}

#[test]
fn a_violation_never_shows_the_secret_it_found() {
    let mut snapshot = snapshot();
    secret(&mut snapshot);
    let shown: Vec<_> = audit(&snapshot).iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["S13: log holds planted secret 1"]);
}

// S1

/// As if a client had claimed past the capacity: the claim is in the history, too.
fn too_many_claims(snapshot: &mut SystemSnapshot) {
    let row = consumer([(other_host(), ResourceClass::VCPU, 17)]);
    let claim = Fact::Allocations(foreign_consumer(), row.allocated.clone());
    snapshot.placement.consumers.insert(foreign_consumer(), row);
    snapshot
        .histories
        .requests
        .push(by_a_scheduler(vec![claim]));
}

fn usage_without_inventory(snapshot: &mut SystemSnapshot) {
    let row = consumer([(other_host(), ResourceClass::PCPU, 1)]);
    let claim = Fact::Allocations(foreign_consumer(), row.allocated.clone());
    snapshot.placement.consumers.insert(foreign_consumer(), row);
    snapshot
        .histories
        .requests
        .push(by_a_scheduler(vec![claim]));
}

fn by_a_scheduler(facts: Vec<Fact>) -> PlacementWrite {
    PlacementWrite {
        sender: "scheduler".into(),
        node: None,
        ..request(facts, &[])
    }
}

// S2: the reshape's own record, while the world is as it should be.

fn reshaped(snapshot: &mut SystemSnapshot, change: fn(&mut PlacementSnapshot)) {
    change(&mut snapshot.histories.reshapes[0].after);
}

fn lose_a_unit(after: &mut PlacementSnapshot) {
    let row = after.consumers.get_mut(&guest()).unwrap();
    row.allocated.insert((gpu(), ResourceClass::VGPU), 1);
}

fn double_a_unit(after: &mut PlacementSnapshot) {
    let row = after.consumers.get_mut(&guest()).unwrap();
    row.allocated.insert((root(), ResourceClass::VGPU), 2);
}

fn drop_the_shared_disk(after: &mut PlacementSnapshot) {
    let row = after.consumers.get_mut(&guest()).unwrap();
    row.allocated.remove(&(shared(), ResourceClass::DISK_GB));
}

fn change_another_host(after: &mut PlacementSnapshot) {
    let row = after.providers.get_mut(&other_host()).unwrap();
    row.inventories.insert(ResourceClass::VCPU, of(1));
}

fn change_the_project(after: &mut PlacementSnapshot) {
    after.consumers.get_mut(&guest()).unwrap().project_id = "another".into();
}

fn lose_the_consumer(after: &mut PlacementSnapshot) {
    after.consumers.remove(&orphan());
}

// S3

fn two_guests_of_one_device(snapshot: &mut SystemSnapshot) {
    let second = Guest {
        node: "elsewhere".into(),
        migrations: BTreeSet::new(),
        devices: BTreeSet::from(["mdev-1".to_owned()]),
    };
    snapshot.guests.insert(foreign_consumer(), second);
    // Only the device is wrong with it.
    snapshot.accelerators = None;
    snapshot.listed_by_api.clear();
}

fn a_device_that_another_guest_opened(snapshot: &mut SystemSnapshot) {
    snapshot.devices[0].owners = BTreeSet::from([foreign_consumer()]);
}

fn a_device_that_is_bound_twice(snapshot: &mut SystemSnapshot) {
    // By the same guest, so that only the device is in two hands.
    let service = snapshot.accelerators.as_mut().unwrap();
    let row = service.requests.values().next().unwrap().clone();
    service.requests.insert(arq(2), row);
}

// S4, L3

fn fewer_devices_than_bound(snapshot: &mut SystemSnapshot) {
    let service = snapshot.accelerators.as_mut().unwrap();
    let mut row = service.requests.values().next().unwrap().clone();
    row.device = Some("mdev-2".to_owned());
    service.requests.insert(arq(2), row);
}

fn another_device_than_bound(snapshot: &mut SystemSnapshot) {
    let guest = snapshot.guests.get_mut(&guest()).unwrap();
    guest.devices.insert("mdev-2".to_owned());
}

fn request_left_over(snapshot: &mut SystemSnapshot) {
    let row = ArqRow {
        phase: berth_model::ArqPhase::BindStarted,
        instance: Some(guest()),
        device: None,
    };
    let service = snapshot.accelerators.as_mut().unwrap();
    service.requests.insert(arq(2), row);
}

fn bound_for_an_unknown_guest(snapshot: &mut SystemSnapshot) {
    let row = ArqRow {
        phase: berth_model::ArqPhase::Bound,
        instance: Some(foreign_consumer()),
        device: Some("mdev-2".to_owned()),
    };
    let service = snapshot.accelerators.as_mut().unwrap();
    service.requests.insert(arq(2), row);
}

// S5, L4

fn no_reset_between_two(snapshot: &mut SystemSnapshot) {
    let users = snapshot.users_since_reset.get_mut("mdev-1").unwrap();
    users.insert(foreign_consumer());
}

fn offered_before_its_reset(snapshot: &mut SystemSnapshot) {
    let service = snapshot.accelerators.as_mut().unwrap();
    service.free.insert("mdev-1".to_owned());
}

fn left_unclean(snapshot: &mut SystemSnapshot) {
    let users = BTreeSet::from([foreign_consumer()]);
    snapshot
        .users_since_reset
        .insert("mdev-3".to_owned(), users);
}

// L8

fn listed_and_missing(snapshot: &mut SystemSnapshot) {
    let listed = snapshot.listed_by_api.get_mut("agent").unwrap();
    listed.insert(foreign_consumer());
}

fn present_and_unlisted(snapshot: &mut SystemSnapshot) {
    snapshot.listed_by_api.get_mut("agent").unwrap().clear();
}

// S8

/// Another client's acknowledged write, which left nothing.
fn acknowledged(snapshot: &mut SystemSnapshot, fact: Fact) {
    snapshot.histories.requests.push(by_a_scheduler(vec![fact]));
}

fn lost_allocation(snapshot: &mut SystemSnapshot) {
    let gone = uuid::Uuid::from_u128(0x77).into();
    let allocated = consumer([(other_host(), ResourceClass::VCPU, 1)]).allocated;
    acknowledged(snapshot, Fact::Allocations(gone, allocated));
}

fn lost_inventory(snapshot: &mut SystemSnapshot) {
    let all = inventories([(ResourceClass::VCPU, of(32))]);
    acknowledged(snapshot, Fact::Inventories(other_host(), all));
}

fn lost_provider(snapshot: &mut SystemSnapshot) {
    let made = Fact::Provider {
        uuid: uuid(0x55),
        name: "gpu-03".into(),
        parent: None,
    };
    acknowledged(snapshot, made);
}

fn lost_traits(snapshot: &mut SystemSnapshot) {
    let all = BTreeSet::from([Trait::MISC_SHARES_VIA_AGGREGATE]);
    acknowledged(snapshot, Fact::Traits(shared(), all));
}

fn lost_aggregates(snapshot: &mut SystemSnapshot) {
    let all = BTreeSet::from([AggregateUuid::from(uuid::Uuid::from_u128(3))]);
    acknowledged(snapshot, Fact::Aggregates(shared(), all));
}

fn removed_provider_that_came_back(snapshot: &mut SystemSnapshot) {
    acknowledged(snapshot, Fact::NoProvider(shared()));
}

// S9

fn uncalled_provider(snapshot: &mut SystemSnapshot) {
    let row = provider("gpu-03", None, uuid(0x55), 0, BTreeMap::new());
    snapshot.placement.providers.insert(uuid(0x55), row);
}

fn uncalled_inventory(snapshot: &mut SystemSnapshot) {
    let row = snapshot.placement.providers.get_mut(&shared()).unwrap();
    row.inventories.insert(ResourceClass::DISK_GB, of(200));
}

fn uncalled_allocation(snapshot: &mut SystemSnapshot) {
    let row = consumer([(other_host(), ResourceClass::VCPU, 3)]);
    snapshot.placement.consumers.insert(foreign_consumer(), row);
}

// S10

fn two_winners(snapshot: &mut SystemSnapshot) {
    let again = snapshot.histories.requests[1].clone();
    snapshot.histories.requests.push(again);
}

fn fallen_generation(snapshot: &mut SystemSnapshot) {
    let fallen = (root(), Generation::answered(5));
    snapshot
        .histories
        .generations
        .push((root(), Generation::answered(6)));
    snapshot.histories.generations.push(fallen);
}

fn fallen_row(snapshot: &mut SystemSnapshot) {
    let row = snapshot.placement.providers.get_mut(&other_host()).unwrap();
    row.generation = Generation::answered(6);
}

// S11

fn ring(snapshot: &mut SystemSnapshot) {
    for (uuid, parent) in [(shared(), other_host()), (other_host(), shared())] {
        snapshot.placement.providers.get_mut(&uuid).unwrap().parent = Some(parent);
    }
}

fn wrong_root(snapshot: &mut SystemSnapshot) {
    snapshot
        .placement
        .providers
        .get_mut(&shared())
        .unwrap()
        .root = other_host();
}

fn doubled_name(snapshot: &mut SystemSnapshot) {
    snapshot
        .placement
        .providers
        .get_mut(&shared())
        .unwrap()
        .name = "gpu-02".into();
}

fn half_made_child(snapshot: &mut SystemSnapshot) {
    let child = provider(
        "gpu-01_pci_0000_84_00_0",
        Some(root()),
        root(),
        0,
        BTreeMap::new(),
    );
    snapshot.histories.refusals[0]
        .after
        .providers
        .insert(gpu(), child);
}

fn refused_but_changed(snapshot: &mut SystemSnapshot) {
    snapshot.histories.refusals[0].after = after();
    snapshot.histories.refusals[0]
        .after
        .providers
        .remove(&gpu());
}

// S12

fn too_many_requests(snapshot: &mut SystemSnapshot) {
    let burst = (100..106).map(|second| step(second, StepKind::Read, "GET /x"));
    snapshot.trace.extend(burst);
}

fn no_pause(snapshot: &mut SystemSnapshot) {
    snapshot
        .histories
        .passes
        .push(pass(20, 21, PassOutcome::Failed));
    snapshot
        .histories
        .passes
        .push(pass(21, 22, PassOutcome::Settled));
}

fn too_long_a_pause(snapshot: &mut SystemSnapshot) {
    snapshot
        .histories
        .passes
        .push(pass(20, 21, PassOutcome::Failed));
    snapshot
        .histories
        .passes
        .push(pass(121, 122, PassOutcome::Settled));
}

// S13

fn unknown_exit_code(snapshot: &mut SystemSnapshot) {
    snapshot.histories.exits.push(Exit::Code(101));
}

fn a_bugs_exit_code(snapshot: &mut SystemSnapshot) {
    snapshot.histories.exits.push(Exit::Code(70));
}

fn crash(snapshot: &mut SystemSnapshot) {
    snapshot.histories.exits.push(Exit::Signal(11));
}

fn panic_in_a_log(snapshot: &mut SystemSnapshot) {
    snapshot.histories.texts[0].text = "thread 'main' panicked at agent/src/tick.rs:7:9".into();
}

fn secret(snapshot: &mut SystemSnapshot) {
    snapshot.histories.texts[0].text = "auth failed with \"correct horse\"".into();
}

// S14

fn two_owners(snapshot: &mut SystemSnapshot) {
    let second = PlacementWrite {
        sender: "another token".into(),
        ..request(Vec::new(), &[])
    };
    snapshot.histories.requests.push(second);
}

// L1

fn open_task(snapshot: &mut SystemSnapshot) {
    snapshot.histories.tasks[0].end = TaskOutcome::Open;
}

fn no_reason(snapshot: &mut SystemSnapshot) {
    snapshot.histories.tasks[0].end = TaskOutcome::Refused(" ".into());
}

fn open_intent(snapshot: &mut SystemSnapshot) {
    snapshot.journals[0].open.push("bind 0000:84:00.0".into());
}

// L2

fn unreported_orphan(snapshot: &mut SystemSnapshot) {
    snapshot.reported.held.clear();
}

fn guest_without_allocation(snapshot: &mut SystemSnapshot) {
    let bare = Guest {
        node: NODE.into(),
        ..Guest::default()
    };
    snapshot.guests.insert(foreign_consumer(), bare);
    snapshot.listed_by_api.clear();
}

// L5

fn wanted(snapshot: &mut SystemSnapshot, uuid: ProviderUuid) -> &mut Provider {
    snapshot
        .desired
        .get_mut(NODE)
        .unwrap()
        .get_mut(uuid)
        .unwrap()
}

fn missing_trait(snapshot: &mut SystemSnapshot) {
    wanted(snapshot, root()).traits.insert(Trait::OWNER_NOVA);
}

fn other_inventory(snapshot: &mut SystemSnapshot) {
    wanted(snapshot, gpu())
        .inventories
        .insert(ResourceClass::VGPU, of(16));
}

fn other_aggregate(snapshot: &mut SystemSnapshot) {
    let aggregate = AggregateUuid::from(uuid::Uuid::from_u128(3));
    wanted(snapshot, root()).aggregates.insert(aggregate);
}

fn left_over_child(snapshot: &mut SystemSnapshot) {
    snapshot.desired.get_mut(NODE).unwrap().remove(gpu());
}

/// A hold of two units for the orphan's one, sent and acknowledged so.
fn hold_that_is_too_big(snapshot: &mut SystemSnapshot) {
    let all = inventories([
        (ResourceClass::VCPU, of(16)),
        (ResourceClass::VGPU, holding(2)),
    ]);
    let row = snapshot.placement.providers.get_mut(&root()).unwrap();
    row.inventories.clone_from(&all);
    acknowledged(snapshot, Fact::Inventories(root(), all));
}

fn provider_not_there(snapshot: &mut SystemSnapshot) {
    let child = Provider::child(uuid(0x66), name("gpu-01_numa0"), root());
    snapshot
        .desired
        .get_mut(NODE)
        .unwrap()
        .insert(child)
        .unwrap();
}

// L7

fn quiet(snapshot: &mut SystemSnapshot) -> &mut Vec<Vec<Step>> {
    snapshot.quiet_ticks.as_mut().unwrap()
}

fn noisy_write(snapshot: &mut SystemSnapshot) {
    let write = step(
        130,
        StepKind::Write,
        "PUT /resource_providers/{uuid}/inventories",
    );
    quiet(snapshot)[1].push(write);
}

fn too_many_reads(snapshot: &mut SystemSnapshot) {
    quiet(snapshot)[0].push(step(71, StepKind::Read, "GET /traits"));
}

fn too_few_ticks(snapshot: &mut SystemSnapshot) {
    quiet(snapshot).pop();
}

#[test]
fn a_pause_is_measured_per_loop() {
    let one_more = |name: &str, began| Pass {
        loop_name: name.into(),
        began: Duration::from_secs(began),
        ended: Duration::from_secs(began + 1),
        end: PassOutcome::Failed,
    };
    let plant = |snapshot: &mut SystemSnapshot| {
        snapshot.histories.passes = vec![one_more("a", 0), one_more("b", 1), one_more("a", 2)];
    };
    assert_eq!(caught(plant), BTreeSet::new());
}

// S15

fn two_guests_that_are_to_be_apart_on_one_node(snapshot: &mut SystemSnapshot) {
    another_guest_joins(snapshot);
}

// L9

fn members(snapshot: &mut SystemSnapshot) -> &mut BTreeMap<berth_model::ConsumerUuid, String> {
    &mut snapshot.groups.get_mut("apart").unwrap().members
}

fn member_that_is_gone(snapshot: &mut SystemSnapshot) {
    members(snapshot).insert(orphan(), "gpu-02".to_owned());
}

fn guest_that_is_no_member(snapshot: &mut SystemSnapshot) {
    members(snapshot).clear();
}

fn member_on_another_node_than_its_guest(snapshot: &mut SystemSnapshot) {
    members(snapshot).insert(guest(), "gpu-02".to_owned());
}

fn member_on_another_node_than_its_units(snapshot: &mut SystemSnapshot) {
    member_on_another_node_than_its_guest(snapshot);
    snapshot.guests.get_mut(&guest()).unwrap().node = "gpu-02".to_owned();
}
