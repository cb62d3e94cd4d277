//! Which devices of a host's pools serve which requests, and how many devices the pools have afterwards.

use serde_json::{Value, json};

use super::*;
use crate::request::RequestSpec;
use crate::testing;

fn pools(pools: &Value) -> PciPools {
    let hosts = testing::hosts(&json!([{"pci_pools": pools}]));
    hosts[0].state.pci.clone().expect("it has PCI pools")
}

fn request(requests: &Value) -> RequestSpec {
    testing::request(&json!({"pci_requests": requests}))
}

fn pool(count: i64, tags: &Value) -> Value {
    json!({"vendor_id": "8086", "product_id": "1520", "count": count, "tags": tags})
}

fn ask(count: i64, spec: &Value) -> Value {
    let mut all = json!({"vendor_id": "8086"});
    for (key, value) in spec.as_object().expect("an object") {
        all[key] = value.clone();
    }
    json!({"count": count, "spec": [all], "alias_name": "a", "request_id": "r"})
}

/// The counts of the pools after the devices of all requests are taken; pools that are emptied are gone. The error is
/// the reason why they do not suffice, as text and as value. `fit` and `take` must agree.
fn left(
    all: &Value,
    requests: &Value,
    mappings: &[(&str, &str)],
) -> Result<Vec<i64>, (String, PciReason)> {
    let request = request(requests);
    let owned =
        |(group, provider): &(&str, &str)| ((*group).to_owned(), vec![(*provider).to_owned()]);
    let mappings: Mappings = mappings.iter().map(owned).collect();
    let ask = PciAsk::new(&request.pci_requests);
    let mut after = pools(all);
    let fits = ask.fit(&after, &mappings, DeviceLocality::Anywhere);
    let taken = ask.take(&mut after, &mappings, DeviceLocality::Anywhere);
    assert_eq!(fits, taken);
    match taken {
        Ok(()) => Ok(after.iter().map(|pool| pool.count).collect()),
        Err(reason) => {
            assert_eq!(after, pools(all), "nothing is taken");
            Err((reason.to_string(), reason))
        }
    }
}

#[test]
fn a_pool_serves_a_request_only_if_spec_and_device_type_match() {
    let step = |step| PciReason::TooFew {
        request: "alias a".to_owned(),
        requested: 1,
        available: 0,
        after: step,
    };
    for (tags, spec, refused) in [
        (json!({}), json!({}), None),
        (
            json!({}),
            json!({"product_id": "1521"}),
            Some(PciStep::Spec),
        ),
        (
            json!({}),
            json!({"physical_network": "net"}),
            Some(PciStep::Spec),
        ),
        (
            json!({"physical_network": "Net"}),
            json!({"physical_network": "nET"}),
            None,
        ),
        (
            json!({}),
            json!({"resource_class": "CUSTOM_X", "traits": "CUSTOM_Y", "rp_uuids": ""}),
            None,
        ),
        (json!({}), json!({"numa_node": "0"}), Some(PciStep::Spec)),
        (
            json!({"dev_type": "type-PF"}),
            json!({}),
            Some(PciStep::PhysicalFunction),
        ),
        (
            json!({"dev_type": "type-PF"}),
            json!({"dev_type": "type-PF"}),
            None,
        ),
        (json!({"dev_type": "vdpa"}), json!({}), Some(PciStep::Vdpa)),
        (
            json!({"dev_type": "vdpa"}),
            json!({"dev_type": "vdpa"}),
            None,
        ),
        (
            json!({"remote_managed": "True"}),
            json!({}),
            Some(PciStep::RemoteManaged),
        ),
        (
            json!({"remote_managed": "true"}),
            json!({"remote_managed": "TRUE"}),
            None,
        ),
        (json!({"live_migratable": "true"}), json!({}), None),
        (
            json!({"live_migratable": "true"}),
            json!({"live_migratable": "true"}),
            None,
        ),
        (
            json!({"live_migratable": "true"}),
            json!({"live_migratable": "false"}),
            Some(PciStep::Spec),
        ),
    ] {
        let got = left(&json!([pool(2, &tags)]), &json!([ask(1, &spec)]), &[]);
        let expected = refused.map_or(Ok(vec![1]), |it| Err(step(it)));
        assert_eq!(got.map_err(|it| it.1), expected, "{tags} {spec}");
    }
}

#[test]
fn devices_are_taken_from_plain_pools_first_and_then_are_gone() {
    let two = json!([
        pool(
            3,
            &json!({"dev_type": "type-VF", "physical_network": "net"})
        ),
        pool(2, &json!({"dev_type": "type-VF"})),
    ]);
    let (one, net) = (
        ask(1, &json!({})),
        ask(3, &json!({"physical_network": "net"})),
    );
    assert_eq!(left(&two, &json!([one]), &[]), Ok(vec![1, 3]));
    assert_eq!(left(&two, &json!([ask(2, &json!({}))]), &[]), Ok(vec![3]));
    assert_eq!(left(&two, &json!([ask(3, &json!({}))]), &[]), Ok(vec![2]));
    assert_eq!(left(&two, &json!([net, one]), &[]), Ok(vec![1]));
    let refused = left(&two, &json!([ask(4, &json!({})), net]), &[]);
    assert_eq!(
        refused.map_err(|it| it.0),
        Err("of the 3 devices that alias a asks for it has 1, which are of its kind".to_owned())
    );
}

#[test]
fn extreme_counts_do_not_overflow_and_a_request_is_for_at_least_one_device() {
    let (least, most) = (pool(i64::MIN, &json!({})), pool(i64::MAX, &json!({})));
    let ask = |count| json!([ask(count, &json!({}))]);
    let all = json!([least, most, most]);
    assert_eq!(pools(&all).iter().map(|it| it.count).min(), Some(0));
    assert_eq!(left(&all, &ask(1), &[]), Ok(vec![i64::MAX - 1, i64::MAX]));
    assert_eq!(left(&all, &ask(i64::MAX), &[]), Ok(vec![i64::MAX]));
    assert!(left(&json!([least]), &ask(1), &[]).is_err());
    for count in [0, -1, i64::MIN] {
        let refused = left(&all, &ask(count), &[]).map_err(|it| it.0);
        let sentence = format!("alias a asks for {count} devices, and should for 1 at least");
        assert_eq!(refused, Err(sentence));
    }
}

#[test]
fn devices_are_taken_only_from_the_allocated_providers() {
    let two = json!([
        pool(3, &json!({"rp_uuid": "p"})),
        pool(1, &json!({"rp_uuid": "q"})),
        pool(9, &json!({}))
    ]);
    let asked = json!([ask(2, &json!({}))]);
    let port = json!([{"count": 2, "spec": [{"vendor_id": "8086"}], "request_id": "r"}]);
    assert_eq!(
        left(&two, &asked, &[("r-0", "p"), ("r-1", "p")]),
        Ok(vec![9, 1, 1])
    );
    assert_eq!(
        left(&two, &asked, &[("r-0", "p"), ("r-1", "q")]),
        Ok(vec![9, 2])
    );
    assert_eq!(left(&two, &asked, &[("", "p")]), Ok(vec![7, 3, 1]));
    assert_eq!(
        left(&two, &port, &[("r-0", "p"), ("r-1", "p")]),
        Ok(vec![7, 3, 1])
    );
    let refused = |it: Result<_, (String, _)>| it.map_err(|it| it.0).expect_err("it does not fit");
    assert_eq!(
        refused(left(&two, &asked, &[("r-0", "q"), ("r-1", "q")])),
        "of the 2 devices that alias a asks for it has 0, which are of the providers that they are allocated from"
    );
    let split = json!([
        pool(3, &json!({"rp_uuid": "p"})),
        pool(1, &json!({"rp_uuid": "p"}))
    ]);
    assert_eq!(
        refused(left(&split, &asked, &[("r-0", "p"), ("r-1", "p")])),
        "provider p, which alias a is allocated from, has several pools"
    );
    let listed = json!([{"count": 1, "spec": [{"vendor_id": "8086", "rp_uuids": "q,x"}], "alias_name": "a"}]);
    assert_eq!(left(&two, &listed, &[]), Ok(vec![9, 3]));
}
