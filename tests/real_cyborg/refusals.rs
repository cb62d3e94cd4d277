//! Bound devices that no guest may have: nothing of the guest is left, and its requests exist but are unbound.

use std::collections::BTreeSet;

use berth_agent_instances::ReconcileOutcome;
use berth_client::AcceleratorError;
use berth_model::ArqPhase;

use crate::real_cyborg::agent::Agent;
use crate::real_cyborg::cloud::{Cloud, fake_provider, new_guest, provider};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_with_an_unbindable_request_is_not_started() {
    let cloud = Cloud::shared();
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    // Two requests, one handle: Cyborg binds the one and leaves it bound.
    let arqs = cloud.requests("two").await;
    let refused = cloud.bind(&arqs, guest, provider(3)).await;
    assert!(refused.is_err(), "{refused:?}");
    let phases: BTreeSet<_> = cloud.phases(&arqs).await.into_iter().collect();
    let both = [Some(ArqPhase::Bound), Some(ArqPhase::BindFailed)];
    assert_eq!(phases, both.into());
    agent.asks_for(guest, &arqs).await;
    let reason = agent.refuses(guest).await;
    assert!(reason.contains("could not be bound"), "{reason}");
    let phases = cloud.phases(&arqs).await;
    assert_eq!(phases, [Some(ArqPhase::Unbound); 2]);
    cloud.assert_free(3).await;
    agent.deletes(guest).await;
    assert_eq!(cloud.phases(&arqs).await, [None; 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_with_a_handle_of_the_fake_driver_is_not_started() {
    let cloud = Cloud::shared();
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let arq = cloud.bound("fake", guest, fake_provider()).await;
    agent.asks_for(guest, &[arq]).await;
    let reason = agent.refuses(guest).await;
    assert!(reason.contains("TEST_PCI"), "{reason}");
    assert_eq!(cloud.phases(&[arq]).await, [Some(ArqPhase::Unbound)]);
    agent.deletes(guest).await;
    assert_eq!(cloud.phases(&[arq]).await, [None]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_bound_on_another_host_is_refused_and_kept_there() {
    let cloud = Cloud::shared();
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let guest = new_guest();
    let arqs = cloud.requests("pci").await;
    // Cyborg checks no host's name.
    let bound = cloud.bind_on("acc-02", &arqs, guest, provider(4)).await;
    bound.expect("Cyborg binds it");
    agent.asks_for(guest, &arqs).await;
    let reason = agent.refuses(guest).await;
    assert!(reason.contains("bound on host acc-02"), "{reason}");
    assert_eq!(cloud.phases(&arqs).await, [Some(ArqPhase::Bound)]);
    agent.deletes(guest).await;
    assert_eq!(cloud.phases(&arqs).await, [Some(ArqPhase::Bound)]);
    let deleted = cloud.accelerators().delete_arqs_of_instance(guest).await;
    deleted.expect("Cyborg deletes them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_another_project_neither_uses_nor_ends_a_request() {
    let cloud = Cloud::shared();
    let guest = new_guest();
    let arq = cloud.bound("pci", guest, provider(5)).await;
    let keystone = cloud.cyborg.keystone();
    let agent = Agent::new(cloud, cloud.accelerators_of(&keystone.tenant_service())).await;
    agent.asks_for(guest, &[arq]).await;
    let reason = agent.refuses(guest).await;
    assert!(reason.contains("belongs to another project"), "{reason}");
    agent.deletes(guest).await;
    assert_eq!(cloud.phases(&[arq]).await, [Some(ArqPhase::Bound)]);
    // Without the service role Cyborg accepts no token, and the guest waits until the account is fixed.
    let tenant = cloud.accelerators_of(&keystone.tenant());
    let agent = Agent::new(cloud, tenant.clone()).await;
    agent.asks_for(guest, &[arq]).await;
    let held = agent.guests.reconcile_instance(guest).await;
    let ReconcileOutcome::Blocked { reason } = held else {
        panic!("{held:?}");
    };
    let reason = reason.to_string();
    assert!(reason.contains("has the role service"), "{reason}");
    assert!(agent.devices(guest).await.is_empty());
    let refused = tenant.unbind_arqs(&[arq].into()).await;
    let Err(AcceleratorError::Unauthorized(_)) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(cloud.phases(&[arq]).await, [Some(ArqPhase::Bound)]);
    let owner = Agent::new(cloud, cloud.accelerators()).await;
    owner.asks_for(guest, &[arq]).await;
    owner.runs(guest).await;
    owner.deletes(guest).await;
    cloud.assert_free(5).await;
}
