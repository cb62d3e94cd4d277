//! Renames the providers of a renamed host: first the children, the root last. After a crash in between, the next start
//! still finds the old name on the root and continues.

use berth_model::{NodeName, ProviderName, ProviderTree, TreeDiff, diff};
use berth_virt::VirtDriver;
use tokio::time::Instant;

use crate::propose::ResourceTracker;
use crate::report_client::ReportError;

/// The tree with the new node name: on the root, and on the children with the old name as prefix.
fn renamed(tree: &ProviderTree, from: &ProviderName, node: &NodeName) -> ProviderTree {
    let mut renamed = tree.clone();
    let prefix = format!("{from}_");
    for provider in tree
        .own()
        .into_iter()
        .filter(|provider| tree.is_ours(provider.uuid()))
    {
        let name = if provider.parent().is_none() {
            Some(node.root_name().clone())
        } else {
            provider
                .name
                .as_str()
                .strip_prefix(&prefix)
                .and_then(|end| node.child_name(end).ok())
        };
        if let (Some(name), Some(provider)) = (name, renamed.get_mut(provider.uuid())) {
            provider.name = name;
        }
    }
    renamed
}

/// Renames the node's providers.
///
/// # Errors
///
/// Placement does not answer, or a name is taken. The next start continues.
pub async fn reconcile<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    from: &ProviderName,
    now: Instant,
) -> Result<TreeDiff, ReportError> {
    let current = tracker.report.current_tree(now).await?;
    let desired = renamed(&current, from, &tracker.node);
    let mut diff = diff(&current, &desired);
    // The root is the first change; it must be renamed last.
    diff.changed.reverse();
    tracker.report.flush(&diff, &desired).await?;
    Ok(diff)
}
