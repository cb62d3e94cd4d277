//! Batches reads of allocations: several callers share one statement. A reshape reads a thousand consumers
//! concurrently, and each statement of its own would be a round trip to the database thread.
//!
//! The first caller waits until all concurrent callers have queued, reads for all of them, and distributes the results.
//! No caller gets data that was read before its call.

use std::sync::{Arc, Mutex, PoisonError};

use berth_store::{SqlError, SqlStore};
use tokio::sync::oneshot;

use super::{Consumer, of_consumers};

/// Reads consumers for all callers of one service.
#[derive(Debug)]
pub(crate) struct ConsumerReader {
    store: SqlStore,
    /// Callers that wait for a read that has not started. The first of them starts it.
    waiting: Mutex<Vec<WaitingReader>>,
}

#[derive(Debug)]
struct WaitingReader {
    consumer: String,
    sender: oneshot::Sender<Option<Arc<Consumer>>>,
}

impl ConsumerReader {
    pub(crate) fn new(store: SqlStore) -> Self {
        Self {
            store,
            waiting: Mutex::default(),
        }
    }

    /// The allocations of a consumer; `None` if it has none.
    pub(crate) async fn read(&self, uuid: &str) -> Result<Option<Arc<Consumer>>, SqlError> {
        let (sender, answer) = oneshot::channel();
        let is_first = self.with_waiting(|waiting| {
            waiting.push(WaitingReader {
                consumer: uuid.to_owned(),
                sender,
            });
            waiting.len() == 1
        });
        if is_first {
            let mut first = First {
                reader: self,
                on_duty: true,
            };
            tokio::task::yield_now().await;
            let all = first.relieve();
            self.ask_for(all).await?;
        }
        match answer.await {
            Ok(consumer) => Ok(consumer),
            // The first caller was cancelled or failed: read for this caller alone.
            Err(_) => Ok(of_consumers(&self.store, &[uuid]).await?.remove(uuid)),
        }
    }

    async fn ask_for(&self, all: Vec<WaitingReader>) -> Result<(), SqlError> {
        let mut uuids: Vec<&str> = all.iter().map(|one| one.consumer.as_str()).collect();
        uuids.sort_unstable();
        uuids.dedup();
        let found = of_consumers(&self.store, &uuids).await?;
        for one in all {
            let consumer = found.get(&one.consumer).cloned();
            // A caller that was cancelled gets no result.
            let _ = one.sender.send(consumer);
        }
        Ok(())
    }

    fn with_waiting<T>(&self, act: impl FnOnce(&mut Vec<WaitingReader>) -> T) -> T {
        // The list is consistent even after a panic.
        act(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The obligation to read. Dropping it fails the waiting callers.
struct First<'a> {
    reader: &'a ConsumerReader,
    on_duty: bool,
}

impl First<'_> {
    /// Takes the queue; the next caller becomes a first caller again.
    fn relieve(&mut self) -> Vec<WaitingReader> {
        self.on_duty = false;
        self.reader.with_waiting(std::mem::take)
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        if self.on_duty {
            self.relieve();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;
    use crate::store::replace::{DesiredAllocations, ExpectedGeneration, Replace};

    async fn reader(consumers: usize) -> ConsumerReader {
        let store = SqlStore::in_memory().await.unwrap();
        crate::prepare(&store).await.unwrap();
        for sql in [
            "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) VALUES (1, 'p', 'p', 0, 1)",
            "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, \
             allocation_ratio) VALUES (1, 0, 1000, 0, 1, 1000, 1, 1.0)",
        ] {
            store.write(&crate::store::tests::Sql(sql)).await.unwrap();
        }
        let desired = |n: usize| DesiredAllocations {
            consumer: format!("c{n}"),
            project: "project".into(),
            user: "user".into(),
            generation: ExpectedGeneration::Absent,
            consumer_type: None,
            allocations: vec![(
                "p".into(),
                vec![("VCPU".into(), i64::try_from(n).unwrap() + 1)],
            )],
        };
        let replace = Replace {
            providers: Vec::new(),
            consumers: (0..consumers).map(desired).collect(),
            only_host: None,
        };
        store.write(&replace).await.unwrap();
        ConsumerReader::new(store)
    }

    fn used(consumer: Option<Arc<Consumer>>) -> Option<i64> {
        consumer.map(|consumer| consumer.held[0].used)
    }

    #[tokio::test]
    async fn each_of_many_callers_gets_its_own_answer() {
        let reader = reader(20).await;
        let names: Vec<String> = (0..25).map(|n| format!("c{}", n % 22)).collect();
        let read = join_all(names.iter().map(|name| reader.read(name))).await;
        for (n, read) in read.into_iter().enumerate() {
            let expected = i64::try_from(n % 22).unwrap() + 1;
            assert_eq!(
                used(read.unwrap()),
                (n % 22 < 20).then_some(expected),
                "{n}"
            );
        }
    }

    #[tokio::test]
    async fn a_caller_gets_its_answer_even_if_the_reader_is_abandoned() {
        let reader = reader(2).await;
        let mut first = Box::pin(reader.read("c0"));
        assert!(first.as_mut().now_or_never().is_none());
        let mut second = Box::pin(reader.read("c1"));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(used(second.await.unwrap()), Some(2));
        assert_eq!(used(reader.read("c0").await.unwrap()), Some(1));
    }
}
