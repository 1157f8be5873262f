//! One Prometheus exposition of several logs.
//!
//! Each log renders its figures by itself, every family with its `HELP` and `TYPE`. Behind
//! each other these texts would repeat those lines, which makes an exposition invalid. So
//! families are put together: said once, with the samples of all logs behind it.

use std::collections::HashMap;

/// Texts of several logs in the making.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    /// What is said of each family, and its samples, in the order of their first mention.
    families: Vec<(String, String)>,
    places: HashMap<String, usize>,
}

impl Exposition {
    /// Adds the text of one log. Names of logs need not be unique in a process, their
    /// directories are: `path` becomes a label of every sample.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        let label = format!("path=\"{}\"", escaped(path));
        let mut place = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                let name = rest.split(' ').nth(1).unwrap_or_default();
                let (at, is_new) = self.family(name);
                // HELP opens a family, TYPE follows it.
                if is_new || (place == Some(at) && self.families[at].1.is_empty()) {
                    self.families[at].0.push_str(line);
                    self.families[at].0.push('\n');
                }
                place = Some(at);
            } else if let (Some(at), Some((name, labels))) = (place, line.split_once('{')) {
                let samples = &mut self.families[at].1;
                samples.extend([name, "{", &label, ",", labels, "\n"]);
            }
        }
    }

    /// Its place, and whether it was not there before.
    fn family(&mut self, name: &str) -> (usize, bool) {
        if let Some(&at) = self.places.get(name) {
            return (at, false);
        }
        let at = self.families.len();
        self.families.push((String::new(), String::new()));
        self.places.insert(name.to_owned(), at);
        (at, true)
    }

    pub(crate) fn finish(self) -> String {
        self.families.into_iter().map(|(said, samples)| said + &samples).collect()
    }
}

/// The value of a label as it is written.
pub(crate) fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_said_once_with_the_samples_of_all() {
        let one = "# HELP a_total A\n# TYPE a_total counter\na_total{stream=\"s\"} 1\n\
                   # HELP h H\n# TYPE h histogram\nh_bucket{stream=\"s\",le=\"1\"} 2\n\
                   h_sum{stream=\"s\"} 2\n";
        let other = "# HELP a_total A\n# TYPE a_total counter\na_total{stream=\"s\"} 3\n\
                     # HELP b B\n# TYPE b gauge\nb{stream=\"s\"} 4\n";
        let mut all = Exposition::default();
        all.add("x\"y", one);
        all.add("z", other);
        assert_eq!(
            all.finish(),
            "# HELP a_total A\n# TYPE a_total counter\n\
             a_total{path=\"x\\\"y\",stream=\"s\"} 1\na_total{path=\"z\",stream=\"s\"} 3\n\
             # HELP h H\n# TYPE h histogram\n\
             h_bucket{path=\"x\\\"y\",stream=\"s\",le=\"1\"} 2\n\
             h_sum{path=\"x\\\"y\",stream=\"s\"} 2\n\
             # HELP b B\n# TYPE b gauge\nb{path=\"z\",stream=\"s\"} 4\n"
        );
    }
}
