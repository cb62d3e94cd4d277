//! The allocations of consumers: the expected ones, from the drivers' account of a guest's claims, and the actual ones,
//! from Placement's API.

use std::collections::BTreeMap;

use berth_fake::{Machine, initial_allocations, initial_tree};
use berth_model::{Inventory, Provider, ProviderUuid, ResourceClass, Trait};
use berth_tests::claims::{Claim, Neighbours, PROJECT};
use berth_tests::peer::RealPlacement;
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::real_placement::upgrade::{Upgrade, Version, card};

/// Amounts by provider's UUID and class, by consumer.
pub(crate) type Holdings = BTreeMap<String, BTreeMap<(String, String), u64>>;

/// The expected allocations of each consumer of the machine's guests under the machine's model, including its storage
/// and another host. With ten or more guests, one is a migration of a guest that was never here; its units have no new
/// provider.
pub(crate) fn claims(
    upgrade: Upgrade,
    version: Version,
    machine: &Machine,
    root: ProviderUuid,
    neighbours: &Neighbours,
) -> Vec<Claim> {
    let name = upgrade.node();
    let mut tree = initial_tree(machine, &name, root).expect("a tree");
    let storage = "storage".parse().expect("a provider's name");
    let mut storage = Provider::root(neighbours.storage, storage);
    storage.traits.insert(Trait::MISC_SHARES_VIA_AGGREGATE);
    let disk = Inventory::of(100_000).expect("an amount");
    storage.inventories.insert(ResourceClass::DISK_GB, disk);
    tree.insert(storage).expect("another provider");
    let held = initial_allocations(machine, &name, &tree);
    let guests = machine.nodes.iter().flat_map(|node| &node.guests);
    let mut claims: Vec<Claim> = (0u32..)
        .zip(guests)
        .map(|(n, guest)| {
            let consumer = guest.migration.map_or(guest.uuid, |held| held.consumer);
            let held = held.of(&consumer).expect("a guest that holds something");
            let claim = Claim {
                resources: held.resources.clone(),
                ..Claim::of(consumer)
            };
            let claim = match guest.migration {
                Some(_) => claim.migrating(),
                None => claim,
            };
            match n % 4 {
                0 => claim.and(neighbours.other, &ResourceClass::VCPU, 1),
                _ => claim,
            }
        })
        .collect();
    if claims.len() >= 10 {
        claims.push(foreign_claim(upgrade, version, root));
    }
    claims
}

/// Memory and CPUs as no guest has them.
fn foreign_claim(upgrade: Upgrade, version: Version, root: ProviderUuid) -> Claim {
    let claim = Claim::of(upgrade.migration(u32::MAX))
        .migrating()
        .and(root, &ResourceClass::VCPU, 1)
        .and(root, &ResourceClass::MEMORY_MB, 99);
    match upgrade {
        Upgrade::VgpuPerGpu => claim.and(root, &ResourceClass::VGPU, 3),
        Upgrade::ClassRenamed => claim.and(root, &card(version).class, 5),
        Upgrade::NumaCells | Upgrade::Pcpu => claim,
    }
}

/// The claims as holdings.
pub(crate) fn expected(claims: &[Claim]) -> Holdings {
    let place = |((provider, class), amount): (&(ProviderUuid, ResourceClass), &u64)| {
        ((provider.to_string(), class.to_string()), *amount)
    };
    claims
        .iter()
        .map(|claim| {
            let places = claim.resources.iter().map(place).collect();
            (claim.consumer.to_string(), places)
        })
        .collect()
}

/// Makes the claims by POST /allocations, a hundred at a time.
pub(crate) fn post(placement: &RealPlacement, claims: &[Claim]) {
    for some in claims.chunks(100) {
        let mut body = json!({});
        for claim in some {
            let mut allocations = json!({});
            for ((provider, class), amount) in &claim.resources {
                allocations[provider.to_string()]["resources"][class.to_string()] = json!(amount);
            }
            body[claim.consumer.to_string()] = json!({"allocations": allocations,
                "project_id": PROJECT, "user_id": PROJECT, "consumer_generation": null,
                "consumer_type": claim.kind});
        }
        expect(placement, 204, Method::POST, "/allocations", &body);
    }
}

/// All that anybody holds anywhere, provider by provider; checked against the usages that Placement tells of each.
pub(crate) fn held(placement: &RealPlacement) -> Holdings {
    let mut held = Holdings::new();
    let providers = get(placement, "/resource_providers");
    for provider in providers["resource_providers"].as_array().expect("a list") {
        let uuid = provider["uuid"].as_str().expect("a UUID");
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        let found = get(
            placement,
            &format!("/resource_providers/{uuid}/allocations"),
        );
        for (consumer, of) in found["allocations"].as_object().expect("an object") {
            let places = held.entry(consumer.clone()).or_default();
            for (class, amount) in of["resources"].as_object().expect("an object") {
                let amount = amount.as_u64().expect("an amount");
                places.insert((uuid.to_owned(), class.clone()), amount);
                *sums.entry(class.clone()).or_insert(0) += amount;
            }
        }
        let usages = get(placement, &format!("/resource_providers/{uuid}/usages"));
        for (class, used) in usages["usages"].as_object().expect("an object") {
            let sum = sums.remove(class).unwrap_or(0);
            assert_eq!(used.as_u64(), Some(sum), "{class} on {provider}");
        }
        assert!(
            sums.is_empty(),
            "{sums:?} are not among the usages of {provider}"
        );
    }
    held
}

/// Each consumer by itself: its owner, its type and the same amounts.
pub(crate) fn check_consumers<'a>(
    placement: &RealPlacement,
    claims: impl Iterator<Item = &'a Claim>,
) {
    for claim in claims {
        let found = get(placement, &format!("/allocations/{}", claim.consumer));
        let whose = [
            &found["project_id"],
            &found["user_id"],
            &found["consumer_type"],
        ];
        assert_eq!(whose, [PROJECT, PROJECT, claim.kind], "{}", claim.consumer);
        let mut resources = claim.resources.clone();
        for (provider, of) in found["allocations"].as_object().expect("an object") {
            let provider: Uuid = provider.parse().expect("a UUID");
            for (class, amount) in of["resources"].as_object().expect("an object") {
                let class = class.parse().expect("a class");
                let expected = resources.remove(&(provider.into(), class));
                assert_eq!(amount.as_u64(), expected, "{}: {found}", claim.consumer);
            }
        }
        assert!(
            resources.is_empty(),
            "{} lost {resources:?}",
            claim.consumer
        );
    }
}

/// Fails with the first differences, of which there may be a thousand.
#[track_caller]
pub(crate) fn assert_held(placement: &RealPlacement, expected: &Holdings) {
    let held = held(placement);
    let differing: Vec<_> = expected
        .keys()
        .chain(held.keys())
        .filter(|consumer| held.get(*consumer) != expected.get(*consumer))
        .take(5)
        .map(|consumer| {
            let [is, was] = [&held, expected].map(|all| all.get(consumer));
            format!("{consumer}\n  holds {is:?}\n  not   {was:?}")
        })
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn get(placement: &RealPlacement, path: &str) -> Value {
    expect(placement, 200, Method::GET, path, &Value::Null)
}

fn expect(
    placement: &RealPlacement,
    status: u16,
    method: Method,
    path: &str,
    body: &Value,
) -> Value {
    let ask = placement.ask(method, path, "1.39");
    let ask = if body.is_null() { ask } else { ask.json(body) };
    let answer = ask.send().expect("an answer");
    assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text());
    answer.json()
}
