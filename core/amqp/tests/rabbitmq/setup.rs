//! What the tests have in common.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use berth_amqp::{
    LapinConnector, Messaging, MessagingOptions, ReplyQueueName, RpcContext, RpcDelivery,
    RpcMethod, RpcServer, RpcTarget, ServedTopics,
};
use serde_json::{Value, json};

use crate::process::{LIMIT, within};

pub(crate) fn options() -> MessagingOptions {
    MessagingOptions {
        kombu_reconnect_delay: Duration::from_millis(50),
        ..MessagingOptions::default()
    }
}

/// A connected messaging.
pub(crate) async fn connect(url: &str, options: &MessagingOptions) -> Messaging {
    let connector = Arc::new(LapinConnector::new(options).unwrap());
    let name = ReplyQueueName::by_options(options, "cmp1", &uuid::Uuid::new_v4().to_string());
    let messaging =
        Messaging::start(url.parse().unwrap(), options.clone(), connector, name).unwrap();
    messaging.connected(LIMIT).await.unwrap();
    messaging
}

pub(crate) async fn serve(messaging: &Messaging, topics: &[&str], host: &str) -> RpcServer {
    let served = ServedTopics {
        exchange: "nova".to_owned(),
        topics: topics.iter().map(ToString::to_string).collect(),
        host: host.to_owned(),
        service: "compute".to_owned(),
    };
    messaging.serve(&served).await.unwrap()
}

pub(crate) async fn next(server: &mut RpcServer) -> RpcDelivery {
    let request = within("a request arrives", server.next()).await;
    request.expect("the messaging is open").unwrap()
}

pub(crate) fn target(topic: &str, server: &str) -> RpcTarget {
    RpcTarget {
        exchange: "nova".to_owned(),
        topic: topic.to_owned(),
        server: Some(server.to_owned()),
    }
}

pub(crate) fn method(name: &str, args: Value) -> RpcMethod {
    let Value::Object(args) = args else {
        panic!("arguments are an object")
    };
    RpcMethod::new(name, "3.0", args)
}

pub(crate) fn context() -> &'static RpcContext {
    static CONTEXT: LazyLock<RpcContext> = LazyLock::new(|| {
        let values = json!({"request_id": "req-1", "is_admin": true, "roles": []});
        RpcContext::new(values.as_object().unwrap().clone())
    });
    &CONTEXT
}
