//! Several claims in one transaction. Each is decided as if it were alone, after those before it; a refused claim does
//! not affect the others.

use berth_store::{Transaction, Work};

use super::read::NamedObjects;
use super::write::AcceptedWrites;
use super::{Replace, ReplaceError};
use crate::ledger::ProviderId;

/// Claims that are judged in their order. No consumer is in two of them, and none has inventories.
#[derive(Debug)]
pub(crate) struct ClaimBatch {
    pub(crate) claims: Vec<Replace>,
}

/// The outcome of the claims.
#[derive(Debug)]
pub(crate) struct BatchOutcome {
    /// Whether each was let pass, in their order.
    pub(crate) outcomes: Vec<Result<(), ReplaceError>>,
    /// The providers of the accepted claims.
    pub(crate) touched: Vec<ProviderId>,
}

impl Work for ClaimBatch {
    type Output = BatchOutcome;
    type Error = ReplaceError;

    /// If one of them keeps conflicting, the others continue without it.
    fn attempts(&self) -> u32 {
        if self.claims.len() > 1 { 3 } else { u32::MAX }
    }

    async fn run(&self, tx: &mut Transaction) -> Result<BatchOutcome, ReplaceError> {
        let claims: Vec<&Replace> = self.claims.iter().collect();
        let (read, mut ledger) = NamedObjects::of(tx, &claims).await?;
        let mut accepted = AcceptedWrites::default();
        let mut outcomes = Vec::with_capacity(claims.len());
        for claim in claims {
            if let Some(refusal) = read.host_refusal(tx, claim).await? {
                outcomes.push(Err(refusal));
                continue;
            }
            let refusal = match claim.enter(&read, &mut ledger) {
                Ok(()) => match ledger.check() {
                    Ok(()) => None,
                    Err(refusal) => Some(read.explain(tx, &ledger, refusal).await?),
                },
                Err(refusal) => Some(refusal),
            };
            if refusal.is_none() {
                accepted.add(claim, &read, &ledger);
                ledger.settle();
            }
            outcomes.push(refusal.map_or(Ok(()), Err));
        }
        accepted.write(tx, &read, &ledger).await?;
        Ok(BatchOutcome {
            outcomes,
            touched: accepted.touched(&read),
        })
    }
}

#[cfg(test)]
mod tests {
    use berth_store::{SqlStore, Statement};
    use proptest::prelude::*;

    use super::*;
    use crate::store::replace::{DesiredAllocations, ExpectedGeneration};
    use crate::store::tests::Sql;

    const PROVIDERS: &str = "\
        INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) VALUES (1, 'p', 'p', 3, 1), (2, 'q', 'q', 0, 2); \
        INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio) \
        VALUES (1, 0, 8, 0, 1, 8, 1, 1.0), (2, 0, 4, 0, 1, 4, 1, 1.0), (2, 1, 4, 0, 1, 4, 1, 1.0)";

    async fn store() -> SqlStore {
        let store = SqlStore::in_memory().await.unwrap();
        crate::prepare(&store).await.unwrap();
        store.write(&Sql(PROVIDERS)).await.unwrap();
        store
    }

    fn claim(
        consumer: &str,
        generation: ExpectedGeneration,
        wants: &[(&str, &str, i64)],
    ) -> Replace {
        let mut allocations: Vec<(String, Vec<(String, i64)>)> = Vec::new();
        for (provider, class, amount) in wants {
            let resources = vec![((*class).to_owned(), *amount)];
            match allocations.iter_mut().find(|(it, _)| it == provider) {
                Some((_, all)) => all.extend(resources),
                None => allocations.push(((*provider).to_owned(), resources)),
            }
        }
        Replace {
            providers: Vec::new(),
            consumers: vec![DesiredAllocations {
                consumer: consumer.to_owned(),
                project: "project".to_owned(),
                user: "user".to_owned(),
                generation,
                consumer_type: None,
                allocations,
            }],
            only_host: None,
        }
    }

    fn words<T>(outcome: &Result<T, ReplaceError>) -> String {
        match outcome {
            Ok(_) => "done".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    async fn together(store: &SqlStore, claims: Vec<Replace>) -> Vec<String> {
        let judged = store.write(&ClaimBatch { claims }).await.unwrap();
        judged.outcomes.iter().map(words).collect()
    }

    async fn table(store: &SqlStore) -> Vec<String> {
        let mut table = Vec::new();
        for sql in [
            "SELECT uuid || ' ' || generation FROM resource_providers ORDER BY uuid",
            "SELECT uuid || ' ' || generation FROM consumers ORDER BY uuid",
            "SELECT consumer_id || ' ' || resource_provider_id || ' ' || resource_class_id || ' ' || used FROM allocations ORDER BY 1",
            "SELECT external_id FROM projects ORDER BY 1",
        ] {
            let rows = store.rows(Statement::new(sql)).await.unwrap();
            table.extend(rows.iter().map(|row| row.text(0).unwrap()));
        }
        table
    }

    #[tokio::test]
    async fn a_refused_claim_does_not_affect_later_ones() {
        let store = store().await;
        let new = ExpectedGeneration::Absent;
        let outcomes = together(
            &store,
            vec![
                claim("a", new, &[("p", "VCPU", 6)]),
                claim("b", new, &[("p", "VCPU", 6)]),
                claim("c", ExpectedGeneration::At(7), &[("p", "VCPU", 1)]),
                claim("d", new, &[("nowhere", "VCPU", 1)]),
                claim("e", new, &[("p", "CUSTOM_NONE", 1)]),
                claim("f", new, &[("p", "VCPU", 2), ("q", "MEMORY_MB", 4)]),
            ],
        )
        .await;
        let refused = [
            (1, "would exceed the capacity"),
            (2, "consumer generation conflict"),
            (3, "that does not exist"),
            (4, "No such resource class CUSTOM_NONE"),
        ];
        for (at, why) in refused {
            assert!(outcomes[at].contains(why), "{outcomes:?}");
        }
        assert_eq!([&outcomes[0], &outcomes[5]], ["done", "done"]);
        let expected = [
            "p 5", "q 1", "a 1", "f 1", "a 1 0 6", "f 1 0 2", "f 2 1 4", "project",
        ];
        assert_eq!(table(&store).await, expected);
    }

    #[tokio::test]
    async fn where_all_are_refused_nothing_is_written() {
        let store = store().await;
        let before = table(&store).await;
        let wants = [("p", "VCPU", 9)];
        let claims = ["a", "b"].map(|it| claim(it, ExpectedGeneration::Absent, &wants));
        let outcomes = together(&store, claims.into()).await;
        let all = |it: &String| it.contains("inventory constraints");
        assert!(outcomes.iter().all(all), "{outcomes:?}");
        assert_eq!(table(&store).await, before);
    }

    /// Random claims of five consumers on two providers, each consumer at most once per group.
    fn groups() -> impl Strategy<Value = Vec<Vec<Replace>>> {
        let generation = prop_oneof![
            Just(ExpectedGeneration::Any),
            Just(ExpectedGeneration::Absent),
            (0..3_i64).prop_map(ExpectedGeneration::At),
        ];
        let slot = prop::sample::select(vec![
            ("p", "VCPU"),
            ("q", "VCPU"),
            ("q", "MEMORY_MB"),
            ("p", "MEMORY_MB"),
        ]);
        let wants = prop::collection::btree_map(slot, 1..6_i64, 0..3);
        let claims = (generation, wants).prop_map(|(generation, wants)| {
            let wants = wants.into_iter();
            let wants: Vec<_> = wants.map(|((p, c), amount)| (p, c, amount)).collect();
            claim("", generation, &wants)
        });
        let group = (
            prop::collection::vec(claims, 1..5),
            Just(vec!["a", "b", "c", "d", "e"]).prop_shuffle(),
        );
        let group = group.prop_map(|(mut claims, names)| {
            for (claim, name) in claims.iter_mut().zip(names) {
                claim.consumers[0].consumer = name.to_owned();
            }
            claims
        });
        prop::collection::vec(group, 1..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn together_they_come_to_the_same_as_one_after_the_other(groups in groups()) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (one, other) = (store().await, store().await);
                for group in groups {
                    let mut apart = Vec::new();
                    for claim in &group {
                        apart.push(words(&other.write(claim).await));
                    }
                    prop_assert_eq!(together(&one, group).await, apart);
                    prop_assert_eq!(table(&one).await, table(&other).await);
                }
                Ok(())
            })?;
        }
    }
}
