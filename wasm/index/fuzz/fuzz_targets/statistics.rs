//! Whatever the bytes: a blob of statistics is refused, or is reported, merged, restored, and read back after that.

#![no_main]

use be_tree_index::error::Kind;
use be_tree_index::statistics::{merge, read_query, report, write_report, Dimension, Query, Statistics};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_query(bytes);
    let dimensions = [Dimension::Tenant, Dimension::Day, Dimension::Id];
    let sections = vec![vec![], dimensions.to_vec()];
    let query = Query { sections, quantiles: vec![0.0, 0.5, 1.0], ..Query::default() };
    match report(&query, [(0, bytes), (1, bytes)].into_iter()) {
        Err(error) => {
            assert_eq!(error.kind, Kind::Syntax, "{error}");
            assert!(Statistics::new(0).restore(bytes).is_err());
        }
        Ok(found) => {
            write_report(&found, &mut Vec::new()).expect("memory is not limited");
            let mut merged = Vec::new();
            merge([bytes, bytes].into_iter(), &mut merged).expect("the blob was read");
            let mut statistics = Statistics::new(i32::MIN);
            statistics.restore(&merged).expect("what is written is read");
            let mut again = Vec::new();
            statistics.encode(&mut again).expect("memory is not limited");
            report(&query, std::iter::once((0, &again[..]))).expect("what is written is read");
        }
    }
});
