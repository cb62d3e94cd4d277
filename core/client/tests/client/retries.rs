//! What is sent again, what is not, and how long it takes. Time is paused: it moves when everybody waits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_client::{
    AdapterOptions, Delay, Disposition, ExchangeOutcome, HttpExchange, HttpService, PlacementError,
    RequestObserver, RetryPolicy, ServiceCallError, TransportError,
};
use berth_model::{Provider, ProviderName, ProviderUuid};
use tokio::time::Instant;
use uuid::Uuid;

use crate::script::{
    Reply, Script, answer, connection_refused, connection_reset, error_reply, options,
};

fn root() -> ProviderUuid {
    Uuid::from_u128(1).into()
}

fn no_providers() -> Reply {
    answer(200, r#"{"resource_providers": []}"#)
}

fn patient(connect: u32, status: u32) -> AdapterOptions {
    let retry = RetryPolicy {
        connect_retries: connect,
        status_code_retries: status,
        ..RetryPolicy::default()
    };
    AdapterOptions { retry, ..options() }
}

fn new_provider() -> Provider {
    Provider::root(root(), ProviderName::new("gpu-01").unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_read_is_repeated_after_lost_connections_with_growing_pauses() {
    let script = Script::of(vec![
        connection_refused(),
        connection_reset(),
        connection_refused(),
        no_providers(),
    ]);
    let start = Instant::now();
    script
        .placement_with(&patient(3, 0))
        .providers_in_tree(root())
        .await
        .unwrap();
    assert_eq!(script.seen().len(), 4);
    let ids: Vec<_> = script.seen().into_iter().map(|seen| seen.id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "one call, one id");
    let waited = start.elapsed().as_secs_f64();
    assert!((1.75..=3.5).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn repetitions_end_and_the_last_error_is_reported() {
    let script = Script::of(vec![connection_refused()]);
    let error = script
        .placement_with(&patient(2, 0))
        .providers_in_tree(root())
        .await
        .unwrap_err();
    assert_eq!(script.seen().len(), 3);
    assert_eq!(error.disposition(), Disposition::Retry);
    insta::assert_snapshot!(error, @"placement did not answer GET /resource_providers: placement:80 refuses connections");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_repeated_by_default() {
    for reply in [
        connection_refused(),
        connection_reset(),
        error_reply(503, "placement.undefined_code", "busy"),
    ] {
        let script = Script::of(vec![reply]);
        script
            .placement()
            .providers_in_tree(root())
            .await
            .unwrap_err();
        assert_eq!(script.seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retriable_status_is_repeated_and_retry_after_is_kept() {
    let busy = || {
        error_reply(503, "placement.undefined_code", "busy").map(|mut reply| {
            reply
                .headers_mut()
                .insert("retry-after", "7".parse().unwrap());
            reply
        })
    };
    let script = Script::of(vec![busy(), busy(), no_providers()]);
    let start = Instant::now();
    script
        .placement_with(&patient(0, 2))
        .providers_in_tree(root())
        .await
        .unwrap();
    assert_eq!(script.seen().len(), 3);
    assert_eq!(start.elapsed(), Duration::from_secs(14));
    let script = Script::of(vec![error_reply(500, "placement.undefined_code", "broken")]);
    script
        .placement_with(&patient(9, 9))
        .providers_in_tree(root())
        .await
        .unwrap_err();
    assert_eq!(
        script.seen().len(),
        1,
        "500 is not among the retriable statuses"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fixed_delay_is_kept() {
    let retry = RetryPolicy {
        connect_retries: 2,
        connect_retry_delay: Delay::Fixed(Duration::from_secs(3)),
        ..RetryPolicy::default()
    };
    let script = Script::of(vec![
        connection_refused(),
        connection_refused(),
        no_providers(),
    ]);
    let start = Instant::now();
    script
        .placement_with(&AdapterOptions { retry, ..options() })
        .providers_in_tree(root())
        .await
        .unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_is_not_sent_again() {
    let script = Script::of(vec![connection_reset()]);
    let error = script
        .placement_with(&patient(5, 5))
        .create_provider(&new_provider())
        .await
        .unwrap_err();
    assert_eq!(script.seen().len(), 1);
    assert!(
        matches!(
            &error,
            PlacementError::Call(ServiceCallError::AnswerLost { .. })
        ),
        "{error:?}"
    );
    assert_eq!(error.disposition(), Disposition::Refresh);
    insta::assert_snapshot!(error, @"placement's answer to POST /resource_providers was lost: the connection ended before the answer was complete: connection reset by peer; it may have been executed");
}

#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_is_sent_again() {
    let provider =
        r#"{"uuid": "00000000-0000-0000-0000-000000000001", "name": "gpu-01", "generation": 0}"#;
    let script = Script::of(vec![connection_refused(), answer(200, provider)]);
    script
        .placement_with(&patient(5, 5))
        .create_provider(&new_provider())
        .await
        .unwrap();
    assert_eq!(script.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_create_that_a_proxy_gave_up_on_has_to_be_searched() {
    let script = Script::of(vec![answer(503, "<html>gateway</html>")]);
    let error = script
        .placement_with(&patient(5, 5))
        .create_provider(&new_provider())
        .await
        .unwrap_err();
    assert_eq!(script.seen().len(), 1);
    assert_eq!(error.disposition(), Disposition::Refresh);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_never_answers_is_given_up_in_time() {
    let silent = HttpService::new(tower::service_fn(|_| std::future::pending::<Reply>()));
    let auth = berth_client::Auth::none("http://placement").unwrap();
    let client = berth_client::PlacementClient::new(silent, auth, &options());
    let start = Instant::now();
    let error = client.providers_in_tree(root()).await.unwrap_err();
    assert_eq!(start.elapsed(), AdapterOptions::DEFAULT_TIMEOUT);
    insta::assert_snapshot!(error, @"placement did not answer GET /resource_providers: no answer within 60s");
}

#[tokio::test(start_paused = true)]
async fn what_can_never_succeed_is_not_repeated() {
    let unsendable = TransportError::Unsendable { reason: "x".into() };
    let script = Script::of(vec![Err(unsendable)]);
    let error = script
        .placement_with(&patient(5, 5))
        .providers_in_tree(root())
        .await
        .unwrap_err();
    assert_eq!(script.seen().len(), 1);
    assert_eq!(error.disposition(), Disposition::Fatal);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_large_is_asked_for_again_but_not_at_once() {
    let script = Script::of(vec![Err(TransportError::TooLarge { limit: 10 })]);
    let error = script
        .placement_with(&patient(5, 5))
        .providers_in_tree(root())
        .await
        .unwrap_err();
    assert_eq!(script.seen().len(), 1);
    assert_eq!(error.disposition(), Disposition::Retry);
}

#[derive(Default)]
struct Counter(Mutex<Vec<String>>);

impl RequestObserver for Counter {
    fn observed(&self, exchange: &HttpExchange<'_>) {
        let outcome = match exchange.outcome {
            ExchangeOutcome::Answered(status) => status.as_u16().to_string(),
            ExchangeOutcome::Failed(kind) => kind.to_owned(),
        };
        let line = format!(
            "{} {} {} {outcome} {} {}",
            exchange.service,
            exchange.method,
            exchange.route,
            exchange.sent_bytes,
            exchange.received_bytes
        );
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test(start_paused = true)]
async fn the_observer_sees_every_attempt_by_route() {
    let counter = Arc::new(Counter::default());
    let script = Script::of(vec![
        connection_refused(),
        no_providers(),
        error_reply(409, "placement.duplicate_name", ""),
    ]);
    let client = script
        .placement_with(&patient(1, 0))
        .with_observer(Arc::clone(&counter) as _);
    client.providers_in_tree(root()).await.unwrap();
    client.create_provider(&new_provider()).await.unwrap_err();
    let observed = counter.0.lock().unwrap().clone();
    assert_eq!(observed[0], "placement GET /resource_providers refused 0 0");
    assert_eq!(observed[1], "placement GET /resource_providers 200 0 26");
    assert!(
        observed[2].starts_with("placement POST /resource_providers 409 63 "),
        "{}",
        observed[2]
    );
}
