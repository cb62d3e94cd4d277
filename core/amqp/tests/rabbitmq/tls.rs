//! TLS with a broker that asks for certificates.

use std::sync::Arc;

use berth_amqp::{
    ConnectionState, LapinConnector, Messaging, MessagingOptions, ReplyQueueName, RpcContext,
};

use crate::broker::Broker;
use crate::process::{LIMIT, within};
use crate::setup::{connect, options, serve, target};

fn url(broker: &Broker) -> String {
    format!("rabbit://guest:guest@127.0.0.1:{}/", broker.tls_port)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_with_certificates_on_both_sides_carries_calls() {
    let broker = Broker::shared();
    let options = MessagingOptions {
        ssl: true,
        ssl_ca_file: Some(broker.certificates.authority.clone()),
        ssl_cert_file: Some(broker.certificates.client.clone()),
        ssl_key_file: Some(broker.certificates.client_key.clone()),
        ..options()
    };
    let messaging = connect(&url(broker), &options).await;
    let mut server = serve(&messaging, &["tls"], "cmp1").await;
    let serving = tokio::spawn(async move { server.next().await });
    messaging
        .ping_self(&target("tls", "cmp1"), &RpcContext::default(), LIMIT)
        .await
        .unwrap();
    messaging.close().await;
    assert!(within("the server ends", serving).await.unwrap().is_none());
}

/// The reason why there is no connection.
async fn refused(options: &MessagingOptions) -> String {
    let connector = Arc::new(LapinConnector::new(options).unwrap());
    let name = ReplyQueueName::by_options(options, "cmp1", "1");
    let url = url(Broker::shared()).parse().unwrap();
    let messaging = Messaging::start(url, options.clone(), connector, name).unwrap();
    let reason = async {
        loop {
            match messaging.state() {
                ConnectionState::Connecting { reason } if reason.contains("cannot connect") => {
                    return reason;
                }
                ConnectionState::Connected => return "connected".to_owned(),
                _ => tokio::task::yield_now().await,
            }
        }
    };
    within("the attempt ends", reason).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_of_another_authority_and_a_client_without_certificate_are_refused() {
    let broker = Broker::shared();
    // The system's authorities did not sign the broker's certificate.
    let system = MessagingOptions {
        ssl: true,
        ..options()
    };
    let reason = refused(&system).await;
    assert!(reason.contains("UnknownIssuer"), "{reason}");
    let anonymous = MessagingOptions {
        ssl_ca_file: Some(broker.certificates.authority.clone()),
        ..system
    };
    let reason = refused(&anonymous).await;
    assert!(
        reason.contains("cannot connect to the broker 127.0.0.1"),
        "{reason}"
    );
}
