//! Writes the roll-up of audit logs as CSV files, one per table: `rollup OUT_FOLDER SOURCE...`.

use plimsoll::model::rollup::TABLES;
use std::fs::File;
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: rollup OUT_FOLDER SOURCE...")?;
    let found = plimsoll::sources::find::audit_logs(&args.collect::<Vec<_>>());
    let threads = std::thread::available_parallelism()?.get();
    let start = std::time::Instant::now();
    let (rollup, _outcome) = plimsoll::inputs::rollup::roll_up(found.streams, threads, &());
    let seconds = start.elapsed().as_secs_f64();
    writeln!(std::io::stderr(), "rolled up in {seconds:.3} s: {:?} rows", rollup.sizes())?;
    std::fs::create_dir_all(&folder)?;
    for table in TABLES {
        let mut file = csv::Writer::from_writer(File::create(format!("{folder}/{}.csv", table.name))?);
        file.write_record(table.columns)?;
        let mut failed = Ok(());
        rollup.rows(table.name, |row| {
            if failed.is_ok() {
                failed = file.write_record(row);
            }
        });
        failed?;
        file.flush()?;
    }
    Ok(())
}
