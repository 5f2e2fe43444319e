package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// contentTypeSQL is the content type of a dump.
const contentTypeSQL = "application/sql"

func databasePath(id perdure.SessionID, name string) string {
	return sessionPath(id) + "/databases/" + keySegment(cmp.Or(name, "main"))
}

func (e engineDatabases) List(ctx context.Context, id perdure.SessionID) ([]engine.Database, error) {
	return unpaged[engine.Database](ctx, e.Engine, request{
		what: "databases of " + string(id), path: sessionPath(id) + "/databases",
	})
}

func (e engineDatabases) Query(
	ctx context.Context, id perdure.SessionID, q engine.DatabaseQuery,
) (engine.DatabaseRows, error) {
	body := struct {
		SQL  string            `json:"sql"`
		Args []json.RawMessage `json:"args,omitempty"`
	}{q.SQL, q.Args}
	return fetch[engine.DatabaseRows](ctx, e.Engine, request{
		what: "query databases of " + string(id), path: databasePath(id, q.Database) + "/query", body: body, noTimeout: true,
	})
}

// Dump writes a database as SQL text. It reads the complete response before it writes anything, so
// that a cut-off response can be requested again.
func (e engineDatabases) Dump(ctx context.Context, id perdure.SessionID, database string, w io.Writer) error {
	var text bytes.Buffer
	r := request{
		what: "dump databases of " + string(id), path: databasePath(id, database) + "/dump", accept: contentTypeSQL, noTimeout: true,
	}
	if _, err := e.call(ctx, r, &text); err != nil {
		return err
	}
	if _, err := text.WriteTo(w); err != nil {
		return fmt.Errorf("dump databases of %s: %w", id, err)
	}
	return nil
}
