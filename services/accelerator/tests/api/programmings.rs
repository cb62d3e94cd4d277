//! Devices that are programmed before their guests have them: by a bind, and by an operator.

use std::time::Duration;

use berth_accelerator::{AcceleratorApiOptions, EventNotifier, end_late_programmings};
use berth_wire::accelerator::{DueProgrammings, Program, ProgrammingEnd};
use serde_json::{Value, json};

use super::service::{ABSENT, HOST, RP, RP_2, Service, bind, card, guest, options, unbind};

const IMAGE: &str = "9a17439a-85d0-4c53-a3d3-0f68a2eac896";

fn programmable(slot: usize, provider: &str, functions: usize) -> Value {
    let mut device = card(slot, provider, functions);
    device["deployables"][0]["programmable"] = json!(true);
    device
}

async fn fpgas() -> Service {
    with(options()).await
}

/// Two cards that can be programmed, and profiles that ask for that.
async fn with(options: AcceleratorApiOptions) -> Service {
    let service = Service::with(options).await;
    let cards = json!([programmable(0, RP, 4), programmable(1, RP_2, 4)]);
    service.report(HOST, cards).await;
    service.profile("plain", 1).await;
    for (name, extra) in [
        ("image", json!({"accel:bitstream_id": IMAGE})),
        ("function", json!({"accel:function_id": "aes"})),
        (
            "both",
            json!({"accel:bitstream_id": IMAGE, "accel:function_id": "aes"}),
        ),
    ] {
        let mut group = json!({"resources:FPGA": "1"});
        let pairs = extra.as_object().unwrap().clone();
        group.as_object_mut().unwrap().extend(pairs);
        let body = json!([{"name": name, "groups": [group]}]);
        assert_eq!(service.post("/v2/device_profiles", body).await.status, 201);
    }
    service
}

async fn due(service: &Service) -> DueProgrammings {
    service.client().due_programmings(HOST).await.unwrap()
}

async fn end(service: &Service, uuid: uuid::Uuid, error: Option<&str>) {
    let end = ProgrammingEnd {
        error: error.map(str::to_owned),
    };
    let client = service.client();
    client.programming_ended(HOST, uuid, &end).await.unwrap();
}

/// One request of each profile, bound for one guest: the first to the first card, the second to the other.
async fn pair(service: &Service, profiles: [&str; 2]) -> Vec<String> {
    let first = service.requests(profiles[0]).await;
    let second = service.requests(profiles[1]).await;
    let mut body = bind(&first, &guest(1), HOST, RP);
    let other = bind(&second, &guest(1), HOST, RP_2);
    let others = other.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(others);
    assert_eq!(service.patch(body).await.status, 202);
    [first, second].concat()
}

async fn states(service: &Service, uuids: &[String]) -> Vec<String> {
    let mut states = Vec::new();
    for uuid in uuids {
        let body = service.request(uuid).await.body;
        states.push(body["state"].as_str().unwrap().to_owned());
    }
    states
}

#[tokio::test]
async fn a_bind_with_a_device_to_program_completes_with_an_event_when_its_host_reports_it() {
    let service = fpgas().await;
    let uuids = pair(&service, ["image", "plain"]).await;
    assert_eq!(states(&service, &uuids).await, ["BindStarted"; 2]);
    assert_eq!((service.held().await, service.outbox().await), (2, vec![]));
    let started = service.request(&uuids[0]).await.body;
    assert_eq!(
        started["attach_handle_info"],
        json!({}),
        "no guest may use it yet"
    );
    let path = format!(
        "/v2/accelerator_requests?instance={}&bind_state=resolved",
        guest(1)
    );
    assert_eq!(service.get(&path).await.status, 423);
    let due_now = due(&service).await;
    let [programming] = due_now.programmings.as_slice() else {
        panic!("{due_now:?}");
    };
    assert_eq!(programming.program, Program::BitstreamId(IMAGE.to_owned()));
    assert_eq!(programming.rp_uuid.to_string(), RP);
    assert_eq!(programming.arq_uuid.unwrap().to_string(), uuids[0]);
    assert_eq!(programming.attach_handles.len(), 1, "its own alone");
    assert_eq!(
        service.client().due_programmings("other").await.unwrap(),
        DueProgrammings::default()
    );
    end(&service, programming.uuid, None).await;
    assert_eq!(states(&service, &uuids).await, ["Bound"; 2]);
    assert_eq!(due(&service).await, DueProgrammings::default());
    let mut reported = service.outbox().await;
    reported.sort();
    let mut expected: Vec<_> = uuids
        .iter()
        .map(|uuid| (uuid.clone(), "completed".to_owned()))
        .collect();
    expected.sort();
    assert_eq!(reported, expected);
    assert_eq!(service.get(&path).await.status, 200);
    let deployables = service.get("/v2/deployables").await.body;
    let images: Vec<_> = deployables["deployables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["bitstream_id"].clone())
        .collect();
    assert_eq!(images, [json!(IMAGE), Value::Null]);
    // A repeated report, after a lost answer, changes nothing.
    end(&service, programming.uuid, Some("late")).await;
    assert_eq!(states(&service, &uuids).await, ["Bound"; 2]);
}

#[tokio::test]
async fn one_device_that_is_not_programmed_fails_the_whole_bind_and_a_new_one_may_follow() {
    let service = fpgas().await;
    let uuids = pair(&service, ["image", "function"]).await;
    let both = due(&service).await.programmings;
    assert_eq!(both.len(), 2);
    end(&service, both[0].uuid, None).await;
    assert_eq!(states(&service, &uuids).await, ["BindStarted"; 2]);
    assert_eq!(due(&service).await.programmings, both[1..]);
    end(&service, both[1].uuid, Some("wrong\nshell")).await;
    assert_eq!(states(&service, &uuids).await, ["BindFailed"; 2]);
    assert_eq!(service.held().await, 0);
    let reported = service.outbox().await;
    assert!(
        reported.len() == 2 && reported.iter().all(|(_, status)| status == "failed"),
        "{reported:?}"
    );
    assert_eq!(due(&service).await, DueProgrammings::default());
    assert_eq!(service.bind(&uuids[..1], &guest(2)).await.status, 202);
    assert_eq!(states(&service, &uuids[..1]).await, ["BindStarted"]);
    assert_eq!(
        service.outbox().await.len(),
        1,
        "the earlier event is obsolete"
    );
}

#[tokio::test]
async fn a_bind_that_waits_can_be_withdrawn_or_deleted_and_the_rest_of_it_ends() {
    for delete in [false, true] {
        let service = fpgas().await;
        let uuids = pair(&service, ["image", "function"]).await;
        let both = due(&service).await.programmings;
        end(&service, both[1].uuid, None).await;
        if delete {
            let path = format!("/v2/accelerator_requests?arqs={}", uuids[0]);
            assert_eq!(service.by("admin").delete(&path).await.status, 403);
            assert_eq!(service.delete(&path).await.status, 204);
        } else {
            assert_eq!(service.patch(unbind(&uuids[..1])).await.status, 202);
        }
        assert_eq!(
            states(&service, &uuids[1..]).await,
            ["Bound"],
            "nothing is left to wait for"
        );
        assert_eq!(
            (service.held().await, due(&service).await.programmings),
            (1, vec![])
        );
        end(&service, both[0].uuid, Some("too late")).await;
        assert_eq!(states(&service, &uuids[1..]).await, ["Bound"]);
        let path = format!("/v2/accelerator_requests?instance={}", guest(1));
        assert_eq!(service.delete(&path).await.status, 204);
        assert_eq!(service.count("SELECT COUNT(*) FROM programmings").await, 0);
    }
}

#[tokio::test]
async fn what_cannot_be_programmed_is_refused_with_an_event_and_nothing_is_held() {
    let service = fpgas().await;
    let other = service.requests("image").await;
    assert_eq!(service.bind(&other, &guest(9)).await.status, 202);
    for (profile, provider, status, sentence) in [
        ("both", RP_2, 400, "asks for a bitstream and for a function"),
        ("image", RP, 409, "is being programmed"),
        ("plain", RP, 409, "is being programmed"),
    ] {
        let uuids = service.requests(profile).await;
        let refused = service.patch(bind(&uuids, &guest(1), HOST, provider)).await;
        assert_eq!(refused.status, status, "{profile}: {refused:?}");
        assert!(refused.message().contains(sentence), "{refused:?}");
        assert_eq!(states(&service, &uuids).await, ["BindFailed"]);
        assert!(
            service
                .outbox()
                .await
                .contains(&(uuids[0].clone(), "failed".to_owned()))
        );
        service
            .delete(&format!("/v2/accelerator_requests?instance={}", guest(1)))
            .await;
    }
    end(&service, due(&service).await.programmings[0].uuid, None).await;
    let uuids = service.requests("image").await;
    let refused = service.bind(&uuids, &guest(1)).await;
    assert_eq!(refused.status, 409);
    assert!(
        refused.message().contains("other requests hold it"),
        "{refused:?}"
    );
    assert_eq!(service.held().await, 1);
}

#[tokio::test]
async fn a_bind_that_its_host_does_not_end_in_time_has_failed() {
    let service = with(AcceleratorApiOptions {
        bind_timeout: Duration::ZERO,
        ..options()
    })
    .await;
    let uuids = pair(&service, ["image", "plain"]).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let notifier = EventNotifier::default();
    let task = tokio::spawn(end_late_programmings(
        service.store.clone(),
        notifier,
        async {
            let _ = stopped.await;
        },
    ));
    while states(&service, &uuids).await != ["BindFailed"; 2] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(service.held().await, 0);
    assert!(
        service
            .outbox()
            .await
            .iter()
            .all(|(_, status)| status == "failed")
    );
    drop(stop);
    task.await.unwrap();
}

fn program(image: &str) -> Value {
    json!([{"path": "/bitstream_id", "op": "replace", "value": [{"image_uuid": image}]}])
}

async fn deployable(service: &Service, n: usize) -> String {
    let all = service.get("/v2/deployables").await.body;
    all["deployables"][n]["uuid"].as_str().unwrap().to_owned()
}

async fn ask(service: &Service, deployable: &str, body: Value) -> super::service::Reply {
    let path = format!("/v2/deployables/{deployable}/program");
    service.ask("PATCH", &path, Some(body.to_string())).await
}

#[tokio::test]
async fn an_operator_has_a_device_programmed_and_is_answered_when_it_is() {
    let service = fpgas().await;
    let uuid = deployable(&service, 0).await;
    for (answer, status) in [(None, 200), (Some("no such shell"), 500)] {
        let asked = {
            let (service, uuid) = (service.clone(), uuid.clone());
            tokio::spawn(async move { ask(&service, &uuid, program(IMAGE)).await })
        };
        let one = loop {
            if let Some(one) = due(&service).await.programmings.pop() {
                break one;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(
            (one.arq_uuid, one.attach_handles.len()),
            (None, 4),
            "all of the card"
        );
        let busy = service.requests("plain").await;
        let refused = service.bind(&busy, &guest(1)).await;
        assert_eq!(refused.status, 409, "{refused:?}");
        service
            .delete(&format!("/v2/accelerator_requests?instance={}", guest(1)))
            .await;
        assert_eq!(ask(&service, &uuid, program(IMAGE)).await.status, 409);
        end(&service, one.uuid, answer).await;
        let reply = asked.await.unwrap();
        assert_eq!(reply.status, status, "{reply:?}");
        let image = &service.get(&format!("/v2/deployables/{uuid}")).await.body["bitstream_id"];
        match answer {
            None => assert_eq!((&reply.body["uuid"], image), (&json!(uuid), &json!(IMAGE))),
            Some(reason) => {
                assert!(reply.message().contains(reason), "{reply:?}");
                assert_eq!(*image, Value::Null, "its image is unknown");
            }
        }
    }
}

#[tokio::test]
async fn a_programming_that_makes_no_sense_is_refused_and_nothing_is_due() {
    let service = fpgas().await;
    let uuid = deployable(&service, 0).await;
    assert_eq!(ask(&service, ABSENT, program(IMAGE)).await.status, 404);
    assert_eq!(ask(&service, &uuid, json!([])).await.status, 400);
    assert_eq!(ask(&service, &uuid, program("../etc")).await.status, 400);
    for who in ["alice", "manager", "reader", "nova"] {
        assert_eq!(
            ask(&service.by(who), &uuid, program(IMAGE)).await.status,
            403,
            "{who}"
        );
    }
    let held = service.requests("plain").await;
    assert_eq!(service.bind(&held, &guest(1)).await.status, 202);
    let refused = ask(&service, &uuid, program(IMAGE)).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.message().contains("requests hold it"));
    let mut unhealthy = programmable(1, RP_2, 4);
    unhealthy["deployables"][0]["health"] = json!("bad");
    for (report, sentence) in [
        (unhealthy, "not healthy"),
        (card(1, RP_2, 4), "program_hook"),
    ] {
        service
            .report(HOST, json!([programmable(0, RP, 4), report]))
            .await;
        let refused = ask(&service, &deployable(&service, 1).await, program(IMAGE)).await;
        assert_eq!(refused.status, 409, "{refused:?}");
        assert!(refused.message().contains(sentence), "{refused:?}");
    }
    assert_eq!(due(&service).await, DueProgrammings::default());
}
