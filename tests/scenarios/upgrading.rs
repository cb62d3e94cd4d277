//! A node before and after its upgrade: reported with the old model, with consumers, and then observed with the new
//! one.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};

use berth_client::PlacementClient;
use berth_model::{ConsumerUuid, ProviderUuid, ResourceClass};
use berth_tests::claims::{Claim, claim};
use berth_tests::cloud::Cloud;
use berth_tests::host::{Host, consumer};
use berth_tests::node::{MemoryFiles, Node};
use berth_tests::unit::{Unit, UnitEnd, UnitHistory};
use berth_tests::worlds::PlacementRows;
use berth_virt::VgpuModel;

use crate::scenarios::mishaps;

/// A node, the Placement it was reported to, and its root.
pub(crate) struct UpgradeNode {
    pub(crate) cloud: Cloud,
    pub(crate) node: Node,
    pub(crate) root: ProviderUuid,
}

/// Two GPUs of four units, and six guests that take turns on them.
pub(crate) fn two_gpus() -> Host {
    let host = Host::new("gpu-01").gpu(4).gpu(4);
    (0..6).fold(host, |host, n| host.guest(n, &[(n % 2) as u8]))
}

/// The same host with all virtual GPUs on its root.
pub(crate) fn flat(host: &Host) -> Host {
    let host = host.clone();
    host.modelled(|model| model.vgpu = VgpuModel::Root)
}

/// What a guest with virtual GPUs holds while these are on the root.
pub(crate) fn guest_claim(n: u32, root: ProviderUuid, vgpus: u64) -> Claim {
    let claim = Claim::of(consumer(n)).and_a_guest(root);
    claim.and(root, &ResourceClass::VGPU, vgpus)
}

/// Places by `PROVIDER CLASS`.
pub(crate) fn places(held: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let place = |(place, amount): &(&str, u64)| ((*place).to_owned(), *amount);
    held.iter().map(place).collect()
}

impl UpgradeNode {
    /// Reports the old host, claims, and shows the new one from then on.
    pub(crate) async fn of(
        old: &Host,
        new: &Host,
        claims: impl FnOnce(ProviderUuid) -> Vec<Claim>,
    ) -> Self {
        let cloud = mishaps::placement().await;
        let node = Node::with_files(old, Arc::new(MemoryFiles::default()));
        node.start(&cloud).await.expect("a first start");
        let root = node.root().await;
        claim(&cloud.placement(), claims(root)).await;
        node.driver.show(new);
        let _ = cloud.take_requests();
        Self { cloud, node, root }
    }

    /// [`two_gpus`] before each GPU has its provider.
    pub(crate) async fn two_gpus() -> Self {
        let host = two_gpus();
        let claims = |root| (0..6).map(|n| guest_claim(n, root, 1)).collect();
        Self::of(&flat(&host), &host, claims).await
    }

    /// Runs the node as a unit against this Placement until it is at rest.
    pub(crate) async fn run(&self, cloud: &Cloud) -> (UnitEnd, UnitHistory) {
        let history = Mutex::new(UnitHistory::default());
        let rest = self.run_into(cloud, &history).await;
        (rest, history.into_inner().expect("nobody panicked"))
    }

    /// The same with the history in hand while it runs.
    pub(crate) async fn run_into(&self, cloud: &Cloud, history: &Mutex<UnitHistory>) -> UnitEnd {
        let unit = Unit {
            driver: Arc::clone(&self.node.driver),
            name: self.node.name.clone(),
            options: self.node.options.clone(),
            files: Arc::clone(self.node.files()),
            cloud: cloud.clone(),
        };
        unit.run(pending::<()>, &|| {}, history).await
    }

    pub(crate) async fn rows(&self) -> PlacementRows {
        self.cloud.rows().await
    }

    /// Every guest of [`two_gpus`] has its unit on its GPU, and nothing is left on the root.
    #[track_caller]
    pub(crate) fn assert_each_on_its_gpu(rows: &PlacementRows) {
        let host = two_gpus();
        for n in 0..6 {
            let gpu = format!("{} VGPU", host.gpu_provider((n % 2) as u8));
            let expected = places(&[(&gpu, 1), ("gpu-01 MEMORY_MB", 256), ("gpu-01 VCPU", 1)]);
            assert_eq!(rows.held_by(consumer(n)), expected);
        }
        assert!(!rows.providers["gpu-01"].inventories.contains_key("VGPU"));
        assert_eq!(rows.providers.len(), 3);
    }
}

/// What the scheduler gets when it claims one unit there.
pub(crate) async fn claimable(
    placement: &PlacementClient,
    provider: ProviderUuid,
    class: &ResourceClass,
) -> bool {
    let unknown: ConsumerUuid = consumer(0xffff);
    let wish = berth_model::ConsumerAllocations {
        project_id: "project".to_owned(),
        user_id: "project".to_owned(),
        generation: None,
        resources: [((provider, class.clone()), 1)].into(),
    };
    placement.put_allocations(unknown, &wish).await.is_ok()
}
