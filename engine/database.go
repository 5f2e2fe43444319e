package engine

import (
	"context"
	"encoding/json"
	"io"

	"github.com/perdure/perdure"
)

// Databases reads the databases that sessions fill with SQL (SQ1). NotFound, in every method: no
// such session, or no such database in it. Unavailable: this engine has no place for databases.
type Databases interface {
	// List lists the databases of a session by name, with their tables.
	List(ctx context.Context, id perdure.SessionID) ([]Database, error)
	// Query runs one statement that only reads, within the limits of the tool sql_query. Invalid:
	// the database's error about the statement, or the statement does not only read. Limit: it took
	// too long or too much memory.
	Query(ctx context.Context, id perdure.SessionID, q DatabaseQuery) (DatabaseRows, error)
	// Dump writes a database as SQL text that creates it again. It is consistent as of one moment,
	// and no statement of the session waits for w. If w fails, it may hold a part of the text.
	Dump(ctx context.Context, id perdure.SessionID, database string, w io.Writer) error
}

// Database is a database of a session.
type Database struct {
	Name      string          `json:"name"`
	SizeBytes int64           `json:"size_bytes"`
	Tables    []DatabaseTable `json:"tables"`
}

// DatabaseTable is a table or a view.
type DatabaseTable struct {
	Name    string           `json:"name"`
	Kind    string           `json:"kind" enum:"table,view"`
	Columns []DatabaseColumn `json:"columns"`
}

// DatabaseColumn is a column.
type DatabaseColumn struct {
	Name       string `json:"name"`
	Type       string `json:"type"` // as declared; empty: none
	NotNull    bool   `json:"not_null"`
	PrimaryKey bool   `json:"primary_key"`
}

// DatabaseQuery is one statement that reads.
type DatabaseQuery struct {
	Database string            // empty: main
	SQL      string            // one statement
	Args     []json.RawMessage // strings, numbers, true, false or null, for the parameters of the statement
}

// DatabaseRows is the result of a query.
type DatabaseRows struct {
	Columns []string `json:"columns"`
	// Rows have one value for each column: a string, a number, null, or {"base64": "…"} for bytes.
	Rows [][]json.RawMessage `json:"rows"`
	Note string              `json:"note,omitempty"` // says what was left out; empty: nothing
}
