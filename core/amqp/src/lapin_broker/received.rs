//! Messages that lapin received.

use std::sync::Arc;

use futures_core::Stream;
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicRejectOptions};
use lapin::types::AMQPValue;
use lapin::{Acker, Channel, Consumer};

use crate::broker::{ReceivedMessage, Settlement};
use crate::error::MessagingError;

/// The messages of a consumer. The channel lives as long as the stream: its end gives unacknowledged messages back to the queue.
pub(super) fn messages(
    channel: Channel,
    consumer: Consumer,
) -> impl Stream<Item = ReceivedMessage> + Send + 'static {
    stream::unfold((channel, consumer), async |(channel, mut consumer)| {
        // An error is followed by the end of the stream.
        let delivery = consumer.next().await?.ok()?;
        Some((received(delivery), (channel, consumer)))
    })
}

fn received(delivery: Delivery) -> ReceivedMessage {
    let headers = delivery.properties.headers().as_ref();
    let count = headers.and_then(|it| it.inner().get("x-delivery-count"));
    ReceivedMessage {
        redelivered: delivery.redelivered,
        delivery_count: count.and_then(whole_number),
        body: delivery.data,
        settlement: Arc::new(LapinSettlement(delivery.acker)),
    }
}

fn whole_number(value: &AMQPValue) -> Option<u64> {
    match value {
        AMQPValue::ShortShortInt(number) => u64::try_from(*number).ok(),
        AMQPValue::ShortShortUInt(number) => Some((*number).into()),
        AMQPValue::ShortInt(number) => u64::try_from(*number).ok(),
        AMQPValue::ShortUInt(number) => Some((*number).into()),
        AMQPValue::LongInt(number) => u64::try_from(*number).ok(),
        AMQPValue::LongUInt(number) => Some((*number).into()),
        AMQPValue::LongLongInt(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

struct LapinSettlement(Acker);

impl Settlement for LapinSettlement {
    fn ack(&self) -> BoxFuture<'_, Result<(), MessagingError>> {
        async move { done(self.0.ack(BasicAckOptions::default()).await) }.boxed()
    }

    fn reject(&self) -> BoxFuture<'_, Result<(), MessagingError>> {
        async move { done(self.0.reject(BasicRejectOptions { requeue: false }).await) }.boxed()
    }
}

/// lapin says whether the acknowledgement was sent.
fn done(sent: lapin::Result<bool>) -> Result<(), MessagingError> {
    match sent {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err(MessagingError::NotAcknowledged),
    }
}
