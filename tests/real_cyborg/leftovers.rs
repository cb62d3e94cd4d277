//! Orphaned requests in Cyborg: the agent's reconciler finds them in the list of all requests, because Cyborg accepts
//! no device reports and unbinds nothing by itself.

use berth_agent_instances::reconcile::{ReconcileFinding, ReconcileReport, Remedy};
use berth_tests::exchange::HttpAnswer;
use http::Method;
use serde_json::json;

use crate::real_cyborg::agent::Agent;
use crate::real_cyborg::cloud::{Cloud, address, new_guest, provider};

/// The functions of this test.
const ORPHAN: usize = 11;
const HELD: usize = 12;

/// The text and the remedy of what was found of a subject, once it has lasted. Other tests have leftovers of their own.
fn findings_of(found: &ReconcileReport, subject: &str) -> Vec<(&'static str, Remedy, String)> {
    let of_it = found.findings.iter().map(|(finding, _)| finding);
    let of_it = of_it.filter(|finding| finding.subject() == subject);
    of_it
        .map(|finding: &ReconcileFinding| {
            let (remedy, text) = finding.describe(berth_agent_instances::reconcile::FINDING_GRACE);
            (finding.code(), remedy, text)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_cyborg_bound_here_for_an_unknown_guest_is_found_until_it_is_deleted() {
    let cloud = Cloud::shared();
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let guest = new_guest();
    let arq = cloud.bound("pci", guest, provider(HELD)).await;
    agent.asks_for(guest, &[arq]).await;
    agent.runs(guest).await;
    let unknown = new_guest();
    let orphan = cloud.bound("pci", unknown, provider(ORPHAN)).await;
    let reconciler = agent.reconciler(cloud).await;
    let report = reconciler
        .find_differences()
        .await
        .expect("the journal is read");
    assert_eq!(report.unknown, Vec::<String>::new());
    assert_eq!(findings_of(&report, &arq.to_string()), []);
    let found = findings_of(&report, &orphan.to_string());
    let [("request_orphan", Remedy::Reported, text)] = &found[..] else {
        panic!("{found:?}");
    };
    let delete = format!("berth accelerator request delete {orphan}");
    let named = [address(ORPHAN).to_string(), unknown.to_string(), delete];
    assert!(named.iter().all(|it| text.contains(it)), "{text}");
    // It is done as the sentence says.
    let deleted = cloud.accelerators().delete_arq(orphan).await;
    deleted.expect("Cyborg deletes it");
    let report = reconciler
        .find_differences()
        .await
        .expect("the journal is read");
    assert_eq!(findings_of(&report, &orphan.to_string()), []);
    cloud.assert_free(ORPHAN).await;

    // The guest holds something of the host, and nothing of the provider that Cyborg made of its device.
    let root = cloud.tree().root().uuid();
    let claims = [
        (json!({}), true),
        (
            json!({provider(HELD).to_string(): {"resources": {"CUSTOM_PCI": 1}}}),
            false,
        ),
    ];
    for (of_device, differs) in claims {
        let mut held = json!({root.to_string(): {"resources": {"VCPU": 1}}});
        let of_device = of_device.as_object().expect("an object").clone();
        held.as_object_mut().expect("an object").extend(of_device);
        claim(cloud, &guest.to_string(), &held);
        let report = reconciler
            .find_differences()
            .await
            .expect("the journal is read");
        let found = findings_of(&report, &guest.to_string());
        let codes: Vec<_> = found.iter().map(|(code, ..)| *code).collect();
        let expected: &[&str] = if differs {
            &["allocation_differs"]
        } else {
            &[]
        };
        assert_eq!(codes, expected, "{found:?}");
    }
    claim(cloud, &guest.to_string(), &json!({}));
    agent.deletes(guest).await;
    cloud.assert_free(HELD).await;
}

/// What a consumer holds from now on.
fn claim(cloud: &Cloud, consumer: &str, held: &serde_json::Value) {
    let path = format!("/allocations/{consumer}");
    let put = || {
        let before = cloud.cyborg.ask_placement(Method::GET, &path);
        let before = before.expect("a token").send().expect("Placement answers");
        let body = json!({
            "allocations": held, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE",
            "consumer_generation": before.json()["consumer_generation"],
        });
        let ask = cloud.cyborg.ask_placement(Method::PUT, &path);
        let answer = ask.expect("a token").json(&body).send();
        answer.expect("Placement answers")
    };
    // Cyborg's agent may change the provider at the same time.
    let is_conflict = |answer: &HttpAnswer| answer.text().contains("placement.concurrent_update");
    let mut answer = put();
    for _ in 0..20 {
        if !is_conflict(&answer) {
            break;
        }
        answer = put();
    }
    assert_eq!(answer.status.as_u16(), 204, "{}", answer.text());
}
