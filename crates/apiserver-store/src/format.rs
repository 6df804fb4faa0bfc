//! Which format the store's file is in.

use redb::{ReadableDatabase, TableDefinition, TableError};

/// The format that is written, and the newest that can be read.
pub(super) const FORMAT: u64 = 1;

/// Numbers about the file as a whole.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Which format the file is in.
pub(super) const VERSION: &str = "format";

/// The format a file is in. The first one did not say so.
pub(super) fn format(database: &impl ReadableDatabase) -> Result<u64, redb::Error> {
    match database.begin_read()?.open_table(META) {
        Err(TableError::TableDoesNotExist(_)) => Ok(1),
        meta => Ok(meta?.get(VERSION)?.map_or(1, |value| value.value())),
    }
}
