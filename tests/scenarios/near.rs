//! Accelerators near the cells of their guests: from the flavor's word through the conductor's order of candidates to the device
//! that the guest is given.

use std::time::Duration;

use berth_conductor::BootRequest;
use berth_conductor::journal::Course;
use berth_tests::guest_cloud::{CARDS, GuestCloud, NODE, card, guest};
use serde_json::json;
use tokio::time::sleep;

/// A host of two cells: the middle card hangs on cell 0, the others on cell 1.
fn two_cells() -> String {
    let mut text = format!(
        "[[node]]\nname = \"{NODE}\"\nmemory_mib = 65536\ndisk = 500\ncpus = {{ online = \"0-31\" }}\n\
         [[node.cell]]\nid = 0\ncpus = \"0-15\"\nmemory_mib = 32768\n\
         [[node.cell]]\nid = 1\ncpus = \"16-31\"\nmemory_mib = 32768\n"
    );
    for n in 0..CARDS {
        let (address, cell) = (card(n), u8::from(n != 1));
        text += &format!(
            "[[node.device]]\naddress = \"{address}\"\nvendor = \"10de\"\nproduct = \"1eb8\"\nnuma = {cell}\n\
             traits = [\"CUSTOM_GPU\"]\n"
        );
    }
    text
}

/// A guest with one cell of its own and so much memory, near to its device or not.
fn request(n: u32, memory_mib: u64, profile: Option<&str>, affinity: Option<&str>) -> BootRequest {
    let mut specs = json!({"hw:numa_nodes": "1"});
    if let Some(affinity) = affinity {
        specs["hw:pci_numa_affinity_policy"] = json!(affinity);
    }
    let body = json!({
        "uuid": guest(n).to_string(), "name": format!("vm{n}"), "device_profile": profile,
        "flavor": {"name": "f", "vcpus": 1, "ram_mb": memory_mib, "extra_specs": specs},
    });
    let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
    BootRequest::new(body, *guest(n).as_uuid()).unwrap()
}

/// The guest's cards once it runs; none where it came to nothing.
async fn booted(cloud: &GuestCloud, n: u32, request: BootRequest) -> Option<Vec<u8>> {
    cloud.conductor().await.create(&request).await.unwrap();
    for _ in 0..3600 {
        match cloud.course(guest(n)).await {
            Some(Course::Active) => return Some(cloud.held_by(guest(n)).await),
            Some(Course::Failed { .. }) => return None,
            _ => sleep(Duration::from_secs(1)).await,
        }
    }
    panic!("guest {n} is neither there nor refused after an hour")
}

#[test]
fn the_near_device_comes_first_a_far_one_is_taken_where_that_is_allowed_and_refused_where_not() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(async {
        let cloud = GuestCloud::new().await;
        cloud.becomes(&two_cells());
        // Two guests leave room for others on cell 0 alone.
        for (n, memory) in [(1, 30_000), (2, 32_600)] {
            assert_eq!(
                booted(&cloud, n, request(n, memory, None, None)).await,
                Some(vec![])
            );
        }
        let near = booted(&cloud, 3, request(3, 512, Some("gpu"), Some("required"))).await;
        assert_eq!(near, Some(vec![1]), "the only one on its cell");
        let far = booted(&cloud, 4, request(4, 512, Some("gpu"), Some("required"))).await;
        assert_eq!(far, None, "those that are left are on the other cell");
        let near = cloud.conductor().await.delete(guest(3)).await;
        near.unwrap();
        while cloud.course(guest(3)).await.is_some() {
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(cloud.rests(None).await, Vec::<String>::new());

        let near = booted(&cloud, 5, request(5, 512, Some("gpu"), Some("preferred"))).await;
        assert_eq!(near, Some(vec![1]), "it is preferred");
        for (n, affinity) in [(6, Some("preferred")), (7, Some("none"))] {
            let far = booted(&cloud, n, request(n, 512, Some("gpu"), affinity)).await;
            let far = far.expect("a far one is better than none");
            assert!(far.len() == 1 && far != [1], "{far:?}");
        }
        cloud.end();
    }));
}
