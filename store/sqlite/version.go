package sqlite

import lib "modernc.org/sqlite/lib"

// LibraryVersion is the version of SQLite in this program.
const LibraryVersion = lib.SQLITE_VERSION
