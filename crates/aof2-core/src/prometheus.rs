//! Figures as Prometheus text (format 0.0.4), for every layer that counts something.
//!
//! A family is said once, by its `HELP` and `TYPE`, with the samples of all logs behind
//! it: an exposition that repeats these lines is invalid.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};

/// What a family counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Values by size.
    Histogram,
}

/// Text in the making.
#[derive(Debug, Default)]
pub(crate) struct PrometheusText {
    /// What is said of each family, and its samples, in the order of their first mention.
    families: Vec<(String, String)>,
    places: HashMap<String, usize>,
    /// Those of the log whose figures are added.
    labels: String,
}

/// A family whose samples are added.
pub(crate) struct Family<'a> {
    name: String,
    labels: &'a str,
    samples: &'a mut String,
}

impl PrometheusText {
    /// The text of one log by itself.
    pub(crate) fn of_stream(stream: &str) -> Self {
        let mut text = Self::default();
        text.set_labels(&[("stream", stream)]);
        text
    }

    /// The samples that follow have these labels.
    pub(crate) fn set_labels(&mut self, labels: &[(&str, &str)]) {
        self.labels.clear();
        write_labels(&mut self.labels, labels);
    }

    /// The family `aof2_{name}`, with `_total` if it is a counter.
    pub(crate) fn family(&mut self, name: &str, kind: Kind, help: &str) -> Family<'_> {
        let (kind, suffix) = match kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
            Kind::Histogram => ("histogram", ""),
        };
        let name = format!("aof2_{name}{suffix}");
        let place = self.places.get(&name).copied().unwrap_or_else(|| {
            let said = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            self.families.push((said, String::new()));
            self.places.insert(name.clone(), self.families.len() - 1);
            self.families.len() - 1
        });
        Family { name, labels: &self.labels, samples: &mut self.families[place].1 }
    }

    pub(crate) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, Kind::Counter, help).sample("", &[], value);
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, Kind::Gauge, help).sample("", &[], value);
    }

    pub(crate) fn finish(self) -> String {
        self.families.into_iter().map(|(said, samples)| said + &samples).collect()
    }
}

impl Family<'_> {
    /// One line: the family's name with a suffix, the log's labels and more, a value.
    pub(crate) fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.samples.extend([&self.name, suffix, "{", self.labels]);
        if !labels.is_empty() {
            self.samples.push(',');
        }
        write_labels(self.samples, labels);
        let _ = writeln!(self.samples, "}} {value}");
    }
}

fn write_labels(out: &mut String, labels: &[(&str, &str)]) {
    for (i, (key, value)) in labels.iter().enumerate() {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if i > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{key}=\"{value}\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_said_once_with_the_samples_of_all_logs() {
        let mut text = PrometheusText::default();
        text.set_labels(&[("path", "x\"y"), ("stream", "s")]);
        text.counter("a", "A", 1);
        let mut histogram = text.family("h", Kind::Histogram, "H");
        histogram.sample("_bucket", &[("le", "1")], 2);
        histogram.sample("_sum", &[], 0.5);
        text.set_labels(&[("path", "z\n\\"), ("stream", "s")]);
        text.counter("a", "A", 3);
        text.gauge("b", "B", 4);
        assert_eq!(
            text.finish(),
            "# HELP aof2_a_total A\n# TYPE aof2_a_total counter\n\
             aof2_a_total{path=\"x\\\"y\",stream=\"s\"} 1\n\
             aof2_a_total{path=\"z\\n\\\\\",stream=\"s\"} 3\n\
             # HELP aof2_h H\n# TYPE aof2_h histogram\n\
             aof2_h_bucket{path=\"x\\\"y\",stream=\"s\",le=\"1\"} 2\n\
             aof2_h_sum{path=\"x\\\"y\",stream=\"s\"} 0.5\n\
             # HELP aof2_b B\n# TYPE aof2_b gauge\n\
             aof2_b{path=\"z\\n\\\\\",stream=\"s\"} 4\n"
        );
    }
}
