//! The accelerator service's calls against scripted answers, worded as the real Cyborg words them.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::placement::DeleteOutcome;
use berth_client::{AcceleratorClient, AcceleratorError, Auth, Disposition, Secret};
use berth_model::{ArqPhase, Binding, DeviceProfileName};

use crate::script::{Reply, Script, answer, connection_reset, options};

const ARQ: &str = "c0a58289-b739-4a22-bd81-a7e022eba6ea";
const OTHER: &str = "d0a58289-b739-4a22-bd81-a7e022eba6ea";
const GUEST: &str = "5c965fc9-a7cd-4d38-8ccb-d8821db50d03";
const RP: &str = "f9d7848a-7688-361f-8e4b-3e58185de5fe";

fn client(script: &Script) -> AcceleratorClient {
    let auth = Auth::admin_token("http://cyborg", &Secret::from("admin")).unwrap();
    AcceleratorClient::new(script.http.clone(), auth, &options())
}

fn bound(uuid: &str, kind: &str) -> String {
    format!(
        r#"{{"uuid": "{uuid}", "state": "Bound", "device_profile_name": "dp", "device_profile_group_id": 0,
            "hostname": "compute1", "device_rp_uuid": "{RP}", "instance_uuid": "{GUEST}", "project_id": "p",
            "attach_handle_type": "{kind}", "attach_handle_uuid": "b55549d6-6606-423a-aebe-1c4e162b0346",
            "attach_handle_info": {{"domain": "0000", "bus": "0c", "device": "00", "function": "1"}}, "links": [],
            "created_at": "2026-11-20T15:22:11+00:00", "updated_at": null}}"#
    )
}

/// Cyborg's error document: a document as text inside a document.
fn refusal(status: u16, message: &str) -> Reply {
    let inner = format!(r#"{{\"faultcode\": \"Client\", \"faultstring\": \"{message}\"}}"#);
    answer(status, format!(r#"{{"error_message": "{inner}"}}"#))
}

#[tokio::test]
async fn each_call_is_the_one_that_nova_makes() {
    let script = Script::new(|_, seen| match (seen.method.as_str(), seen.uri.as_str()) {
        ("GET", uri) if uri.contains("device_profiles") => answer(
            200,
            format!(
                r#"{{"device_profiles": [{{"uuid": "{RP}", "name": "dp", "description": null,
                    "groups": [{{"resources:PGPU": "1"}}], "links": []}}]}}"#
            ),
        ),
        ("GET", uri) if uri.contains('?') => {
            answer(200, format!(r#"{{"arqs": [{}]}}"#, bound(ARQ, "PCI")))
        }
        ("GET", _) => answer(200, bound(ARQ, "PCI")),
        ("POST", _) => {
            let arq = bound(ARQ, "PCI").replace("Bound", "Initial");
            answer(201, format!(r#"{{"arqs": [{arq}]}}"#))
        }
        ("PATCH", _) => answer(202, ""),
        _ => answer(204, ""),
    });
    let cyborg = client(&script);
    let profile = DeviceProfileName::new("dp").unwrap();
    let (arq, guest) = (ARQ.parse().unwrap(), GUEST.parse().unwrap());
    let groups = cyborg.device_profile_groups(&profile).await.unwrap();
    assert_eq!(groups.unwrap().requests().count(), 1);
    let made = cyborg.create_arqs(&profile).await.unwrap();
    assert_eq!(made[0].state.phase(), ArqPhase::Initial);
    let binding = Binding {
        hostname: "compute1".to_owned(),
        device_rp: RP.parse().unwrap(),
        instance: guest,
    };
    let bindings = BTreeMap::from([(arq, binding)]);
    cyborg.bind_arqs(&bindings).await.unwrap();
    let arqs = cyborg.arqs_of_instance(guest).await.unwrap();
    let handle = arqs[0].arq.as_ref().unwrap().state.attach_handle();
    assert_eq!(handle.unwrap().info.to_string(), "PCI 0000:0c:00.1");
    assert_eq!(cyborg.arq(arq).await.unwrap().unwrap().uuid, arq);
    cyborg.unbind_arqs(&BTreeSet::from([arq])).await.unwrap();
    assert_eq!(
        cyborg.delete_arq(arq).await.unwrap(),
        DeleteOutcome::Deleted
    );
    cyborg.delete_arqs_of_instance(guest).await.unwrap();

    let seen = script.seen();
    let lines: Vec<_> = seen
        .iter()
        .map(|seen| format!("{} {}", seen.method, &seen.uri["http://cyborg".len()..]))
        .collect();
    assert_eq!(
        lines,
        [
            "GET /v2/device_profiles?name=dp".to_owned(),
            "POST /v2/accelerator_requests".to_owned(),
            "PATCH /v2/accelerator_requests".to_owned(),
            format!("GET /v2/accelerator_requests?instance={GUEST}"),
            format!("GET /v2/accelerator_requests/{ARQ}"),
            "PATCH /v2/accelerator_requests".to_owned(),
            format!("DELETE /v2/accelerator_requests?arqs={ARQ}"),
            format!("DELETE /v2/accelerator_requests?instance={GUEST}"),
        ]
    );
    assert_eq!(
        seen[2].body,
        format!(
            r#"{{"{ARQ}":[{{"path":"/hostname","op":"add","value":"compute1"}},{{"path":"/device_rp_uuid","op":"add","value":"{RP}"}},{{"path":"/instance_uuid","op":"add","value":"{GUEST}"}}]}}"#
        )
    );
    assert!(
        seen[5]
            .body
            .contains(r#"{"path":"/hostname","op":"remove"}"#)
    );
    for seen in seen {
        // No microversion is 2.0, and a bind without a service token is refused.
        assert_eq!(seen.version, None);
        assert_eq!(seen.token.as_deref(), Some("admin"));
        assert_eq!(seen.service_token.as_deref(), Some("admin"));
    }
}

#[tokio::test]
async fn one_request_that_makes_no_sense_does_not_hide_the_others() {
    let list = format!(
        r#"{{"arqs": [{}, {}]}}"#,
        bound(ARQ, "USB"),
        bound(OTHER, "TEST_PCI")
    );
    let script = Script::of(vec![answer(200, list)]);
    let arqs = client(&script)
        .arqs_of_instance(GUEST.parse().unwrap())
        .await
        .unwrap();
    let error = arqs[0].arq.as_ref().unwrap_err().to_string();
    assert!(error.contains("USB"), "{error}");
    assert_eq!(arqs[0].uuid.to_string(), ARQ);
    assert!(arqs[1].arq.is_ok());
}

#[tokio::test]
async fn an_unknown_profile_is_none_and_one_whose_name_begins_alike_is_not_it() {
    let profile = format!(
        r#"{{"device_profiles": [{{"uuid": "{RP}", "name": "dp2", "description": null, "groups": [{{"resources:FPGA": "1"}}], "links": []}}]}}"#
    );
    for body in [profile, r#"{"device_profiles": []}"#.to_owned()] {
        let script = Script::of(vec![answer(200, body)]);
        let name = DeviceProfileName::new("dp").unwrap();
        let groups = client(&script).device_profile_groups(&name).await;
        assert_eq!(groups.unwrap(), None);
    }
}

#[tokio::test]
async fn only_the_services_own_404_says_that_a_request_is_gone() {
    let arq = ARQ.parse().unwrap();
    let own = Script::of(vec![refusal(404, "ARQ not found")]);
    assert_eq!(client(&own).arq(arq).await.unwrap(), None);
    assert_eq!(
        client(&own).delete_arq(arq).await.unwrap(),
        DeleteOutcome::AlreadyGone
    );
    let proxy = Script::of(vec![answer(404, "<html>no such page</html>")]);
    let error = client(&proxy).arq(arq).await.unwrap_err();
    assert!(
        matches!(error, AcceleratorError::Malformed { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn refusals_say_what_to_do_and_repeat_no_traceback() {
    let guest = GUEST.parse().unwrap();
    let arqs = BTreeSet::from([ARQ.parse().unwrap()]);
    for (status, disposition, hint) in [
        (401, Disposition::Fatal, "[cyborg]"),
        (403, Disposition::Fatal, "role service"),
        (404, Disposition::Refresh, "or no longer"),
        (409, Disposition::Refresh, "409"),
        (400, Disposition::Fatal, "boom"),
        // Cyborg answers so after it has done half of it.
        (500, Disposition::Refresh, "log"),
    ] {
        let trace = "boom Traceback (most recent call last): File /usr/lib/x.py";
        let script = Script::of(vec![refusal(status, trace)]);
        let error = client(&script).unbind_arqs(&arqs).await.unwrap_err();
        let message = error.to_string();
        assert_eq!(error.disposition(), disposition, "{message}");
        assert!(
            message.contains(hint) && !message.contains("/usr/lib"),
            "{message}"
        );
        assert_eq!(script.seen().len(), 1, "a patch is not repeated: {status}");
    }
    let script = Script::of(vec![refusal(503, "later"), answer(200, r#"{"arqs": []}"#)]);
    let arqs = client(&script)
        .arqs_of_instance(guest)
        .await
        .unwrap_or_default();
    assert!(arqs.is_empty());
}

#[tokio::test]
async fn a_bind_whose_answer_is_lost_is_read_again_and_not_sent_again() {
    let script = Script::of(vec![connection_reset()]);
    let arqs = BTreeSet::from([ARQ.parse().unwrap()]);
    let error = client(&script).unbind_arqs(&arqs).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Refresh, "{error}");
    assert_eq!(script.seen().len(), 1);
}
