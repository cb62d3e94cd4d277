//! Accelerator requests: queries, creation and deletion. Binding is in `bind`.

use std::collections::BTreeSet;

use berth_http::request_id::random_uuid;
use berth_model::{
    Arq, ArqPhase, ArqState, ArqTransition, ArqUuid, AttachHandle, Binding, ConsumerUuid,
    DeviceProfileName, TransitionRefused,
};
use berth_store::{Disposition, Retryable, Row, SqlError, Statement, Transaction, Value, Work};

use super::device_profiles::{self, ProfileError, ProfileKey};
use super::{AcceleratorTableError, events, foreign, handles, moment, now, programmings, typed};

const TABLE: &str = "accelerator_requests";
/// The most characters of a project's id: as Keystone bounds them, and more.
pub(crate) const LONGEST_PROJECT: usize = 255;

/// The requests that a caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArqScope {
    All,
    Project(String),
    /// Those that are bound on this host, or were to be.
    Host(String),
    /// The same, and those that have no host yet.
    HostOrUnbound(String),
}

impl ArqScope {
    fn includes(&self, arq: &Arq) -> bool {
        let host = || match &arq.state {
            ArqState::Bound(binding, _)
            | ArqState::BindStarted(binding)
            | ArqState::BindFailed(binding)
            | ArqState::UnbindFailed(binding) => Some(&binding.hostname),
            ArqState::Initial | ArqState::Unbound | ArqState::Deleting => None,
        };
        match self {
            Self::All => true,
            Self::Project(project) => arq.project_id == *project,
            Self::Host(own) => host() == Some(own),
            Self::HostOrUnbound(own) => host().is_none_or(|host| host == own),
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct ArqRow {
    pub(crate) id: i64,
    pub(crate) profile_id: i64,
    pub(crate) arq: Arq,
    pub(crate) created_at: Option<String>,
    pub(crate) updated_at: Option<String>,
}

/// Why requests could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArqError {
    #[error("ExtArq not found with uuid={}", list(.0))]
    NotFound(Vec<ArqUuid>),
    #[error(
        "ARQ {arq} is bound to instance {instance}. Use the Compute API to manage instance accelerators."
    )]
    BoundToInstance {
        arq: ArqUuid,
        instance: ConsumerUuid,
    },
    #[error(
        "Couldn't apply patch. Reason: Instance {0} already has accelerator requests. Cannot bind additional ARQs."
    )]
    InstanceHasRequests(ConsumerUuid),
    #[error("Couldn't apply patch. Reason: ARQ {arq}: {reason}")]
    Transition {
        arq: ArqUuid,
        reason: TransitionRefused,
    },
    /// The project would have too many requests that no instance has.
    #[error(
        "Quota exceeded for accelerator_requests: Requested {requested}, but already used {used} of {most} accelerator_requests \
         without an instance"
    )]
    TooMany {
        requested: usize,
        used: u64,
        most: u64,
    },
    #[error("another writer changed the request meanwhile")]
    Raced,
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Read(#[from] AcceleratorTableError),
}

fn list(uuids: &[ArqUuid]) -> String {
    let texts: Vec<String> = uuids.iter().map(ToString::to_string).collect();
    texts.join(",")
}

impl From<SqlError> for ArqError {
    fn from(error: SqlError) -> Self {
        Self::Read(error.into())
    }
}

impl Retryable for ArqError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Read(error) => error.disposition(),
            Self::Profile(error) => error.disposition(),
            Self::Raced => Disposition::Retry,
            _ => Disposition::Fatal,
        }
    }
}

const SELECT: &str = "SELECT a.id, a.uuid, a.state, p.name, a.device_profile_group_id, \
     a.project_id, a.hostname, a.device_rp_uuid, a.instance_uuid, h.uuid, h.attach_type, \
     h.attach_info, a.created_at, a.updated_at, a.device_profile_id \
     FROM accelerator_requests a \
     JOIN device_profiles p ON p.id = a.device_profile_id \
     LEFT JOIN attach_handles h ON h.arq_id = a.id";

fn arq(row: &Row) -> Result<ArqRow, AcceleratorTableError> {
    let name = row.text(3)?;
    let group = row.int(4)?;
    Ok(ArqRow {
        id: row.int(0)?,
        profile_id: row.int(14)?,
        arq: Arq {
            uuid: typed(&row.text(1)?, TABLE, "uuid")?,
            state: state(row)?,
            device_profile: DeviceProfileName::new(&name)
                .map_err(|_| foreign(&name, "device_profiles", "name"))?,
            group_id: u32::try_from(group)
                .map_err(|_| foreign(&group.to_string(), TABLE, "device_profile_group_id"))?,
            project_id: row.text(5)?,
        },
        created_at: moment(row, 12)?,
        updated_at: moment(row, 13)?,
    })
}

fn state(row: &Row) -> Result<ArqState, AcceleratorTableError> {
    let word = row.text(2)?;
    let phase = ArqPhase::from_name(&word).ok_or_else(|| foreign(&word, TABLE, "state"))?;
    let needed = |column: usize, name: &'static str| {
        row.opt_text(column)?
            .ok_or_else(|| foreign("", TABLE, name))
    };
    let binding = || {
        Ok::<_, AcceleratorTableError>(Binding {
            hostname: needed(6, "hostname")?,
            device_rp: typed(&needed(7, "device_rp_uuid")?, TABLE, "device_rp_uuid")?,
            instance: typed(&needed(8, "instance_uuid")?, TABLE, "instance_uuid")?,
        })
    };
    Ok(match phase {
        ArqPhase::Initial => ArqState::Initial,
        ArqPhase::Unbound => ArqState::Unbound,
        ArqPhase::Deleting => ArqState::Deleting,
        ArqPhase::BindStarted => ArqState::BindStarted(binding()?),
        ArqPhase::BindFailed => ArqState::BindFailed(binding()?),
        ArqPhase::UnbindFailed => ArqState::UnbindFailed(binding()?),
        ArqPhase::Bound => {
            let info = needed(11, "attach_info")?;
            let handle = AttachHandle {
                uuid: typed(&needed(9, "attach_handle")?, "attach_handles", "uuid")?,
                info: handles::read_info(&needed(10, "attach_type")?, &info)?,
            };
            ArqState::Bound(binding()?, handle)
        }
    })
}

/// The filters of a list.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ArqFilters {
    pub(crate) instance: Option<ConsumerUuid>,
}

/// The text of a list, and its values.
fn list_sql(scope: &ArqScope, filters: ArqFilters) -> (String, Vec<Value>) {
    let mut sql = format!("{SELECT} WHERE 1 = 1");
    let mut values: Vec<Value> = Vec::new();
    if let Some(instance) = filters.instance {
        sql.push_str(" AND a.instance_uuid = ?");
        values.push(instance.to_string().into());
    }
    if let ArqScope::Project(project) = scope {
        // The unary plus keeps the query planner from using the project's index where the guest's is better.
        sql.push_str(match filters.instance {
            Some(_) => " AND (a.project_id || '') = ?",
            None => " AND a.project_id = ?",
        });
        values.push(project.into());
    }
    if let ArqScope::Host(host) = scope {
        sql.push_str(" AND a.hostname = ?");
        values.push(host.into());
    }
    if let ArqScope::HostOrUnbound(host) = scope {
        sql.push_str(" AND (a.hostname = ? OR a.hostname IS NULL)");
        values.push(host.into());
    }
    sql.push_str(" ORDER BY a.id");
    (sql, values)
}

/// The requests that the caller may see and the filters match, oldest first.
pub(crate) async fn find(
    tx: &mut Transaction,
    scope: &ArqScope,
    filters: ArqFilters,
) -> Result<Vec<ArqRow>, AcceleratorTableError> {
    let (sql, values) = list_sql(scope, filters);
    let rows = tx.rows(Statement::new(sql).bind_all(values)).await?;
    let rows: Vec<ArqRow> = rows.iter().map(arq).collect::<Result<_, _>>()?;
    let seen = rows.into_iter().filter(|row| scope.includes(&row.arq));
    Ok(seen.collect())
}

/// The requests with these UUIDs that the caller may see.
pub(crate) async fn of_uuids(
    tx: &mut Transaction,
    scope: &ArqScope,
    uuids: &[ArqUuid],
) -> Result<Vec<ArqRow>, AcceleratorTableError> {
    let keys: Vec<String> = uuids.iter().map(ToString::to_string).collect();
    let head = Statement::new(format!("{SELECT} WHERE a.uuid IN"));
    let rows = tx.rows_in(&head, &keys, "ORDER BY a.id").await?;
    let rows: Vec<ArqRow> = rows.iter().map(arq).collect::<Result<_, _>>()?;
    let seen = rows.into_iter().filter(|row| scope.includes(&row.arq));
    Ok(seen.collect())
}

/// The UUIDs that are not among the rows.
pub(crate) fn missing(uuids: &[ArqUuid], rows: &[ArqRow]) -> Vec<ArqUuid> {
    let found: BTreeSet<ArqUuid> = rows.iter().map(|row| row.arq.uuid).collect();
    let absent = |uuid: &&ArqUuid| !found.contains(uuid);
    uuids.iter().filter(absent).copied().collect()
}

/// Creates the requests of a device profile: one per unit of each group.
pub(crate) struct CreateArqs {
    pub(crate) profile: String,
    pub(crate) project_id: String,
    /// The largest number of requests of the project that no instance has, if there is a limit.
    pub(crate) max_unbound: Option<u64>,
}

impl CreateArqs {
    /// Refuses more requests than the project may have.
    async fn check_count(&self, tx: &mut Transaction, requested: usize) -> Result<(), ArqError> {
        let Some(most) = self.max_unbound else {
            return Ok(());
        };
        let sql = "SELECT COUNT(*) FROM accelerator_requests WHERE project_id = ? AND instance_uuid IS NULL";
        let row = tx.row(Statement::new(sql).bind(&self.project_id)).await?;
        let used = u64::try_from(row.map_or(Ok(0), |row| row.int(0))?).unwrap_or_default();
        let all = used.saturating_add(u64::try_from(requested).unwrap_or(u64::MAX));
        match all <= most {
            true => Ok(()),
            false => Err(ArqError::TooMany {
                requested,
                used,
                most,
            }),
        }
    }
}

impl Work for CreateArqs {
    type Output = Vec<ArqRow>;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<ArqRow>, ArqError> {
        let profile = device_profiles::get(tx, &ProfileKey::Name(self.profile.clone())).await?;
        let mut uuids = Vec::new();
        let mut rows: Vec<[Value; 6]> = Vec::new();
        for group in profile.groups()?.requests() {
            let uuid = random_uuid();
            uuids.push(ArqUuid::from(uuid));
            rows.push([
                uuid.to_string().into(),
                ArqPhase::Initial.as_str().into(),
                profile.id.into(),
                i64::try_from(group).unwrap_or(i64::MAX).into(),
                self.project_id.as_str().into(),
                now(),
            ]);
        }
        let head = "INSERT INTO accelerator_requests \
                    (uuid, state, device_profile_id, device_profile_group_id, project_id, created_at) VALUES";
        self.check_count(tx, rows.len()).await?;
        tx.insert_rows(head, rows, "").await?;
        Ok(of_uuids(tx, &ArqScope::All, &uuids).await?)
    }
}

/// The steps of a request from its state to another, each allowed by the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArqTransitions {
    from: ArqPhase,
    to: ArqPhase,
}

impl ArqTransitions {
    /// From a request's state through all of `phases`.
    pub(crate) fn through(row: &ArqRow, phases: &[ArqPhase]) -> Result<Self, ArqError> {
        let from = row.arq.state.phase();
        let mut to = from;
        for next in phases {
            let step: ArqTransition = to.to(*next).map_err(|reason| ArqError::Transition {
                arq: row.arq.uuid,
                reason,
            })?;
            to = step.to();
        }
        Ok(Self { from, to })
    }
}

/// Stores a request's new state with its related columns.
pub(crate) async fn write_state(
    tx: &mut Transaction,
    row: &ArqRow,
    steps: ArqTransitions,
    binding: Option<&Binding>,
    project_id: &str,
) -> Result<(), ArqError> {
    let sql = "UPDATE accelerator_requests SET state = ?, hostname = ?, device_rp_uuid = ?, \
               instance_uuid = ?, project_id = ?, updated_at = ? WHERE id = ? AND state = ?";
    let update = Statement::new(sql)
        .bind(steps.to.as_str())
        .bind(binding.map(|binding| binding.hostname.as_str()))
        .bind(binding.map(|binding| binding.device_rp.to_string()))
        .bind(binding.map(|binding| binding.instance.to_string()))
        .bind(project_id)
        .bind(now())
        .bind(row.id)
        .bind(steps.from.as_str());
    match tx.execute(update).await?.rows_affected {
        1 => Ok(()),
        _ => Err(ArqError::Raced),
    }
}

/// Whether a service token accompanies the caller's: only then may bound requests be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceVouch {
    Yes,
    No,
}

/// The requests to delete.
#[derive(Debug, Clone)]
pub(crate) enum ArqSelection {
    Uuids(Vec<ArqUuid>),
    Instance(ConsumerUuid),
}

/// Deletes requests and releases their handles. Returns the UUIDs that do not exist; the others are deleted regardless.
pub(crate) struct DeleteArqs {
    pub(crate) doomed: ArqSelection,
    pub(crate) scope: ArqScope,
    pub(crate) vouched: ServiceVouch,
}

impl Work for DeleteArqs {
    type Output = Vec<ArqUuid>;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<ArqUuid>, ArqError> {
        let (rows, missing) = match &self.doomed {
            ArqSelection::Uuids(uuids) => {
                let rows = of_uuids(tx, &self.scope, uuids).await?;
                let missing = missing(uuids, &rows);
                (rows, missing)
            }
            ArqSelection::Instance(instance) => {
                let filters = ArqFilters {
                    instance: Some(*instance),
                };
                (find(tx, &self.scope, filters).await?, Vec::new())
            }
        };
        for row in &rows {
            let held = match &row.arq.state {
                ArqState::Bound(binding, _) | ArqState::BindStarted(binding) => Some(binding),
                _ => None,
            };
            if let (Some(binding), ServiceVouch::No) = (held, self.vouched) {
                return Err(ArqError::BoundToInstance {
                    arq: row.arq.uuid,
                    instance: binding.instance,
                });
            }
            ArqTransitions::through(row, &[ArqPhase::Deleting])?;
        }
        delete(tx, &rows).await?;
        Ok(missing)
    }
}

/// Deletes requests and gives their handles back, whatever their states.
pub(crate) async fn delete(tx: &mut Transaction, rows: &[ArqRow]) -> Result<(), ArqError> {
    programmings::leave(tx, rows).await?;
    handles::release(tx, rows).await?;
    events::delete(tx, rows.iter().map(|row| row.arq.uuid)).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let head = Statement::new("DELETE FROM accelerator_requests WHERE id IN");
    tx.execute_in(&head, &ids).await?;
    Ok(())
}
