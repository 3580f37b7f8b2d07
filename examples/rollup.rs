//! Writes the roll-up of audit logs as CSV files, one per table: `rollup OUT_FOLDER SOURCE...`.

use std::fs::File;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: rollup OUT_FOLDER SOURCE...")?;
    let found = plimsoll::sources::open::audit_logs(&args.collect::<Vec<_>>());
    let threads = std::thread::available_parallelism()?.get();
    let (rollup, _outcome) = plimsoll::commands::rollup::roll_up(found.streams, threads, &());
    std::fs::create_dir_all(&folder)?;
    for table in &rollup.tables {
        let mut file = csv::Writer::from_writer(File::create(format!("{folder}/{}.csv", table.name))?);
        file.write_record(&table.columns)?;
        for row in &table.rows {
            file.write_record(row)?;
        }
        file.flush()?;
    }
    Ok(())
}
