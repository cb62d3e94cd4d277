//! Accelerators near the NUMA cells of their guests: from the flavor's extra spec through the conductor's order of
//! candidates to the assigned device.

use std::time::Duration;

use berth_conductor::BootRequest;
use berth_conductor::journal::BootGoal;
use berth_tests::guest_cloud::{CardHardware, GuestCloud, ON_CELL_0, guest};
use serde_json::json;
use tokio::time::sleep;

/// A guest with one cell of its own and so many CPUs of the host, near to its device or not.
fn request(n: u32, vcpus: u32, profile: Option<&str>, affinity: Option<&str>) -> BootRequest {
    let mut specs = json!({"hw:numa_nodes": "1", "hw:cpu_policy": "dedicated"});
    if let Some(affinity) = affinity {
        specs["hw:pci_numa_affinity_policy"] = json!(affinity);
    }
    let body = json!({
        "uuid": guest(n).to_string(), "name": format!("vm{n}"), "device_profile": profile,
        "flavor": {"name": "f", "vcpus": vcpus, "ram_mb": 512, "extra_specs": specs},
    });
    let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
    BootRequest::new(body, *guest(n).as_uuid()).unwrap()
}

/// The guest's cards once it runs, or why it came to nothing.
async fn booted(cloud: &GuestCloud, n: u32, request: BootRequest) -> Result<Vec<u8>, String> {
    cloud.conductor().await.create(&request).await.unwrap();
    for _ in 0..3600 {
        match cloud.boot_goal(guest(n)).await {
            Some(BootGoal::Active) => return Ok(cloud.held_by(guest(n)).await),
            Some(BootGoal::Failed { reason, .. }) => return Err(reason),
            _ => sleep(Duration::from_secs(1)).await,
        }
    }
    panic!("guest {n} is neither there nor refused after an hour")
}

#[test]
fn the_near_device_is_preferred_and_a_far_one_used_only_if_allowed() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(async {
        let cloud = GuestCloud::of(CardHardware::TwoCells).await;
        // Two guests leave room for others on cell 0 alone.
        for (n, vcpus) in [(1, 12), (2, 16)] {
            assert_eq!(
                booted(&cloud, n, request(n, vcpus, None, None)).await,
                Ok(vec![])
            );
        }
        let near = booted(&cloud, 3, request(3, 1, Some("gpu"), Some("required"))).await;
        assert_eq!(near, Ok(vec![ON_CELL_0]), "the only one on its cell");
        let far = booted(&cloud, 4, request(4, 1, Some("gpu"), Some("required"))).await;
        let refused = far.expect_err("the remaining ones are on the other cell");
        assert!(refused.contains("hw:pci_numa_affinity_policy"), "{refused}");
        let deleted = cloud.conductor().await.delete(guest(3)).await;
        deleted.unwrap();
        cloud.wait_until_gone(3).await;
        assert_eq!(cloud.rests(None).await, Vec::<String>::new());

        let near = booted(&cloud, 5, request(5, 1, Some("gpu"), Some("preferred"))).await;
        assert_eq!(near, Ok(vec![ON_CELL_0]), "it is preferred");
        let unknown = booted(&cloud, 6, request(6, 1, Some("gpu"), Some("none"))).await;
        let refused = unknown.expect_err("no release of Nova has it");
        assert!(refused.contains("required or legacy"), "{refused}");
        for n in [7, 8] {
            let far = booted(&cloud, n, request(n, 1, Some("gpu"), Some("preferred"))).await;
            let far = far.expect("a far one is better than none");
            assert!(far.len() == 1 && far != [ON_CELL_0], "{far:?}");
        }
        cloud.end();
    }));
}
