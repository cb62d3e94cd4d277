//! The upstream of these tests is a second proxy, which answers everything by itself and counts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::exchange::Ask;
use crate::wait::wait_until;

const PATH: &str = "/resource_providers/u";
const TEMPLATE: &str = "/resource_providers/{uuid}";

fn service() -> FaultProxy {
    let unused = crate::port::free_port().expect("a port");
    let service = FaultProxy::start(&format!("http://127.0.0.1:{unused}")).expect("listens");
    service.spoil(Rule::new(Fault::Answer(Spoilt::REFUSED)));
    service
}

fn pair() -> (FaultProxy, FaultProxy) {
    let service = service();
    let proxy = FaultProxy::start(&service.url()).expect("listens");
    (proxy, service)
}

fn ask(proxy: &FaultProxy) -> Result<crate::exchange::Answer, ExchangeError> {
    Ask::put(format!("{}{PATH}?x=1", proxy.url()))
        .json(&serde_json::json!({"a": 1}))
        .send()
}

#[test]
fn without_a_rule_a_request_goes_through_and_is_recorded() {
    let (proxy, service) = pair();
    let answer = ask(&proxy).expect("an answer");
    assert_eq!(
        answer.json()["errors"][0]["code"],
        "placement.undefined_code"
    );
    let expected = Crossing {
        number: 1,
        method: "PUT".to_owned(),
        path: format!("{PATH}?x=1"),
        status: Some(409),
        fault: None,
    };
    assert_eq!(proxy.trace(), [expected]);
    assert_eq!(
        (proxy.count("PUT", TEMPLATE), proxy.count("GET", TEMPLATE)),
        (1, 0)
    );
    assert_eq!(service.count("*", "*"), 1);
    proxy.forget();
    assert_eq!(proxy.trace(), []);
}

/// Fault, how many requests the service sees, the status of a whole answer.
#[test]
fn each_fault_does_what_it_says() {
    let pause = Duration::from_millis(1);
    let cases = [
        (Fault::Answer(Spoilt::UNAVAILABLE), 0, Some(503)),
        (Fault::Answer(Spoilt::UNAUTHORIZED), 0, Some(401)),
        (Fault::DropBefore, 0, None),
        (Fault::DropAfter, 1, None),
        (Fault::Twice, 2, Some(409)),
        (Fault::DelayBefore(pause), 1, Some(409)),
        (Fault::DelayAfter(pause), 1, Some(409)),
        (Fault::Truncate, 1, None),
        (Fault::Garbage, 1, Some(409)),
    ];
    for (fault, seen, status) in cases {
        let name = fault.name();
        let (proxy, service) = pair();
        proxy.spoil(Rule::new(fault).on("PUT", TEMPLATE).nth(1));
        let answer = ask(&proxy).ok();
        assert_eq!(
            answer.as_ref().map(|answer| answer.status.as_u16()),
            status,
            "{name}"
        );
        assert_eq!(service.count("*", "*"), seen, "{name}");
        assert_eq!(proxy.trace()[0].fault, Some(name));
        if name == "garbage" {
            assert!(answer.expect("an answer").json().is_null());
        }
        assert_eq!(
            ask(&proxy).expect("healthy again").status.as_u16(),
            409,
            "{name}"
        );
    }
}

#[test]
fn closures_run_before_and_after_the_service_has_seen_the_request() {
    for after in [0, 1] {
        let (proxy, service) = pair();
        let service = Arc::new(service);
        let seen = Arc::new(Mutex::new(None));
        let act = {
            let (service, seen) = (Arc::clone(&service), Arc::clone(&seen));
            move || *seen.lock().expect("no panic") = Some(service.count("*", "*"))
        };
        let fault = if after == 1 {
            Fault::after(act)
        } else {
            Fault::before(act)
        };
        proxy.spoil(Rule::new(fault));
        ask(&proxy).expect("an answer");
        assert_eq!(*seen.lock().expect("no panic"), Some(after));
    }
}

#[test]
fn a_closure_may_run_instead_of_the_request() {
    let (proxy, service) = pair();
    let runs = Arc::new(AtomicUsize::new(0));
    let act = {
        let runs = Arc::clone(&runs);
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    };
    proxy.spoil(Rule::new(Fault::instead(act)));
    ask(&proxy).expect_err("no answer");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(service.count("*", "*"), 0);
}

#[test]
fn an_endless_body_goes_on_for_as_long_as_one_reads() {
    let (proxy, _service) = pair();
    proxy.spoil(Rule::new(Fault::Endless));
    let mut stream = TcpStream::connect(proxy.address).expect("connects");
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .expect("written");
    let mut buffer = vec![0; 16 * 1024 * 1024];
    stream
        .read_exact(&mut buffer)
        .expect("sixteen megabytes and no end");
}

#[test]
fn what_the_service_does_is_done_though_the_client_gave_up() {
    let (proxy, service) = pair();
    proxy.spoil(Rule::new(Fault::DelayBefore(Duration::from_millis(50))));
    let mut stream = TcpStream::connect(proxy.address).expect("connects");
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .expect("written");
    let counts_one = |proxy: &FaultProxy| match proxy.count("*", "*") {
        0 => Err("no request"),
        _ => Ok(()),
    };
    wait_until("the request is at the proxy", || counts_one(&proxy));
    drop(stream);
    wait_until("the request is at the service", || counts_one(&service));
}

#[test]
fn the_first_rule_acts_and_healing_takes_all_away() {
    let (proxy, _service) = pair();
    proxy.spoil(Rule::new(Fault::Answer(Spoilt::INTERNAL)).nth(2));
    proxy.spoil(Rule::new(Fault::Answer(Spoilt::CONFLICT)));
    let statuses = || ask(&proxy).expect("an answer").json()["errors"][0]["code"].clone();
    assert_eq!(statuses(), "placement.concurrent_update");
    assert_eq!(ask(&proxy).expect("an answer").status.as_u16(), 500);
    proxy.heal();
    assert_eq!(statuses(), "placement.undefined_code");
}

#[test]
fn a_service_that_is_away_is_away_behind_the_proxy_too() {
    let unused = crate::port::free_port().expect("a port");
    let proxy = FaultProxy::start(&format!("http://127.0.0.1:{unused}")).expect("listens");
    ask(&proxy).expect_err("no answer");
    assert_eq!(proxy.trace()[0].status, None);
}
