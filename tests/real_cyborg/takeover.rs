//! A host of Cyborg's is taken over: its agent is stopped, and Berth's reports the devices from then on. Cyborg's API
//! and conductor keep the profiles and the requests, until Berth's own service takes them over, too. This is
//! `docs/guide/howto/take-over-cyborg.md` in one test.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_client::AcceleratorClient;
use berth_conductor::GuestRunOutcome;
use berth_model::{ArqState, ConsumerUuid, ProviderUuid};
use berth_tests::peer::{CyborgSettings, PciFunction};
use http::Method;
use serde_json::{Value, json};

use crate::real_cyborg::card_host::{CARDS, CardHost, PATIENCE, active};
use crate::real_cyborg::cloud::{Cloud, named, of_provider};
use crate::real_cyborg::conductor::{assert_nothing_left, end};

/// What Cyborg calls the host: `gethostname`, as by default.
const SHORT: &str = "taken-host";
/// What libvirt calls it, and Placement with it.
const NODE: &str = "taken-host.example.org";

/// The provider that Cyborg made of a card.
fn provider(card: &PciFunction) -> ProviderUuid {
    named(&format!("{SHORT}_{}", card.address))
}

/// The providers of the node's tree, with what they are called.
fn tree(cloud: &Cloud) -> BTreeMap<String, String> {
    let all = cloud.cyborg.providers().expect("Placement answers");
    let is_root = |it: &&Value| it["name"] == NODE;
    let root = all.iter().find(is_root).expect("the node")["uuid"].clone();
    let of_node = all
        .iter()
        .filter(|it| it["root_provider_uuid"] == root)
        .map(|it| {
            let text = |key: &str| it[key].as_str().expect("a text").to_owned();
            (text("uuid"), text("name"))
        });
    of_node.collect()
}

/// Who holds what, and the consumer's generation.
fn claim(cloud: &Cloud, guest: ConsumerUuid) -> Value {
    let path = format!("/allocations/{guest}");
    let ask = cloud.cyborg.ask_placement(Method::GET, &path);
    let answer = ask.expect("a token").send().expect("Placement answers");
    let mut claim = answer.json();
    // A provider's generation tells that it was written, and it was.
    for (_, held) in claim["allocations"].as_object_mut().expect("an object") {
        held.as_object_mut()
            .expect("an object")
            .remove("generation");
    }
    claim
}

/// The guest's bound requests: which handle each has.
async fn bound(cloud: &Cloud, guest: ConsumerUuid) -> Vec<(String, String)> {
    let arqs = cloud.accelerators().arqs_of_instance(guest).await;
    let arqs = arqs.expect("Cyborg answers");
    let handle = |reported: &berth_client::ReportedArq| {
        let arq = reported.arq.as_ref().expect("a request");
        match &arq.state {
            ArqState::Bound(_, handle) => (arq.uuid.to_string(), handle.uuid.to_string()),
            other => panic!("{other:?}"),
        }
    };
    arqs.iter().map(handle).collect()
}

/// Where the device of a guest's one request is.
async fn address_of(accelerators: &AcceleratorClient, guest: ConsumerUuid) -> String {
    let arqs = accelerators.arqs_of_instance(guest).await;
    let arqs = arqs.expect("it answers");
    let arq = arqs[0].arq.as_ref().expect("a request");
    let handle = arq.state.attach_handle();
    handle.expect("it is bound").info.to_string()
}

/// Until the service knows the cards.
async fn await_devices(accelerators: &AcceleratorClient, host: &CardHost) {
    let begun = Instant::now();
    loop {
        let known = accelerators.devices().await;
        if known.as_ref().is_ok_and(|all| all.len() == CARDS.len()) {
            return;
        }
        let log = || host.agent.stderr();
        assert!(begun.elapsed() < PATIENCE, "{known:?}\n{}", log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until every card is clean and unused.
async fn await_free(host: &mut CardHost) {
    let begun = Instant::now();
    loop {
        let output = host.outcome(&["device", "list", "-f", "json"]);
        let list: Value = serde_json::from_str(&output.stdout).expect("JSON");
        let cards = list["items"].as_array().expect("a list");
        if cards.len() == CARDS.len() && cards.iter().all(|card| card["state"] == "free") {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{list}\n{}",
            host.agent.stderr()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_of_cyborgs_is_taken_over_with_a_guest_and_no_provider_is_recreated() {
    let cloud = Cloud::shared();
    let cyborg = CyborgSettings {
        host: SHORT,
        root: NODE,
        functions: CARDS.to_vec(),
    };
    let mut host = CardHost::start(cloud, &cyborg).await;
    let guest = host.create().await;
    active(&host, &end(&host.conductor, guest).await);
    let card = host.card_of(guest);
    let life = host.virsh(&["domid", &format!("vm-{guest}")]);
    let (before, claimed, held) = (tree(cloud), claim(cloud, guest), bound(cloud, guest).await);
    let devices = &claimed["allocations"][provider(&card).to_string()];
    assert_eq!(devices["resources"], json!({"CUSTOM_PCI": 1}), "{claimed}");
    assert_eq!(before.len(), 1 + CARDS.len(), "{before:?}");

    host.take_over();
    host.await_it(|| {
        let are_ours = CARDS.iter().all(|card| {
            let traits = of_provider(cloud, provider(card), "traits").to_string();
            traits.contains("\"CUSTOM_OWNER_BERTH\"")
        });
        are_ours.then_some(())
    });

    // The same providers, by the node's name now; what is in them, and what profiles ask of them, is as it was.
    let after = tree(cloud);
    assert!(after.keys().eq(before.keys()), "{before:?}\n{after:?}");
    for of in &CARDS {
        let uuid = provider(of).to_string();
        assert_eq!(after[&uuid], format!("{NODE}_{}", of.address));
        let inventories = of_provider(cloud, provider(of), "inventories");
        let inventories = inventories["inventories"].as_object().expect("an object");
        let classes: Vec<_> = inventories.keys().collect();
        assert_eq!(classes, ["CUSTOM_PCI"]);
        let inventory = &inventories["CUSTOM_PCI"];
        assert_eq!(
            (&inventory["total"], &inventory["reserved"]),
            (&json!(1), &json!(0)),
            "{inventory}"
        );
        let traits = of_provider(cloud, provider(of), "traits");
        for named in [
            "OWNER_CYBORG",
            "CUSTOM_OWNER_BERTH",
            "CUSTOM_PCI_PRODUCT_ID_1111",
        ] {
            assert!(traits.to_string().contains(named), "{named}: {traits}");
        }
    }
    // The guest runs on with its card, its claim and its request.
    assert_eq!(claim(cloud, guest), claimed);
    assert_eq!(bound(cloud, guest).await, held);
    assert_eq!(host.virsh(&["domid", &format!("vm-{guest}")]), life);
    assert_eq!(host.card_of(guest), card);
    // At the first look that knows the tree.
    let kept = "keeps the class that Cyborg's PCI driver gave it";
    let logged = tokio::task::block_in_place(|| host.agent.wait_for_log(PATIENCE, kept));
    logged.expect("it is reported");
    let differs = host.berth(&["reconcile", "--dry-run"]);
    assert!(!differs.contains(&guest.to_string()), "{differs}");
    let shown = host.berth(&["device", "list"]);
    assert!(shown.contains("CUSTOM_PCI"), "{shown}");

    // Cyborg binds the other card by the same profile, and the agent hears of it.
    let second = host.create().await;
    active(&host, &end(&host.conductor, second).await);
    assert_ne!(host.card_of(second), card);

    // Berth's own service takes Cyborg's place, with what Cyborg keeps.
    let url = host.leave_cyborg();
    let own = cloud.accelerators_at(&url);
    await_devices(&own, &host).await;
    let from = format!("{}/v2", cloud.cyborg.url());
    for _ in 0..2 {
        let output = host.outcome(&["accelerator", "adopt", "--from", &from, "-f", "json"]);
        // Other tests' requests are bound on hosts that this service does not know.
        assert!([0, 1].contains(&output.code), "{}", output.stderr);
        let rows: Value = serde_json::from_str(&output.stdout).expect("JSON");
        let rows = rows.to_string();
        for guest in [guest, second] {
            for (arq, handle) in bound(cloud, guest).await {
                let taken = format!("\"uuid\":\"{arq}\"");
                assert!(rows.contains(&taken), "{rows}");
                let here = own.arqs_of_instance(guest).await.expect("it answers");
                let [reported] = &here[..] else {
                    panic!("{here:?}")
                };
                assert_eq!(reported.uuid.to_string(), arq);
                let theirs = address_of(&cloud.accelerators(), guest).await;
                assert_eq!(address_of(&own, guest).await, theirs, "{handle}");
            }
        }
    }
    assert_eq!(host.card_of(guest), card);
    for guest in [guest, second] {
        host.conductor.delete(guest).await.expect("it is taken");
        let gone = end(&host.conductor, guest).await;
        assert!(
            matches!(gone, GuestRunOutcome::Gone),
            "{gone:?}\n{}",
            host.agent.stderr()
        );
        assert_nothing_left(cloud, guest).await;
    }
    // Both services get back what Cyborg bound, and Berth's own service binds the next guest's card.
    for guest in [guest, second] {
        let left = own.arqs_of_instance(guest).await.expect("it answers");
        assert_eq!(left, []);
    }
    // A card is cleaned after its guest, and unused until then.
    await_free(&mut host).await;
    let conductor = host.conductor_with(own.clone()).await;
    let third = host.create_by(&conductor).await;
    active(&host, &end(&conductor, third).await);
    host.card_of(third);
    conductor.delete(third).await.expect("it is taken");
    let gone = end(&conductor, third).await;
    assert!(matches!(gone, GuestRunOutcome::Gone), "{gone:?}");
    assert!(tree(cloud).keys().eq(before.keys()));
    for of in &CARDS {
        let held = of_provider(cloud, provider(of), "allocations");
        assert_eq!(held["allocations"], json!({}));
    }
}
