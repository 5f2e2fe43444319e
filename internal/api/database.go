package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure/engine"
)

// formSQL is the media type of a dump.
const formSQL = "application/sql"

// OfDatabase is the path of a database.
type OfDatabase struct {
	OfSession
	Name string `path:"name" example:"main" doc:"The database."`
}

// newQuery is the body of a query.
type newQuery struct {
	SQL  string            `json:"sql" minLength:"1" doc:"One statement that only reads."`
	Args []json.RawMessage `json:"args,omitempty" doc:"Strings, numbers, true, false or null, for the parameters of the statement."`
}

func (a databaseHandlers) register() {
	missing := []int{http.StatusNotFound}
	read(a.API, operation{
		id: "list-databases", path: "/v1/sessions/{id}/databases", policy: reads, summary: "List the databases of a session with their tables, ordered by name", errors: missing,
	}, func(ctx context.Context, in *OfSession) (*page[engine.Database], error) {
		all, err := a.cfg.Engine.Databases().List(ctx, in.ID)
		return &page[engine.Database]{Body: list[engine.Database]{Items: append([]engine.Database{}, all...)}}, err
	})
	write(a.API, operation{
		id: "query-database", path: "/v1/sessions/{id}/databases/{name}/query", policy: reads, summary: "Run one statement that only reads", errors: append(missing, http.StatusTooManyRequests),
	}, body[newQuery]{example: newQuery{SQL: "SELECT 1 AS one"}}, a.queryDatabase)
	read(a.API, operation{
		id: "dump-database", path: "/v1/sessions/{id}/databases/{name}/dump", policy: reads, summary: "Write a database as SQL text that creates it again", errors: append(missing, http.StatusTooManyRequests),
		forms: map[string]*huma.MediaType{formSQL: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}, a.dumpDatabase)
}

func (a databaseHandlers) queryDatabase(ctx context.Context, in *OfDatabase, q newQuery) (*single[engine.DatabaseRows], error) {
	return singleOf(a.cfg.Engine.Databases().Query(ctx, in.ID, engine.DatabaseQuery{Database: in.Name, SQL: q.SQL, Args: q.Args}))
}

// dumpDatabase answers with SQL text. If the dump fails halfway, the connection is cut, so that a
// client cannot mistake a part for the whole.
func (a databaseHandlers) dumpDatabase(ctx context.Context, in *struct {
	OfDatabase
	Accept string `header:"Accept" hidden:"true"`
}) (*streamed, error) {
	if negotiate(in.Accept, formSQL) == "" {
		return nil, notAcceptable(formSQL)
	}
	return &streamed{Body: func(c huma.Context) {
		out := &lateResponse{to: c, media: formSQL}
		a.endLate(ctx, out, a.cfg.Engine.Databases().Dump(ctx, in.ID, in.Name, out))
	}}, nil
}
