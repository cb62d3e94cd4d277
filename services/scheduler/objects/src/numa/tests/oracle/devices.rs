//! Devices in the simple implementation: each pool separately, and all conditions at once where their order does not
//! matter.

use std::collections::BTreeSet;

use crate::host_state::{NumaCell, NumaTopology, PciPool};
use crate::pci::Mappings;
use crate::request::{NumaAffinityPolicy, PciRequest, PciRequestOrigin, RequestSpec};

/// The devices left in each pool.
pub(super) fn left(
    mut pools: Vec<PciPool>,
    request: &RequestSpec,
    mappings: &Mappings,
    numa: &NumaTopology,
    chosen: &[&NumaCell],
) -> Option<Vec<i64>> {
    let mut gone = vec![false; pools.len()];
    for asked in &request.pci_requests {
        let providers: Vec<&String> = match &asked.origin {
            PciRequestOrigin::Port => Vec::new(),
            PciRequestOrigin::Flavor(_) => {
                let id = asked.request_id.as_deref().unwrap_or_default();
                let groups = mappings.iter().filter(|(group, _)| group.starts_with(id));
                groups.map(|(_, providers)| &providers[0]).collect()
            }
        };
        let mut left: Vec<usize> = (0..pools.len())
            .filter(|at| !gone[*at] && is_described(&pools[*at], asked))
            .collect();
        let sum = |pools: &[PciPool], left: &[usize]| -> i64 {
            left.iter().map(|at| pools[*at].count).sum()
        };
        if sum(&pools, &left) < asked.count {
            return None;
        }
        left = by_policy(&pools, left, asked, numa, chosen);
        let wants = |key: &str, value: &str| {
            let mut specs = asked.spec.iter();
            specs.any(|spec| spec.get(key).is_some_and(|it| it == value))
        };
        left.retain(|at| {
            let pool = &pools[*at];
            let is = |key: &str, value: &str| pool.tags.get(key).is_some_and(|it| it == value);
            let is_allocated = || {
                let Some(provider) = pool.tags.get("rp_uuid") else {
                    return false;
                };
                let times = providers.iter().filter(|it| **it == provider).count();
                times > 0 && pool.count >= i64::try_from(times).expect("few")
            };
            (wants("dev_type", "type-PF") || !is("dev_type", "type-PF"))
                && (wants("dev_type", "vdpa") || !is("dev_type", "vdpa"))
                && (wants("remote_managed", "true") || !is("remote_managed", "true"))
                && (providers.is_empty() || is_allocated())
                && (!wants("live_migratable", "true") || is("live_migratable", "true"))
        });
        if sum(&pools, &left) < asked.count || left.is_empty() {
            return None;
        }
        if providers.is_empty() {
            let mut wanted = asked.count;
            for at in left {
                if wanted == 0 {
                    break;
                }
                let taken = wanted.min(pools[at].count);
                pools[at].count -= taken;
                wanted -= taken;
                gone[at] = pools[at].count == 0;
            }
        } else {
            let mut seen = BTreeSet::new();
            for (at, pool) in pools.iter().enumerate() {
                let provider = pool.tags.get("rp_uuid");
                if !gone[at] && provider.is_some_and(|it| !seen.insert(it.clone())) {
                    return None;
                }
            }
            for at in left {
                let provider = pools[at]
                    .tags
                    .get("rp_uuid")
                    .expect("it is allocated")
                    .clone();
                let times = providers.iter().filter(|it| ***it == provider).count();
                pools[at].count -= i64::try_from(times).expect("few");
                gone[at] = pools[at].count == 0;
            }
        }
    }
    let left = pools.iter().zip(gone).filter(|(_, gone)| !gone);
    Some(left.map(|(pool, _)| pool.count).collect())
}

fn is_described(pool: &PciPool, asked: &PciRequest) -> bool {
    asked.spec.iter().any(|spec| {
        spec.iter().all(|(key, value)| match key.as_str() {
            "vendor_id" => pool.vendor_id.to_lowercase() == value.to_lowercase(),
            "product_id" => pool.product_id.to_lowercase() == value.to_lowercase(),
            "resource_class" | "traits" | "rp_uuids" => true,
            _ => {
                let tag = pool.tags.get(key);
                tag.is_some_and(|tag| tag.to_lowercase() == value.to_lowercase())
            }
        })
    })
}

fn by_policy(
    pools: &[PciPool],
    left: Vec<usize>,
    asked: &PciRequest,
    numa: &NumaTopology,
    chosen: &[&NumaCell],
) -> Vec<usize> {
    let only = |holds: &dyn Fn(Option<i64>) -> bool| -> Vec<usize> {
        let kept = left.iter().copied();
        kept.filter(|at| holds(pools[*at].numa_node)).collect()
    };
    let is_enough = |kept: &[usize]| {
        let sum: i64 = kept.iter().map(|at| pools[*at].count).sum();
        sum >= asked.count
    };
    let is_near = |node: Option<i64>| chosen.iter().any(|cell| Some(cell.id) == node);
    let near = only(&is_near);
    if asked.numa_policy == NumaAffinityPolicy::Required || is_enough(&near) {
        return near;
    }
    if asked.numa_policy == NumaAffinityPolicy::Socket {
        if numa.cells.iter().any(|cell| cell.socket.is_none()) {
            return Vec::new();
        }
        let sockets: BTreeSet<_> = chosen.iter().map(|cell| cell.socket).collect();
        return only(&|node| {
            let mut cells = numa.cells.iter().filter(|cell| Some(cell.id) == node);
            cells.any(|cell| sockets.contains(&cell.socket))
        });
    }
    let known = only(&|node| node.is_none() || is_near(node));
    if asked.numa_policy == NumaAffinityPolicy::Legacy || is_enough(&known) {
        return known;
    }
    let far = only(&|node| node.is_some() && !is_near(node));
    [known, far].concat()
}
