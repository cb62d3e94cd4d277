//! The consumers on the host: all kinds, with the allocations that they have before and must have afterwards.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::JitterRng;
use berth_fake::{MachineGuest, Migration, MigrationSight};
use berth_model::{ConsumerUuid, NodeName, ProviderUuid, ResourceClass};
use berth_tests::claims::{Claim, Neighbours};
use berth_virt::{GuestCpuPolicy, GuestMdev, GuestView, PowerState};
use uuid::Uuid;

use crate::kill::scenario::address;

/// A consumer and the guest behind it.
pub(crate) struct Tenant {
    n: u32,
    kind: TenantKind,
    /// The GPU of each of its units.
    gpus: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TenantKind {
    Plain,
    /// It holds a share of the storage and of another host as well.
    Wide,
    /// Its guest does not exist.
    Orphan,
    /// A migration holds its resources.
    Migrating(MigrationSight),
    /// It holds nothing but virtual GPUs.
    Bare,
}

impl Tenant {
    pub(crate) fn plain(n: u32, gpus: Vec<u8>) -> Self {
        Self {
            n,
            kind: TenantKind::Plain,
            gpus,
        }
    }

    /// The first six are one of each kind; where the others' units are is drawn.
    pub(crate) fn of_reshape(n: u32, consumers: u32, gpus: u8) -> Self {
        let rng = JitterRng::seeded(u64::from(n) << 32 | u64::from(consumers));
        let any = || (rng.next() % u64::from(gpus)) as u8;
        let (kind, gpus) = match n {
            0 => (TenantKind::Wide, vec![1]),
            1 => (TenantKind::Plain, vec![0, 1]),
            2 => (TenantKind::Orphan, vec![0]),
            3 => (TenantKind::Migrating(MigrationSight::Known), vec![1, 1]),
            4 => (TenantKind::Bare, vec![0]),
            5 => (TenantKind::Migrating(MigrationSight::Unknown), vec![any()]),
            _ => (
                TenantKind::Plain,
                (0..1 + rng.next() % 3).map(|_| any()).collect(),
            ),
        };
        Self { n, kind, gpus }
    }

    fn instance(&self) -> ConsumerUuid {
        Uuid::from_u128(0xc0_0000 + u128::from(self.n)).into()
    }

    fn consumer(&self) -> ConsumerUuid {
        match self.kind {
            TenantKind::Migrating(_) => Uuid::from_u128(0xd0_0000 + u128::from(self.n)).into(),
            _ => self.instance(),
        }
    }

    /// No two have as much.
    fn memory_mib(&self) -> u64 {
        256 + u64::from(self.n)
    }

    pub(crate) fn guest(&self) -> Option<MachineGuest> {
        if self.kind == TenantKind::Orphan {
            return None;
        }
        let mdev = |(unit, gpu): (u128, &u8)| GuestMdev {
            uuid: Uuid::from_u128(0xe0_0000 + (u128::from(self.n) << 8) + unit),
            parent: Some(address(*gpu)),
        };
        Some(MachineGuest {
            uuid: self.instance(),
            seen: GuestView {
                name: format!("instance-{:08x}", self.n),
                power: PowerState::Running,
                also: BTreeSet::new(),
                cpu_policy: GuestCpuPolicy::Shared,
                vcpus: 1,
                memory_mib: self.memory_mib(),
                cells: Vec::new(),
                mdevs: (0u128..).zip(&self.gpus).map(mdev).collect(),
                functions: BTreeSet::new(),
            },
            disk_gib: 0,
            customs: BTreeMap::new(),
            migration: match self.kind {
                TenantKind::Migrating(sight) => Some(Migration {
                    consumer: self.consumer(),
                    sight,
                }),
                _ => None,
            },
        })
    }

    pub(crate) fn claim(
        &self,
        root: ProviderUuid,
        neighbours: &Neighbours,
        place: impl Fn(u8) -> ProviderUuid,
    ) -> Claim {
        let mut claim = Claim::of(self.consumer());
        if self.kind != TenantKind::Bare {
            claim = claim.and(root, &ResourceClass::VCPU, 1);
            claim = claim.and(root, &ResourceClass::MEMORY_MB, self.memory_mib());
        }
        if self.kind == TenantKind::Wide {
            claim = claim.and(neighbours.storage, &ResourceClass::DISK_GB, 20);
            claim = claim.and(neighbours.other, &ResourceClass::VCPU, 1);
        }
        if let TenantKind::Migrating(_) = self.kind {
            claim = claim.migrating();
        }
        for gpu in &self.gpus {
            let unit = (place(*gpu), ResourceClass::VGPU);
            *claim.resources.entry(unit).or_insert(0) += 1;
        }
        claim
    }

    /// What it has afterwards, its virtual GPUs under this class.
    pub(crate) fn holdings(&self, node: &NodeName, class: &str) -> Vec<String> {
        let mut held: BTreeMap<String, u64> = BTreeMap::new();
        if self.kind != TenantKind::Bare {
            held.insert(format!("VCPU on {node}"), 1);
            held.insert(format!("MEMORY_MB on {node}"), self.memory_mib());
        }
        if self.kind == TenantKind::Wide {
            held.insert("DISK_GB on storage".to_owned(), 20);
            held.insert("VCPU on other-01".to_owned(), 1);
        }
        for gpu in &self.gpus {
            let place = match self.kind {
                TenantKind::Orphan => node.to_string(),
                _ => format!("{node}_{}", address(*gpu).nodedev_name()),
            };
            *held.entry(format!("{class} on {place}")).or_insert(0) += 1;
        }
        let consumer = self.consumer();
        held.into_iter()
            .map(|(place, amount)| format!("{consumer} holds {amount} {place}"))
            .collect()
    }
}
