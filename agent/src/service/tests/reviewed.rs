//! Tests of a start with a reviewed plan.

use std::sync::Arc;
use std::time::Duration;

use berth_agent_tracker::complete::Service;
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::propose::ResourceTracker;
use berth_agent_tracker::report_client::ReportClient;
use berth_agent_tracker::startup::{ReviewedPlan, ReviewedPlans, preview};
use berth_client::AdapterOptions;
use berth_model::{NodeName, ProviderUuid};
use berth_virt::VgpuModel;
use http::StatusCode;
use tokio::time::{Instant, sleep};

use crate::service::error::ExitReason;
use crate::service::tests::bench::Bench;
use crate::service::tests::driver::host;
use crate::service::tests::placement::PlacementBehaviour;

fn of_a(plan: ReviewedPlan) -> ReviewedPlans {
    ReviewedPlans::from([(NodeName::new("a").unwrap(), plan)])
}

/// A host whose next start reshapes, and the reviewed plan for it.
async fn reviewed(bench: &Bench) -> ReviewedPlan {
    bench
        .run_to_end(bench.once(Duration::from_mins(1)))
        .await
        .unwrap();
    let mut view = host(&["a"]);
    let per_gpu = |view: &mut berth_virt::HostView| {
        view.nodes
            .values_mut()
            .for_each(|node| node.model.vgpu = VgpuModel::PerGpu);
    };
    per_gpu(&mut view);
    bench.driver.change(per_gpu);
    let node: NodeName = view.nodes.keys().next().unwrap().clone();
    let root: ProviderUuid = bench.placement.uuid("a").unwrap().parse().unwrap();
    let options = TrackerOptions::default();
    let placement = bench
        .placement
        .client(&bench.metrics, AdapterOptions::DEFAULT_TIMEOUT);
    let report = ReportClient::new(placement, node.clone(), root, &options);
    let mut tracker = ResourceTracker::new(Arc::clone(&bench.driver), node, report, options);
    let now = Instant::now();
    let (_, reviewed) = preview(&mut tracker, &view, Service::Enabled, now, &|_, _| ())
        .await
        .unwrap();
    assert!(!bench.placement.has("a_pci_0000_84_00_0"));
    reviewed
}

#[tokio::test(start_paused = true)]
async fn a_reviewed_reshape_that_was_begun_is_retried_to_its_end() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    agent.reviewed = Some(of_a(reviewed(&bench).await));
    let away = StatusCode::SERVICE_UNAVAILABLE;
    bench
        .placement
        .set(PlacementBehaviour::Status("/reshaper", away));
    let (ended, ()) = bench
        .run(agent, async |running| {
            sleep(Duration::from_mins(5)).await;
            assert!(
                bench.placement.has("a_pci_0000_84_00_0"),
                "its execution started"
            );
            bench.placement.set(PlacementBehaviour::Fine);
            running.started().await;
        })
        .await;
    ended.unwrap();
    assert_eq!(
        bench
            .placement
            .inventory("a_pci_0000_84_00_0", "VGPU", "total"),
        4
    );
}

#[tokio::test(start_paused = true)]
async fn a_reviewed_plan_that_moved_before_it_was_begun_is_refused() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    let mut plan = reviewed(&bench).await;
    for generation in plan.generations.values_mut() {
        *generation += 1;
    }
    agent.reviewed = Some(of_a(plan));
    let error = bench.run_to_end(agent).await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::ReshapeFailed);
    assert!(!bench.placement.has("a_pci_0000_84_00_0"));
}

#[tokio::test(start_paused = true)]
async fn plans_for_other_nodes_than_the_host_has_are_refused() {
    let bench = Bench::with(host(&["a"]));
    let plan = reviewed(&bench).await;
    let b = NodeName::new("b").unwrap();
    let mut too_many = of_a(plan.clone());
    too_many.insert(b.clone(), plan.clone());
    for (plans, expected) in [
        (ReviewedPlans::new(), "no plan for node a"),
        (
            ReviewedPlans::from([(b, plan)]),
            "node b, which this host does not have",
        ),
        (too_many, "node b, which this host does not have"),
    ] {
        let mut agent = bench.agent();
        agent.reviewed = Some(plans);
        bench.messages();
        let error = bench.run_to_end(agent).await.unwrap_err();
        assert_eq!(error.reason(), ExitReason::ReshapeFailed);
        let messages = bench.messages().join("\n");
        assert!(messages.contains(expected), "{messages}");
    }
    assert!(!bench.placement.has("a_pci_0000_84_00_0"));
}
