//! Declares exchanges and queues, after a look whether they are there.
//!
//! A broker closes the channel of a refused operation. So each look, and each declaration, has a channel of its own that is then closed.

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind};

use super::{LapinConnection, NOT_FOUND, failed, reply_code, short};
use crate::error::MessagingError;
use crate::topology::{AmqpExchange, AmqpExchangeKind, AmqpQueue, QueueArgument, Topology};

const DECLARE: &str = "declare";
const BIND: &str = "bind";

pub(super) async fn declare(
    connection: &LapinConnection,
    topology: &Topology,
) -> Result<(), MessagingError> {
    check_names(topology)?;
    for exchange in &topology.exchanges {
        let name = &exchange.name;
        if there(connection, name, async |channel| {
            declare_exchange(channel, exchange, true).await
        })
        .await?
        {
            continue;
        }
        let channel = connection.channel(DECLARE, name).await?;
        let declared = declare_exchange(&channel, exchange, false).await;
        declared.map_err(|error| failed(DECLARE, name, &error))?;
        close(channel).await;
    }
    for queue in &topology.queues {
        let name = &queue.name;
        if there(connection, name, async |channel| {
            declare_queue(channel, queue, true).await
        })
        .await?
        {
            continue;
        }
        let channel = connection.channel(DECLARE, name).await?;
        let declared = declare_queue(&channel, queue, false).await;
        declared.map_err(|error| failed(DECLARE, name, &error))?;
        close(channel).await;
    }
    for binding in &topology.bindings {
        let channel = connection.channel(BIND, &binding.queue).await?;
        let bound = channel.queue_bind(
            binding.queue.as_str().into(),
            binding.exchange.as_str().into(),
            binding.routing_key.as_str().into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        let bound = bound.await;
        bound.map_err(|error| failed(BIND, &binding.queue, &error))?;
        close(channel).await;
    }
    Ok(())
}

/// The names below are then short enough for lapin.
fn check_names(topology: &Topology) -> Result<(), MessagingError> {
    for exchange in &topology.exchanges {
        short("an exchange", &exchange.name)?;
    }
    for queue in &topology.queues {
        short("a queue", &queue.name)?;
    }
    for binding in &topology.bindings {
        short("an exchange", &binding.exchange)?;
        short("a queue", &binding.queue)?;
        short("a routing key", &binding.routing_key)?;
    }
    Ok(())
}

/// Whether the passive declaration finds its object.
async fn there(
    connection: &LapinConnection,
    name: &str,
    passive: impl AsyncFnOnce(&Channel) -> lapin::Result<()>,
) -> Result<bool, MessagingError> {
    let channel = connection.channel(DECLARE, name).await?;
    match passive(&channel).await {
        Ok(()) => {
            close(channel).await;
            Ok(true)
        }
        Err(error) => match reply_code(&error) {
            Some((NOT_FOUND, _)) => Ok(false),
            _ => Err(failed(DECLARE, name, &error)),
        },
    }
}

async fn declare_exchange(
    channel: &Channel,
    exchange: &AmqpExchange,
    passive: bool,
) -> lapin::Result<()> {
    let kind = match exchange.kind {
        AmqpExchangeKind::Topic => ExchangeKind::Topic,
        AmqpExchangeKind::Fanout => ExchangeKind::Fanout,
    };
    let options = ExchangeDeclareOptions {
        passive,
        durable: exchange.durable,
        auto_delete: exchange.auto_delete,
        ..ExchangeDeclareOptions::default()
    };
    let name = exchange.name.as_str().into();
    channel
        .exchange_declare(name, kind, options, FieldTable::default())
        .await
}

async fn declare_queue(channel: &Channel, queue: &AmqpQueue, passive: bool) -> lapin::Result<()> {
    let options = QueueDeclareOptions {
        passive,
        durable: queue.durable,
        auto_delete: queue.auto_delete,
        ..QueueDeclareOptions::default()
    };
    let mut arguments = FieldTable::default();
    for (name, value) in &queue.arguments {
        let value = match value {
            QueueArgument::Text(text) => AMQPValue::LongString(text.as_str().into()),
            QueueArgument::Number(number) => match i32::try_from(*number) {
                Ok(number) => AMQPValue::LongInt(number),
                Err(_) => AMQPValue::LongLongInt(*number),
            },
        };
        arguments.insert((*name).into(), value);
    }
    channel
        .queue_declare(queue.name.as_str().into(), options, arguments)
        .await?;
    Ok(())
}

/// A channel that the broker closed meanwhile needs no close.
async fn close(channel: Channel) {
    channel.close(200, "done".into()).await.ok();
}
