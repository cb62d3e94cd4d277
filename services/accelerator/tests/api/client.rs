//! The house's own client of this service: what an agent and a conductor do, from the report to the guest's end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_client::placement::DeleteOutcome;
use berth_model::{ArqPhase, ArqUuid, Binding, DeviceProfileName};
use berth_wire::accelerator::HostDevicesReport;
use serde_json::json;

use super::service::{HOST, RP, Service, card, guest};

#[tokio::test]
async fn a_guests_accelerators_from_the_report_to_the_end() {
    let service = Service::start().await;
    let client = service.client();
    let body = json!({"devices": [card(0, RP, 2)]}).to_string();
    let devices: HostDevicesReport = berth_wire::decode(body.as_bytes()).unwrap();
    let known = client.report_devices(HOST, &devices).await.unwrap();
    assert_eq!(known.devices[0].deployables[0].attach_handles.len(), 2);
    service.profile("dp", 2).await;
    let profile = DeviceProfileName::new("dp").unwrap();
    let groups = client.device_profile_groups(&profile).await.unwrap();
    assert_eq!(groups.unwrap().requests().count(), 2);
    let arqs = client.create_arqs(&profile).await.unwrap();
    let binding = Binding {
        hostname: HOST.to_owned(),
        device_rp: RP.parse().unwrap(),
        instance: guest(1).parse().unwrap(),
    };
    let bindings: BTreeMap<ArqUuid, Binding> =
        arqs.iter().map(|arq| (arq.uuid, binding.clone())).collect();
    client.bind_arqs(&bindings).await.unwrap();
    let bound = client.arqs_of_instance(binding.instance).await.unwrap();
    let mut places = BTreeSet::new();
    for reported in &bound {
        let arq = reported.arq.as_ref().unwrap();
        places.insert(arq.state.attach_handle().unwrap().info.to_string());
        assert_eq!(arq.state.binding(), Some(&binding));
    }
    assert_eq!(
        Vec::from_iter(places),
        ["PCI 0000:80:00.0", "PCI 0000:80:00.1"]
    );
    let known = client.report_devices(HOST, &devices).await.unwrap();
    let holders: BTreeSet<_> = known.devices[0].deployables[0]
        .attach_handles
        .iter()
        .filter_map(|handle| handle.holder())
        .collect();
    let expected = arqs.iter().map(|arq| (arq.uuid, Some(binding.instance)));
    assert_eq!(holders, expected.collect());
    let uuids: BTreeSet<ArqUuid> = bindings.into_keys().collect();
    for _ in 0..2 {
        client.unbind_arqs(&uuids).await.unwrap();
    }
    let answer = client.arq(arqs[0].uuid).await.unwrap().unwrap();
    assert_eq!(answer.arq.unwrap().state.phase(), ArqPhase::Unbound);
    assert_eq!(
        client.delete_arq(arqs[0].uuid).await.unwrap(),
        DeleteOutcome::Deleted
    );
    assert_eq!(
        client.delete_arq(arqs[0].uuid).await.unwrap(),
        DeleteOutcome::AlreadyGone
    );
    client
        .delete_arqs_of_instance(binding.instance)
        .await
        .unwrap();
    assert!(client.arq(arqs[0].uuid).await.unwrap().is_none());
}

#[tokio::test]
async fn an_agent_that_waits_is_woken_when_an_operator_changes_what_is_wanted_of_its_devices() {
    let service = Service::start().await;
    let client = service.client();
    let wait = Duration::from_secs(20);
    let reported = service.report(HOST, json!([card(0, RP, 1)])).await;
    let mut mark = reported["changes"].as_str().unwrap().to_owned();
    let device = service.devices().await.remove(0);
    for verb in ["disable", "enable"] {
        let path = format!("/v2/devices/{device}/{verb}");
        let (answer, _) = tokio::join!(client.host_changes(HOST, &mark, wait), async {
            service.post(&path, json!({})).await
        });
        let answer = answer.unwrap().changes;
        assert_ne!(answer, mark, "{verb}");
        // The same again changes nothing.
        service.post(&path, json!({})).await;
        let reported = service.report(HOST, json!([card(0, RP, 1)])).await;
        assert_eq!(reported["changes"], answer, "{verb}");
        mark = answer;
    }
    let nothing = client.host_changes(HOST, &mark, Duration::ZERO).await;
    assert_eq!(nothing.unwrap().changes, mark);
    let path = format!("/internal/v1/hosts/{HOST}/changes?wait");
    for wait in ["61", "-1", "soon", ""] {
        let refused = service.by("agent").get(&format!("{path}={wait}")).await;
        assert_eq!(refused.status, 400, "{wait}");
        assert!(refused.text.contains("0 to 60"), "{}", refused.text);
    }
    assert_eq!(service.by("alice").get(&path).await.status, 403);
}
