//! Tests of the service with its real sockets, on a real clock.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_agent_api::client::{AdminClient, AdminClientError};
use berth_agent_api::{AdminOptions, AuditTrail};
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::service::error::{ExitReason, ServiceError};
use crate::service::tests::bench::Bench;
use crate::service::tests::driver::host;
use crate::service::tests::placement::PlacementBehaviour;
use crate::service::{Agent, run};

fn options(bench: &Bench) -> AdminOptions {
    let group = nix::unistd::Group::from_gid(nix::unistd::getegid())
        .unwrap()
        .map(|group| group.name);
    AdminOptions {
        socket: bench.file("run/agent.sock"),
        group: group.unwrap_or_default(),
        metrics_listen: None,
        tls: None,
        audit: AuditTrail::default(),
    }
}

/// Runs the agent concurrently with a script that uses it.
async fn run_with<T, D: berth_virt::VirtDriver>(
    agent: Agent<D>,
    socket: &Path,
    script: impl AsyncFnOnce(AdminClient) -> T,
) -> (Result<(), ServiceError>, T) {
    let shutdown = CancellationToken::new();
    let scripted = async {
        let began = std::time::Instant::now();
        while UnixStream::connect(socket).await.is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "nothing listens there"
            );
            sleep(Duration::from_millis(2)).await;
        }
        let value = script(AdminClient::new(socket).unwrap()).await;
        shutdown.cancel();
        value
    };
    tokio::join!(run(agent, shutdown.clone()), scripted)
}

async fn raw(socket: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn request(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn an_operator_asks_and_is_answered() {
    let bench = Bench::with(host(&["gpu-01"]));
    let mut agent = bench.agent();
    let options = options(&bench);
    agent.admin = Some(options.clone());
    agent.live.config = serde_json::json!({"placement.password": "***"});
    let (ended, ()) = run_with(agent, &options.socket, async |client| {
        let tick = client.tick().await.unwrap();
        assert!(
            tick.is_healthy() && tick.nodes[0].name == "gpu-01",
            "{tick:?}"
        );
        let health = client.health().await.unwrap();
        assert_eq!((health.status.as_str(), health.messages.len()), ("ok", 0));
        let state = client.state().await.unwrap();
        assert_eq!(
            (state.phase.as_str(), state.summary.as_str()),
            ("running", "in sync: node gpu-01")
        );
        let tree = state.nodes[0].tree.as_ref().unwrap();
        assert_eq!(tree.inventories["VCPU"].total, 8);
        assert!(tree.traits.contains(&"COMPUTE_NODE".to_owned()));
        assert_eq!(state.nodes[0].root, bench.placement.uuid("gpu-01"));
        let plan = client.plan().await.unwrap();
        let change = plan.nodes[0].last_change.as_ref().unwrap();
        assert!(change.pass.text.contains("VCPU"), "{change:?}");
        assert_eq!(client.config().await.unwrap()["placement.password"], "***");
        let metrics = client.metrics().await.unwrap();
        assert!(
            metrics.contains("berth_plan_state{state=\"in_sync\"} 1"),
            "{metrics}"
        );
        assert!(
            metrics.contains("berth_health_messages{severity=\"error\"} 0"),
            "{metrics}"
        );

        let disabled = client.disable("new GPU").await.unwrap();
        assert_eq!(
            disabled.disabled.unwrap().by_uid,
            Some(nix::unistd::geteuid().as_raw())
        );
        assert!(disabled.tick.unwrap().is_healthy());
        assert!(
            bench
                .placement
                .has_trait("gpu-01", "COMPUTE_STATUS_DISABLED")
        );
        assert_eq!(
            client.state().await.unwrap().disabled.unwrap().reason,
            "new GPU"
        );
        assert_eq!(client.enable().await.unwrap().disabled, None);
        assert!(
            !bench
                .placement
                .has_trait("gpu-01", "COMPUTE_STATUS_DISABLED")
        );
        let error = client.disable("two\nlines").await.unwrap_err();
        assert!(
            matches!(
                error,
                AdminClientError::Refused {
                    status: StatusCode::BAD_REQUEST,
                    ..
                }
            ),
            "{error}"
        );
    })
    .await;
    ended.unwrap();
    assert!(
        !options.socket.exists(),
        "the socket is removed with the agent"
    );
    let error = AdminClient::new(&options.socket)
        .unwrap()
        .state()
        .await
        .unwrap_err();
    assert!(
        matches!(error, AdminClientError::Unreachable { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_in_the_apis_own_words() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    let options = options(&bench);
    agent.admin = Some(options.clone());
    let (ended, ()) = run_with(agent, &options.socket, async |_| {
        let large = format!("{{\"reason\": \"{}\"}}", "x".repeat(20_000));
        let cases = [
            ("GET", "/v1/nothing", "", "404", "not_found"),
            ("DELETE", "/v1/state", "", "405", "method_not_allowed"),
            ("GET", "/v1/tick", "", "405", "method_not_allowed"),
            ("PUT", "/v1/disabled", "", "400", "bad_request"),
            (
                "PUT",
                "/v1/disabled",
                "{\"reason\": 1}",
                "400",
                "bad_request",
            ),
            (
                "PUT",
                "/v1/disabled",
                "{\"reason\": \"a\", \"more\": 1}",
                "400",
                "bad_request",
            ),
            (
                "PUT",
                "/v1/disabled",
                "{\"reason\": \"\"}",
                "400",
                "bad_request",
            ),
            ("PUT", "/v1/disabled", "\u{0}[[[[", "400", "bad_request"),
            ("PUT", "/v1/disabled", &large, "413", "unreadable"),
        ];
        for (method, path, body, status, code) in cases {
            let answer = raw(&options.socket, &request(method, path, body)).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{method} {path} {body:?}: {answer}"
            );
            assert!(answer.contains(code), "{method} {path} {body:?}: {answer}");
        }
        let answer = raw(&options.socket, "this is not HTTP\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    })
    .await;
    ended.unwrap();
}

#[tokio::test]
async fn a_second_agent_is_refused_and_a_killed_ones_socket_is_not_in_the_way() {
    let bench = Bench::with(host(&["a"]));
    let options = options(&bench);
    std::fs::create_dir_all(options.socket.parent().unwrap()).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&options.socket).unwrap());
    let mut agent = bench.agent();
    agent.admin = Some(options.clone());
    let (ended, ()) = run_with(agent, &options.socket, async |client| {
        let mut second = bench.agent();
        second.admin = Some(options.clone());
        let error = run(second, CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.reason(), ExitReason::HeldByAnother);
        assert!(error.to_string().contains("agent.sock"), "{error}");
        assert!(
            client.tick().await.unwrap().is_healthy(),
            "the first agent is not affected"
        );
        let mode = std::fs::metadata(&options.socket)
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o660);
    })
    .await;
    ended.unwrap();
}

#[tokio::test]
async fn health_is_503_while_placement_is_away_and_a_tick_says_why() {
    let bench = Bench::with(host(&["a"]));
    bench.placement.set(PlacementBehaviour::Refused);
    let mut agent = bench.agent();
    let options = options(&bench);
    agent.admin = Some(options.clone());
    let (ended, ()) = run_with(agent, &options.socket, async |client| {
        let tick = client.tick().await.unwrap();
        assert!(!tick.is_healthy());
        let text = &tick.nodes[0].pass.text;
        assert!(
            text.ends_with(
                "placement:8778 refuses connections; check that the service is running, and that its URL is right: \
                 [placement] endpoint_override"
            ),
            "{text}"
        );
        let answer = raw(&options.socket, &request("GET", "/healthz", "")).await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert_eq!(client.health().await.unwrap().status, "starting");
        let disabled = client.disable("away").await.unwrap();
        assert!(
            disabled.disabled.is_some() && !disabled.tick.unwrap().is_healthy(),
            "it is stored and not yet reported"
        );
        bench.placement.set(PlacementBehaviour::Fine);
        assert!(client.tick().await.unwrap().is_healthy());
        assert!(bench.placement.has_trait("a", "COMPUTE_STATUS_DISABLED"));
    })
    .await;
    ended.unwrap();
}

#[tokio::test]
async fn the_loopback_port_has_metrics_and_health_and_nothing_else() {
    let bench = Bench::with(host(&["a"]));
    // The port is free again when the agent starts. If another process takes it meanwhile, only this test fails.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut agent = bench.agent();
    let options = AdminOptions {
        metrics_listen: Some(free),
        ..options(&bench)
    };
    agent.admin = Some(options.clone());
    let (ended, ()) = run_with(agent, &options.socket, async |client| {
        client.tick().await.unwrap();
        for (path, status) in [
            ("/metrics", "200"),
            ("/healthz", "200"),
            ("/v1/state", "404"),
            ("/v1/config", "404"),
        ] {
            let mut stream = TcpStream::connect(free).await.unwrap();
            stream
                .write_all(request("GET", path, "").as_bytes())
                .await
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{path}: {answer}"
            );
        }
    })
    .await;
    ended.unwrap();
}

#[tokio::test]
async fn what_cannot_be_listened_on_is_a_question_of_configuration() {
    let bench = Bench::with(host(&["a"]));
    let good = options(&bench);
    let file = bench.file("file");
    std::fs::write(&file, "").unwrap();
    let outside: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let socket = |path: PathBuf| AdminOptions {
        socket: path,
        ..good.clone()
    };
    let cases = [
        (
            AdminOptions {
                metrics_listen: Some(outside),
                ..good.clone()
            },
            "loopback",
        ),
        (socket(file.clone()), "not a socket"),
        (socket(file.join("below/agent.sock")), "cannot be created"),
        (socket(bench.file(&"x".repeat(200))), "cannot be created"),
    ];
    for (options, words) in cases {
        let mut agent = bench.agent();
        agent.admin = Some(options);
        let error = run(agent, CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.reason(), ExitReason::Configuration, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        let notifications = bench.messages();
        let is_reported = notifications
            .iter()
            .any(|line| line.starts_with("STATUS=") && line.contains(words));
        assert!(is_reported, "{notifications:?}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut agent = bench.agent();
    agent.admin = Some(AdminOptions {
        metrics_listen: Some(taken.local_addr().unwrap()),
        ..good
    });
    let error = run(agent, CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::HeldByAnother, "{error}");
}

#[tokio::test]
async fn a_damaged_disabled_file_ends_the_start_as_a_question_of_the_disk() {
    let bench = Bench::with(host(&["a"]));
    let agent = bench.agent();
    std::fs::write(bench.state_file("disabled.json"), "{").unwrap();
    let error = run(agent, CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::Disk);
    assert!(error.to_string().contains("disabled.json"), "{error}");
    let notifications = bench.messages();
    let status = notifications
        .iter()
        .rfind(|line| line.starts_with("STATUS="));
    assert!(
        status.unwrap().contains("disabled.json"),
        "{notifications:?}"
    );
}

#[tokio::test]
async fn a_real_sighup_reads_the_configuration_again() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    let options = options(&bench);
    agent.admin = Some(options.clone());
    let reads = Arc::new(AtomicUsize::new(0));
    let (counted, live) = (Arc::clone(&reads), agent.live.clone());
    agent.reload = Some(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(live.clone())
    }));
    let (ended, ()) = run_with(agent, &options.socket, async |client| {
        client.tick().await.unwrap();
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGHUP).unwrap();
        while reads.load(Ordering::SeqCst) == 0 {
            sleep(Duration::from_millis(2)).await;
        }
        assert!(client.tick().await.unwrap().is_healthy());
    })
    .await;
    ended.unwrap();
}
