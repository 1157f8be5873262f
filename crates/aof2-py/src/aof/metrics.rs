//! Figures of the log.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Aof;
use crate::report;

#[pymethods]
impl Aof {
    /// Figures of the stream: counters, gauges, and histograms as dicts; those of the
    /// `manifest` and the `tiers`, if it has them, as dicts too.
    ///
    /// >>> rid = log.append(b"hello")
    /// >>> log.metrics()["appended_records"]
    /// 1
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let log = self.live()?;
        let (snapshot, tiers) = py.detach(|| (log.metrics(), log.tiers().ok()));
        report::metrics(py, &snapshot, tiers.as_ref())
    }

    /// The figures in the Prometheus text format.
    ///
    /// >>> print(log.metrics_text().splitlines()[2])
    /// aof2_appended_records_total{stream="events"} 0
    fn metrics_text(&self, py: Python<'_>) -> PyResult<String> {
        let log = self.live()?;
        Ok(py.detach(|| {
            let tiers = log.tiers().map(|tiers| tiers.to_prometheus(log.name()));
            log.metrics().to_prometheus() + &tiers.unwrap_or_default()
        }))
    }
}
