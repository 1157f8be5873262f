//! Figures, components, readers of the feed, and versions of the tables.

use crate::catalog::records::{
    ComponentKind, ComponentRecord, METRIC_BOUNDS, MetricRecord, MigrationRecord,
};
use crate::catalog::state::{ReadRows, State, refused};
use crate::catalog::tables::{self, Counter, Table};
use crate::error::Result;
use crate::format::operation::{Operation, OperationBody as Body};
use crate::planted::{self, CatalogBug};

pub(super) fn apply(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    match &operation.body {
        Body::Migrate { version, name } => migrate(state, operation, *version, name),
        Body::RecordMetric { scope, metric, value } => {
            observe(state, operation, tables::ids(*scope, *metric), *value)
        }
        Body::AdvanceComponent { component_id, name, generation } => {
            let kind = ComponentKind::Component;
            advance(state, operation, *component_id, name, kind, *generation)
        }
        Body::AdvanceCursor { component_id, name, next_generation } => {
            let kind = ComponentKind::Cursor;
            advance(state, operation, *component_id, name, kind, *next_generation)
        }
        Body::ExpireCursor { component_id } => {
            let key = tables::id(*component_id);
            let row = state.row::<ComponentRecord>(Table::GenerationWatermarks, &key)?;
            let mut row = row
                .filter(|row| row.kind != ComponentKind::Component)
                .ok_or_else(|| refused(format!("there is no cursor {component_id}")))?;
            row.kind = ComponentKind::ExpiredCursor;
            row.expired_at = Some(operation.id.generation);
            row.updated_ms = now_ms(operation);
            state.put(Table::GenerationWatermarks, key, &row);
            Ok(())
        }
        _ => Err(refused("not an operation on watermarks")),
    }
}

/// When it was decided: never what a clock says now.
fn now_ms(operation: &Operation) -> u64 {
    if planted::in_catalog(CatalogBug::ApplyReadsClock) {
        use crate::io::Clock;
        return crate::io::SystemClock.now_ns();
    }
    operation.timestamp_ms
}

/// A step that was made is not made again; one that would leave another out is refused.
fn migrate(state: &mut State<'_>, operation: &Operation, version: u32, name: &str) -> Result<()> {
    let rows = state.rows::<MigrationRecord>(Table::Migrations, &[])?;
    let last = rows.last().map_or(0, |(key, _)| tables::u32_of(key, 0));
    if version <= last {
        return Ok(());
    }
    if version != last + 1 && !planted::in_catalog(CatalogBug::VersionSkipped) {
        return Err(refused(format!("tables of version {last} cannot become {version} at once")));
    }
    let row = MigrationRecord {
        name: name.to_owned(),
        generation: operation.id.generation,
        applied_ms: now_ms(operation),
    };
    state.put(Table::Migrations, tables::id(version), &row);
    Ok(())
}

fn observe(state: &mut State<'_>, operation: &Operation, key: Vec<u8>, value: u64) -> Result<()> {
    let mut row = state.row::<MetricRecord>(Table::Metrics, &key)?.unwrap_or_default();
    row.min = if row.count == 0 { value } else { row.min.min(value) };
    row.max = row.max.max(value);
    row.count = row.count.saturating_add(1);
    row.sum = row.sum.saturating_add(value);
    row.last = value;
    row.updated_ms = now_ms(operation);
    let bucket = METRIC_BOUNDS.iter().position(|bound| value < *bound);
    if let Some(count) = row.buckets.get_mut(bucket.unwrap_or(METRIC_BOUNDS.len())) {
        *count = count.saturating_add(1);
    }
    state.put(Table::Metrics, key, &row);
    Ok(())
}

/// Watermarks of components only rise. A cursor is where its reader says, also when it
/// starts again.
fn advance(
    state: &mut State<'_>,
    operation: &Operation,
    component_id: u32,
    name: &str,
    kind: ComponentKind,
    generation: u64,
) -> Result<()> {
    if component_id == 0 || name.is_empty() {
        return Err(refused("a component has a number and a name"));
    }
    let key = tables::id(component_id);
    if let Some(before) = state.row::<ComponentRecord>(Table::GenerationWatermarks, &key)? {
        let was_cursor = before.kind != ComponentKind::Component;
        if before.name != name || was_cursor != (kind == ComponentKind::Cursor) {
            return Err(refused(format!("{component_id} is the number of {}", before.name)));
        }
        if kind == ComponentKind::Component && before.generation > generation {
            return Err(refused(format!("{name} has got to {} already", before.generation)));
        }
    }
    state.use_number(Counter::Component, u64::from(component_id))?;
    let row = ComponentRecord {
        name: name.to_owned(),
        kind,
        generation,
        expired_at: None,
        updated_ms: now_ms(operation),
    };
    state.put(Table::GenerationWatermarks, key, &row);
    Ok(())
}
