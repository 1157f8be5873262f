//! The object store by hand, and for tests: one command per line on standard input,
//! one JSON object per answer on standard output.
//!
//! ```text
//! cargo run --example object_store_cli --features s3 -- s3://bucket/prefix
//! put KEY FILE | get KEY FILE | head KEY | range KEY START END | suffix KEY LEN
//! list PREFIX | delete KEY | begin KEY | unfinished PREFIX | abort PREFIX
//! probe | metrics
//! ```
//!
//! Further arguments `name=value` set fields of the configuration. The environment
//! (`AOF2_COLD_*` and the standard chain) says the rest.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, Write as _};
use std::path::Path;
use std::sync::Arc;

use aof2_core::io::OsStorage;
use aof2_core::object::s3::S3Store;
use aof2_core::object::{
    ColdConfig, ObjectBody, ObjectEntry, ObjectError, ObjectHead, ObjectMeta, ObjectOp,
    ObjectStore, ResilientStore, read_whole,
};

type Answer = Result<String, Box<dyn Error>>;

const GET_LEN_MAX: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let store = open().await?;
        for line in std::io::stdin().lock().lines() {
            let line = line?;
            let answer = match run(&store, &line.split_whitespace().collect::<Vec<_>>()).await {
                Ok(fields) => format!("{{\"ok\": true, {fields}}}"),
                Err(error) => failure(&*error),
            };
            let mut out = std::io::stdout().lock();
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
        Ok(())
    })
}

async fn open() -> Result<ResilientStore, Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut config =
        ColdConfig::new(args.next().ok_or("usage: object_store_cli s3://bucket/prefix")?);
    for arg in args {
        let (name, value) = arg.split_once('=').ok_or("arguments look like name=value")?;
        match name {
            "request_timeout_ms" => config.request_timeout_ms = value.parse()?,
            "operation_timeout_ms" => config.operation_timeout_ms = value.parse()?,
            "multipart_bytes" => config.multipart_bytes = value.parse()?,
            "concurrency_max" => config.concurrency_max = value.parse()?,
            "retries_max" => config.retries_max = value.parse()?,
            "backoff_ms" => config.backoff_ms = value.parse()?,
            "backoff_ms_max" => config.backoff_ms_max = value.parse()?,
            "breaker_failures" => config.breaker_failures = value.parse()?,
            "probe_ms" => config.probe_ms = value.parse()?,
            other => return Err(format!("there is no field {other}").into()),
        }
    }
    let store = S3Store::open(config).await?;
    let config = store.config().clone();
    Ok(ResilientStore::new(Arc::new(store), &config)?)
}

async fn run(store: &ResilientStore, words: &[&str]) -> Answer {
    match *words {
        ["put", key, file] => put(store, key, Path::new(file)).await,
        ["get", key, file] => {
            let (head, bytes) = read_whole(store, key, GET_LEN_MAX).await?;
            std::fs::write(file, &bytes)?;
            Ok(head_fields(&head))
        }
        ["head", key] => Ok(match store.head(key).await? {
            None => "\"found\": false".to_owned(),
            Some(head) => format!("\"found\": true, {}", head_fields(&head)),
        }),
        ["range", key, start, end] => {
            let bytes = store.get_range(key, start.parse()?..end.parse()?).await?;
            Ok(format!("\"hex\": \"{}\"", hex(&bytes)))
        }
        ["suffix", key, len] => {
            let (bytes, total_len) = store.get_suffix(key, len.parse()?).await?;
            Ok(format!("\"hex\": \"{}\", \"len\": {total_len}", hex(&bytes)))
        }
        ["list", prefix] => Ok(list_fields(&store.list(prefix).await?)),
        ["delete", key] => {
            store.delete(key).await?;
            Ok("\"done\": true".to_owned())
        }
        ["begin", key] => {
            let upload_id = store.multipart_begin(key, &ObjectMeta::default()).await?;
            Ok(format!("\"upload_id\": {}", json(&upload_id)))
        }
        ["unfinished", prefix] => {
            let uploads = store.multipart_list(prefix).await?;
            let keys: Vec<_> = uploads.iter().map(|upload| json(&upload.key)).collect();
            Ok(format!("\"keys\": [{}]", keys.join(", ")))
        }
        ["abort", prefix] => Ok(format!("\"count\": {}", store.abort_unfinished(prefix).await?)),
        ["probe"] => {
            let found = store.probe().await?;
            Ok(format!(
                "\"conditional_create\": {}, \"conditional_finish\": {}, \"checksum_kept\": {}, \
                 \"checksum_verified\": {}, \"multipart_checksum_verified\": {}, \
                 \"suffix_range\": {}",
                found.conditional_create,
                found.conditional_finish,
                found.checksum_kept,
                found.checksum_verified,
                found.multipart_checksum_verified,
                found.suffix_range
            ))
        }
        ["metrics"] => Ok(metrics_fields(store)),
        _ => Err("there is no such command".into()),
    }
}

async fn put(store: &ResilientStore, key: &str, file: &Path) -> Answer {
    let body = ObjectBody::file(&OsStorage, file)?;
    let user = BTreeMap::from([("aof2-segment-id".to_owned(), "7".to_owned())]);
    let meta = ObjectMeta { crc64nvme: body.crc64()?, user };
    let outcome = store.put_new(key, body, &meta).await?;
    Ok(format!(
        "\"etag\": {}, \"already_there\": {}, \"crc64nvme\": \"{:016x}\"",
        json(&outcome.etag),
        outcome.already_there,
        meta.crc64nvme
    ))
}

fn head_fields(head: &ObjectHead) -> String {
    let crc = head.crc64nvme.map_or("null".to_owned(), |crc| format!("\"{crc:016x}\""));
    let user: Vec<_> = head.user.iter().map(|(k, v)| format!("{}: {}", json(k), json(v))).collect();
    format!("\"len\": {}, \"crc64nvme\": {crc}, \"user\": {{{}}}", head.len, user.join(", "))
}

fn list_fields(entries: &[ObjectEntry]) -> String {
    let entries: Vec<_> =
        entries.iter().map(|entry| format!("[{}, {}]", json(&entry.key), entry.len)).collect();
    format!("\"objects\": [{}]", entries.join(", "))
}

fn metrics_fields(store: &ResilientStore) -> String {
    let metrics = store.metrics();
    let mut out = String::new();
    for op in ObjectOp::ALL {
        let figures = metrics.op(op);
        let _ = write!(
            out,
            "\"{op}\": {{\"requests\": {}, \"retries\": {}, \"failures\": {}}}, ",
            figures.requests, figures.retries, figures.failures
        );
    }
    format!(
        "{out}\"bytes_in\": {}, \"bytes_out\": {}, \"uploads_recognised\": {}, \
         \"is_down\": {}, \"outages\": {}, \"probes\": {}, \"in_flight\": {}",
        metrics.bytes_in,
        metrics.bytes_out,
        metrics.uploads_recognised,
        metrics.down_since_ms.is_some(),
        metrics.outages,
        metrics.probes,
        metrics.in_flight
    )
}

fn failure(error: &(dyn Error + 'static)) -> String {
    let known = error.downcast_ref::<ObjectError>();
    let kind = known.map_or("Other".to_owned(), |error| format!("{:?}", error.kind));
    let reason = known.map_or(0, |error| error.reason().0);
    format!(
        "{{\"ok\": false, \"kind\": \"{kind}\", \"reason\": {reason}, \"error\": {}}}",
        json(&error.to_string())
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
